//! Sealed messages: `/a2h/conversations/{id}/messages` and `/a2h/messages/{id}/claim`.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::alphabet;
use base64::display::Base64Display;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use nuncio_core::conversation::{ContentType, ConversationMessage, MsgSubtype, SenderType};
use nuncio_core::ids::{ClientMessageId, ConversationId, DeviceId, InvalidName, MessageId};
use nuncio_core::time::Timestamp;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// Body of `POST /a2h/conversations/{id}/messages`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PostMessageRequest<'a> {
    /// Message id chosen by the sender; a repetition of the request has the same id.
    pub client_message_id: ClientMessageId,
    pub content_type: ContentType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub msg_subtype: Option<MsgSubtype>,
    /// Sealed message: a JSON object, kept as written, or a text with the message's bytes in base64.
    #[serde(borrow)]
    pub envelope: &'a RawValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct PostedMessageView {
    /// Message id chosen by the server.
    pub message_id: MessageId,
    pub conversation_id: ConversationId,
    /// Number of the message in its conversation, from 1, without gaps.
    pub conversation_seq: u64,
    /// Message id chosen by the sender.
    pub client_message_id: ClientMessageId,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct MessageView {
    #[serde(flatten)]
    pub message: WireMessage,
    pub created_at: Timestamp,
}

/// A message without its time of arrival at the server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct WireMessage {
    pub conversation_id: ConversationId,
    /// Message id chosen by the server.
    pub message_id: MessageId,
    /// Message id chosen by the sender.
    pub client_message_id: ClientMessageId,
    pub sender_id: String,
    pub sender_type: SenderType,
    /// Device from which a person sent the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_device_id: Option<DeviceId>,
    pub content_type: ContentType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub msg_subtype: Option<MsgSubtype>,
    pub encrypted_payload: SealedBytes,
    /// Number of the message in its conversation, from 1, without gaps.
    pub conversation_seq: u64,
}

impl MessageView {
    /// Wire form of a stored message; fails if its conversation id gives no valid message id.
    pub fn of(posted: ConversationMessage) -> Result<Self, InvalidName> {
        let message_id = posted.reference().id()?;
        let ConversationMessage { conversation, seq, at, post } = posted;
        let message = WireMessage {
            conversation_id: conversation,
            message_id,
            client_message_id: post.client_id,
            sender_id: post.sender.id().to_owned(),
            sender_type: post.sender.sender_type(),
            sender_device_id: post.device,
            content_type: post.content_type,
            msg_subtype: post.subtype,
            encrypted_payload: SealedBytes(post.envelope),
            conversation_seq: seq,
        };
        Ok(Self { message, created_at: at })
    }
}

/// Body of `POST /a2h/messages/{id}/claim`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCallClaimRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_id: Option<DeviceId>,
}

/// Claim of a tool call by a device.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ToolCallClaimView {
    pub message_id: MessageId,
    pub device_id: DeviceId,
    pub claimed_at: Timestamp,
}

const BASE64: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, BASE64);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, BASE64);

/// Sealed bytes, written in padded standard base64. Parsing accepts both alphabets, with or without padding.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedBytes(pub Arc<[u8]>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidBase64;

impl fmt::Display for InvalidBase64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be base64, in the standard or the url-safe alphabet")
    }
}

impl SealedBytes {
    /// Decodes base64 without an intermediate copy.
    pub fn parse(text: &str) -> Result<Self, InvalidBase64> {
        let bare = text.trim_end_matches('=').len();
        let length = bare / 4 * 3 + [0, 0, 1, 2][bare % 4];
        let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, length).collect();
        let is_url_safe = text.bytes().any(|byte| matches!(byte, b'-' | b'_'));
        let engine = if is_url_safe { &URL_SAFE } else { &STANDARD };
        let buffer = Arc::get_mut(&mut bytes).ok_or(InvalidBase64)?;
        match engine.decode_slice(text, buffer) {
            Ok(decoded) if decoded == length => Ok(Self(bytes)),
            _ => Err(InvalidBase64),
        }
    }

    /// Sealed bytes of an envelope; `None` if it is neither a JSON object nor a base64 text.
    #[must_use]
    pub fn of_envelope(envelope: &RawValue) -> Option<Self> {
        let text = envelope.get();
        if text.starts_with('{') {
            return Some(Self(text.as_bytes().into()));
        }
        let inner = text.strip_prefix('"')?.strip_suffix('"')?;
        let plain: Cow<'_, str> = match inner.contains('\\') {
            // Some JSON writers escape slashes.
            true => serde_json::from_str::<String>(text).ok()?.into(),
            false => inner.into(),
        };
        Self::parse(&plain).ok()
    }

    /// The bytes as an envelope in the form of a base64 text.
    ///
    /// # Panics
    /// Never: a base64 text is JSON.
    #[must_use]
    pub fn to_envelope(&self) -> Box<RawValue> {
        serde_json::value::to_raw_value(self).expect("a base64 text is JSON")
    }
}

impl fmt::Debug for SealedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes)", self.0.len())
    }
}

impl Serialize for SealedBytes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&Base64Display::new(&self.0, &STANDARD))
    }
}

impl<'de> Deserialize<'de> for SealedBytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Base64Visitor;
        impl Visitor<'_> for Base64Visitor {
            type Value = SealedBytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("base64")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<SealedBytes, E> {
                SealedBytes::parse(text).map_err(E::custom)
            }
        }
        from.deserialize_str(Base64Visitor)
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE as URL_SAFE_PADDED, URL_SAFE_NO_PAD};
    use serde_json::json;

    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn every_base64_variant_is_parsed_and_padded_standard_base64_is_written() {
        for length in 0..70_usize {
            let bytes: Vec<u8> =
                (0..length).map(|at| 0xff_u8.wrapping_sub(u8::try_from(at * 7 % 256).unwrap())).collect();
            let written = json!(SealedBytes(bytes.clone().into()));
            assert_eq!(written, json!(STANDARD.encode(&bytes)));
            for text in [
                STANDARD.encode(&bytes),
                STANDARD_NO_PAD.encode(&bytes),
                URL_SAFE_PADDED.encode(&bytes),
                URL_SAFE_NO_PAD.encode(&bytes),
            ] {
                let read: SealedBytes = serde_json::from_value(json!(text)).unwrap();
                assert_eq!(&*read.0, bytes, "{text}");
                let slashes = raw(&json!(text).to_string().replace('/', "\\/"));
                assert_eq!(&*SealedBytes::of_envelope(&slashes).unwrap().0, bytes, "{text}");
            }
        }
        for wrong in ["a", "====", "a===", "QQ==QQ", "Q Q=", "+-AA", "QR==", "ä", "QUJD\n", "=QUJD"] {
            assert_eq!(SealedBytes::parse(wrong), Err(InvalidBase64), "{wrong:?}");
        }
    }

    #[test]
    fn envelope_object_is_kept_byte_for_byte_and_invalid_envelopes_are_refused() {
        for text in [r#"{"a":1}"#, r#"{ "b" : [1.50, "\u0041"],  "a":{}, "a":1 }"#, "{}"] {
            assert_eq!(&*SealedBytes::of_envelope(&raw(text)).unwrap().0, text.as_bytes());
        }
        for wrong in ["[]", "1", "null", "true", r#""?""#, r#""\u00e4""#] {
            assert_eq!(SealedBytes::of_envelope(&raw(wrong)), None, "{wrong}");
        }
    }
}

//! Sealed messages: `/a2h/conversations/{id}/messages` and `/a2h/messages/{id}/claim`.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::alphabet;
use base64::display::Base64Display;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use nuncio_core::conversation::{ContentType, MsgSubtype, Posted, SenderType};
use nuncio_core::ids::{ClientMessageId, ConversationId, DeviceId, InvalidName, MessageId};
use nuncio_core::time::Timestamp;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// `POST /a2h/conversations/{id}/messages`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PostRequest<'a> {
    /// The sender's name for it: the same when it is sent again.
    pub client_message_id: ClientMessageId,
    /// What it holds.
    pub content_type: ContentType,
    /// Which artifact it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub msg_subtype: Option<MsgSubtype>,
    /// The sealed message: an object, kept as it is written, or a text with its bytes in base64.
    #[serde(borrow)]
    pub envelope: &'a RawValue,
}

/// A message that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ReceiptView {
    /// The server's name for it.
    pub message_id: MessageId,
    /// Where it is.
    pub conversation_id: ConversationId,
    /// Its number there, from one, without gaps.
    pub conversation_seq: u64,
    /// The sender's name for it.
    pub client_message_id: ClientMessageId,
    /// When it came.
    pub created_at: Timestamp,
}

/// A message in its place.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct MessageView {
    /// The message.
    #[serde(flatten)]
    pub message: Message,
    /// When it came.
    pub created_at: Timestamp,
}

/// The same without when it came.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Message {
    /// Where it is.
    pub conversation_id: ConversationId,
    /// The server's name for it.
    pub message_id: MessageId,
    /// Its sender's name for it.
    pub client_message_id: ClientMessageId,
    /// Who sent it.
    pub sender_id: String,
    /// Of which kind they are.
    pub sender_type: SenderType,
    /// On which device, where a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_device_id: Option<DeviceId>,
    /// What it holds.
    pub content_type: ContentType,
    /// Which artifact it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub msg_subtype: Option<MsgSubtype>,
    /// The sealed message.
    pub encrypted_payload: Sealed,
    /// Its number in its conversation, from one, without gaps.
    pub conversation_seq: u64,
}

impl MessageView {
    /// A message as it is shown.
    ///
    /// # Errors
    /// Its conversation has a name that was not made here.
    pub fn of(posted: Posted) -> Result<Self, InvalidName> {
        let message_id = posted.place().id()?;
        let Posted { conversation, seq, at, post } = posted;
        let message = Message {
            conversation_id: conversation,
            message_id,
            client_message_id: post.client_id,
            sender_id: post.sender.id().to_owned(),
            sender_type: post.sender.sender_type(),
            sender_device_id: post.device,
            content_type: post.content_type,
            msg_subtype: post.subtype,
            encrypted_payload: Sealed(post.envelope),
            conversation_seq: seq,
        };
        Ok(Self { message, created_at: at })
    }
}

/// `POST /a2h/messages/{id}/claim`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimRequest {
    /// The device that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_id: Option<DeviceId>,
}

/// The device that took a tool call upon itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ClaimView {
    /// Which message.
    pub message_id: MessageId,
    /// Which device.
    pub device_id: DeviceId,
    /// When.
    pub claimed_at: Timestamp,
}

const BASE64: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, BASE64);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, BASE64);

/// Sealed bytes, written in base64: the standard alphabet, with padding. Either alphabet is read, padded or
/// not.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed(pub Arc<[u8]>);

/// Why a text holds no bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotBase64;

impl fmt::Display for NotBase64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be base64, in the standard or the url-safe alphabet")
    }
}

impl Sealed {
    /// Reads base64, straight to where the bytes stay.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<Self, NotBase64> {
        let bare = text.trim_end_matches('=').len();
        let length = bare / 4 * 3 + [0, 0, 1, 2][bare % 4];
        let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, length).collect();
        let is_url_safe = text.bytes().any(|byte| matches!(byte, b'-' | b'_'));
        let engine = if is_url_safe { &URL_SAFE } else { &STANDARD };
        let place = Arc::get_mut(&mut bytes).ok_or(NotBase64)?;
        match engine.decode_slice(text, place) {
            Ok(decoded) if decoded == length => Ok(Self(bytes)),
            _ => Err(NotBase64),
        }
    }

    /// The bytes an envelope stands for; none when it is neither an object nor a text in base64.
    #[must_use]
    pub fn of_envelope(envelope: &RawValue) -> Option<Self> {
        let text = envelope.get();
        if text.starts_with('{') {
            return Some(Self(text.as_bytes().into()));
        }
        let inner = text.strip_prefix('"')?.strip_suffix('"')?;
        let plain: Cow<'_, str> = match inner.contains('\\') {
            // Some writers put a backslash before each slash.
            true => serde_json::from_str::<String>(text).ok()?.into(),
            false => inner.into(),
        };
        Self::parse(&plain).ok()
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes)", self.0.len())
    }
}

impl Serialize for Sealed {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&Base64Display::new(&self.0, &STANDARD))
    }
}

impl<'de> Deserialize<'de> for Sealed {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Sealed;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("base64")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Sealed, E> {
                Sealed::parse(text).map_err(E::custom)
            }
        }
        from.deserialize_str(Text)
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
    fn bytes_are_read_however_they_are_written_in_base64_and_written_one_way() {
        for length in 0..70_usize {
            let bytes: Vec<u8> =
                (0..length).map(|at| 0xff_u8.wrapping_sub(u8::try_from(at * 7 % 256).unwrap())).collect();
            let written = json!(Sealed(bytes.clone().into()));
            assert_eq!(written, json!(STANDARD.encode(&bytes)));
            for text in [
                STANDARD.encode(&bytes),
                STANDARD_NO_PAD.encode(&bytes),
                URL_SAFE_PADDED.encode(&bytes),
                URL_SAFE_NO_PAD.encode(&bytes),
            ] {
                let read: Sealed = serde_json::from_value(json!(text)).unwrap();
                assert_eq!(&*read.0, bytes, "{text}");
                let slashes = raw(&json!(text).to_string().replace('/', "\\/"));
                assert_eq!(&*Sealed::of_envelope(&slashes).unwrap().0, bytes, "{text}");
            }
        }
        for wrong in ["a", "====", "a===", "QQ==QQ", "Q Q=", "+-AA", "QR==", "ä", "QUJD\n", "=QUJD"] {
            assert_eq!(Sealed::parse(wrong), Err(NotBase64), "{wrong:?}");
        }
    }

    #[test]
    fn an_object_is_taken_as_it_is_written() {
        for text in [r#"{"a":1}"#, r#"{ "b" : [1.50, "\u0041"],  "a":{}, "a":1 }"#, "{}"] {
            assert_eq!(&*Sealed::of_envelope(&raw(text)).unwrap().0, text.as_bytes());
        }
        for wrong in ["[]", "1", "null", "true", r#""?""#, r#""\u00e4""#] {
            assert_eq!(Sealed::of_envelope(&raw(wrong)), None, "{wrong}");
        }
    }
}

//! Encrypted streams: a message that can be read while it is being written. The stream key travels in an ordinary
//! envelope, with all guarantees of messages; the pieces are encrypted under that key and bound to their position.
//!
//! A stream is only a preview: the complete message that follows it is authoritative.

use std::fmt;

use nuncio_core::ErrorCode;
use nuncio_core::conversation::{ContentType, ConversationType, SenderType};
use nuncio_core::ids::{ClientMessageId, ConversationId};
use nuncio_core::time::Timestamp;
use serde_json::{Value, json};
use zeroize::{Zeroize as _, Zeroizing};

use super::error::{OpenError, SealError};
use super::header::{EnvelopeHeader, PlaintextMessage, RelayMetadata};
use super::identity::SealIdentity;
use super::opening::OpenedMessage;
use super::sealing::RecipientDevice;
use super::{body, cipher};
use crate::encoding::{base64url, base64url_exact};
use crate::jcs::sha256;

/// `event` of the system message that starts a stream.
const EVENT: &str = "stream";
const LABEL: &[u8; 13] = b"a2h/stream/v1";
const PREFIX: usize = 4;

/// Parameters of a new stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSealedStream {
    /// The conversation, which must be of one person and one agent.
    pub conversation: ConversationId,
    /// Id of the stream, which is also the `client_message_id` of its first envelope.
    pub stream: ClientMessageId,
    pub created_at: Timestamp,
}

/// One encrypted piece of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedStreamPiece {
    /// Position of the piece in its stream, from one.
    pub seq: u64,
    pub sealed: Vec<u8>,
}

/// Why a piece was not sealed or opened. The stream ends with the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StreamSealError {
    /// The piece was repeated, moved, or a piece before it is missing.
    #[error(
        "received piece {found} of the stream where {expected} was expected: a piece was repeated, moved or left out"
    )]
    OutOfOrder { expected: u64, found: u64 },
    #[error("the stream is over: no piece may follow its end or a refused piece")]
    Over,
    /// The piece was changed, or belongs to another position, stream or conversation.
    #[error("a piece of the stream was changed or belongs to another stream")]
    Tampered,
}

impl StreamSealError {
    #[must_use]
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::OutOfOrder { .. } => ErrorCode::MessageReplayed,
            Self::Over | Self::Tampered => ErrorCode::SealBroken,
        }
    }
}

/// Whether a piece is the last of its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamPiecePosition {
    Within,
    Last,
}

/// Key and position of a stream, on either side.
struct SealedStreamState {
    key: Zeroizing<[u8; 32]>,
    prefix: [u8; PREFIX],
    /// Hash of the first envelope's header. It covers conversation, sender, device and stream id.
    header: [u8; 32],
    /// Position of the next piece; `None` after the end.
    next: Option<u64>,
}

impl SealedStreamState {
    fn new(key: Zeroizing<[u8; 32]>, prefix: [u8; PREFIX], header: &EnvelopeHeader) -> Self {
        Self { key, prefix, header: sha256(&header.canonical()), next: Some(1) }
    }

    fn nonce(&self, seq: u64) -> [u8; cipher::NONCE] {
        let mut nonce = [0; cipher::NONCE];
        nonce[..PREFIX].copy_from_slice(&self.prefix);
        nonce[PREFIX..].copy_from_slice(&seq.to_be_bytes());
        nonce
    }

    fn associated(&self, seq: u64, position: StreamPiecePosition) -> [u8; 54] {
        let mut aad = [0; 54];
        aad[..13].copy_from_slice(LABEL);
        aad[13..45].copy_from_slice(&self.header);
        aad[45..53].copy_from_slice(&seq.to_be_bytes());
        aad[53] = u8::from(position == StreamPiecePosition::Last);
        aad
    }

    fn seal(&mut self, position: StreamPiecePosition, text: &str) -> Result<SealedStreamPiece, StreamSealError> {
        let seq = self.next.take().ok_or(StreamSealError::Over)?;
        let aad = self.associated(seq, position);
        let sealed = body::encrypt_padded(&self.key, self.nonce(seq), &aad, text.as_bytes());
        self.advance(seq, position);
        Ok(SealedStreamPiece { seq, sealed: sealed.ok_or(StreamSealError::Over)? })
    }

    fn open(&mut self, position: StreamPiecePosition, seq: u64, sealed: &[u8]) -> Result<String, StreamSealError> {
        // `take` makes every error end the stream.
        let expected = self.next.take().ok_or(StreamSealError::Over)?;
        if seq != expected {
            return Err(StreamSealError::OutOfOrder { expected, found: seq });
        }
        let aad = self.associated(seq, position);
        let text = body::decrypt_padded(&self.key, self.nonce(seq), &aad, sealed.to_vec());
        let text = text.ok_or(StreamSealError::Tampered)?;
        let text = std::str::from_utf8(&text).map_err(|_| StreamSealError::Tampered)?.to_owned();
        self.advance(seq, position);
        Ok(text)
    }

    /// Advances to the next position. The last piece has none, so that no nonce is used twice.
    fn advance(&mut self, seq: u64, position: StreamPiecePosition) {
        self.next = match position {
            StreamPiecePosition::Within => seq.checked_add(1),
            StreamPiecePosition::Last => None,
        };
    }
}

/// Encrypts the pieces of a stream in order. The key is wiped on drop.
pub struct StreamSealer(SealedStreamState);

impl StreamSealer {
    /// Starts a stream: returns an envelope with the stream key and the sealer for the pieces. Only agents may stream.
    pub fn begin(
        identity: &mut SealIdentity,
        new: NewSealedStream,
        to: &[RecipientDevice<'_>],
    ) -> Result<(Vec<u8>, Self), SealError> {
        let (key, prefix) = (Zeroizing::new(cipher::random::<32>()), cipher::random::<PREFIX>());
        let mut plaintext = plaintext(new, &key, prefix);
        let (owner, device) = identity.owner_device().ok_or(SealError::Unnamed)?;
        let header = plaintext.header(owner, device);
        let fits = if header.sender_type == SenderType::Agent { Ok(()) } else { Err(SealError::Mismatched(AGENTS)) };
        let sealed = fits.and_then(|()| identity.seal(&plaintext, to));
        wipe(&mut plaintext.payload);
        Ok((sealed?, Self(SealedStreamState::new(key, prefix, &header))))
    }

    pub fn piece(&mut self, text: &str) -> Result<SealedStreamPiece, StreamSealError> {
        self.0.seal(StreamPiecePosition::Within, text)
    }

    /// Seals the last piece, which names the message with the complete text.
    pub fn end(&mut self, message: &ClientMessageId) -> Result<SealedStreamPiece, StreamSealError> {
        self.0.seal(StreamPiecePosition::Last, message.as_str())
    }
}

/// Decrypts the pieces of a stream: each once and in order, none after an error. The key is wiped on drop.
pub struct StreamOpener(SealedStreamState);

impl StreamOpener {
    /// Opens the first envelope of a stream like [`SealIdentity::open`] and extracts the stream key. Returns no opener
    /// if the message does not start a stream; it still counts as opened, see [`OpenedMessage::rekeyed`].
    pub fn begin(
        identity: &mut SealIdentity,
        relay: &RelayMetadata,
        envelope: &[u8],
        now: Timestamp,
    ) -> Result<(OpenedMessage, Option<Self>), OpenError> {
        let mut opened = identity.open(relay, envelope, now)?;
        let opener = opener(&opened);
        wipe(&mut opened.payload);
        Ok((opened, opener))
    }

    /// Opens the next piece. An error ends the stream.
    pub fn piece(&mut self, seq: u64, sealed: &[u8]) -> Result<String, StreamSealError> {
        self.0.open(StreamPiecePosition::Within, seq, sealed)
    }

    /// Opens the last piece and returns the id of the message with the complete text.
    pub fn end(&mut self, seq: u64, sealed: &[u8]) -> Result<ClientMessageId, StreamSealError> {
        let message = self.0.open(StreamPiecePosition::Last, seq, sealed)?;
        ClientMessageId::parse(&message).map_err(|_| StreamSealError::Tampered)
    }
}

impl fmt::Debug for StreamSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamSealer at {:?}", self.0.next)
    }
}

impl fmt::Debug for StreamOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamOpener at {:?}", self.0.next)
    }
}

const AGENTS: &str = "only agents stream, and only in a conversation with one person";

fn plaintext(new: NewSealedStream, key: &[u8; 32], prefix: [u8; PREFIX]) -> PlaintextMessage {
    let NewSealedStream { conversation, stream, created_at } = new;
    PlaintextMessage {
        conversation,
        conversation_type: ConversationType::H2a,
        client_id: stream,
        content_type: ContentType::System,
        subtype: None,
        in_reply_to: None,
        created_at,
        payload: json!({"type": "system", "event": EVENT, "key": base64url(key), "prefix": base64url(&prefix)}),
    }
}

fn opener(OpenedMessage { header, payload, .. }: &OpenedMessage) -> Option<StreamOpener> {
    let begins = header.content_type == ContentType::System
        && header.conversation_type == ConversationType::H2a
        && header.sender_type == SenderType::Agent
        && payload["event"] == EVENT;
    if !begins {
        return None;
    }
    let key = Zeroizing::new(base64url_exact(payload["key"].as_str()?)?);
    let prefix = base64url_exact(payload["prefix"].as_str()?)?;
    Some(StreamOpener(SealedStreamState::new(key, prefix, header)))
}

/// Erases the stream key from a payload.
fn wipe(payload: &mut Value) {
    if let Some(Value::String(key)) = payload.get_mut("key") {
        key.zeroize();
    }
}

#[cfg(test)]
pub(super) mod vectors {
    use super::*;

    /// A stream with fixed keys, for the published vectors.
    pub(in super::super) fn stream(hex: impl Fn(&[u8]) -> String) -> Value {
        let (key, prefix) = ([16; 32], [17; PREFIX]);
        let new = NewSealedStream {
            conversation: ConversationId::parse("conv_1").unwrap(),
            stream: ClientMessageId::parse("01JD0000000000000000000001").unwrap(),
            created_at: Timestamp::from_millis(1_794_740_400_007),
        };
        let plaintext = plaintext(new, &key, prefix);
        let sender = nuncio_core::notification::RelayParty::Agent(nuncio_core::ids::AgentId::parse("hotel").unwrap());
        let header = plaintext.header(&sender, &nuncio_core::ids::DeviceId::parse("main").unwrap());
        let mut sealer = StreamSealer(SealedStreamState::new(Zeroizing::new(key), prefix, &header));
        let message = ClientMessageId::parse("01JD0000000000000000000002").unwrap();
        let texts = ["Your room", " is ready: 您的房间准备好了", ""];
        let mut pieces: Vec<_> = texts.map(|text| (text, false, sealer.piece(text).unwrap())).into();
        pieces.push((message.as_str(), true, sealer.end(&message).unwrap()));
        let pieces = pieces.into_iter().map(|(text, last, SealedStreamPiece { seq, sealed })| {
            let position = if last { StreamPiecePosition::Last } else { StreamPiecePosition::Within };
            json!({
                "stream_seq": seq, "final": last, "text": text, "nonce": hex(&sealer.0.nonce(seq)),
                "aad": hex(&sealer.0.associated(seq, position)), "ct": hex(&sealed),
            })
        });
        json!({
            "header": header, "header_hash": hex(&sealer.0.header), "payload": plaintext.payload,
            "key": hex(&key), "prefix": hex(&prefix), "pieces": pieces.collect::<Vec<_>>(),
        })
    }
}

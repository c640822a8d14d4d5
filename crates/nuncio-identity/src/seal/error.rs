//! Errors of sealing, opening and pinning.

use nuncio_core::ErrorCode;
use nuncio_core::conversation::MAX_ENVELOPE;
use nuncio_core::digest::Digest;
use nuncio_core::ids::DeviceId;
use nuncio_core::notification::RelayParty;

use super::key_store::KeyStoreError;
use super::trust::{DistrustReason, MAX_DEVICES};

/// Why a message was not sealed. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The sealing device has no device id yet.
    #[error("this device is not enrolled yet: enrol it first")]
    Unnamed,
    /// The message has no recipient device.
    #[error("there is no device to seal it to: the other side has published no keys")]
    Nobody,
    /// A conversation of two has recipient devices of more than one other party.
    #[error("a conversation of two is sealed to one other and to your own devices, not to {0} others")]
    NotTwo(usize),
    /// Two recipient devices have the same id.
    #[error("the device {0} is listed twice")]
    Twice(DeviceId),
    /// Recipient devices that are not trusted, or were trusted with other keys.
    #[error("these devices are not trusted: {}; compare safety numbers, then accept them", list(.0))]
    Untrusted(Vec<(RelayParty, DeviceId)>),
    /// Starting a session needs a one-time key of each of these devices.
    #[error("fetch a one-time key of each of these devices first: {}", list(.0))]
    NeedsOneTimeKey(Vec<(RelayParty, DeviceId)>),
    /// The one-time key is not signed by its device.
    #[error("the one-time key of {0} is not signed by it: someone may have replaced it")]
    BadOneTimeKey(DeviceId),
    /// Key agreement with the device's keys fails.
    #[error("the keys of {0} cannot be used")]
    BadKey(DeviceId),
    /// The payload does not match the content type or subtype.
    #[error("{0}")]
    Mismatched(&'static str),
    #[error("the sealed message would have more than {MAX_ENVELOPE} bytes")]
    TooLarge,
    #[error(transparent)]
    KeyStore(#[from] KeyStoreError),
}

/// Why an envelope was not opened. No part of the envelope was accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The opening device has no device id yet.
    #[error("this device is not enrolled yet: enrol it first")]
    Unnamed,
    #[error("it is not a sealed message: {0}")]
    Malformed(String),
    /// The relay's metadata differs from the signed header.
    #[error("the {field} from the relay differs from the sender's")]
    Mislabelled {
        /// The header field that differs from the relay's metadata.
        field: &'static str,
    },
    /// No key of the sending device is pinned.
    #[error("the device {device} of {owner} is not known: fetch the sender's keys and try again")]
    UnknownSender { owner: RelayParty, device: DeviceId },
    /// The signing key is known but not trusted.
    #[error("the device {device} is not trusted: {why}")]
    Untrusted { device: DeviceId, why: DistrustReason },
    /// The pinned key did not sign the envelope.
    #[error("the sender did not sign this: it was changed, or someone else wrote it")]
    BadSignature,
    /// No wrapped key of the envelope is for this device.
    #[error("it is not sealed to this device")]
    NotForUs,
    /// The content key was wrapped without forward secrecy although both sides support sessions.
    #[error("it is sealed in the weaker mode, although both sides support the stronger one")]
    Downgraded,
    /// The content key was wrapped in a way that is not allowed in this conversation.
    #[error("it is sealed in a mode that is not used between these two devices, or in groups")]
    WrongWrap,
    /// The sender has published newer keys.
    #[error("the device {device} has new keys: fetch the sender's keys and try again")]
    StaleBundle { device: DeviceId },
    #[error("the session with {device} is lost: begin a new one and ask for the message again")]
    SessionLost { device: DeviceId },
    /// Decryption failed, or the content belongs to another header.
    #[error("its content was changed or belongs to another message")]
    Tampered,
    /// The payload does not match the signed header.
    #[error("its header contradicts its content: {0}")]
    Mismatched(&'static str),
    /// The message was opened before, or is older than the replay record reaches.
    #[error("it was opened before, or is too old to be checked")]
    Replayed,
    /// The header is dated in the future.
    #[error("its time is in the future: one of the two clocks is wrong")]
    FromTheFuture,
    #[error(transparent)]
    KeyStore(#[from] KeyStoreError),
}

/// Why the keys of a device were not reviewed, pinned or endorsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    /// No key has the expected fingerprint.
    #[error("no key of {owner} has the fingerprint {expected}: the relay shows other keys than the invite")]
    OtherFingerprint { owner: RelayParty, expected: Digest },
    #[error("{0} devices are too many: at most {MAX_DEVICES} of one person are known")]
    TooMany(usize),
    /// The device has no keys that wait for a decision.
    #[error("the device {0} has no changed keys that wait to be accepted")]
    NothingToAccept(DeviceId),
    /// The endorsed device has no device id yet.
    #[error("this device is not enrolled yet: enrol it first")]
    Unnamed,
    /// The endorsement or removal is not allowed for this device: other owner, bad signature, or the device itself.
    #[error("only another device of the same person can be endorsed or removed, with that person's signature")]
    NotOtherOwnDevice,
    #[error(transparent)]
    KeyStore(#[from] KeyStoreError),
}

impl SealError {
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Unnamed => ErrorCode::DeviceNotFound,
            Self::Nobody | Self::NeedsOneTimeKey(_) => ErrorCode::KeysNotFound,
            Self::Untrusted(_) | Self::BadOneTimeKey(_) | Self::BadKey(_) => ErrorCode::DeviceUntrusted,
            Self::NotTwo(_) | Self::Twice(_) | Self::Mismatched(_) => ErrorCode::BadRequest,
            Self::TooLarge => ErrorCode::BodyTooLarge,
            Self::KeyStore(_) => ErrorCode::StoreUnavailable,
        }
    }
}

impl OpenError {
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Unnamed => ErrorCode::DeviceNotFound,
            Self::UnknownSender { .. } | Self::StaleBundle { .. } => ErrorCode::KeysNotFound,
            Self::Untrusted { .. } => ErrorCode::DeviceUntrusted,
            Self::SessionLost { .. } => ErrorCode::SealSessionLost,
            Self::Replayed => ErrorCode::MessageReplayed,
            Self::KeyStore(_) => ErrorCode::StoreUnavailable,
            Self::Malformed(_)
            | Self::Mislabelled { .. }
            | Self::BadSignature
            | Self::NotForUs
            | Self::Downgraded
            | Self::WrongWrap
            | Self::Tampered
            | Self::Mismatched(_)
            | Self::FromTheFuture => ErrorCode::SealBroken,
        }
    }
}

impl TrustError {
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::OtherFingerprint { .. } | Self::NotOtherOwnDevice => ErrorCode::DeviceUntrusted,
            Self::TooMany(_) => ErrorCode::LimitReached,
            Self::NothingToAccept(_) | Self::Unnamed => ErrorCode::DeviceNotFound,
            Self::KeyStore(_) => ErrorCode::StoreUnavailable,
        }
    }
}

fn list(devices: &[(RelayParty, DeviceId)]) -> String {
    let named: Vec<_> = devices.iter().map(|(owner, device)| format!("{device} of {owner}")).collect();
    named.join(", ")
}

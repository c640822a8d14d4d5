//! Why something was not sealed, not opened, or not pinned.

use nuncio_core::Code;
use nuncio_core::conversation::MAX_ENVELOPE;
use nuncio_core::digest::Digest;
use nuncio_core::happening::Recipient;
use nuncio_core::ids::DeviceId;

use super::keep::KeepError;
use super::trust::{Distrust, MAX_DEVICES};

/// Why a letter was not sealed. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The device has no name yet.
    #[error("this device has no name yet: enrol it first")]
    Unnamed,
    /// There is nobody to seal it to.
    #[error("there is no device to seal it to: the other side has published no keys")]
    Nobody,
    /// A conversation of two has devices of more than one other.
    #[error("a conversation of two is sealed to one other and to your own devices, not to {0} others")]
    NotTwo(usize),
    /// Two devices of one name.
    #[error("the device {0} is named twice")]
    Twice(DeviceId),
    /// These devices are not trusted, or other keys of theirs are.
    #[error("these devices are not trusted: {}; compare safety numbers, then accept them", list(.0))]
    Untrusted(Vec<(Recipient, DeviceId)>),
    /// A session begins with a one-time key of each of these.
    #[error("fetch a one-time key of each of these devices first: {}", list(.0))]
    NeedsOneTimeKey(Vec<(Recipient, DeviceId)>),
    /// The one-time key is not the device's own.
    #[error("the one-time key of {0} is not signed by it: somebody put it there")]
    BadOneTimeKey(DeviceId),
    /// The keys of a device agree on nothing.
    #[error("the keys of {0} cannot be used")]
    BadKey(DeviceId),
    /// What is said is not what the letter says it is.
    #[error("{0}")]
    Mismatched(&'static str),
    /// The envelope would be too large.
    #[error("the sealed message would have more than {MAX_ENVELOPE} bytes")]
    TooLarge,
    /// The party's state cannot be kept.
    #[error(transparent)]
    Keep(#[from] KeepError),
}

/// Why an envelope was not opened. Nothing of it counts as said.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The device has no name yet.
    #[error("this device has no name yet: enrol it first")]
    Unnamed,
    /// It is no envelope.
    #[error("it is no sealed message: {0}")]
    Malformed(String),
    /// The relay says something else than the sender did.
    #[error("the relay's {field} is not the sender's")]
    Mislabelled {
        /// What differs, as the header names it.
        field: &'static str,
    },
    /// No key of the sender is pinned.
    #[error("the device {device} of {owner} is not known: fetch the sender's keys and try again")]
    UnknownSender {
        /// Who is said to have sent it.
        owner: Recipient,
        /// On which device.
        device: DeviceId,
    },
    /// It is signed with a key that is not trusted.
    #[error("the device {device} is not trusted: {why}")]
    Untrusted {
        /// Which device.
        device: DeviceId,
        /// Why not.
        why: Distrust,
    },
    /// The pinned key did not sign it.
    #[error("the sender did not sign this: it was changed, or somebody else wrote it")]
    BadSignature,
    /// No entry is for this device.
    #[error("it is not sealed to this device")]
    NotForUs,
    /// It is sealed without forward secrecy where both sides can do better.
    #[error("it is sealed the weaker way although both sides can do better")]
    Downgraded,
    /// It is sealed in a way this device cannot or must not use here.
    #[error("it is sealed in a way that is not used between these two, or in groups")]
    WrongWrap,
    /// The sender has other keys by now.
    #[error("the device {device} has new keys: fetch the sender's keys and try again")]
    StaleBundle {
        /// Which device.
        device: DeviceId,
    },
    /// The session with that device is lost.
    #[error("the session with {device} is lost: begin a new one and ask for the message again")]
    SessionLost {
        /// Which device.
        device: DeviceId,
    },
    /// What is inside was changed, or belongs to another header.
    #[error("what is inside was changed or belongs to another message")]
    Tampered,
    /// What is said is not what the header says it is.
    #[error("the sender's own labels contradict what is inside: {0}")]
    Mismatched(&'static str),
    /// It was opened before, or is older than what is remembered.
    #[error("it was opened before, or is too old to tell")]
    Replayed,
    /// It was sealed in the future.
    #[error("it says it was sealed in the future: one of the two clocks is wrong")]
    FromTheFuture,
    /// The party's state cannot be kept.
    #[error(transparent)]
    Keep(#[from] KeepError),
}

/// Why nobody was met.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeetError {
    /// No key has the fingerprint that was expected.
    #[error("no key of {owner} has the fingerprint {expected}: the relay shows other keys than the invite")]
    OtherFingerprint {
        /// Whose keys.
        owner: Recipient,
        /// What was expected.
        expected: Digest,
    },
    /// There are too many devices.
    #[error("{0} devices are too many: at most {MAX_DEVICES} of one person are known")]
    TooMany(usize),
    /// There is nothing to decide on that device.
    #[error("the device {0} has shown no keys that wait for a yes")]
    NothingToAccept(DeviceId),
    /// The device has no name yet.
    #[error("this device has no name yet: enrol it first")]
    Unnamed,
    /// A statement about this device is not about this device.
    #[error("the endorsement is not about this device")]
    NotOurs,
    /// The party's state cannot be kept.
    #[error(transparent)]
    Keep(#[from] KeepError),
}

impl SealError {
    /// Its code.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Unnamed => Code::DeviceNotFound,
            Self::Nobody | Self::NeedsOneTimeKey(_) => Code::KeysNotFound,
            Self::Untrusted(_) | Self::BadOneTimeKey(_) | Self::BadKey(_) => Code::DeviceUntrusted,
            Self::NotTwo(_) | Self::Twice(_) | Self::Mismatched(_) => Code::BadRequest,
            Self::TooLarge => Code::BodyTooLarge,
            Self::Keep(_) => Code::StoreUnavailable,
        }
    }
}

impl OpenError {
    /// Its code.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Unnamed => Code::DeviceNotFound,
            Self::UnknownSender { .. } | Self::StaleBundle { .. } => Code::KeysNotFound,
            Self::Untrusted { .. } => Code::DeviceUntrusted,
            Self::SessionLost { .. } => Code::SealSessionLost,
            Self::Replayed => Code::MessageReplayed,
            Self::Keep(_) => Code::StoreUnavailable,
            Self::Malformed(_)
            | Self::Mislabelled { .. }
            | Self::BadSignature
            | Self::NotForUs
            | Self::Downgraded
            | Self::WrongWrap
            | Self::Tampered
            | Self::Mismatched(_)
            | Self::FromTheFuture => Code::SealBroken,
        }
    }
}

impl MeetError {
    /// Its code.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::OtherFingerprint { .. } | Self::NotOurs => Code::DeviceUntrusted,
            Self::TooMany(_) => Code::LimitReached,
            Self::NothingToAccept(_) | Self::Unnamed => Code::DeviceNotFound,
            Self::Keep(_) => Code::StoreUnavailable,
        }
    }
}

fn list(devices: &[(Recipient, DeviceId)]) -> String {
    let named: Vec<_> = devices.iter().map(|(owner, device)| format!("{device} of {owner}")).collect();
    named.join(", ")
}

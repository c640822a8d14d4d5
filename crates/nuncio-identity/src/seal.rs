//! End-to-end encryption of messages over an untrusted relay.
//!
//! A [`SealIdentity`] is one device of a person, or one agent. It reviews and pins the keys of others
//! ([`review_keys`](SealIdentity::review_keys)), encrypts messages to them ([`seal`](SealIdentity::seal)) and decrypts
//! theirs ([`open`](SealIdentity::open)). State is on disk before anything that depends on it is returned, so that a
//! crash never reuses a ratchet key and never opens a message twice. `docs/sealing.md` specifies the bytes.

mod account;
pub mod backup;
mod body;
mod cipher;
mod decided;
mod envelope;
mod error;
mod header;
mod hpke;
mod keep;
mod opening;
mod party;
mod safety;
mod sealing;
mod secrets;
mod seen;
mod sessions;
mod storage;
mod stream;
mod trust;
mod vault;
#[cfg(test)]
mod vectors;
mod vouch;
pub mod yardstick;

pub use body::padded_len;
pub use decided::WaitingKeys;
pub use error::{MeetError, OpenError, SealError};
pub use header::{Header, Letter, REKEY, Told, VERSION};
pub use keep::{Keep, KeepError, MemoryKeep, mentioning};
pub use opening::Opened;
pub use party::{NewParty, Party};
pub use sealing::Addressee;
pub use storage::{KeySource, StorageKey, WrappedStorageKey, WrappingKey};
pub use stream::{NewStream, SealedPiece, StreamError, StreamOpener, StreamSealer};
pub use trust::{Distrust, KeyChange, Meeting};
pub use vault::Change;
pub use vouch::{DidProofError, verify_did_proof, vouch};

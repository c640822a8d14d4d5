//! Sealing: messages that only their addressees read, over a relay that is trusted with nothing.
//!
//! A [`Party`] is one device of a person, or one agent. It [`meet`](Party::meet)s the keys of others, pins them,
//! [`seal`](Party::seal)s letters to them and [`open`](Party::open)s theirs. What it keeps is on disk before anything
//! that depends on it is handed out, so that a process that dies never uses a ratchet's key twice and never opens a
//! message twice. The bytes are written down in `docs/sealing.md`.

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

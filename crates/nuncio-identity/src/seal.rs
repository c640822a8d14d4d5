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
mod decisions;
mod did_proof;
mod envelope;
mod error;
mod header;
mod hpke;
mod identity;
mod key_store;
mod opening;
mod safety_number;
mod sealing;
mod secrets;
mod seen_messages;
mod sessions;
mod storage;
mod stream;
#[cfg(test)]
mod tests;
mod trust;
mod vault;

pub use body::padded_len;
pub use decisions::{KeyDecisionApi, PendingKeys};
pub use did_proof::{DidProofError, sign_did_proof, verify_did_proof};
pub use error::{OpenError, SealError, TrustError};
pub use header::{EnvelopeHeader, PlaintextMessage, REKEY, RelayMetadata, VERSION};
pub use identity::{NewSealIdentity, SealIdentity};
pub use key_store::{KeyStore, KeyStoreError, MemoryKeyStore, mentioning};
pub use opening::OpenedMessage;
pub use sealing::RecipientDevice;
pub use storage::{StorageKey, WrappedStorageKey, WrappingKey, WrappingKeySource};
pub use stream::{NewSealedStream, SealedStreamPiece, StreamOpener, StreamSealError, StreamSealer};
pub use trust::{DistrustReason, KeyReviewResult, PeerKeyChange};
pub use vault::SealedRecordChange;

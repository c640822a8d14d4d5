//! Who is who among agents: did:wba names, keys, documents, proofs and signatures; and sealing, between those who
//! know each other's keys.
//!
//! Pure computation: it opens no connection and asks nobody the time. Moments and nonces are handed in; documents
//! are fetched by whoever calls. Only [`seal`] draws random numbers and keeps anything, through its `Keep`.
//!
//! The way of a signed request: [`Credentials::read`] says what came, [`Claim::check`] refuses what needs no
//! document, the caller fetches the document and turns it into a [`BoundDocument`], [`Claim::verify`] says who
//! it was, and only then [`ReplayMemory::remember`] takes the nonce.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

pub mod challenge;
pub mod credentials;
pub mod did;
pub mod document;
mod encoding;
pub mod error;
pub mod fields;
pub mod http_signature;
pub mod jcs;
pub mod keys;
pub mod ledger;
pub mod legacy;
pub mod moment;
pub mod origin_proof;
pub mod proof;
pub mod replay;
pub mod seal;
pub mod token;

pub use credentials::{Credentials, Schemes};
pub use did::{Did, DidError, DidUrl, Fingerprint};
pub use document::{Binding, BindingError, BoundDocument, DidDocument, DocumentError, K1Proof, NewDocument, Service};
pub use error::AuthError;
pub use fields::Fields;
pub use http_signature::{Claim, Policy, SignedRequest, Verified, verify_request};
pub use keys::{KeyError, SigningKey, VerifyingKey};
pub use proof::ProofError;
pub use replay::{ReplayError, ReplayMemory};
pub use token::TokenIssuer;

//! Identities of agents: did:wba identifiers, keys, DID documents, proofs and signatures; and end-to-end encryption of
//! messages ([`seal`]).
//!
//! The crate does no network I/O and reads no clock: times and nonces are arguments, and the caller fetches DID
//! documents. Only [`seal`] generates random numbers and stores data, through its `KeyStore` trait.
//!
//! Steps to verify a signed request: [`ParsedCredentials::read`] parses the credentials, [`UnverifiedSignature::check`]
//! makes the checks that need no document, the caller fetches the document and binds it ([`BoundDidDocument`]),
//! [`UnverifiedSignature::verify`] returns the signer, and only then the caller records the nonce
//! ([`SignaturePolicy::remember_until`]).

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
pub mod origin_proof;
pub mod proof;
pub mod rfc3339;
pub mod seal;
pub mod token;

pub use credentials::{AcceptedSigningSchemes, ParsedCredentials};
pub use did::{Did, DidKeyFingerprint, DidParseError, DidUrl};
pub use document::{
    BindingError, BoundDidDocument, DidDocument, DidDocumentBinding, DidDocumentError, DidService, K1ProofRule,
    NewDidDocument,
};
pub use error::DidAuthError;
pub use fields::HeaderFields;
pub use http_signature::{SignableRequest, SignaturePolicy, UnverifiedSignature, VerifiedSigner, verify_request};
pub use keys::{KeyError, SigningKey, VerifyingKey};
pub use proof::ProofError;
pub use token::DidAccessTokenService;

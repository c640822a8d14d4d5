//! Integration tests: vectors of ANP's SDK, properties of signatures, and end-to-end encryption.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "it/ad_proofs.rs"]
mod ad_proofs;
#[path = "it/client_headers.rs"]
mod client_headers;
#[path = "it/did_documents.rs"]
mod did_documents;
#[path = "it/http_signatures.rs"]
mod http_signatures;
#[path = "it/jcs_and_keys.rs"]
mod jcs_and_keys;
#[path = "it/legacy_didwba.rs"]
mod legacy_didwba;
#[path = "it/malformed_input.rs"]
mod malformed_input;
#[path = "it/object_proofs.rs"]
mod object_proofs;
#[path = "it/origin_proofs.rs"]
mod origin_proofs;
#[path = "it/properties.rs"]
mod properties;
#[path = "it/resolution_urls.rs"]
mod resolution_urls;
#[path = "it/seal_backup.rs"]
mod seal_backup;
#[path = "it/seal_crash.rs"]
mod seal_crash;
#[path = "it/seal_decisions.rs"]
mod seal_decisions;
#[path = "it/seal_exchange.rs"]
mod seal_exchange;
#[path = "it/seal_fixtures.rs"]
mod seal_fixtures;
#[path = "it/seal_interop.rs"]
mod seal_interop;
#[path = "it/seal_malicious_relay.rs"]
mod seal_malicious_relay;
#[path = "it/seal_malicious_sender.rs"]
mod seal_malicious_sender;
#[path = "it/seal_stream.rs"]
mod seal_stream;
#[path = "it/seal_trust.rs"]
mod seal_trust;
#[path = "it/tokens.rs"]
mod tokens;
#[path = "it/vectors.rs"]
mod vectors;
#[path = "it/verifier_flow.rs"]
mod verifier_flow;

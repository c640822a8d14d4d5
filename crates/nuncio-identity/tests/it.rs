//! Test vectors of ANP's SDK, and properties of signatures.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "it/ad_proofs.rs"]
mod ad_proofs;
#[path = "it/client_headers.rs"]
mod client_headers;
#[path = "it/did_documents.rs"]
mod did_documents;
#[path = "it/hostile.rs"]
mod hostile;
#[path = "it/http_signatures.rs"]
mod http_signatures;
#[path = "it/jcs_and_keys.rs"]
mod jcs_and_keys;
#[path = "it/laws.rs"]
mod laws;
#[path = "it/legacy_didwba.rs"]
mod legacy_didwba;
#[path = "it/memory_and_tokens.rs"]
mod memory_and_tokens;
#[path = "it/object_proofs.rs"]
mod object_proofs;
#[path = "it/origin_proofs.rs"]
mod origin_proofs;
#[path = "it/resolution_urls.rs"]
mod resolution_urls;
#[path = "it/seal_backup.rs"]
mod seal_backup;
#[path = "it/seal_crash.rs"]
mod seal_crash;
#[path = "it/seal_decided.rs"]
mod seal_decided;
#[path = "it/seal_exchange.rs"]
mod seal_exchange;
#[path = "it/seal_hostile.rs"]
mod seal_hostile;
#[path = "it/seal_insider.rs"]
mod seal_insider;
#[path = "it/seal_peer.rs"]
mod seal_peer;
#[path = "it/seal_stream.rs"]
mod seal_stream;
#[path = "it/seal_trust.rs"]
mod seal_trust;
#[path = "it/seal_world.rs"]
mod seal_world;
#[path = "it/vectors.rs"]
mod vectors;
#[path = "it/verifier_flow.rs"]
mod verifier_flow;

//! Structured header fields: challenges, tokens, digests and the older DIDWba header are equal after being written and
//! parsed again.

use nuncio_identity::challenge::{AuthParams, DidAuthChallenge, IssuedAccessToken, accepted_components};
use nuncio_identity::http_signature::{check_content_digest, content_digest};
use nuncio_identity::legacy::UnverifiedLegacyHeader;

use crate::seeds::texts_in;

pub fn run(data: &[u8]) {
    // A received header field may contain any bytes, but only printable ASCII is written.
    let field = String::from_utf8_lossy(data);
    let is_printable = field.chars().all(|c| matches!(c, ' '..='~'));
    if let Some(challenge) = DidAuthChallenge::read(&field) {
        let written = challenge.www_authenticate();
        assert!(!written.contains(['\n', '\r']), "{written:?}");
        assert!(!is_printable || DidAuthChallenge::read(&written) == Some(challenge), "{written:?}");
    }
    if let Some(grant) = IssuedAccessToken::read(&field) {
        assert!(!is_printable || IssuedAccessToken::read(&grant.authentication_info()) == Some(grant), "{field:?}");
    }
    if let Ok(claim) = UnverifiedLegacyHeader::from_header(&field) {
        if is_printable {
            assert_eq!(UnverifiedLegacyHeader::from_header(&claim.to_header()).unwrap().to_json(), claim.to_json());
        }
        assert_eq!(UnverifiedLegacyHeader::from_json(&claim.to_json()).unwrap().to_json(), claim.to_json());
    }
    let _ = (AuthParams::read_all(&field), AuthParams::read_info(&field), accepted_components(&field));
    if check_content_digest(&field, b"body").is_ok() {
        assert!(field.contains(content_digest(b"body").trim_end_matches(['=', ':'])) || field.contains("sha-512"));
    }
}

#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = texts_in(include_str!("../../../crates/nuncio-identity/tests/data/client_headers.json"));
    seeds.extend(texts_in(include_str!("../../../crates/nuncio-identity/tests/data/legacy_didwba.json")));
    seeds.push(content_digest(b"body").into_bytes());
    seeds
}

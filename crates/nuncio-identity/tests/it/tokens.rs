//! Access tokens.

use std::time::Duration;

use nuncio_identity::{Did, DidAccessTokenService, rfc3339};

use crate::vectors::{signing_key, soon_after};

#[test]
fn token_is_valid_only_for_its_issuer_audience_and_lifetime() {
    let hour = Duration::from_secs(3600);
    let issuer = |key: &str, name: &str, place: &str| DidAccessTokenService::new(&signing_key(key), name, place, hour);
    let tokens = issuer("ed25519:service", "did:wba:a.example", "https://a.example");
    let now = soon_after();
    let subject = Did::parse("did:wba:example.com:user:bob").unwrap();
    let grant = tokens.issue(&subject, now);
    assert_eq!(grant.expires_in, Some(3600));
    let token = grant.access_token;
    assert_eq!(tokens.verify(&token, now).unwrap().sub, subject);
    assert!(tokens.verify(&token, now.after(Duration::from_secs(3599))).is_ok());
    for (other, why) in [
        (issuer("ed25519:bob", "did:wba:a.example", "https://a.example"), "another key"),
        (issuer("ed25519:service", "did:wba:b.example", "https://a.example"), "another issuer"),
        (issuer("ed25519:service", "did:wba:a.example", "https://b.example"), "another place"),
    ] {
        assert_eq!(other.verify(&token, now).unwrap_err().error_code(), "invalid_access_token", "{why}");
    }
    assert!(tokens.verify(&token, now.after(hour)).is_err());
    assert!(tokens.verify(&token, rfc3339::from_seconds(rfc3339::seconds(now) - 61)).is_err());
    for text in ["", ".", "..", "a.b.c", token.trim_end_matches(|c| c != '.')] {
        assert!(tokens.verify(text, now).is_err(), "{text}");
    }
    // A token that is changed anywhere is refused.
    for at in (0..token.len()).step_by(7).filter(|at| token.as_bytes()[*at] != b'.') {
        let mut changed = token.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        assert!(tokens.verify(&String::from_utf8(changed).unwrap(), now).is_err(), "{at}");
    }
    // `alg: none` and no signature.
    let body = token.split('.').nth(1).unwrap();
    assert!(tokens.verify(&format!("eyJhbGciOiJub25lIn0.{body}."), now).is_err());
}

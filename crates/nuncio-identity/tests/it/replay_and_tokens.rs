//! Replay memory and access tokens.

use std::time::Duration;

use nuncio_identity::{Did, DidUrl, ReplayError, ReplayMemory, TokenIssuer, rfc3339};

use crate::vectors::{signing_key, soon_after};

fn key(fragment: &str) -> DidUrl {
    DidUrl::new(Did::parse("did:wba:example.com").unwrap(), fragment).unwrap()
}

#[test]
fn nonce_is_accepted_once_per_key() {
    let mut memory = ReplayMemory::new(10);
    let now = soon_after();
    let until = now.after(Duration::from_secs(300));
    assert_eq!(memory.remember(&key("a"), "n", until, now), Ok(()));
    assert_eq!(memory.remember(&key("a"), "n", until, now), Err(ReplayError::Seen));
    // The same nonce with another expiry is still a replay.
    assert_eq!(memory.remember(&key("a"), "n", now, now), Err(ReplayError::Seen));
    assert_eq!(memory.remember(&key("b"), "n", until, now), Ok(()));
    assert_eq!(memory.remember(&key("a"), "m", until, now), Ok(()));
    assert_eq!(memory.len(), 3);
}

#[test]
fn nonce_is_remembered_until_its_expiry() {
    let mut memory = ReplayMemory::new(10);
    let start = soon_after();
    let until = start.after(Duration::from_secs(300));
    memory.remember(&key("a"), "n", until, start).unwrap();
    for second in 0..=300 {
        let now = start.after(Duration::from_secs(second));
        assert_eq!(memory.remember(&key("a"), "n", until, now), Err(ReplayError::Seen), "{second}");
    }
    let later = start.after(Duration::from_secs(360));
    memory.remember(&key("a"), "n", later.after(Duration::from_secs(1)), later).unwrap();
    assert_eq!(memory.len(), 1);
}

#[test]
fn full_replay_memory_refuses_nonces_until_others_expire() {
    let mut memory = ReplayMemory::new(100);
    let now = soon_after();
    let until = now.after(Duration::from_secs(300));
    for at in 0..100 {
        memory.remember(&key("a"), &at.to_string(), until, now).unwrap();
    }
    assert_eq!(memory.remember(&key("a"), "more", until, now), Err(ReplayError::Full));
    assert_eq!(memory.remember(&key("a"), "7", until, now), Err(ReplayError::Seen));
    let later = now.after(Duration::from_secs(600));
    assert_eq!(memory.remember(&key("a"), "more", later, later), Ok(()));
    assert_eq!(memory.len(), 1);
    // An expiry further ahead than any signature has.
    let far = later.after(Duration::from_secs(100_000));
    assert_eq!(memory.remember(&key("a"), "far", far, later), Err(ReplayError::Full));
    // A clock that jumps back does not clear the memory.
    assert_eq!(memory.remember(&key("a"), "more", later, now), Err(ReplayError::Seen));
}

#[test]
fn token_is_valid_only_for_its_issuer_audience_and_lifetime() {
    let hour = Duration::from_secs(3600);
    let issuer = |key: &str, name: &str, place: &str| TokenIssuer::new(&signing_key(key), name, place, hour);
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

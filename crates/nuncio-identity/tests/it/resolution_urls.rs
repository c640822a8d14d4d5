//! Test vectors of `resolution_urls.json`, and DIDs that the SDK accepts and we refuse.

use nuncio_identity::{Did, DidKeyFingerprint, DidUrl};

use crate::vectors::{self, cases, text};

/// DIDs that we refuse although the SDK resolves them.
const REFUSED: &[&str] = &[
    "did:wba:example.com:a%20b",
    "did:wba:example.com:a%2Fb",
    "did:wba:example.com:..:x",
    "did:wba:",
    "did:wba:127.0.0.1%3A80:x",
    "did:web:example.com",
    "did:web:example.com:user:alice",
    "did:web:Example.com%3A8443:a",
];

#[test]
fn did_resolution_urls_match_the_vectors() {
    let mut refused = 0;
    for case in cases(&vectors::resolution_urls(), "cases", 22) {
        let text_of_did = text(&case["did"]);
        let url = case["sdk_url"].as_str();
        match Did::parse(text_of_did) {
            Ok(did) => {
                assert_eq!(Some(did.resolution_url().as_str()), url);
                let at = did.resolution_url_at("http://127.0.0.1:9000");
                assert_eq!(at, text(&case["sdk_url_with_override_http_127_0_0_1_9000"]));
                assert_eq!(did.to_string(), text_of_did);
            }
            Err(_) => {
                assert!(url.is_none() || REFUSED.contains(&text_of_did), "{text_of_did} must be read");
                refused += 1;
            }
        }
    }
    assert_eq!(refused, REFUSED.len() + 8);
}

#[test]
fn malformed_did_error_names_the_faulty_part() {
    let long = format!("did:wba:example.com:{}", "a".repeat(600));
    for (text, part) in [
        ("", "Method"),
        ("did:WBA:example.com", "Method"),
        ("did:wba", "Method"),
        ("did:web:example.com", "Method"),
        ("did:wba:Example.com", "Host"),
        ("did:wba:example.com.", "Host"),
        ("did:wba:.example.com", "Host"),
        ("did:wba:-a.example", "Host"),
        ("did:wba:例え.example", "Host"),
        ("did:wba:127.1", "Host"),
        ("did:wba:2130706433", "Host"),
        ("did:wba:0x7f000001", "Host"),
        ("did:wba:%5B%3A%3A1%5D", "Host"),
        ("did:wba:[::1]", "Host"),
        ("did:wba:user@example.com", "Host"),
        ("did:wba:example.com/a", "Host"),
        ("did:wba:example.com%2Fa", "Host"),
        ("did:wba:example.com%3A", "Port"),
        ("did:wba:example.com%3A0", "Port"),
        ("did:wba:example.com%3A080", "Port"),
        ("did:wba:example.com%3A65536", "Port"),
        ("did:wba:example.com%3A+80", "Port"),
        ("did:wba:example.com:", "Segment"),
        ("did:wba:example.com:a:", "Segment"),
        ("did:wba:example.com::a", "Segment"),
        ("did:wba:example.com:.", "Segment"),
        ("did:wba:example.com:a b", "Segment"),
        ("did:wba:example.com:a#b", "Segment"),
        ("did:wba:example.com:a?b", "Segment"),
        ("did:wba:example.com:a:e1_short", "Fingerprint"),
        ("did:wba:example.com:a:k1_", "Fingerprint"),
        (long.as_str(), "TooLong"),
    ] {
        let error = Did::parse(text).unwrap_err();
        let variant = format!("{error:?}");
        assert_eq!(variant.split('(').next(), Some(part), "{text}");
    }
}

#[test]
fn did_exposes_host_port_segments_and_fingerprint() {
    let did =
        Did::parse("did:wba:localhost%3A8443:agents:hotel:e1_kXPNjINEfsjdOuGAXyRHAam7UW6fdXqd4lMHM7wPLlw").unwrap();
    assert_eq!((did.host(), did.port()), ("localhost", Some(8443)));
    assert_eq!(did.segments().count(), 3);
    assert!(matches!(did.fingerprint(), DidKeyFingerprint::E1(_)));
    assert_eq!(did.stable_subject(), "localhost%3A8443:agents:hotel");
    let key = vectors::signing_key("ed25519:hotel");
    assert_eq!(Did::for_key("localhost", Some(8443), &["agents", "hotel"], &key).unwrap(), did);
    let bare = Did::new("example.com", None, &[]).unwrap();
    assert!(bare.is_bare());
    assert_eq!(bare.stable_subject(), "example.com");
    assert_eq!(DidUrl::parse(&did.url("key-1")).unwrap().fragment(), "key-1");
    for text in ["did:wba:example.com", "did:wba:example.com#", "did:wba:example.com#a\"b", "#key-1"] {
        assert!(DidUrl::parse(text).is_err(), "{text}");
    }
}

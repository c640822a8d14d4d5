//! Test vectors of `legacy_didwba.json`.

use nuncio_identity::legacy::{LegacyHeaderVersion, UnverifiedLegacyHeader};
use nuncio_identity::{DidAuthError, DidUrl, SignaturePolicy, VerifiedSigner, rfc3339};

use crate::vectors::{self, cases, document, key_of_document, soon_after, text};

fn verify(header: &str, host: &str, name: &str) -> Result<VerifiedSigner, DidAuthError> {
    let claim = UnverifiedLegacyHeader::from_header(header)?;
    claim.check(soon_after(), &SignaturePolicy::default())?;
    claim.verify(host, &document(name))
}

#[test]
fn legacy_didwba_headers_verify_as_marked_in_the_vectors() {
    let (mut accepted, mut parsed) = (0, 0);
    for case in cases(&vectors::legacy_didwba(), "cases", 51) {
        let name = text(&case["name"]);
        if name.starts_with("parse_") {
            assert_eq!(
                UnverifiedLegacyHeader::from_header(text(&case["header"])).is_ok(),
                case["sdk_parses"] == true,
                "{name}"
            );
            parsed += 1;
            continue;
        }
        let result = verify(text(&case["header"]), text(&case["service_domain"]), text(&case["did_document"]));
        assert_eq!(result.is_ok(), case["sdk_valid"] == true, "{name}: {result:?}");
        accepted += usize::from(result.is_ok());
    }
    assert_eq!((accepted, parsed), (9, 3));
}

#[test]
fn signing_reproduces_the_sdk_legacy_headers_byte_for_byte() {
    let mut made = 0;
    for case in cases(&vectors::legacy_didwba(), "cases", 51) {
        let name = text(&case["name"]);
        if case["deterministic"] != true || !name.ends_with("_ok") {
            continue;
        }
        let document_name = text(&case["did_document"]);
        let key_id = DidUrl::new(document(document_name).did().clone(), "key-1").unwrap();
        let version = if name.contains("v1.1") { LegacyHeaderVersion::V1_1 } else { LegacyHeaderVersion::V1_0 };
        let claim = UnverifiedLegacyHeader::make(
            &key_id,
            &key_of_document(document_name).unwrap(),
            text(&case["service_domain"]),
            "00112233445566778899aabbccddeeff",
            rfc3339::read("2026-01-01T00:00:00Z").unwrap(),
            version,
        );
        assert_eq!(claim.to_header(), text(&case["header"]));
        let json = UnverifiedLegacyHeader::from_json(&claim.to_json()).unwrap();
        assert_eq!(json.to_header(), claim.to_header());
        assert!(json.verify(text(&case["service_domain"]), &document(document_name)).is_ok());
        made += 1;
    }
    assert_eq!(made, 2);
}

#[test]
fn legacy_header_with_duplicate_member_or_bad_version_is_refused() {
    let file = vectors::legacy_didwba();
    let header = text(&file["cases"][0]["header"]);
    assert!(UnverifiedLegacyHeader::from_header(header).is_ok());
    assert!(UnverifiedLegacyHeader::from_header(&format!("{header}, nonce=\"x\"")).is_err());
    assert!(UnverifiedLegacyHeader::from_header(&format!("{header}, Bearer x")).is_err());
    assert!(UnverifiedLegacyHeader::from_header(&header.replace("v=\"1.1\"", "v=\"x\"")).is_err());
}

/// Found by fuzzing: a quote in the nonce ended its value, and the rest was read as other members.
#[test]
fn quotes_in_the_nonce_of_a_legacy_header_survive_parsing_and_writing() {
    let header = r#"DIDWba did="did:wba:example.com:alice", nonce=+"00", timestamp="t", verification_method="key-1", signature="s""#;
    let claim = UnverifiedLegacyHeader::from_header(header).unwrap();
    assert_eq!(claim.to_json()["nonce"], r#"+"00""#);
    assert_eq!(UnverifiedLegacyHeader::from_header(&claim.to_header()).unwrap().to_json(), claim.to_json());
}

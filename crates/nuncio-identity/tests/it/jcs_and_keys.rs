//! Test vectors of `jcs.json` and `keys.json`.

use nuncio_identity::keys::{KeyError, SignatureAlgorithm, VerificationMethodKey};
use nuncio_identity::{SigningKey, VerifyingKey, jcs};
use serde_json::{Value, json};

use crate::vectors::{self, cases, hex, text, verifying_key};

#[test]
fn canonical_json_matches_the_vectors() {
    for case in cases(&vectors::jcs(), "cases", 13) {
        let value: Value = serde_json::from_str(text(&case["input_json"])).unwrap();
        assert_eq!(String::from_utf8(jcs::canonical(&value)).unwrap(), text(&case["output"]), "{}", case["name"]);
    }
}

#[test]
fn key_encodings_and_thumbprints_match_the_vectors() {
    let file = vectors::keys();
    let keys = file["keys"].as_object().unwrap();
    assert_eq!(keys.len(), 9);
    for (name, key) in keys {
        match name.split_once(':').unwrap().0 {
            "ed25519" => check_ed25519(name, key),
            "secp256k1" => check_secp256k1(name, key),
            "p256" => {
                let read = verifying_key(name);
                assert_eq!(read.algorithm(), SignatureAlgorithm::P256);
                let jwk = &key["publicKeyJwk"];
                assert_eq!((&read.to_jwk()["x"], &read.to_jwk()["y"]), (&jwk["x"], &jwk["y"]));
                assert_eq!(VerifyingKey::from_multibase(&read.to_multibase()).unwrap(), read);
            }
            "x25519" => {
                let method = json!({ "publicKeyMultibase": key["publicKeyMultibase"] });
                let read = VerificationMethodKey::read("X25519KeyAgreementKey2019", method.as_object().unwrap());
                assert!(matches!(read, VerificationMethodKey::Agreement(_)), "{read:?}");
            }
            kind => panic!("no check for {kind}"),
        }
    }
}

fn check_ed25519(name: &str, key: &Value) {
    let signing = vectors::signing_key(name);
    let public = signing.public();
    assert_eq!(SigningKey::from_pem(text(&key["private_pem"])).unwrap().public(), public);
    assert_eq!(signing.to_pem(), text(&key["private_pem"]));
    assert_eq!(public, &VerifyingKey::ed25519(&hex(text(&key["public_hex"]))).unwrap());
    assert_eq!(public.to_multibase(), text(&key["publicKeyMultibase"]));
    assert_eq!(jcs::canonical(&public.to_jwk()), text(&key["thumbprint_jwk_json"]).as_bytes());
    assert_eq!(public.thumbprint(), text(&key["fingerprint"]));
    assert_eq!(signing.fingerprint(), text(&key["path_segment"]));
}

fn check_secp256k1(name: &str, key: &Value) {
    let public = verifying_key(name);
    assert_eq!(public.algorithm(), SignatureAlgorithm::Secp256k1);
    assert_eq!(jcs::canonical(&public.to_jwk()), text(&key["thumbprint_jwk_json"]).as_bytes());
    assert_eq!(public.thumbprint(), text(&key["fingerprint"]));
    assert_eq!(format!("k1_{}", public.thumbprint()), text(&key["path_segment"]));
    assert_eq!(VerifyingKey::from_multibase(&public.to_multibase()).unwrap(), public);
}

#[test]
fn key_parses_equally_from_every_encoding() {
    let key = verifying_key("ed25519:alice");
    let raw = hex(text(&vectors::keys()["keys"]["ed25519:alice"]["public_hex"]));
    let bare = bs58::encode(&raw).into_string();
    let prefixed = key.to_multibase();
    let jwk = key.to_jwk();
    for (kind, method) in [
        ("Multikey", json!({ "publicKeyMultibase": prefixed })),
        ("Multikey", json!({ "publicKeyMultibase": format!("z{bare}") })),
        ("Ed25519VerificationKey2020", json!({ "publicKeyMultibase": prefixed })),
        ("Ed25519VerificationKey2018", json!({ "publicKeyBase58": bare })),
        ("Ed25519VerificationKey2020", json!({ "publicKeyJwk": jwk })),
        ("JsonWebKey2020", json!({ "publicKeyJwk": jwk })),
    ] {
        let read = VerificationMethodKey::read(kind, method.as_object().unwrap());
        assert_eq!(read, VerificationMethodKey::Verifying(key.clone()), "{kind} {method}");
    }
    for (name, kind) in
        [("secp256k1:alice", "EcdsaSecp256k1VerificationKey2019"), ("p256:e2ee", "EcdsaSecp256r1VerificationKey2019")]
    {
        let key = verifying_key(name);
        for method in [json!({ "publicKeyJwk": key.to_jwk() }), json!({ "publicKeyMultibase": key.to_multibase() })] {
            assert_eq!(
                VerificationMethodKey::read(kind, method.as_object().unwrap()),
                VerificationMethodKey::Verifying(key.clone())
            );
        }
    }
}

#[test]
fn malformed_or_weak_keys_are_unusable() {
    let good = verifying_key("ed25519:alice");
    let jwk = |change: fn(&mut Value)| {
        let mut jwk = verifying_key("ed25519:alice").to_jwk();
        change(&mut jwk);
        json!({ "publicKeyJwk": jwk })
    };
    let padded = format!("{}=", text(&good.to_jwk()["x"]));
    for (kind, method) in [
        ("Multikey", json!({})),
        ("Multikey", json!({ "publicKeyMultibase": good.to_multibase(), "publicKeyJwk": good.to_jwk() })),
        ("Multikey", json!({ "publicKeyMultibase": 7 })),
        ("Multikey", json!({ "publicKeyMultibase": "z" })),
        ("Multikey", json!({ "publicKeyMultibase": "u6Mkuvh7hm" })),
        ("Multikey", json!({ "publicKeyMultibase": "z".repeat(100_000) })),
        ("JsonWebKey2020", json!({ "publicKeyMultibase": good.to_multibase() })),
        ("JsonWebKey2020", json!({ "publicKeyJwk": verifying_key("p256:e2ee").to_jwk() })),
        ("JsonWebKey2020", jwk(|jwk| jwk["d"] = json!("AAAA"))),
        ("JsonWebKey2020", jwk(|jwk| jwk["x"] = json!("AAAA"))),
        ("JsonWebKey2020", json!({ "publicKeyJwk": { "kty": "OKP", "crv": "Ed25519", "x": padded } })),
        ("Ed25519VerificationKey2020", json!({ "publicKeyMultibase": verifying_key("p256:e2ee").to_multibase() })),
        ("EcdsaSecp256k1VerificationKey2019", json!({ "publicKeyJwk": verifying_key("p256:e2ee").to_jwk() })),
        ("RsaVerificationKey2018", json!({ "publicKeyJwk": good.to_jwk() })),
    ] {
        let read = VerificationMethodKey::read(kind, method.as_object().unwrap());
        assert!(matches!(read, VerificationMethodKey::Unusable(_)), "{kind}: {read:?}");
    }
    // The neutral element and another point of small order: signatures under such keys prove nothing.
    let mut one = [0; 32];
    one[0] = 1;
    for weak in [one, [0; 32]] {
        assert_eq!(VerifyingKey::ed25519(&weak), Err(KeyError::Point("Ed25519")));
    }
}

#[test]
fn pkcs8_with_mismatched_public_key_is_refused() {
    let alice = hex("981fc026e020673be2da7d247b9b35f6079fd3dffe2d8d9e765f64d0a60e127d");
    let public = |key: &str| hex(text(&vectors::keys()["keys"][key]["public_hex"]));
    let version_2 =
        |public: Vec<u8>| [hex("3051020101300506032b657004220420"), alice.clone(), hex("812100"), public].concat();
    assert!(SigningKey::from_pkcs8(&version_2(public("ed25519:alice"))).is_ok());
    assert!(SigningKey::from_pkcs8(&version_2(public("ed25519:bob"))).is_err());
    assert!(SigningKey::from_pem("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----").is_err());
}

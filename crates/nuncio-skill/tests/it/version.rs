//! Tests of the version compatibility rule (§6.3).

use nuncio_skill::validate::{ProtocolVersionRule, check, compatibility, declared_protocol};
use nuncio_skill::wire::{ErrorResponse, SkillErrorCode, SkillVersion};
use proptest::prelude::*;
use serde_json::json;

use crate::sample::{descriptor, example};

fn version(major: u64, minor: u64, patch: u64) -> SkillVersion {
    SkillVersion { major, minor, patch }
}

#[test]
fn higher_major_is_incompatible_and_same_major_rule_refuses_every_other_major() {
    for descriptor in 0..=3 {
        for consumer in 0..=3 {
            let (older, newer) = (version(descriptor, 0, 0), version(consumer, 0, 0));
            assert_eq!(compatibility(older, newer).is_ok(), descriptor <= consumer, "{older} for {newer}");
            let same = ProtocolVersionRule::SameMajor.check(older, newer);
            assert_eq!(same.is_ok(), descriptor == consumer, "{older} for {newer}");
        }
    }
}

proptest! {
    #[test]
    fn minor_and_patch_do_not_affect_compatibility(majors in (0_u64..4, 0_u64..4), rest in any::<[u64; 4]>()) {
        let one = version(majors.0, rest[0], rest[1]);
        let other = version(majors.1, rest[2], rest[3]);
        let plain = (version(majors.0, 0, 0), version(majors.1, 0, 0));
        prop_assert_eq!(compatibility(one, other).is_ok(), compatibility(plain.0, plain.1).is_ok());
    }
}

#[test]
fn incompatibility_error_has_all_specified_details() {
    let mut error = compatibility(version(2, 0, 0), version(1, 5, 0)).unwrap_err();
    let sample: ErrorResponse = serde_json::from_value(example(886)).unwrap();
    let ours = ErrorResponse::new(SkillErrorCode::VersionIncompatible, error.to_string()).with_details(error.details());
    assert_eq!((ours.error.code, &ours.error.message), (sample.error.code, &sample.error.message));
    let details = ours.error.details.unwrap();
    for (name, value) in sample.error.details.unwrap().as_object().unwrap() {
        assert_eq!(&details[name], value, "{name}");
    }
    assert_eq!(details["consumer_supported_range"], ">=0.0.0 <2.0.0");
    assert_eq!(details.get("upgrade_url"), None);
    error.upgrade_url = Some("https://example.com/changelog".to_owned());
    assert_eq!(error.details()["upgrade_url"], "https://example.com/changelog");
    let strict = ProtocolVersionRule::SameMajor.check(version(1, 5, 0), version(2, 0, 0)).unwrap_err();
    assert_eq!(strict.details()["consumer_supported_range"], ">=2.0.0 <3.0.0");
    assert_eq!(ProtocolVersionRule::Seed.range(version(u64::MAX, 0, 0)), ">=0.0.0");
}

#[test]
fn descriptor_version_and_protocol_version_must_be_three_numbers() {
    for (text, good) in [
        ("1.0.0", true),
        ("0.1.0", true),
        ("10.20.30", true),
        ("v1.0.0", false),
        ("1.0", false),
        ("01.0.0", false),
        ("1.0.0-rc.1", false),
        ("1.0.0+b", false),
        ("", false),
        ("-1.0.0", false),
        ("1.0.0.0", false),
        ("99999999999999999999.0.0", false),
    ] {
        for path in ["/version", "/protocol/version"] {
            let mut document = descriptor();
            *document.pointer_mut(path).unwrap() = json!(text);
            let report = check(nuncio_skill::validate::SkillDocumentType::SkillDescriptor, &document);
            assert_eq!(report.valid, good, "{text:?} at {path}: {report}");
            assert!(good || report.errors[0].path == path, "{report}");
        }
    }
}

#[test]
fn protocol_version_is_read_even_from_an_otherwise_invalid_document() {
    let newer = json!({"protocol": {"version": "2.1.0"}, "everything": "else"});
    assert_eq!(declared_protocol(&newer), Some(version(2, 1, 0)));
    assert_eq!(declared_protocol(&json!({"protocol": {"version": 2}})), None);
    assert_eq!(declared_protocol(&json!([])), None);
}

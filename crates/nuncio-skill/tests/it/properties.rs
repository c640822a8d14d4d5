//! Property tests: properties P1 to P5 of the specification, and validation of arbitrary bytes.

use std::collections::{BTreeMap, BTreeSet};

use nuncio_skill::validate::{self, SkillDocumentType, check, parse, parse_as, parse_value, validate, validate_as};
use nuncio_skill::wire::{
    AccessPolicy, AuthConfig, AuthType, CapabilityType, CustomAuth, EndpointRetry, ErrorResponse, ExecutionStatus,
    IndexProvider, InvocationEndpoint, InvocationRequest, InvocationResponse, LenientNumber, OAuth2Config,
    OutputDefinition, ParameterDefinition, Priority, ProtocolVersion, Provider, SkillDescriptor, SkillHttpMethod,
    SkillIndex, SkillIndexEntry, SkillVersion,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use crate::sample::{changed, descriptor, example, index, whole};

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e300..1e300_f64).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(".{0,4}", inner, 0..4).prop_map(|map| map.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

/// Strategy for fields that the protocol does not define.
fn extra() -> impl Strategy<Value = Map<String, Value>> {
    btree_map("x_.{0,4}", value(), 0..2).prop_map(|map| map.into_iter().collect())
}

fn text() -> impl Strategy<Value = String> {
    ".{0,12}"
}

fn url() -> impl Strategy<Value = String> {
    "https?://[a-z]{1,8}\\.example(:[1-9][0-9]{0,3})?(/[a-z~%20{}_-]{0,8}){0,2}(\\?[a-z=&]{0,6})?"
}

fn version() -> impl Strategy<Value = SkillVersion> {
    any::<(u64, u64, u64)>().prop_map(|(major, minor, patch)| SkillVersion { major, minor, patch })
}

fn time() -> impl Strategy<Value = String> {
    let zone = select(vec!["Z", "+00:00", "-07:00", ".5Z", ".123456+01:00"]);
    (1970..2100_u32, 1..=12_u32, 1..=28_u32, 0..24_u32, 0..60_u32, zone).prop_map(
        |(year, month, day, hour, minute, zone)| format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:00{zone}"),
    )
}

fn quantity() -> impl Strategy<Value = LenientNumber> {
    let number = prop_oneof![any::<u64>().prop_map(Value::from), (-1e9..1e9_f64).prop_map(Value::from)];
    number.prop_map(|number| serde_json::from_value(number).unwrap())
}

fn schema() -> impl Strategy<Value = Map<String, Value>> {
    let kind = select(vec!["string", "number", "object", "array"]);
    (kind, extra()).prop_map(|(kind, mut schema)| {
        schema.insert("type".to_owned(), kind.into());
        schema
    })
}

fn parameter() -> impl Strategy<Value = ParameterDefinition> {
    let kind = prop_oneof![select(vec!["string", "number", "object"]).prop_map(str::to_owned), text()];
    (text(), kind, text(), any::<bool>(), option::of(value()), option::of(schema()), extra()).prop_map(
        |(name, r#type, description, required, default, schema, extra)| ParameterDefinition {
            name,
            r#type,
            description,
            required,
            default,
            schema,
            extra,
        },
    )
}

fn auth() -> impl Strategy<Value = AuthConfig> {
    let oauth2 = (url(), url(), btree_map(text(), text(), 0..3), extra()).prop_map(
        |(authorization_url, token_url, scopes, extra)| OAuth2Config { authorization_url, token_url, scopes, extra },
    );
    let custom = (text(), option::of(vec(parameter(), 0..2)), extra())
        .prop_map(|(instructions, parameters, extra)| CustomAuth { instructions, parameters, extra });
    let parts = (select(AuthType::ALL.to_vec()), option::of(text()), option::of(text()), oauth2, custom, any::<bool>());
    (parts, extra()).prop_map(|((r#type, description, header, oauth2, custom, both), extra)| AuthConfig {
        r#type,
        description,
        header,
        oauth2: (both || r#type == AuthType::OAuth2).then_some(oauth2),
        custom: (both || r#type == AuthType::Custom).then_some(custom),
        extra,
    })
}

fn endpoint() -> impl Strategy<Value = InvocationEndpoint> {
    let retry = (quantity(), quantity(), extra()).prop_map(|(max_attempts, backoff_ms, extra)| EndpointRetry {
        max_attempts,
        backoff_ms,
        extra,
    });
    let urls = (url(), option::of(url()), option::of(url()));
    let method = select(SkillHttpMethod::ALL.to_vec());
    (urls, method, option::of(text()), option::of(quantity()), option::of(retry), extra()).prop_map(
        |((url, status_url, result_url), method, content_type, timeout_ms, retry, extra)| InvocationEndpoint {
            url,
            method,
            content_type,
            status_url,
            result_url,
            timeout_ms,
            retry,
            extra,
        },
    )
}

/// Strategy for conforming descriptors.
fn any_descriptor() -> impl Strategy<Value = SkillDescriptor> {
    let protocol = (version(), option::of(url()), extra())
        .prop_map(|(version, changelog_url, extra)| ProtocolVersion { version, changelog_url, extra });
    let provider = (text(), option::of(url()), option::of(text()), extra())
        .prop_map(|(name, url, contact, extra)| Provider { name, url, contact, extra });
    let output = (text(), option::of(schema()), option::of(text()), extra()).prop_map(
        |(content_type, schema, description, extra)| OutputDefinition { content_type, schema, description, extra },
    );
    let names = ("[a-z]{1,8}/[a-z-]{1,8}", text(), version(), text());
    let words = (select(CapabilityType::ALL.to_vec()), select(AccessPolicy::ALL.to_vec()));
    let parts = (endpoint(), vec(parameter(), 0..3), output, auth());
    let rest = (option::of(vec(text(), 0..3)), option::of(url()), option::of(time()), option::of(time()));
    (protocol, provider, names, words, parts, rest, extra()).prop_map(
        |(protocol, provider, (id, name, version, description), (capability_type, access), parts, rest, extra)| {
            let (endpoint, inputs, output, auth) = parts;
            let (tags, documentation_url, created_at, updated_at) = rest;
            SkillDescriptor {
                protocol,
                id,
                name,
                version,
                capability_type,
                description,
                provider,
                endpoint,
                inputs,
                output,
                auth,
                access,
                tags,
                documentation_url,
                created_at,
                updated_at,
                extra,
            }
        },
    )
}

fn index_of(ids: &[String]) -> SkillIndex {
    let template: SkillIndexEntry = serde_json::from_value(index()["skills"][0].clone()).unwrap();
    SkillIndex {
        protocol: nuncio_skill::wire::PROTOCOL_VERSION.into(),
        provider: IndexProvider { name: "n".to_owned(), url: None, extra: Map::new() },
        skills: ids.iter().map(|id| SkillIndexEntry { id: id.clone(), ..template.clone() }).collect(),
        extra: Map::new(),
    }
}

fn valid_index(ids: &[String]) -> bool {
    validate_as(SkillDocumentType::SkillIndex, validate::pretty(&index_of(ids)).as_bytes()).valid
}

/// Pointers to enumeration values in documents, with the allowed values.
fn closed_lists() -> Vec<(SkillDocumentType, Value, &'static str, BTreeSet<&'static str>)> {
    let whole = descriptor();
    vec![
        (
            SkillDocumentType::SkillDescriptor,
            whole.clone(),
            "/capability_type",
            CapabilityType::ALL.map(CapabilityType::as_str).into(),
        ),
        (
            SkillDocumentType::SkillDescriptor,
            whole.clone(),
            "/access",
            AccessPolicy::ALL.map(AccessPolicy::as_str).into(),
        ),
        (
            SkillDocumentType::SkillDescriptor,
            whole.clone(),
            "/endpoint/method",
            SkillHttpMethod::ALL.map(SkillHttpMethod::as_str).into(),
        ),
        (SkillDocumentType::SkillDescriptor, whole, "/auth/type", AuthType::ALL.map(AuthType::as_str).into()),
        (
            SkillDocumentType::InvocationRequest,
            example(497),
            "/context/priority",
            Priority::ALL.map(Priority::as_str).into(),
        ),
        (
            SkillDocumentType::InvocationResponse,
            example(1016),
            "/status",
            ExecutionStatus::ALL.map(ExecutionStatus::as_str).into(),
        ),
    ]
}

proptest! {
    /// Properties P1, P3 and half of P4 of the specification: a conforming descriptor is accepted and round-trips.
    #[test]
    fn conforming_descriptor_is_valid_and_round_trips(descriptor in any_descriptor()) {
        let text = validate::serialize(&descriptor);
        let report = validate(text.as_bytes());
        prop_assert!(report.valid, "{}", report);
        prop_assert_eq!(&parse(text.as_bytes()).unwrap(), &descriptor);
        prop_assert!(SkillDocumentType::SkillDescriptor.fits_schema(&serde_json::from_str(&text).unwrap()));
        // The serialised text is stable over a second round trip.
        prop_assert_eq!(validate::serialize(&parse(text.as_bytes()).unwrap()), text);
    }

    /// Property P1 of the specification: a descriptor without a required field is invalid.
    #[test]
    fn missing_required_descriptor_field_is_reported_with_its_path(descriptor in any_descriptor(), index in 0_usize..12) {
        let mut document = serde_json::to_value(&descriptor).unwrap();
        let schema = nuncio_skill::schema::json_definitions();
        let name = schema["SkillDescriptor"]["required"][index].as_str().unwrap();
        document.as_object_mut().unwrap().shift_remove(name);
        let report = check(SkillDocumentType::SkillDescriptor, &document);
        prop_assert!(report.errors.iter().any(|fault| fault.path == format!("/{name}")), "{}", report);
    }

    /// Property P2 of the specification: enumerations accept no other value, not even one that differs only in case.
    #[test]
    fn value_outside_an_enumeration_is_reported_as_a_fault(word in "[A-Za-z_2]{0,10}", upper in any::<bool>()) {
        for (kind, document, path, allowed) in closed_lists() {
            let near = allowed.iter().map(|word| if upper { word.to_uppercase() } else { format!("{word} ") });
            for word in near.chain([word.clone()]).filter(|word| !allowed.contains(word.as_str())) {
                let mut document = document.clone();
                *document.pointer_mut(path).unwrap() = json!(word);
                let report = check(kind, &document);
                let fault = report.errors.iter().find(|fault| fault.path == path);
                prop_assert_eq!(&fault.unwrap().actual, &json!(word));
            }
        }
    }

    /// Property P4 of the specification: an invalid document is refused, and the fault names its path.
    #[test]
    fn descriptor_field_of_wrong_type_is_reported_once_with_its_path(descriptor in any_descriptor(), index in 0_usize..16) {
        let mut document = serde_json::to_value(&descriptor).unwrap();
        let map = document.as_object_mut().unwrap();
        let names: Vec<_> = map.keys().filter(|name| !name.starts_with("x_")).cloned().collect();
        let name = &names[index % names.len()];
        map.insert(name.clone(), json!(12));
        let report = check(SkillDocumentType::SkillDescriptor, &document);
        let at = format!("/{name}");
        let of_it: Vec<_> = report.errors.iter().filter(|fault| fault.path == at).collect();
        prop_assert_eq!(of_it.len(), 1, "{}", &report);
    }

    /// Property P5 of the specification: an index is valid exactly if its ids are distinct.
    #[test]
    fn index_is_valid_only_with_distinct_ids(ids in btree_set(".{0,6}", 1..6), twice in any::<prop::sample::Index>()) {
        let mut ids: Vec<_> = ids.into_iter().collect();
        prop_assert!(valid_index(&ids));
        ids.push(twice.get(&ids).clone());
        prop_assert!(!valid_index(&ids));
    }

    #[test]
    fn validation_and_parsing_agree_on_any_json(document in value()) {
        check_all_kinds(&document)?;
    }

    #[test]
    fn validation_and_parsing_agree_on_almost_valid_documents(which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), odd in value()) {
        let documents = whole();
        let (_, document) = which.get(&documents);
        let mut document = document.clone();
        let map = document.as_object_mut().unwrap();
        let names: Vec<_> = map.keys().cloned().collect();
        map.insert(at.get(&names).clone(), odd);
        check_all_kinds(&document)?;
    }

    #[test]
    fn validation_and_parsing_agree_on_any_bytes(bytes in vec(any::<u8>(), 0..200), cut in any::<prop::sample::Index>()) {
        for kind in SkillDocumentType::ALL {
            let report = validate_as(kind, &bytes);
            prop_assert_eq!(report.valid, report.errors.is_empty());
        }
        let text = descriptor().to_string();
        let mut broken = text.as_bytes()[..cut.index(text.len())].to_vec();
        broken.extend(bytes);
        prop_assert_eq!(validate(&broken).valid, parse(&broken).is_ok());
    }
}

/// Checks for every document type that validation and parsing of the document agree.
fn check_all_kinds(document: &Value) -> Result<(), TestCaseError> {
    SkillDocumentType::ALL.into_iter().try_for_each(|kind| check_kind(kind, document))
}

fn check_kind(kind: SkillDocumentType, document: &Value) -> Result<(), TestCaseError> {
    let report = check(kind, document);
    prop_assert_eq!(report.valid, report.errors.is_empty());
    prop_assert!(!report.valid || kind.fits_schema(document));
    let read = match kind {
        SkillDocumentType::SkillDescriptor => {
            parse_value::<SkillDescriptor>(document.clone()).map(|typed| json!(typed))
        }
        SkillDocumentType::SkillIndex => parse_value::<SkillIndex>(document.clone()).map(|typed| json!(typed)),
        SkillDocumentType::InvocationRequest => {
            parse_value::<InvocationRequest>(document.clone()).map(|typed| json!(typed))
        }
        SkillDocumentType::InvocationResponse => {
            parse_value::<InvocationResponse>(document.clone()).map(|typed| json!(typed))
        }
        SkillDocumentType::ErrorResponse => parse_value::<ErrorResponse>(document.clone()).map(|typed| json!(typed)),
    };
    prop_assert_eq!(report.valid, read.is_ok());
    if let Ok(written) = read {
        prop_assert_eq!(&written, document);
    }
    Ok(())
}

#[test]
fn validation_and_parsing_agree_on_systematically_changed_examples() {
    let mut verdicts = BTreeMap::new();
    for (kind, document) in whole() {
        for other in changed(&document) {
            check_kind(kind, &other).unwrap();
            *verdicts.entry(check(kind, &other).valid).or_insert(0) += 1;
        }
    }
    assert!(verdicts[&true] > 500 && verdicts[&false] > 1000, "{verdicts:?}");
    assert!(parse_as::<SkillIndex>(b"[]").is_err());
}

//! Property tests of the validator and parsers with changed documents and requests.

use nuncio_anp::validate::{self, AnpDocumentType};
use nuncio_anp::wire::{AgentDescription, AnpRequest, CollectionPage, OpenRpc, Product};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::example;

/// Collects the JSON pointers of all members of a value.
fn places(value: &Value, path: &str, found: &mut Vec<String>) {
    let members: Vec<(String, &Value)> = match value {
        Value::Object(object) => {
            object.iter().map(|(name, value)| (nuncio_core::json::pointer(path, name), value)).collect()
        }
        Value::Array(items) => items.iter().enumerate().map(|(n, value)| (format!("{path}/{n}"), value)).collect(),
        _ => Vec::new(),
    };
    for (path, value) in members {
        found.push(path.clone());
        places(value, &path, found);
    }
}

fn wrong() -> Vec<Option<Value>> {
    let values = [
        json!(null),
        json!(true),
        json!(-7),
        json!(0.5),
        json!(""),
        json!("x"),
        json!("https://a.example/"),
        json!([]),
        json!([1]),
        json!(["didwba_sc"]),
        json!([{}]),
        json!({}),
        json!({"a": 1}),
        json!("auto"),
        json!("Product"),
    ];
    values.into_iter().map(Some).chain([None]).collect()
}

fn set(document: &mut Value, path: &str, value: Option<Value>) {
    let Some((above, name)) = path.rsplit_once('/') else { return };
    let name = name.replace("~1", "/").replace("~0", "~");
    match (document.pointer_mut(above), value) {
        (Some(Value::Object(object)), Some(value)) => drop(object.insert(name, value)),
        (Some(Value::Object(object)), None) => drop(object.shift_remove(&name)),
        (Some(Value::Array(items)), Some(value)) => {
            if let Some(item) = name.parse::<usize>().ok().and_then(|at| items.get_mut(at)) {
                *item = value;
            }
        }
        _ => {}
    }
}

/// Example documents of the specifications, one of them extended, and a collection page of our own.
fn documents() -> Vec<(AnpDocumentType, Value)> {
    let page = json!({
        "@type": "CollectionPage", "url": "https://a.example/x", "next": "https://a.example/y",
        "items": [{"@type": "ad:AgentDescription", "name": "A", "@id": "https://a.example/ad.json"}],
    });
    let mut whole = example("description");
    whole["interfaces"][3]["content"] = example("openrpc");
    whole["interfaces"][0]["content"] = json!({"yaml": true});
    whole["Infomations"][0]["content"] = json!({"@type": "Product"});
    vec![
        (AnpDocumentType::AgentDescription, whole),
        (AnpDocumentType::AgentDescription, example("negotiating_description")),
        (AnpDocumentType::OpenRpc, example("openrpc")),
        (AnpDocumentType::Product, example("product")),
        (AnpDocumentType::CollectionPage, page),
    ]
}

/// Strategy for example documents with a few random changes.
fn any_document() -> impl Strategy<Value = (AnpDocumentType, Value)> {
    let changed = |(kind, document): (AnpDocumentType, Value)| {
        let mut found = Vec::new();
        places(&document, "", &mut found);
        let change = (proptest::sample::select(found), proptest::sample::select(wrong()));
        (Just(kind), Just(document), proptest::collection::vec(change, 0..4))
    };
    proptest::sample::select(documents()).prop_flat_map(changed).prop_map(|(kind, mut document, changes)| {
        changes.into_iter().for_each(|(path, value)| set(&mut document, &path, value));
        (kind, document)
    })
}

fn reads(kind: AnpDocumentType, document: &Value) -> bool {
    fn as_type<T: DeserializeOwned + Serialize>(document: &Value) -> bool {
        let read = serde_json::from_value::<T>(document.clone());
        // No member is lost when the document is written back.
        read.is_ok_and(|read| serde_json::to_value(read).is_ok_and(|written| written == *document))
    }
    if !validate::validate(kind, document.to_string().as_bytes()).valid {
        return false;
    }
    match kind {
        AnpDocumentType::AgentDescription => as_type::<AgentDescription>(document),
        AnpDocumentType::OpenRpc => as_type::<OpenRpc>(document),
        AnpDocumentType::Product => as_type::<Product>(document),
        AnpDocumentType::CollectionPage => as_type::<CollectionPage>(document),
    }
}

/// Checks that exactly the valid documents round-trip, and that every fault points to an existing location.
fn holds(kind: AnpDocumentType, document: &Value) -> Result<(), TestCaseError> {
    let report = validate::check(kind, document);
    prop_assert_eq!(report.valid, reads(kind, document), "{}\n{}", report, document);
    for fault in report.errors.iter().chain(&report.warnings).filter(|fault| !fault.message.starts_with("is missing")) {
        prop_assert!(document.pointer(&fault.path).is_some(), "{} is nowhere: {}", fault.path, fault.message);
    }
    Ok(())
}

#[test]
fn validator_and_parser_agree_on_examples_with_any_single_change() {
    let mut broken = Vec::new();
    for (kind, document) in documents() {
        let mut found = Vec::new();
        places(&document, "", &mut found);
        // The embedded document is tested separately.
        for path in found.into_iter().filter(|path| !path.starts_with("/interfaces/3/content/")) {
            for value in wrong() {
                let mut changed = document.clone();
                set(&mut changed, &path, value.clone());
                if holds(kind, &changed).is_err() {
                    broken.push(format!("{} {path}: {value:?}", kind.as_str()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{} changes:\n{}", broken.len(), broken.join("\n"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn validator_and_parser_agree_on_examples_with_random_changes((kind, document) in any_document()) {
        holds(kind, &document)?;
    }

    #[test]
    fn randomly_changed_request_is_refused_or_round_trips(
        path in 0..64_usize,
        value in proptest::sample::select(wrong()),
        cut in 0..2000_usize,
    ) {
        let mut request = example("negotiate_request");
        let mut found = Vec::new();
        places(&request, "", &mut found);
        let path = found[path % found.len()].clone();
        set(&mut request, &path, value);
        let text = request.to_string();
        if let Ok(read) = AnpRequest::read(text.as_bytes()) {
            prop_assert_eq!(read.to_json(), request);
        }
        let end = cut.min(text.len());
        if end < text.len() {
            prop_assert!(AnpRequest::read(&text.as_bytes()[..end]).is_err());
        }
    }
}

#[test]
fn generated_test_documents_include_valid_and_invalid_ones() {
    use proptest::strategy::{Strategy as _, ValueTree as _};
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let valid = (0..300).filter(|_| {
        let (kind, document) = any_document().new_tree(&mut runner).unwrap().current();
        validate::check(kind, &document).valid
    });
    let valid = valid.count();
    assert!((50..250).contains(&valid), "{valid} of 300 are valid");
}

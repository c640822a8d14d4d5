//! Property tests: the shape check agrees with the published schema on generated documents with random faults.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Strategy for values of the shape, with occasional values of another type.
fn value_of(shape: &ValueShape) -> BoxedStrategy<Value> {
    let one_of = |allowed: &[&'static str]| proptest::sample::select(allowed.to_vec()).prop_map(Value::from).boxed();
    let right = match shape {
        ValueShape::Text => "[a-z]{0,3}".prop_map(Value::from).boxed(),
        ValueShape::Number => prop_oneof![any::<i32>().prop_map(Value::from), Just(json!(0.5))].boxed(),
        ValueShape::Boolean => any::<bool>().prop_map(Value::from).boxed(),
        ValueShape::Enum(allowed) => one_of(allowed),
        ValueShape::List(item) => vec(value_of(item), 0..3).prop_map(Value::from).boxed(),
        ValueShape::Record(item) => {
            let members = btree_map("[a-z/~]{0,3}", value_of(item), 0..3);
            members.prop_map(|map| map.into_iter().collect::<Map<_, _>>().into()).boxed()
        }
        ValueShape::Nested(definition) => object(definition),
        ValueShape::Reference(name) => match published(name).unwrap() {
            PublishedSchemaDefinition::Object(definition, _) => object(definition),
            PublishedSchemaDefinition::Enum(definition) => one_of(&definition.values),
        },
        ValueShape::Unknown => wrong().boxed(),
    };
    prop_oneof![60 => right, 1 => wrong()].boxed()
}

fn object(definition: &ObjectDefinition) -> BoxedStrategy<Value> {
    let mut members: BoxedStrategy<Map<String, Value>> = Just(Map::new()).boxed();
    for field in &definition.fields {
        let name = field.name;
        let is_there = proptest::bool::weighted(if field.required { 0.98 } else { 0.4 });
        members = (members, value_of(&field.shape), is_there)
            .prop_map(move |(mut map, value, is_there)| {
                if is_there {
                    map.insert(name.to_owned(), value);
                }
                map
            })
            .boxed();
    }
    (members, proptest::bool::weighted(0.1))
        .prop_map(|(mut map, more)| {
            if more {
                map.insert("more".to_owned(), json!([null]));
            }
            map.into()
        })
        .boxed()
}

fn wrong() -> impl Strategy<Value = Value> {
    proptest::sample::select(vec![json!(null), json!(true), json!(7), json!("x"), json!([]), json!([{}]), json!({})])
}

fn any_document() -> impl Strategy<Value = (SkillDocumentType, Value)> {
    proptest::sample::select(SkillDocumentType::ALL.to_vec()).prop_flat_map(|kind| {
        let shape = match kind {
            SkillDocumentType::ErrorResponse => ValueShape::Nested(ErrorResponse::definition()),
            _ => ValueShape::Reference(kind.as_str()),
        };
        (Just(kind), value_of(&shape))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn shape_check_and_json_schema_accept_the_same_documents((kind, document) in any_document()) {
        let (errors, _) = check_shape(kind, &document);
        prop_assert_eq!(errors.is_empty(), kind.fits_schema(&document), "{}: {:?}", document, errors);
        for fault in errors.iter().filter(|fault| fault.actual != MISSING) {
            prop_assert!(document.pointer(&fault.path).is_some(), "{} is nowhere", fault.path);
        }
    }
}

#[test]
fn generated_test_documents_include_valid_and_invalid_ones() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let valid = (0..500).filter(|_| {
        let (kind, document) = any_document().new_tree(&mut runner).unwrap().current();
        kind.fits_schema(&document)
    });
    let valid = valid.count();
    assert!((50..450).contains(&valid), "{valid} of 500 are valid");
}

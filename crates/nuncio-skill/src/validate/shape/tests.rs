//! The walk and the schema are of one mind, on documents made from the definitions with faults strewn in.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Something of the shape; now and then something else.
fn made(shape: &Shape) -> BoxedStrategy<Value> {
    let right = match resolve(shape) {
        Resolved::Scalar("string") => "[a-z]{0,3}".prop_map(Value::from).boxed(),
        Resolved::Scalar("number") => prop_oneof![any::<i32>().prop_map(Value::from), Just(json!(0.5))].boxed(),
        Resolved::Scalar(_) => any::<bool>().prop_map(Value::from).boxed(),
        Resolved::Words(words) => proptest::sample::select(words.all()).prop_map(Value::from).boxed(),
        Resolved::List(item) => vec(made(item), 0..3).prop_map(Value::from).boxed(),
        Resolved::Record(item) => {
            let members = btree_map("[a-z/~]{0,3}", made(item), 0..3);
            members.prop_map(|map| map.into_iter().collect::<Map<_, _>>().into()).boxed()
        }
        Resolved::Object(definition, _) => object(definition),
        Resolved::Unknown => wrong().boxed(),
    };
    prop_oneof![60 => right, 1 => wrong()].boxed()
}

fn object(definition: &Definition) -> BoxedStrategy<Value> {
    let mut members: BoxedStrategy<Map<String, Value>> = Just(Map::new()).boxed();
    for field in &definition.fields {
        let name = field.name;
        let is_there = proptest::bool::weighted(if field.required { 0.98 } else { 0.4 });
        members = (members, made(&field.shape), is_there)
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

fn any_document() -> impl Strategy<Value = (Kind, Value)> {
    proptest::sample::select(Kind::ALL.to_vec()).prop_flat_map(|kind| {
        let shape = match kind {
            Kind::ErrorResponse => Shape::Nested(ErrorResponse::definition()),
            _ => Shape::Named(kind.name()),
        };
        (Just(kind), made(&shape))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_walk_finds_a_fault_exactly_when_the_schema_refuses((kind, document) in any_document()) {
        let (errors, _) = walk(kind, &document);
        prop_assert_eq!(errors.is_empty(), kind.fits_schema(&document), "{}: {:?}", document, errors);
        for fault in errors.iter().filter(|fault| fault.actual != MISSING) {
            prop_assert!(document.pointer(&fault.path).is_some(), "{} is nowhere", fault.path);
        }
    }
}

#[test]
fn the_documents_made_are_of_both_sorts() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let valid = (0..500).filter(|_| {
        let (kind, document) = any_document().new_tree(&mut runner).unwrap().current();
        kind.fits_schema(&document)
    });
    let valid = valid.count();
    assert!((50..450).contains(&valid), "{valid} of 500 are valid");
}

//! Pairs of schemas judged compatible have no counterexample: random pairs, and all values of small domains.

use nuncio_judge::schema::{ComparisonBudget, ComparisonOutcome, compare};
use serde_json::Value;

use super::schema_maker::RandomSchemaGenerator;
use super::schema_worlds::ConstrainedType;

fn validator(schema: &Value) -> jsonschema::Validator {
    jsonschema::options().with_draft(jsonschema::Draft::Draft202012).offline().build(schema).unwrap()
}

#[test]
fn no_random_value_refutes_schemas_judged_compatible() {
    let (mut compatible, mut breaking, mut unknown) = (0, 0, 0);
    for seed in 0..600 {
        let mut maker = RandomSchemaGenerator::new(seed);
        let (old, new) = maker.pair(2);
        // A schema that refers to itself directly has no meaning and makes validators overflow.
        if old.to_string().contains("\"$ref\":\"#\"") || new.to_string().contains("\"$ref\":\"#\"") {
            continue;
        }
        match compare(&old, &new, ComparisonBudget::default()).outcome {
            ComparisonOutcome::Breaking => breaking += 1,
            ComparisonOutcome::Unknown => unknown += 1,
            ComparisonOutcome::Compatible => {
                compatible += 1;
                let (before, after) = (validator(&old), validator(&new));
                for round in 0..120 {
                    let value = match round % 4 {
                        0 => maker.value(2),
                        1 => maker.fitting(&new, &new, 4),
                        _ => maker.fitting(&old, &old, 4),
                    };
                    assert!(
                        !before.is_valid(&value) || after.is_valid(&value),
                        "seed {seed}: {value} refutes {old} => {new}"
                    );
                }
            }
        }
    }
    assert!(compatible > 150 && breaking > 150, "too few compatible or breaking pairs: {compatible} {breaking}");
    assert!(unknown * 100 <= compatible, "{unknown} undecided of {compatible} compatible");
}

#[test]
fn no_value_of_a_small_domain_refutes_schemas_judged_compatible() {
    for world in ConstrainedType::ALL {
        let values = world.values();
        let (mut settled, mut unknown) = (0, 0);
        for seed in 0..250 {
            let mut maker = RandomSchemaGenerator::new(seed);
            let (old, new) = (world.schema(&mut maker, 2), world.schema(&mut maker, 2));
            match compare(&old, &new, ComparisonBudget::default()).outcome {
                ComparisonOutcome::Breaking => settled += 1,
                ComparisonOutcome::Unknown => unknown += 1,
                ComparisonOutcome::Compatible => {
                    settled += 1;
                    let (before, after) = (validator(&old), validator(&new));
                    for value in &values {
                        assert!(
                            !before.is_valid(value) || after.is_valid(value),
                            "{world:?} seed {seed}: {value} refutes {old} => {new}"
                        );
                    }
                }
            }
        }
        assert!(unknown * 50 <= settled, "{world:?}: {unknown} undecided, {settled} settled");
    }
}

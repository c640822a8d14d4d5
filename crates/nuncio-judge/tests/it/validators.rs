//! Validation by two independent libraries.

use serde_json::Value;

/// Whether a value is valid under a schema; both libraries must agree.
pub(crate) fn is_valid(schema: &Value, value: &Value) -> bool {
    let one = jsonschema::options()
        .with_draft(jsonschema::Draft::Draft202012)
        .offline()
        .with_pattern_options(jsonschema::PatternOptions::regex())
        .build(schema)
        .unwrap()
        .is_valid(value);
    let mut compiler = boon::Compiler::new();
    compiler.set_default_draft(boon::Draft::V2020_12);
    compiler.add_resource("schema.json", schema.clone()).unwrap();
    let mut schemas = boon::Schemas::new();
    let index = compiler.compile("schema.json", &mut schemas).unwrap();
    let other = schemas.validate(value, index).is_ok();
    assert_eq!(one, other, "the validators disagree on {value} under {schema}");
    one
}

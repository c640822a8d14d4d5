//! Hand-written pairs of schemas: every keyword in both directions, and difficult cases.

use nuncio_judge::schema::{ComparisonBudget, ComparisonOutcome, NarrowingRule, compare};
use serde_json::{Value, json};

use super::validators::is_valid;

/// The expected result of a comparison: compatible, or a finding of this rule with a witness.
enum ExpectedComparison {
    Fine,
    Breaks(NarrowingRule),
}

use ExpectedComparison::{Breaks, Fine};
use NarrowingRule as R;

fn check(pairs: Vec<(Value, Value, ExpectedComparison)>) {
    for (old, new, expected) in pairs {
        let comparison = compare(&old, &new, ComparisonBudget::default());
        let told = format!("{old} => {new}: {comparison:?}");
        match expected {
            Fine => assert_eq!(comparison.outcome, ComparisonOutcome::Compatible, "{told}"),
            Breaks(rule) => {
                assert_eq!(comparison.outcome, ComparisonOutcome::Breaking, "{told}");
                assert!(comparison.findings.iter().any(|finding| finding.rule == rule), "{told}");
            }
        }
        for finding in &comparison.findings {
            let witness = finding.witness.as_ref().unwrap_or_else(|| panic!("no witness: {told}"));
            assert!(is_valid(&old, witness) && !is_valid(&new, witness), "bad witness: {told}");
            let place = if finding.new.is_some() { &new } else { &old };
            assert!(place.pointer(&finding.pointer).is_some(), "the pointer does not resolve: {told}");
        }
    }
}

#[test]
fn table_of_type_and_enum_changes_gives_expected_compatibility() {
    check(vec![
        (json!({"type": "integer"}), json!({"type": "number"}), Fine),
        (json!({"type": "number"}), json!({"type": "integer"}), Breaks(R::TypeNarrowed)),
        (json!({"type": ["string", "null"]}), json!({"type": "string"}), Breaks(R::TypeNarrowed)),
        (json!({"type": ["null", "string"]}), json!({"type": ["string", "null"]}), Fine),
        (json!({"type": "number"}), json!({"type": ["integer", "number"]}), Fine),
        (json!({"type": "integer", "minimum": 1, "maximum": 1}), json!({"const": 1.0}), Fine),
        (json!({"enum": [1, "a"]}), json!({"enum": [1.0, "a"]}), Fine),
        (json!({"enum": [1, 2]}), json!({"enum": [1]}), Breaks(R::EnumValueRemoved)),
        (json!({"enum": [1]}), json!({"enum": [true]}), Breaks(R::EnumValueRemoved)),
        (json!({"enum": [0, false]}), json!({"enum": [false]}), Breaks(R::EnumValueRemoved)),
        (json!({"enum": ["1"]}), json!({"enum": [1, "1"]}), Fine),
        (json!({}), json!({"enum": [1]}), Breaks(R::EnumValueRemoved)),
        (json!({"type": "boolean"}), json!({"enum": [true, false]}), Fine),
        (json!({"type": "boolean"}), json!({"enum": [true, null]}), Breaks(R::EnumValueRemoved)),
        (json!({"type": "null"}), json!({"const": null}), Fine),
        (json!({"const": {"a": [1, 2]}}), json!({"const": {"a": [1.0, 2]}}), Fine),
        (json!({"const": [1, 2]}), json!({"const": [2, 1]}), Breaks(R::ConstChanged)),
        (json!({"enum": [1, 5, 9], "minimum": 5}), json!({"enum": [5, 9]}), Fine),
        (json!({"enum": []}), json!(false), Fine),
        (json!({"type": "string", "const": 1}), json!(false), Fine),
        (json!(true), json!(false), Breaks(R::NothingAllowed)),
        (json!({"type": "string", "enum": ["a", 1]}), json!({"const": "a"}), Fine),
        (json!({"type": "string"}), json!({"type": "string", "format": "email"}), Fine),
        (json!({"type": "string"}), json!({"type": "string", "title": "x", "contentEncoding": "base64"}), Fine),
        (json!({"items": {"const": 1}}), json!({"items": {"const": 1}, "nullable": false, "divisibleBy": 2}), Fine),
    ]);
}

#[test]
fn table_of_number_schema_changes_gives_expected_compatibility() {
    check(vec![
        (json!({"minimum": 1}), json!({"minimum": 0}), Fine),
        (json!({"minimum": 0}), json!({"minimum": 0.5}), Breaks(R::BoundTightened)),
        (json!({"type": "integer", "exclusiveMinimum": 0}), json!({"type": "integer", "minimum": 1}), Fine),
        (json!({"exclusiveMinimum": 0}), json!({"minimum": 1}), Breaks(R::BoundTightened)),
        (json!({"type": "integer", "maximum": 9.5}), json!({"exclusiveMaximum": 10}), Fine),
        (json!({"type": "integer", "minimum": 0.5}), json!({"minimum": 1}), Fine),
        (json!({"maximum": 10}), json!({"exclusiveMaximum": 10}), Breaks(R::BoundTightened)),
        (json!({"exclusiveMaximum": 10}), json!({"maximum": 10}), Fine),
        (json!({"minimum": 5, "maximum": 4}), json!(false), Breaks(R::NothingAllowed)),
        (json!({"type": "number", "minimum": 5, "maximum": 4}), json!(false), Fine),
        (json!({"type": "number", "exclusiveMinimum": 4, "maximum": 4}), json!(false), Fine),
        (json!({"multipleOf": 4}), json!({"multipleOf": 2}), Fine),
        (json!({"multipleOf": 2}), json!({"multipleOf": 4}), Breaks(R::MultipleTightened)),
        (json!({"type": "integer"}), json!({"multipleOf": 0.5}), Fine),
        (json!({"multipleOf": 0.5}), json!({"multipleOf": 1}), Breaks(R::MultipleTightened)),
        (json!({"multipleOf": 0.1}), json!({"multipleOf": 0.25}), Breaks(R::MultipleTightened)),
        (json!({"allOf": [{"multipleOf": 2}, {"multipleOf": 3}]}), json!({"multipleOf": 6}), Fine),
        (json!({"multipleOf": 6}), json!({"allOf": [{"multipleOf": 2}, {"multipleOf": 3}]}), Fine),
        (json!({"type": "number", "multipleOf": 1}), json!({"type": "integer"}), Fine),
        (json!({"type": "integer", "multipleOf": 1.5}), json!({"multipleOf": 3}), Fine),
        (json!({"type": "integer", "minimum": 1, "maximum": 3}), json!({"enum": [1, 2, 3]}), Fine),
        (json!({"type": "integer", "minimum": 1, "maximum": 3}), json!({"enum": [1, 3]}), Breaks(R::EnumValueRemoved)),
        (
            json!({"const": 9_007_199_254_740_993_u64}),
            json!({"const": 9_007_199_254_740_992_u64}),
            Breaks(R::ConstChanged),
        ),
        (json!({"maximum": 1e300}), json!({"maximum": 1.5e300}), Fine),
        (json!({"type": "integer", "maximum": 1e308}), json!({"type": "integer"}), Fine),
        (json!({"minimum": 1e10}), json!({"minimum": 10_000_000_000_u64}), Fine),
        (json!({"type": "integer", "minimum": 2, "maximum": 10, "multipleOf": 7}), json!({"const": 7}), Fine),
        (json!({"not": {"minimum": 3}}), json!({"exclusiveMaximum": 3}), Fine),
        (json!({"type": "number"}), json!({"anyOf": [{"minimum": 0}, {"maximum": 0}]}), Fine),
        (
            json!({"type": "number"}),
            json!({"anyOf": [{"minimum": 0}, {"exclusiveMaximum": 0, "multipleOf": 1}]}),
            Breaks(R::BranchRemoved),
        ),
        (json!({"type": "integer"}), json!({"anyOf": [{"multipleOf": 2}, {"not": {"multipleOf": 2}}]}), Fine),
    ]);
}

#[test]
fn table_of_string_schema_changes_gives_expected_compatibility() {
    check(vec![
        (json!({"minLength": 3}), json!({"minLength": 2}), Fine),
        (json!({"minLength": 2}), json!({"minLength": 3}), Breaks(R::BoundTightened)),
        (json!({"maxLength": 2}), json!({"maxLength": 1}), Breaks(R::BoundTightened)),
        (json!({"type": "string", "maxLength": 0}), json!({"const": ""}), Fine),
        (json!({"minLength": 0}), json!({}), Fine),
        (json!({"minLength": 2.0}), json!({"minLength": 2}), Fine),
        (json!({"const": "😀"}), json!({"maxLength": 1}), Fine),
        (json!({"const": "é\u{301}"}), json!({"maxLength": 1}), Breaks(R::BoundTightened)),
        (json!({"pattern": "^a+$"}), json!({"pattern": "^a*$"}), Fine),
        (json!({"pattern": "^a*$"}), json!({"pattern": "^a+$"}), Breaks(R::PatternTightened)),
        (json!({"pattern": "^ab"}), json!({"pattern": "a"}), Fine),
        (json!({"pattern": "a"}), json!({"pattern": "^a"}), Breaks(R::PatternTightened)),
        (json!({"pattern": "^[a-f]{3}$"}), json!({"minLength": 3, "maxLength": 3}), Fine),
        (json!({"minLength": 1}), json!({"pattern": "."}), Breaks(R::PatternTightened)),
        (json!({"pattern": "^[0-9]+$"}), json!({"pattern": "^\\d+$"}), Fine),
        (json!({"pattern": "^\\w$"}), json!({"pattern": "^[a-zA-Z0-9_]$"}), Fine),
        (json!({"pattern": "^(cat|dog)$"}), json!({"enum": ["cat", "dog"], "type": "string"}), Breaks(R::TypeNarrowed)),
        (json!({"type": "string", "pattern": "^(cat|dog)$"}), json!({"enum": ["cat", "dog"]}), Fine),
        (json!({"type": "string", "pattern": "^(cat|dog)$"}), json!({"enum": ["cat"]}), Breaks(R::EnumValueRemoved)),
        (json!({"pattern": "^(aa)*$", "minLength": 1}), json!({"minLength": 2}), Fine),
        (json!({"type": "string", "pattern": "^(aa)*$", "minLength": 3, "maxLength": 3}), json!(false), Fine),
        (
            json!({"allOf": [{"pattern": "a"}, {"pattern": "b"}]}),
            json!({"pattern": "a.*b|b.*a"}),
            Breaks(R::PatternTightened),
        ),
        (json!({"pattern": "^(?=x)x$"}), json!({"pattern": "^(?=x)x$", "title": "t"}), Fine),
        (json!({"enum": ["x"]}), json!({"pattern": "^[^a]$"}), Fine),
        (json!({"pattern": "^a$"}), json!({"not": {"pattern": "b"}}), Breaks(R::NotWidened)),
        (json!({"type": "string", "pattern": "^a$"}), json!({"type": "string", "not": {"pattern": "b"}}), Fine),
        (json!({"type": "string", "pattern": "^[^\\n]$"}), json!({"pattern": "^[^\\n]*$"}), Fine),
        (json!({"pattern": "^\\cJ$"}), json!({"pattern": "^\\n$"}), Fine),
        (
            json!({"type": "string", "minLength": 300, "pattern": "^a*$"}),
            json!({"maxLength": 299}),
            Breaks(R::BoundTightened),
        ),
    ]);
}

#[test]
fn table_of_array_schema_changes_gives_expected_compatibility() {
    check(vec![
        (json!({"items": {"type": "integer"}}), json!({"items": {"type": "number"}}), Fine),
        (json!({"items": {"type": "number"}}), json!({"items": {"type": "integer"}}), Breaks(R::TypeNarrowed)),
        (json!({"type": "array", "maxItems": 0}), json!({"items": false}), Fine),
        (json!({"items": true}), json!({"items": false}), Breaks(R::ItemsClosed)),
        (
            json!({"prefixItems": [{"type": "string"}]}),
            json!({"prefixItems": [{"type": "string"}, {"type": "string"}]}),
            Breaks(R::TypeNarrowed),
        ),
        (
            json!({"prefixItems": [{"type": "string"}], "items": false}),
            json!({"prefixItems": [{"type": "string"}, {"const": 1}]}),
            Fine,
        ),
        (json!({"items": {"type": "string"}}), json!({"prefixItems": [{"type": "string"}, {"type": "string"}]}), Fine),
        (
            json!({"prefixItems": [true, {"const": 1}], "items": {"const": 1}}),
            json!({"prefixItems": [true], "items": {"const": 1}}),
            Fine,
        ),
        (json!({"prefixItems": [false]}), json!({"maxItems": 0}), Fine),
        (json!({"minItems": 2}), json!({"minItems": 1}), Fine),
        (json!({"minItems": 67}), json!({"minItems": 71}), Breaks(R::BoundTightened)),
        (json!({"uniqueItems": true}), json!({"uniqueItems": false}), Fine),
        (json!({"uniqueItems": false}), json!({"uniqueItems": true}), Breaks(R::UniqueItemsAdded)),
        (json!({"maxItems": 1}), json!({"uniqueItems": true}), Fine),
        (
            json!({"prefixItems": [{"type": "string"}, {"type": "null"}], "items": false}),
            json!({"uniqueItems": true}),
            Fine,
        ),
        (
            json!({"prefixItems": [{"enum": [1, 2]}, {"enum": [2.0, 3]}], "items": false}),
            json!({"uniqueItems": true}),
            Breaks(R::UniqueItemsAdded),
        ),
        (json!({"uniqueItems": true, "items": {"type": "boolean"}}), json!({"maxItems": 2}), Fine),
        (json!({"uniqueItems": true, "items": {"enum": [1, 1.0, 2]}}), json!({"maxItems": 2}), Fine),
        (json!({"uniqueItems": true, "items": {"enum": [1, 2, 3]}}), json!({"maxItems": 2}), Breaks(R::BoundTightened)),
        (json!({"uniqueItems": true, "items": {"const": [[]]}}), json!({"maxItems": 1}), Fine),
        (json!({"contains": {"const": 1}}), json!({"minItems": 1}), Fine),
        (json!({"contains": {"const": 1}, "minContains": 2}), json!({"minItems": 2}), Fine),
        (json!({"contains": {"const": 1}, "minContains": 0}), json!({}), Fine),
        (json!({}), json!({"contains": {"const": 1}, "minContains": 0}), Fine),
        (
            json!({}),
            json!({"contains": {"const": 1}, "minContains": 0, "maxContains": 1}),
            Breaks(R::ContainsTightened),
        ),
        (json!({"minContains": 3}), json!({}), Fine),
        (json!({"contains": {"type": "integer"}}), json!({"contains": {"type": "number"}}), Fine),
        (
            json!({"contains": {"type": "number"}}),
            json!({"contains": {"type": "integer"}}),
            Breaks(R::ContainsTightened),
        ),
        (
            json!({"maxContains": 1, "contains": {"type": "number"}}),
            json!({"maxContains": 1, "contains": {"type": "integer"}, "minContains": 0}),
            Fine,
        ),
        (json!({"items": {"const": 1}, "minItems": 1}), json!({"contains": {"const": 1}}), Fine),
        (json!({"items": {"const": 1}, "contains": true, "maxContains": 2}), json!({"maxItems": 2}), Fine),
        (
            json!({"uniqueItems": true, "contains": {"const": 1}, "minContains": 2}),
            json!({"type": "null"}),
            Breaks(R::TypeNarrowed),
        ),
        (json!({"type": "array", "uniqueItems": true, "contains": {"const": 1}, "minContains": 2}), json!(false), Fine),
        (json!({"const": [1, [2]]}), json!({"items": {"type": ["integer", "array"]}}), Fine),
        (json!({"not": {"contains": {"type": "string"}}}), json!({"items": {"not": {"type": "string"}}}), Fine),
        (json!({"unevaluatedItems": false, "prefixItems": [true]}), json!({"maxItems": 1}), Fine),
        (
            json!({"unevaluatedItems": false, "contains": {"type": "string"}}),
            json!({"items": {"type": "string"}}),
            Fine,
        ),
        (
            json!({"items": {"type": "string"}}),
            json!({"unevaluatedItems": false, "contains": {"type": "string"}, "minContains": 0}),
            Fine,
        ),
        (
            json!({"prefixItems": [true, true]}),
            json!({"prefixItems": [true], "unevaluatedItems": false}),
            Breaks(R::UnevaluatedClosed),
        ),
    ]);
}

#[test]
fn table_of_object_schema_changes_gives_expected_compatibility() {
    let closed = |names: Value| json!({"properties": names, "additionalProperties": false});
    check(vec![
        (
            json!({"properties": {"a": {}}}),
            json!({"properties": {"a": {}}, "required": ["a"]}),
            Breaks(R::RequiredAdded),
        ),
        (json!({"required": ["a", "b"]}), json!({"required": ["b"]}), Fine),
        (
            json!({"properties": {"a": {"default": 1}}}),
            json!({"properties": {"a": {"default": 1}}, "required": ["a"]}),
            Breaks(R::RequiredAdded),
        ),
        (json!({}), json!({"additionalProperties": false}), Breaks(R::AdditionalPropertiesClosed)),
        (json!({"additionalProperties": false}), json!({}), Fine),
        (json!({}), json!({"additionalProperties": {"type": "string"}}), Breaks(R::AdditionalPropertiesClosed)),
        (closed(json!({"a": {}, "b": {}})), closed(json!({"a": {}})), Breaks(R::PropertyRefused)),
        (closed(json!({"a": {}})), closed(json!({"a": {}, "b": {}})), Fine),
        (
            json!({"properties": {"a": {}}}),
            json!({"properties": {"a": {}, "b": {"type": "string"}}}),
            Breaks(R::TypeNarrowed),
        ),
        (closed(json!({"a": {}})), json!({"properties": {"a": {}, "b": {"type": "string"}}}), Fine),
        (json!({"properties": {"a": false}}), json!({"not": {"required": ["a"]}}), Breaks(R::NotWidened)),
        (json!({"type": "object", "properties": {"a": false}}), json!({"not": {"required": ["a"]}}), Fine),
        (json!({"properties": {"a": {}}}), json!({"properties": {"a": false}}), Breaks(R::PropertyRefused)),
        (
            json!({"patternProperties": {"^x": {"type": "string"}}}),
            json!({"properties": {"xa": {"type": "string"}}}),
            Fine,
        ),
        (
            json!({"properties": {"xa": {"type": "string"}}}),
            json!({"patternProperties": {"^x": {"type": "string"}}}),
            Breaks(R::TypeNarrowed),
        ),
        (
            json!({"patternProperties": {"^a": {"type": "integer"}, "b$": {"minimum": 3}}}),
            json!({"properties": {"ab": {"type": "integer", "minimum": 3}}}),
            Fine,
        ),
        (
            json!({"patternProperties": {"^a": true}, "additionalProperties": false}),
            json!({"propertyNames": {"pattern": "^a"}}),
            Fine,
        ),
        (
            json!({"propertyNames": {"pattern": "^a"}}),
            json!({"patternProperties": {"^a": true}, "additionalProperties": false}),
            Fine,
        ),
        (
            json!({"propertyNames": {"maxLength": 2}}),
            json!({"propertyNames": {"maxLength": 1}}),
            Breaks(R::PropertyNamesNarrowed),
        ),
        (json!({"type": "object", "propertyNames": {"enum": ["a"]}, "required": ["b"]}), json!(false), Fine),
        (json!({"propertyNames": {"enum": ["a", "b"]}}), json!({"maxProperties": 2}), Fine),
        (json!({"propertyNames": {"type": "integer"}}), json!({"maxProperties": 0}), Fine),
        (json!({"type": "object", "propertyNames": false, "minProperties": 1}), json!(false), Fine),
        (json!({"required": ["a", "b"]}), json!({"minProperties": 2}), Fine),
        (json!({"minProperties": 1}), json!({"minProperties": 2}), Breaks(R::BoundTightened)),
        (closed(json!({"a": {}, "b": {}})), json!({"maxProperties": 2}), Fine),
        (closed(json!({"a": {}, "b": false})), json!({"maxProperties": 1}), Fine),
        (
            json!({"type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": false, "minProperties": 2}),
            json!({"required": ["a", "b"]}),
            Fine,
        ),
        (
            json!({"type": "object", "maxProperties": 1, "required": ["a"]}),
            json!({"additionalProperties": false, "properties": {"a": {}}}),
            Fine,
        ),
        (json!({}), json!({"dependentRequired": {"a": ["b"]}}), Breaks(R::DependencyAdded)),
        (json!({"required": ["b"]}), json!({"dependentRequired": {"a": ["b"]}}), Fine),
        (json!({"dependentRequired": {"a": ["b"], "b": ["c"]}}), json!({"dependentRequired": {"a": ["c"]}}), Fine),
        (json!({"dependentSchemas": {"a": {"required": ["b"]}}}), json!({"dependentRequired": {"a": ["b"]}}), Fine),
        (
            json!({"dependentRequired": {"a": ["b"]}}),
            json!({"dependentSchemas": {"a": {"required": ["b", "c"]}}}),
            Breaks(R::RequiredAdded),
        ),
        (
            json!({"dependentSchemas": {"a": {"properties": {"b": {"const": 1}}}}}),
            json!({"dependentSchemas": {"a": {"properties": {"b": {"type": "integer"}}}}}),
            Fine,
        ),
        (
            json!({"additionalProperties": {"const": 1}}),
            json!({"properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "number"}}),
            Fine,
        ),
        (
            json!({"properties": {"a": {"properties": {"b": {"properties": {"c": {"maximum": 5}}}}}}}),
            json!({"properties": {"a": {"properties": {"b": {"properties": {"c": {"maximum": 4}}}}}}}),
            Breaks(R::BoundTightened),
        ),
        (
            json!({"properties": {"a/b": {"type": "number"}, "~": {}}}),
            json!({"properties": {"a/b": {"type": "integer"}}}),
            Breaks(R::TypeNarrowed),
        ),
        (json!({"const": {"a": 1}}), json!({"required": ["a"], "maxProperties": 1}), Fine),
        (
            json!({"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "maxProperties": 1}),
            json!({"const": {"a": 1}}),
            Fine,
        ),
    ]);
}

#[test]
fn table_of_unevaluated_keyword_changes_gives_expected_compatibility() {
    check(vec![
        (
            json!({"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": false}),
            json!({"properties": {"a": {}}, "additionalProperties": false}),
            Fine,
        ),
        (
            json!({"properties": {"a": {}}, "additionalProperties": false}),
            json!({"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": false}),
            Fine,
        ),
        (
            json!({"allOf": [{"properties": {"a": {}}}]}),
            json!({"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": false}),
            Breaks(R::UnevaluatedClosed),
        ),
        (
            json!({"$defs": {"x": {"properties": {"a": {}}}}, "$ref": "#/$defs/x", "unevaluatedProperties": false}),
            json!({"properties": {"a": {}}, "unevaluatedProperties": false}),
            Fine,
        ),
        (
            json!({"$ref": "#/$defs/x", "unevaluatedProperties": false, "$defs": {"x": {"properties": {"a": {}}}}}),
            json!({"$ref": "#/$defs/x", "unevaluatedProperties": false, "$defs": {"x": {"properties": {"b": {}}}}}),
            Breaks(R::UnevaluatedClosed),
        ),
        (
            json!({"anyOf": [{"required": ["a"], "properties": {"a": {}}}, {"properties": {"b": {}}}], "unevaluatedProperties": false}),
            json!({"properties": {"a": {}, "b": {}}, "additionalProperties": false}),
            Fine,
        ),
        (
            json!({"properties": {"a": {}, "b": {}}, "additionalProperties": false}),
            json!({"anyOf": [{"required": ["a"], "properties": {"a": {}}}, {"properties": {"b": {}}}], "unevaluatedProperties": false}),
            Fine,
        ),
        (
            json!({"if": {"required": ["a"]}, "then": {"properties": {"a": {}, "b": {}}}, "unevaluatedProperties": false}),
            json!({"properties": {"a": {}, "b": {}}, "additionalProperties": false}),
            Fine,
        ),
        (
            json!({"properties": {"a": {}, "b": {}}, "additionalProperties": false}),
            json!({"if": {"required": ["a"]}, "then": {"properties": {"a": {}, "b": {}}}, "unevaluatedProperties": false}),
            Breaks(R::UnevaluatedClosed),
        ),
        (
            json!({"unevaluatedProperties": false, "not": {"not": {"properties": {"a": {}}}}}),
            json!({"maxProperties": 0}),
            Fine,
        ),
        (
            json!({"additionalProperties": {"type": "string"}, "unevaluatedProperties": false}),
            json!({"additionalProperties": {"type": "string"}}),
            Fine,
        ),
        (
            json!({"dependentSchemas": {"a": {"properties": {"a": {}, "b": {}}}}, "unevaluatedProperties": false}),
            json!({"dependentRequired": {"b": ["a"]}}),
            Fine,
        ),
    ]);
}

#[test]
fn table_of_anyof_oneof_and_not_changes_gives_expected_compatibility() {
    check(vec![
        (json!({"anyOf": [{"type": "string"}]}), json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), Fine),
        (
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
            json!({"anyOf": [{"type": "string"}]}),
            Breaks(R::BranchRemoved),
        ),
        (
            json!({"oneOf": [{"minimum": 5}]}),
            json!({"oneOf": [{"minimum": 5}, {"maximum": 7}]}),
            Breaks(R::BranchRemoved),
        ),
        (
            json!({"oneOf": [{"type": "string"}, {"type": "null"}]}),
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
            Fine,
        ),
        (
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
            json!({"oneOf": [{"type": "null"}, {"type": "string"}]}),
            Fine,
        ),
        (
            json!({"anyOf": [{"type": "integer"}, {"type": "number"}]}),
            json!({"oneOf": [{"type": "integer"}, {"type": "number"}]}),
            Breaks(R::BranchRemoved),
        ),
        (
            json!({"oneOf": [{"type": "integer"}, {"type": "number"}]}),
            json!({"type": "number", "not": {"type": "integer"}}),
            Fine,
        ),
        (json!({"oneOf": [true, true]}), json!(false), Fine),
        (json!({"allOf": [{"minimum": 1}, {"maximum": 5}]}), json!({"minimum": 1, "maximum": 5}), Fine),
        (json!({"minimum": 1}), json!({"allOf": [{"minimum": 1}, {"maximum": 5}]}), Breaks(R::BoundTightened)),
        (json!({"not": {"type": "string"}}), json!({"not": {"type": "string", "minLength": 1}}), Fine),
        (json!({"not": {"type": "string", "minLength": 1}}), json!({"not": {"type": "string"}}), Breaks(R::NotWidened)),
        (json!({"not": {"not": {"type": "string"}}}), json!({"type": "string"}), Fine),
        (json!({"not": {}}), json!({"type": "string"}), Fine),
        (json!({"if": {"type": "string"}, "then": {"minLength": 1}}), json!({"minLength": 1}), Fine),
        (
            json!({"minLength": 1}),
            json!({"if": {"type": "string"}, "then": {"minLength": 2}}),
            Breaks(R::ConditionTightened),
        ),
        (json!({"then": {"minLength": 1}}), json!({"else": false}), Fine),
        (
            json!({"if": {"properties": {"a": {"const": 1}}, "required": ["a"]}, "then": {"required": ["b"]}}),
            json!({"if": {"properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}, "then": {"required": ["b"]}}),
            Breaks(R::ConditionTightened),
        ),
        (
            json!({"if": {"properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}, "then": {"required": ["b"]}}),
            json!({"if": {"properties": {"a": {"const": 1}}, "required": ["a"]}, "then": {"required": ["b"]}}),
            Fine,
        ),
        (
            json!({"if": {"minimum": 5}, "then": {"multipleOf": 2}, "else": {"multipleOf": 3}, "type": "integer"}),
            json!({"anyOf": [{"multipleOf": 2}, {"multipleOf": 3}]}),
            Fine,
        ),
        (
            json!({"oneOf": [{"properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind"]}, {"properties": {"kind": {"const": "b"}}, "required": ["kind"]}]}),
            json!({"oneOf": [{"properties": {"kind": {"const": "a"}, "x": {"type": "string"}}, "required": ["kind"]}, {"properties": {"kind": {"const": "b"}}, "required": ["kind"]}, {"properties": {"kind": {"const": "c"}}, "required": ["kind"]}]}),
            Breaks(R::BranchRemoved),
        ),
        (
            json!({"type": "object", "oneOf": [{"properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind"]}, {"properties": {"kind": {"const": "b"}}, "required": ["kind"]}]}),
            json!({"oneOf": [{"properties": {"kind": {"const": "a"}, "x": {"type": "number"}}, "required": ["kind"]}, {"properties": {"kind": {"const": "b"}}, "required": ["kind"]}, {"properties": {"kind": {"const": "c"}}, "required": ["kind"]}]}),
            Fine,
        ),
    ]);
}

#[test]
fn table_of_reference_changes_gives_expected_compatibility() {
    let tree = |value: Value| json!({"$defs": {"t": {"type": "object", "properties": {"v": value, "l": {"$ref": "#/$defs/t"}, "r": {"$ref": "#/$defs/t"}}}}, "$ref": "#/$defs/t"});
    check(vec![
        (tree(json!({"type": "integer"})), tree(json!({"type": "number"})), Fine),
        (tree(json!({"type": "number"})), tree(json!({"type": "integer"})), Breaks(R::TypeNarrowed)),
        (
            json!({"$defs": {"p": {"minimum": 1}}, "items": {"$ref": "#/$defs/p"}}),
            json!({"items": {"minimum": 1}}),
            Fine,
        ),
        (
            json!({"$defs": {"p": {"minimum": 1}}, "$ref": "#/$defs/p", "maximum": 3}),
            json!({"minimum": 1, "maximum": 3}),
            Fine,
        ),
        // Both schemas describe the same list; one of them is unrolled twice.
        (
            json!({"type": "object", "properties": {"next": {"$ref": "#"}}}),
            json!({"type": "object", "properties": {"next": {"type": "object", "properties": {"next": {"$ref": "#"}}}}}),
            Fine,
        ),
        (
            json!({"type": "object", "properties": {"next": {"type": "object", "properties": {"next": {"$ref": "#"}}}}}),
            json!({"type": "object", "properties": {"next": {"$ref": "#"}}}),
            Fine,
        ),
        (
            json!({"type": "object", "properties": {"next": {"$ref": "#"}}}),
            json!({"type": "object", "properties": {"next": {"type": "object", "properties": {"next": {"type": "object", "properties": {"next": {"$ref": "#"}}, "maxProperties": 0}}}}}),
            Breaks(R::BoundTightened),
        ),
        // No finite value is valid under these schemas.
        (json!({"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#"}}}), json!(false), Fine),
        (json!({"type": "array", "minItems": 1, "items": {"$ref": "#"}}), json!({"type": "string"}), Fine),
        (
            json!({"anyOf": [{"type": "null"}, {"type": "array", "minItems": 1, "items": {"$ref": "#"}}]}),
            json!({"type": "null"}),
            Breaks(R::TypeNarrowed),
        ),
        (json!({"$ref": "#n", "$defs": {"x": {"$anchor": "n", "type": "integer"}}}), json!({"type": "number"}), Fine),
        (
            json!({"$dynamicRef": "#n", "$defs": {"x": {"$dynamicAnchor": "n", "type": "integer"}}}),
            json!({"type": "number"}),
            Fine,
        ),
        (
            json!({"$id": "https://example.com/a", "$ref": "b", "$defs": {"x": {"$id": "b", "type": "integer"}}}),
            json!({"type": "number"}),
            Fine,
        ),
        (
            json!({"$id": "https://example.com/a", "$ref": "b", "$defs": {"x": {"$id": "b", "type": "number"}}}),
            json!({"type": "integer"}),
            Breaks(R::TypeNarrowed),
        ),
        (
            json!({"$id": "https://example.com/a", "$ref": "b#/$defs/y", "$defs": {"x": {"$id": "b", "$defs": {"y": {"$ref": "#/$defs/z"}, "z": {"const": 1}}}, "z": {"const": 2}}}),
            json!({"const": 1}),
            Fine,
        ),
        (json!({"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"const": 1}}}), json!({"const": 1}), Fine),
        (
            json!({"properties": {"$ref": {"type": "integer"}}}),
            json!({"properties": {"$ref": {"type": "number"}}}),
            Fine,
        ),
        (json!({"const": {"$ref": "#/nowhere"}}), json!({"type": "object"}), Fine),
    ]);
}

use nuncio_http::pages::Language;
use serde_json::json;

use super::*;
use crate::texts::Texts;

fn texts() -> &'static FormTexts {
    &Texts::of(Language::English).form
}

fn posted(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn filled(schema: &Value, pairs: &[(&str, &str)]) -> (TaskForm, Option<Value>) {
    let mut form = TaskForm::of(Some(schema), texts());
    form.fill(&posted(pairs));
    let result = form.result(texts());
    (form, result)
}

/// Every fault with the label of its field.
fn faults_by_label(form: &TaskForm) -> Vec<(String, String)> {
    let each =
        |field: &FormField| field.faults.iter().map(|fault| (field.label.clone(), fault.clone())).collect::<Vec<_>>();
    form.fields().flat_map(each).collect()
}

fn parcel() -> Value {
    json!({
        "type": "object",
        "required": ["weight_kg", "condition", "note"],
        "additionalProperties": false,
        "properties": {
            "weight_kg": {"type": "number", "exclusiveMinimum": 0, "maximum": 30},
            "condition": {"enum": ["intact", "damaged"]},
            "note": {"type": "string", "title": "A note", "maxLength": 10},
            "boxes": {"type": "integer", "minimum": 1},
            "signed": {"type": "boolean"},
            "picked_up": {"type": "string", "format": "date-time"},
            "day": {"type": "string", "format": "date"},
            "seals": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
            "place": {"type": "object", "required": ["shelf"], "properties": {
                "shelf": {"type": "string", "pattern": "^[A-Z][0-9]$"},
                "deeper": {"type": "object", "properties": {"x": {"type": "string"}}},
            }},
            "anything": {},
        },
    })
}

#[test]
fn each_value_type_has_its_own_control_and_required_fields_come_first() {
    let form = TaskForm::of(Some(&parcel()), texts());
    let fields: Vec<_> = form.fields().map(|field| (field.name.as_str(), field.kind(), field.required)).collect();
    assert_eq!(
        fields,
        [
            ("f/weight_kg", "number", true),
            ("f/condition", "choice", true),
            ("f/note", "line", true),
            ("f/boxes", "number", false),
            ("f/signed", "check", false),
            ("f/picked_up", "time", false),
            ("f/day", "time", false),
            ("f/seals", "lines", false),
            ("f/place/shelf", "line", true),
            ("f/place/deeper", "json", false),
            ("f/anything", "json", false),
        ]
    );
    let labels: Vec<_> = form.fields().take(3).map(|field| field.label.as_str()).collect();
    assert_eq!(labels, ["Weight kg", "Condition", "A note"]);
}

#[test]
fn typed_text_is_converted_to_the_types_of_the_schema() {
    let typed = [
        ("f/weight_kg", " 2.50 "),
        ("f/condition", "\"intact\""),
        ("f/note", "ok"),
        ("f/anything", "{\"a\": [1]}"),
        ("f/boxes", "3"),
        ("f/day", "2026-11-15"),
        ("f/picked_up", "2026-11-15T11:30"),
        ("zone:f/picked_up", "+08:00"),
        ("f/place/shelf", "B7"),
        ("f/seals", " one \r\n\r\n two"),
        ("f/signed", "true"),
        ("csrf", "x"),
    ];
    let (form, result) = filled(&parcel(), &typed);
    assert_eq!(faults_by_label(&form), []);
    assert_eq!(
        result.unwrap(),
        json!({
            "weight_kg": 2.5, "condition": "intact", "note": "ok", "anything": {"a": [1]}, "boxes": 3,
            "day": "2026-11-15", "picked_up": "2026-11-15T11:30:00+08:00", "place": {"shelf": "B7"},
            "seals": ["one", "two"], "signed": true,
        })
    );
}

#[test]
fn empty_optional_fields_are_omitted_and_empty_required_ones_reported() {
    let (_, result) = filled(&parcel(), &[("f/weight_kg", "1"), ("f/condition", "\"damaged\""), ("f/note", "-")]);
    assert_eq!(result.unwrap(), json!({"weight_kg": 1, "condition": "damaged", "note": "-", "signed": false}));
    let (form, result) = filled(&parcel(), &[("f/place/deeper", "{}")]);
    assert_eq!(result, None);
    let missing: Vec<_> = faults_by_label(&form).into_iter().map(|(label, _)| label).collect();
    assert_eq!(missing, ["Weight kg", "Condition", "A note", "Shelf"]);
    assert!(form.faults.is_empty());
}

#[test]
fn every_invalid_field_has_a_fault_and_keeps_its_typed_text() {
    let typed = [
        ("f/weight_kg", "31"),
        ("f/condition", "\"lost\""),
        ("f/note", "far too long a note"),
        ("f/boxes", "2.5"),
        ("f/day", "tomorrow"),
        ("f/picked_up", "noon"),
        ("f/place/shelf", "b7"),
        ("f/seals", "a\nb\nc"),
        ("f/anything", "{"),
    ];
    let (form, result) = filled(&parcel(), &typed);
    assert_eq!(result, None);
    let faults: Vec<_> = faults_by_label(&form).into_iter().map(|(label, _)| label).collect();
    let all = ["Weight kg", "Condition", "A note", "Boxes", "Picked up", "Day", "Seals", "Shelf", "Anything"];
    assert_eq!(faults, all);
    for (name, text) in typed {
        assert_eq!(form.fields().find(|field| field.name == name).unwrap().typed, text);
    }
}

#[test]
fn form_without_schema_takes_one_text_and_refuses_a_blank_one() {
    let mut form = TaskForm::of(None, texts());
    form.fill(&posted(&[("f", "It is\r\ndone. ")]));
    assert_eq!(form.result(texts()), Some(json!("It is\ndone.")));
    form.fill(&posted(&[("f", " ")]));
    assert_eq!(form.result(texts()), None);
}

#[test]
fn value_without_a_form_control_is_edited_as_json() {
    for schema in [json!({"type": "object"}), json!({"type": "array", "items": {"type": "integer"}}), json!({})] {
        let form = TaskForm::of(Some(&schema), texts());
        assert_eq!(form.fields().map(FormField::kind).collect::<Vec<_>>(), ["json"], "{schema}");
    }
    let (_, result) = filled(&json!({"type": "array", "items": {"type": "integer"}}), &[("f", "[1, 2]")]);
    assert_eq!(result, Some(json!([1, 2])));
    let (form, result) = filled(&json!({"type": "array", "items": {"type": "integer"}}), &[("f", "[1, \"2\"]")]);
    assert_eq!((result, faults_by_label(&form).len()), (None, 1));
}

#[test]
fn form_supports_schema_references_choice_titles_and_null() {
    let schema = json!({
        "type": "object", "required": ["why"], "$defs": {"size": {"oneOf": [{"const": 1, "title": "Small"}, {"const": 2}]}},
        "properties": {
            "size": {"$ref": "#/$defs/size", "default": 2}, "why": {"type": ["string", "null"]}, "a/b~c": {"type": "string"},
            "loop": {"$ref": "#/properties/loop"},
        },
    });
    let form = TaskForm::of(Some(&schema), texts());
    let size = form.fields().find(|field| field.name == "f/size").unwrap();
    assert_eq!(size.choices().iter().map(|choice| choice.label.as_str()).collect::<Vec<_>>(), ["Small", "2"]);
    let (_, result) = filled(&schema, &[("f/size", "1"), ("f/a~1b~0c", "x")]);
    assert_eq!(result.unwrap(), json!({"size": 1, "why": null, "a/b~c": "x"}));
}

#[test]
fn violation_of_the_whole_result_is_reported_for_the_form_and_no_field() {
    let schema =
        json!({"type": "object", "minProperties": 2, "properties": {"a": {"type": "string"}, "b": {"type": "string"}}});
    let (form, result) = filled(&schema, &[("f/a", "x")]);
    assert_eq!((result, form.faults.len(), faults_by_label(&form).len()), (None, 1, 0));
}

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::ErrorCode;

/// The example manifest of the specification (§2.2).
const EXAMPLE: &str = r#"{ "schema_version": "1.0", "agent_version": "1.0.0", "tools": [ { "name": "read_file",
"description_i18n_key": "agent.cap.read_file.description", "input_schema": { "type": "object", "properties": { "path":
{ "type": "string" } }, "required": ["path"], "additionalProperties": false }, "permission_scope": "filesystem:read",
"required": false, "timeout_ms": 5000 } ], "permission_scopes": [ { "id": "filesystem:read", "label_i18n_key":
"agent.scope.filesystem_read.label", "description_i18n_key": "agent.scope.filesystem_read.description", "sensitivity":
"medium" } ], "capability_flags": { "supports_streaming": true, "supports_artifacts": true, "supports_voice": false,
"supports_group_chat": false }}"#;

fn example() -> Value {
    serde_json::from_str(EXAMPLE).unwrap()
}

fn parse(text: &str) -> Result<CheckedManifest, ManifestFaults> {
    Manifest::parse(text.as_bytes(), &ScopePresets::default())
}

fn check(value: &Value) -> Result<CheckedManifest, ManifestFaults> {
    parse(&value.to_string())
}

/// The example manifest with values set at JSON pointers; null removes a value.
fn with(changes: &[(&str, Value)]) -> Value {
    let mut manifest = example();
    for (location, value) in changes {
        let (parent, name) = location.rsplit_once('/').unwrap();
        match manifest.pointer_mut(parent).unwrap() {
            Value::Object(map) if value.is_null() => drop(map.shift_remove(name)),
            Value::Object(map) => drop(map.insert(name.to_owned(), value.clone())),
            Value::Array(list) => list.push(value.clone()),
            other => panic!("{location} leads into {other}"),
        }
    }
    manifest
}

fn rules_and_locations(faults: &ManifestFaults) -> Vec<(&str, &str)> {
    faults.faults().iter().map(|fault| (fault.rule.as_str(), fault.pointer.as_str())).collect()
}

fn writing_scope(more: &[(&str, Value)]) -> Value {
    let mut scope = json!({
        "id": "notes:write", "label_i18n_key": "a.l", "description_i18n_key": "a.d", "sensitivity": "low",
        "label_fallback": "Write notes", "description_fallback": {"en": "Keeps notes.", "zh-CN": "记录笔记。"},
    });
    for (name, value) in more {
        if value.is_null() {
            scope.as_object_mut().unwrap().shift_remove(*name);
        } else {
            scope[name] = value.clone();
        }
    }
    scope
}

#[test]
fn manifest_example_of_the_specification_is_valid() {
    let checked = parse(EXAMPLE).unwrap();
    let manifest = &checked.manifest;
    assert_eq!(manifest.agent_version, Version::new(1, 0, 0));
    let tool = manifest.tool("read_file").unwrap();
    assert_eq!((tool.scope.as_str(), tool.required, tool.timeout), ("filesystem:read", false, Duration::from_secs(5)));
    assert!(tool.input.check(&json!({"path": "/a"})).is_ok());
    assert_eq!(manifest.scope("filesystem:read").unwrap().sensitivity, Sensitivity::Medium);
    assert!(manifest.flags["supports_artifacts"]);
    assert_eq!(manifest.source(), &example());
    // The canonical form does not depend on the notation.
    let again = Manifest::check(example(), &ScopePresets::default()).unwrap();
    assert_eq!((again.hash, &again.canonical), (checked.hash, &checked.canonical));
    assert_eq!(checked.hash, Digest::of_json(&example()));
    assert!(
        checked.canonical.starts_with(br#"{"agent_version":"1.0.0","capability_flags":{"supports_artifacts":true"#)
    );
}

#[test]
fn unknown_manifest_fields_are_preserved_and_hashed() {
    let checked = check(&with(&[("/change_note", json!("why")), ("/tools/0/x-more", json!([1]))])).unwrap();
    assert_eq!(checked.manifest.source()["change_note"], "why");
    assert_ne!(checked.hash, parse(EXAMPLE).unwrap().hash);
    let unknown: Vec<_> = checked
        .warnings
        .iter()
        .filter(|w| w.rule == ManifestWarningRule::UnknownField)
        .map(|w| w.pointer.as_str())
        .collect();
    assert_eq!(unknown, ["/tools/0/x-more", "/change_note"]);
}

/// One case per manifest rule: the changed example and the only expected fault.
fn rules() -> Vec<(&'static str, Value, &'static str)> {
    let schema = |schema: Value| with(&[("/tools/0/input_schema", schema)]);
    let closed =
        |properties: Value| schema(json!({"type": "object", "properties": properties, "additionalProperties": false}));
    let scope = |more: &[(&str, Value)]| with(&[("/permission_scopes/-", writing_scope(more))]);
    let deep = (0..40).fold(json!({}), |inner, _| json!({"items": inner}));
    let many: Vec<Value> = (0..5000).map(Value::from).collect();
    let tool = &example()["tools"][0];
    vec![
        ("wrong_type", json!([]), ""),
        ("wrong_type", with(&[("/tools", json!({}))]), "/tools"),
        ("wrong_type", with(&[("/tools/-", json!("read"))]), "/tools/1"),
        ("wrong_type", with(&[("/permission_scopes/-", json!(null))]), "/permission_scopes/1"),
        ("wrong_type", with(&[("/tools/0/required", json!("yes"))]), "/tools/0/required"),
        ("wrong_type", with(&[("/tools/0/description_i18n_key", json!(1))]), "/tools/0/description_i18n_key"),
        ("wrong_type", with(&[("/capability_flags", json!([]))]), "/capability_flags"),
        ("wrong_type", with(&[("/capability_flags/supports_voice", json!("no"))]), "/capability_flags/supports_voice"),
        ("wrong_type", scope(&[("label_fallback", json!(7))]), "/permission_scopes/1/label_fallback"),
        ("wrong_type", scope(&[("label_fallback", json!({}))]), "/permission_scopes/1/label_fallback"),
        ("wrong_type", scope(&[("label_fallback", json!({"en": 1}))]), "/permission_scopes/1/label_fallback/en"),
        ("missing", with(&[("/schema_version", json!(null))]), "/schema_version"),
        ("missing", with(&[("/agent_version", json!(null))]), "/agent_version"),
        ("missing", with(&[("/tools", json!(null))]), "/tools"),
        ("missing", with(&[("/tools/0/name", json!(null))]), "/tools/0/name"),
        ("missing", with(&[("/tools/0/input_schema", json!(null))]), "/tools/0/input_schema"),
        ("missing", with(&[("/tools/0/permission_scope", json!(null))]), "/tools/0/permission_scope"),
        ("missing", with(&[("/tools/0/description_i18n_key", json!(null))]), "/tools/0/description_i18n_key"),
        (
            "missing",
            with(&[("/permission_scopes/0/label_i18n_key", json!(null))]),
            "/permission_scopes/0/label_i18n_key",
        ),
        ("missing", with(&[("/permission_scopes/0/sensitivity", json!(null))]), "/permission_scopes/0/sensitivity"),
        ("schema_version", with(&[("/schema_version", json!("1.1"))]), "/schema_version"),
        ("schema_version", with(&[("/schema_version", json!(1.0))]), "/schema_version"),
        ("agent_version", with(&[("/agent_version", json!("1.0"))]), "/agent_version"),
        ("tool_name", with(&[("/tools/0/name", json!("r"))]), "/tools/0/name"),
        ("tool_name", with(&[("/tools/0/name", json!("readFile"))]), "/tools/0/name"),
        ("tool_name", with(&[("/tools/0/name", json!("1read"))]), "/tools/0/name"),
        ("tool_name", with(&[("/tools/0/name", json!("a".repeat(33)))]), "/tools/0/name"),
        ("tool_name", with(&[("/tools/0/name", json!("read\n"))]), "/tools/0/name"),
        ("tool_duplicate", with(&[("/tools/-", tool.clone())]), "/tools/1/name"),
        (
            "i18n_key",
            with(&[("/tools/0/description_i18n_key", json!("Reads a file"))]),
            "/tools/0/description_i18n_key",
        ),
        ("timeout", with(&[("/tools/0/timeout_ms", json!(0))]), "/tools/0/timeout_ms"),
        ("timeout", with(&[("/tools/0/timeout_ms", json!(1.5))]), "/tools/0/timeout_ms"),
        ("timeout", with(&[("/tools/0/timeout_ms", json!(3_600_001))]), "/tools/0/timeout_ms"),
        ("scope_id", scope(&[("id", json!("notes write"))]), "/permission_scopes/1/id"),
        (
            "scope_duplicate",
            scope(&[("id", json!("filesystem:read")), ("sensitivity", json!("high"))]),
            "/permission_scopes/1/id",
        ),
        ("scope_reserved", scope(&[("id", json!("hashee:anything"))]), "/permission_scopes/1/id"),
        ("scope_reserved", scope(&[("id", json!("System:shutdown"))]), "/permission_scopes/1/id"),
        (
            "scope_undeclared",
            with(&[("/tools/0/permission_scope", json!("location:read"))]),
            "/tools/0/permission_scope",
        ),
        (
            "sensitivity",
            with(&[("/permission_scopes/0/sensitivity", json!("extreme"))]),
            "/permission_scopes/0/sensitivity",
        ),
        (
            "sensitivity",
            with(&[("/permission_scopes/0/sensitivity", json!("High"))]),
            "/permission_scopes/0/sensitivity",
        ),
        (
            "sensitivity_below_floor",
            with(&[("/permission_scopes/0/sensitivity", json!("low"))]),
            "/permission_scopes/0/sensitivity",
        ),
        ("sensitivity_below_floor", scope(&[("id", json!("filesystem:write"))]), "/permission_scopes/1/sensitivity"),
        (
            "sensitivity_below_floor",
            scope(&[("id", json!("Shell:exec")), ("sensitivity", json!("medium"))]),
            "/permission_scopes/1/sensitivity",
        ),
        ("fallback_missing", scope(&[("label_fallback", json!(null))]), "/permission_scopes/1/label_fallback"),
        (
            "fallback_missing",
            scope(&[("description_fallback", json!(null))]),
            "/permission_scopes/1/description_fallback",
        ),
        ("fallback_text", scope(&[("label_fallback", json!(" "))]), "/permission_scopes/1/label_fallback"),
        ("fallback_text", scope(&[("label_fallback", json!("界".repeat(81)))]), "/permission_scopes/1/label_fallback"),
        (
            "fallback_text",
            scope(&[("description_fallback", json!("x".repeat(301)))]),
            "/permission_scopes/1/description_fallback",
        ),
        ("fallback_text", scope(&[("label_fallback", json!("a\nb"))]), "/permission_scopes/1/label_fallback"),
        (
            "fallback_text",
            scope(&[("label_fallback", json!("safe \u{202e}elif eteled"))]),
            "/permission_scopes/1/label_fallback",
        ),
        (
            "fallback_text",
            scope(&[("label_fallback", json!({"en": "a\u{200b}b"}))]),
            "/permission_scopes/1/label_fallback/en",
        ),
        ("fallback_text", scope(&[("label_fallback", json!("e\u{301}"))]), "/permission_scopes/1/label_fallback"),
        (
            "fallback_text",
            with(&[("/tools/0/description_fallback", json!("\u{e0041}x"))]),
            "/tools/0/description_fallback",
        ),
        (
            "fallback_language",
            scope(&[("label_fallback", json!({"english": "a", "e": "b"}))]),
            "/permission_scopes/1/label_fallback/e",
        ),
        ("schema_not_object", schema(json!({"type": "string"})), "/tools/0/input_schema"),
        ("schema_not_object", schema(json!({"type": null})), "/tools/0/input_schema"),
        ("schema_not_object", schema(json!({"type": ["object", "null"]})), "/tools/0/input_schema"),
        ("schema_not_object", schema(json!(true)), "/tools/0/input_schema"),
        ("schema_invalid", closed(json!({"a": {"type": "text"}})), "/tools/0/input_schema/properties/a/type"),
        ("schema_invalid", closed(json!({"a": {"minimum": "1"}})), "/tools/0/input_schema/properties/a/minimum"),
        ("schema_invalid", closed(json!({"a": {"pattern": "("}})), "/tools/0/input_schema"),
        ("schema_invalid", closed(json!({"a": {"$ref": "#/$defs/none"}})), "/tools/0/input_schema"),
        (
            "schema_draft",
            schema(json!({"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"})),
            "/tools/0/input_schema/$schema",
        ),
        ("schema_too_deep", closed(json!({"a": deep})), "/tools/0/input_schema"),
        ("schema_too_large", closed(json!({"a": {"enum": many}})), "/tools/0/input_schema"),
        (
            "schema_pattern",
            closed(json!({"a": {"pattern": "x".repeat(513)}})),
            "/tools/0/input_schema/properties/a/pattern",
        ),
        (
            "schema_pattern",
            closed(json!({"a": {"pattern": "^(?!root)"}})),
            "/tools/0/input_schema/properties/a/pattern",
        ),
        (
            "schema_pattern",
            closed(json!({"a": {"patternProperties": {"(a)\\1": true}}})),
            "/tools/0/input_schema/properties/a/patternProperties/(a)\\1",
        ),
        (
            "schema_reference",
            closed(json!({"a": {"$ref": "https://example.com/a.json"}})),
            "/tools/0/input_schema/properties/a/$ref",
        ),
        (
            "schema_reference",
            closed(json!({"a": {"$dynamicRef": "other#x"}})),
            "/tools/0/input_schema/properties/a/$dynamicRef",
        ),
        ("schema_rebased", closed(json!({"a": {"$id": "b"}})), "/tools/0/input_schema/properties/a/$id"),
        (
            "unsafe_number",
            closed(json!({"a": {"maximum": 9_007_199_254_740_992_u64}})),
            "/tools/0/input_schema/properties/a/maximum",
        ),
        (
            "unsafe_number",
            closed(json!({"a": {"minimum": -9_007_199_254_740_992_i64}})),
            "/tools/0/input_schema/properties/a/minimum",
        ),
        ("unsafe_number", closed(json!({"a": {"enum": [1, 1e300]}})), "/tools/0/input_schema/properties/a/enum/1"),
        ("unsafe_number", with(&[("/x", json!(u64::MAX))]), "/x"),
        ("too_large", with(&[("/x", json!("x".repeat(MAX_BYTES)))]), ""),
    ]
}

#[test]
fn each_broken_manifest_rule_is_reported_with_its_pointer() {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (rule, manifest, location) in rules() {
        let faults = check(&manifest).expect_err(&format!("{rule} at {location}"));
        assert_eq!(rules_and_locations(&faults), [(rule, location)], "{faults}");
        let fault = &faults.faults()[0];
        assert_eq!((faults.code(), fault.code), (fault.rule.code(), fault.rule.code()), "{faults}");
        seen.insert(rule);
    }
    let at_the_parser = ["not_json", "too_deep", "repeated_name"];
    let all: BTreeSet<&str> = ManifestRule::ALL.iter().map(|rule| rule.as_str()).collect();
    let unseen: Vec<_> = all.difference(&seen).filter(|rule| !at_the_parser.contains(rule)).collect();
    assert_eq!(unseen, Vec::<&&str>::new());
}

#[test]
fn manifest_with_invalid_json_or_numbers_beyond_53_bits_is_refused() {
    let tripped = |text: &str| {
        rules_and_locations(&parse(text).unwrap_err())
            .iter()
            .map(|(rule, at)| format!("{rule} {at}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(tripped("{"), ["not_json "]);
    assert_eq!(tripped(&EXAMPLE.replace("5000", "1e999")), ["not_json "]);
    assert_eq!(tripped(&EXAMPLE.replace("5000", "NaN")), ["not_json "]);
    assert_eq!(tripped(&format!("{}{}", "[".repeat(64), "]".repeat(64))), ["too_deep "]);
    let twice = EXAMPLE.replace("\"required\": false", "\"required\": true, \"required\": false, \"name\": \"other\"");
    assert_eq!(tripped(&twice), ["repeated_name /tools/0/required", "repeated_name /tools/0/name"]);
    assert_eq!(tripped(&" ".repeat(MAX_WRITTEN_BYTES + 1)), ["too_large "]);
    // 2^53 - 1 is the largest integer that every parser represents, in any notation.
    let number = |text: &str| EXAMPLE.replace("\"agent_version\"", &format!("\"x\": {text}, \"agent_version\""));
    for exact in ["9007199254740991", "-9007199254740991", "9007199254740991.0", "0.1", "-0.0", "1e15"] {
        assert!(parse(&number(exact)).is_ok(), "{exact}");
    }
    for rounded in ["9007199254740992", "9007199254740993", "9007199254740993.0", "-1e16", "18446744073709551616"] {
        assert_eq!(tripped(&number(rounded)), ["unsafe_number /x"], "{rounded}");
    }
}

#[test]
fn all_manifest_faults_are_reported_together() {
    let manifest = json!({
        "schema_version": "2.0",
        "agent_version": "one",
        "tools": [
            {"name": "Read", "input_schema": {"type": "array", "pattern": "(?=x)"}, "permission_scope": "nowhere"},
            {"name": "ok_tool", "description_i18n_key": "k", "input_schema": {"type": "object", "properties": {
                "a": {"type": "text"}, "b": {"minLength": -1}}}, "permission_scope": "shell:exec", "timeout_ms": "1"},
            {"name": "ok_tool", "description_i18n_key": "k", "input_schema": {"type": "object"}, "permission_scope": "shell:exec"},
        ],
        "permission_scopes": [{"id": "shell:exec", "label_i18n_key": "", "description_i18n_key": "d", "sensitivity": "low"}],
        "capability_flags": {"supports_voice": 1},
        "big": 9_007_199_254_740_993_u64,
    });
    let faults = check(&manifest).unwrap_err();
    let wanted = [
        ("unsafe_number", "/big"),
        ("schema_version", "/schema_version"),
        ("agent_version", "/agent_version"),
        ("i18n_key", "/permission_scopes/0/label_i18n_key"),
        ("fallback_missing", "/permission_scopes/0/label_fallback"),
        ("fallback_missing", "/permission_scopes/0/description_fallback"),
        ("sensitivity_below_floor", "/permission_scopes/0/sensitivity"),
        ("tool_name", "/tools/0/name"),
        ("missing", "/tools/0/description_i18n_key"),
        ("schema_not_object", "/tools/0/input_schema"),
        ("schema_pattern", "/tools/0/input_schema/pattern"),
        ("scope_undeclared", "/tools/0/permission_scope"),
        ("schema_invalid", "/tools/1/input_schema/properties/a/type"),
        ("schema_invalid", "/tools/1/input_schema/properties/b/minLength"),
        ("timeout", "/tools/1/timeout_ms"),
        ("tool_duplicate", "/tools/2/name"),
        ("wrong_type", "/capability_flags/supports_voice"),
    ];
    assert_eq!(rules_and_locations(&faults), wanted, "{faults}");
    assert_eq!(faults.code(), ErrorCode::ManifestInvalid);
    let json = serde_json::to_value(&faults.faults()[6]).unwrap();
    assert_eq!(json["code"], "manifest_sensitivity_below_floor");
    assert_eq!(json["message"], r#"shell:exec must be at least "high", found "low""#);
}

#[test]
fn manifest_size_limit_and_warning_count_canonical_bytes() {
    // White space is not part of the canonical form.
    let spaced = EXAMPLE.replacen('{', &format!("{{{}", " ".repeat(2 * MAX_BYTES)), 1);
    assert!(spaced.len() > MAX_BYTES && spaced.len() < MAX_WRITTEN_BYTES);
    assert_eq!(parse(&spaced).unwrap().hash, parse(EXAMPLE).unwrap().hash);
    let of_size = |bytes: usize| {
        let empty = digest::canonical(&with(&[("/x", json!(""))])).len();
        check(&with(&[("/x", json!("x".repeat(bytes - empty)))]))
    };
    let large =
        |checked: &CheckedManifest| checked.warnings.iter().any(|warning| warning.rule == ManifestWarningRule::Large);
    assert!(!large(&of_size(LARGE_BYTES - 1).unwrap()));
    assert!(large(&of_size(LARGE_BYTES).unwrap()));
    let most = of_size(MAX_BYTES).unwrap();
    assert_eq!(most.canonical.len(), 131_072);
    assert!(large(&most));
    let faults = of_size(MAX_BYTES + 1).unwrap_err();
    assert_eq!(faults.code(), ErrorCode::ManifestTooLarge);
    // The size is reported before all other faults.
    let mut both = with(&[("/x", json!("x".repeat(MAX_BYTES)))]);
    both["agent_version"] = json!("x");
    let faults = check(&both).unwrap_err();
    assert_eq!((faults.faults().len(), faults.code()), (2, ErrorCode::ManifestTooLarge));
}

#[test]
fn manifest_values_exactly_at_the_limits_are_valid() {
    let schema = |schema: Value| check(&with(&[("/tools/0/input_schema", schema)]));
    let deep = (0..30).fold(json!(true), |inner, _| json!({"items": inner}));
    assert_eq!(crate::schema::depth(&deep), 31);
    assert!(
        schema(json!({"type": "object", "not": (0..29).fold(json!({}), |inner, _| json!({"items": inner}))})).is_ok()
    );
    let numbers: Vec<Value> = (0..4995).map(Value::from).collect();
    // The object, its type, properties, the property and the list count as five more values.
    assert!(schema(json!({"type": "object", "properties": {"a": {"enum": numbers}}})).is_ok());
    assert!(schema(json!({"type": "object", "propertyNames": {"pattern": "x".repeat(512)}})).is_ok());
    // A schema without `type` is valid; the arguments must be an object all the same.
    let untyped = schema(json!({"properties": {"path": {"type": "string"}}})).unwrap();
    let input = &untyped.manifest.tool("read_file").unwrap().input;
    assert!(input.check(&json!({"path": "/a"})).is_ok() && input.check(&json!({"path": 1})).is_err());
    assert!(input.check(&json!([])).is_err() && input.check(&json!("a")).is_err());
    assert!(schema(json!({})).is_ok());
    let name = |name: &str| check(&with(&[("/tools/0/name", json!(name))])).is_ok();
    assert!(name("ab") && name(&"a".repeat(32)) && name("a_9"));
    // A keyword inside `const` or `default` is data.
    let quoted = json!({"type": "object", "properties": {"$ref": {"const": {"$ref": "https://x"}}, "pattern": {"default": {"pattern": "(?=x)"}}}});
    assert!(schema(quoted).is_ok());
    assert!(
        schema(
            json!({"type": "object", "$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://x/y"})
        )
        .is_ok()
    );
}

#[test]
fn open_input_schema_or_missing_tool_description_gets_a_warning() {
    let rules = |value: &Value| -> Vec<(String, String)> {
        let warnings = check(value).unwrap().warnings;
        warnings.into_iter().map(|warning| (warning.rule.to_string(), warning.pointer)).collect()
    };
    let silent = with(&[("/tools/0/description_fallback", json!({"en": "Reads a file.", "fa": "می\u{200c}خواند"}))]);
    assert_eq!(rules(&silent), []);
    for open in [json!(null), json!(true), json!({"type": "string"})] {
        let mut manifest = silent.clone();
        let schema = manifest.pointer_mut("/tools/0/input_schema").unwrap().as_object_mut().unwrap();
        schema.shift_remove("additionalProperties");
        if !open.is_null() {
            schema.insert("additionalProperties".to_owned(), open);
        }
        let location = "/tools/0/input_schema/additionalProperties".to_owned();
        assert_eq!(rules(&manifest), [("additional_properties".to_owned(), location)]);
    }
    assert_eq!(rules(&example()), [("description_fallback".to_owned(), "/tools/0/description_fallback".to_owned())]);
}

#[test]
fn built_in_scope_presets_have_english_and_chinese_texts() {
    let presets = ScopePresets::default();
    let told: Vec<_> = presets
        .scopes()
        .map(|scope| (scope.id.as_str(), scope.sensitivity.as_str(), scope.label.in_language("zh-CN")))
        .collect();
    let wanted = [
        ("clipboard:read", "medium", "读取剪贴板"),
        ("filesystem:read", "medium", "读取本地文件"),
        ("location:read", "high", "读取位置"),
        ("notification:send", "low", "发送系统通知"),
    ];
    assert_eq!(told, wanted);
    assert_eq!(presets.text("agent.scope.filesystem_read.label", "en-GB"), Some("Read local files"));
    assert_eq!(presets.text("agent.scope.location_read.description", "zh-CN"), Some("获取此设备当前所在的位置。"));
    assert_eq!(presets.text("agent.scope.nothing.label", "en"), None);
    for scope in presets.scopes() {
        for text in [&scope.label, &scope.description] {
            let languages: Vec<_> = text.languages().map(|(tag, _)| tag).collect();
            assert_eq!(languages, ["en", "zh-CN"], "{}", scope.id);
        }
    }
    let floors = ["filesystem:write", "shell:exec", "camera:use", "MICROPHONE:listen", "location:read", "notes:write"];
    let floors = floors.map(|id| presets.floor(id).map(Sensitivity::as_str));
    assert_eq!(floors, [Some("high"), Some("high"), Some("high"), Some("high"), Some("high"), None]);
}

#[test]
fn minimum_device_sensitivity_of_write_scopes_is_at_least_medium() {
    let mut presets = ScopePresets::default();
    for (id, floor) in [
        ("notes:write", Some("medium")),
        ("notes:delete", Some("medium")),
        ("job:exec", Some("medium")),
        ("job:execute", Some("medium")),
        ("notes.shared:item:WRITE", Some("medium")),
        ("filesystem:write", Some("high")),
        ("shell:exec", Some("high")),
        ("notification:send", Some("low")),
        ("notes:read", None),
        ("notes:rewrite", None),
        ("write", None),
    ] {
        let found = presets.device_floor(&ScopeId::parse(id).unwrap()).map(Sensitivity::as_str);
        assert_eq!(found, floor, "{id}");
    }
    presets.extend_json(r#"{"floor": [{"family": "notes:*", "sensitivity": "low"}]}"#).unwrap();
    assert_eq!(presets.device_floor(&ScopeId::parse("notes:write").unwrap()), Some(Sensitivity::Medium));
    // A manifest may still declare the lower sensitivity.
    assert_eq!(presets.floor("notes:write"), Some(Sensitivity::Low));
}

#[test]
fn operator_presets_add_scopes_languages_and_minimum_sensitivities() {
    let mut presets = ScopePresets::default();
    presets
        .extend_toml(
            r#"
            [[scope]]
            id = "calendar:read"
            sensitivity = "medium"
            label = { en = "Read the calendar", de = "Kalender lesen" }
            description = { en = "See what you have planned." }

            [[scope]]
            id = "filesystem:read"
            sensitivity = "high"
            label = { de = "Dateien lesen" }

            [[floor]]
            family = "payment:*"
            sensitivity = "high"
            "#,
        )
        .unwrap();
    presets.extend_json(r#"{"floor": [{"family": "payment:*", "sensitivity": "high"}]}"#).unwrap();
    assert_eq!(presets.text("agent.scope.calendar_read.label", "de"), Some("Kalender lesen"));
    assert_eq!(presets.text("agent.scope.filesystem_read.label", "de-AT"), Some("Dateien lesen"));
    assert_eq!(presets.text("agent.scope.filesystem_read.label", "zh-CN"), Some("读取本地文件"));
    assert_eq!(presets.floor("payment:send"), Some(Sensitivity::High));
    // Added presets apply when a manifest is checked.
    let faults = Manifest::check(example(), &presets).unwrap_err();
    assert_eq!(faults.code(), ErrorCode::ManifestSensitivityBelowFloor);
    let calendar = writing_scope(&[
        ("id", json!("calendar:read")),
        ("sensitivity", json!("medium")),
        ("label_fallback", json!(null)),
        ("description_fallback", json!(null)),
    ]);
    let manifest = with(&[("/permission_scopes/0/sensitivity", json!("high")), ("/permission_scopes/-", calendar)]);
    assert!(Manifest::check(manifest, &presets).is_ok());
}

#[test]
fn invalid_operator_presets_are_all_reported_and_none_added() {
    let mut presets = ScopePresets::default();
    let faults = presets
        .extend_json(
            r#"{"scope": [
                {"id": "calendar:read", "sensitivity": "low", "label": {"en": "a"}, "description": {"en": "b"}},
                {"id": "system:x", "sensitivity": "low"},
                {"id": "a b", "sensitivity": "low"},
                {"id": "location:read", "sensitivity": "medium"},
                {"id": "x:y", "label": {"en": "a"}, "description": {"en": "b"}},
                {"id": "x:z", "sensitivity": "low", "label": {"de": "a"}, "description": {"e": "\u202e"}}
            ], "floor": [{"family": "shell:*", "sensitivity": "low"}, {"family": "*", "sensitivity": "low"}]}"#,
        )
        .unwrap_err();
    lines_are(
        &faults.to_string(),
        &[
            r#"scope 2: id "system:x" is reserved for the platform; choose another domain"#,
            r#"scope 3: id "a b" is not a scope: 1 to 128 letters, digits, '_', '-', '.' and ':'"#,
            r#"scope 4: sensitivity must not be lowered from "high" to "medium""#,
            r#"scope 5: sensitivity must be "low", "medium" or "high""#,
            r#"scope 6: description "e" must be a language tag such as "en" or "zh-CN""#,
            r#"scope 6: description in "e" must not contain U+202E: control, direction and invisible characters can make a text look like another"#,
            r#"scope 6: label and description must both have a text in "en" at least"#,
            r#"floor 1: sensitivity must not be lowered from "high" to "low""#,
            r#"floor 2: family must be a scope such as "filesystem:write", or all of a domain: "shell:*""#,
        ],
    );
    assert_eq!(presets, ScopePresets::default());
    for unread in
        ["scope = 1", "[[scope]]\nid = \"a:b\"\ncolour = 1", "[[floor]]\nfamily = \"a\"\nsensitivity = \"huge\""]
    {
        assert_eq!(presets.extend_toml(unread).unwrap_err().messages().len(), 1, "{unread}");
    }
}

fn lines_are(found: &str, wanted: &[&str]) {
    assert_eq!(found.lines().collect::<Vec<_>>(), wanted);
}

//! Faults in `[[tool]]`.

use super::refused;

refused! {
all_missing_keys_of_an_empty_tool_are_reported:
r#"
[[tool]]
"#
=>
r#"
agent.toml:4:1: tool[0].name: missing
  needed: a text
agent.toml:4:1: tool[0].description: missing
  needed: a text
agent.toml:4:1: tool[0].input: missing
  needed: a JSON Schema, at least { type = "object" }
agent.toml:4:1: tool[0].run: missing
  needed: the backend, such as { command = ["date"] }
"#;

invalid_tool_name_is_refused:
r#"
[[tool]]
name = "make reservation"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
"#
=>
r#"
agent.toml:5:8: tool "make reservation".name: "make reservation" is not a tool name
  allowed: 1 to 128 letters, digits, '_', '-' and '.'
"#;

misspelt_tool_key_is_refused_with_suggestion:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
scop = "a"
colour = 1
"#
=>
r#"
agent.toml:9:1: tool "find".scop: unknown key
  did you mean "scope"? allowed: "name", "title", "description", "scope", "input", "output", "run", "expose", "human_authorization", "timeout_ms", "effect", "idempotent", "open_world", "skill"
agent.toml:10:1: tool "find".colour: unknown key
  allowed: "name", "title", "description", "scope", "input", "output", "run", "expose", "human_authorization", "timeout_ms", "effect", "idempotent", "open_world", "skill"
"#;

duplicate_tool_name_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
"#
=>
r#"
agent.toml:10:8: tool "find".name: the tool at line 4 already has this name
  allowed: one that no other tool has
"#;

tool_with_misspelt_scope_is_refused_with_suggestion:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
scope = "booking:wirte"
[[scope]]
id = "booking:write"
label = "W"
sensitivity = "low"
"#
=>
r#"
agent.toml:9:9: tool "find".scope: no [[scope]] is named "booking:wirte"
  did you mean "booking:write"? declared: "booking:write"
"#;

tool_with_scope_is_refused_if_the_file_declares_no_scopes:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
scope = "booking:write"
"#
=>
r#"
agent.toml:9:9: tool "find".scope: no [[scope]] is named "booking:write"
  the file has no [[scope]] sections
"#;

tool_input_schema_that_is_not_of_type_object_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "string" }
run = { command = ["true"] }
"#
=>
r#"
agent.toml:7:9: tool "find".input: arguments are always an object
  needed: type = "object"
"#;

tool_input_given_as_text_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = "input.json"
run = { command = ["true"] }
"#
=>
r#"
agent.toml:7:9: tool "find".input: found the text "input.json"
  allowed: a table that holds a JSON Schema
"#;

tool_input_with_invalid_schema_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { a = { type = "strnig" } } }
run = { command = ["true"] }
"#
=>
r#"
agent.toml:7:9: tool "find".input: not a usable schema: at /properties/a/type: "strnig" is not valid under any of the schemas listed in the 'anyOf' keyword
  allowed: JSON Schema 2020-12 without remote references
"#;

tool_input_with_invalid_regex_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { a = { pattern = "(" } } }
run = { command = ["true"] }
"#
=>
r#"
agent.toml:7:9: tool "find".input: not a usable schema: at /properties/a/pattern: "(" is not a "regex"
  allowed: JSON Schema 2020-12 without remote references
"#;

tool_input_with_remote_reference_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { "$ref" = "https://example.com/x.json", type = "object" }
run = { command = ["true"] }
"#
=>
r#"
agent.toml:7:9: tool "find".input: not a usable schema: Resource 'https://example.com/x.json' is not present in a registry and retrieving it failed: Retrieval is disabled, cannot fetch https://example.com/x.json
  allowed: JSON Schema 2020-12 without remote references
"#;

tool_input_with_non_json_values_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", default = { a = nan, b = inf, c = 2026-01-01, d = [99999999999999999999] } }
run = { command = ["true"] }
"#
=>
r#"
agent.toml:7:44: tool "find".input.default.a: found the number nan
  allowed: a finite number
agent.toml:7:53: tool "find".input.default.b: found the number inf
  allowed: a finite number
agent.toml:7:62: tool "find".input.default.c: found the date or time 2026-01-01
  allowed: a JSON value; write a date as a text in quotes
agent.toml:7:79: tool "find".input.default.d[0]: found the number 99999999999999999999
  allowed: a number of at most 64 bits
"#;

tool_output_with_invalid_schema_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
output = { type = 1 }
"#
=>
r#"
agent.toml:9:10: tool "find".output: not a usable schema: at /type: 1 is not valid under any of the schemas listed in the 'anyOf' keyword
  allowed: JSON Schema 2020-12 without remote references
"#;

tool_timeout_out_of_range_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
timeout_ms = 0
[[tool]]
name = "b"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
timeout_ms = 600001
[[tool]]
name = "c"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
timeout_ms = -5
[[tool]]
name = "d"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
timeout_ms = 1.5
"#
=>
r#"
agent.toml:9:14: tool "find".timeout_ms: found 0
  allowed: a whole number from 1 to 600000
agent.toml:15:14: tool "b".timeout_ms: found 600001
  allowed: a whole number from 1 to 600000
agent.toml:21:14: tool "c".timeout_ms: found -5
  allowed: a whole number from 1 to 600000
agent.toml:27:14: tool "d".timeout_ms: found the number 1.5
  allowed: a whole number from 1 to 600000
"#;

non_boolean_tool_flags_are_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
expose = "no"
human_authorization = 1
"#
=>
r#"
agent.toml:9:10: tool "find".expose: found the text "no"
  allowed: true or false
agent.toml:10:23: tool "find".human_authorization: found the number 1
  allowed: true or false
"#;

tool_skill_given_as_boolean_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
skill = true
"#
=>
r#"
agent.toml:9:9: tool "find".skill: found true
  allowed: a table
"#;

human_tool_timeout_above_30_days_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { human = true }
timeout_ms = 2592000001
"#
=>
r#"
agent.toml:9:14: tool "find".timeout_ms: found 2592000001
  allowed: a whole number from 1 to 2592000000
"#;

empty_tool_description_is_refused:
r#"
[[tool]]
name = "find"
description = ""
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
"#
=>
r#"
agent.toml:6:15: tool "find".description: found an empty text
  allowed: a non-empty text
"#;
}

//! What is wrong with `[[tool]]`.

use super::refused;

refused! {
a_tool_with_nothing:
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
  needed: where it runs, such as { command = ["date"] }
"#;

a_tool_with_a_wrong_name:
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

a_misspelt_key_of_a_tool:
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
  did you mean "scope"? allowed: "name", "title", "description", "scope", "input", "output", "run", "expose", "human_authorization", "timeout_ms", "skill"
agent.toml:10:1: tool "find".colour: unknown key
  allowed: "name", "title", "description", "scope", "input", "output", "run", "expose", "human_authorization", "timeout_ms", "skill"
"#;

two_tools_of_one_name:
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
agent.toml:10:8: tool "find".name: the tool at line 4 has this name already
  allowed: one that no other tool has
"#;

a_scope_that_is_not_declared:
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
agent.toml:9:9: tool "find".scope: no [[scope]] is called "booking:wirte"
  did you mean "booking:write"? declared: "booking:write"
"#;

a_scope_where_there_is_none:
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
agent.toml:9:9: tool "find".scope: no [[scope]] is called "booking:write"
  the file has no [[scope]] at all
"#;

an_input_that_is_no_object:
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

an_input_that_is_no_table:
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

an_input_that_is_no_schema:
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

an_input_with_a_pattern_that_does_not_compile:
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

an_input_that_refers_elsewhere:
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

an_input_with_what_json_has_not:
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
  allowed: a number that JSON can write
agent.toml:7:53: tool "find".input.default.b: found the number inf
  allowed: a number that JSON can write
agent.toml:7:62: tool "find".input.default.c: found the date or time 2026-01-01
  allowed: what JSON has; write a date as a text, in quotes
agent.toml:7:79: tool "find".input.default.d[0]: found the number 99999999999999999999
  allowed: a number of at most 64 bits
"#;

an_output_that_is_no_schema:
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

timeouts_out_of_range:
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

flags_that_are_not:
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

a_skill_that_is_no_table:
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

timeouts_of_people:
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

an_empty_description:
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
  allowed: a text with something in it
"#;
}

//! Faults in the agent file as a whole, `[agent]` and `[capabilities]`.

use super::{refused, refused_whole};

refused_whole! {
empty_agent_file_is_refused:
r#"
"#
=>
r#"
agent.toml:1:1: agent: missing
  needed: [agent] with a name and a version
"#;

agent_without_name_and_version_is_refused:
r#"
[agent]
"#
=>
r#"
agent.toml:1:1: agent.name: missing
  needed: a text
agent.toml:1:1: agent.version: missing
  needed: a text such as "1.0.0"
"#;

agent_section_given_as_text_is_refused:
r#"
agent = "a"
"#
=>
r#"
agent.toml:1:9: agent: found the text "a"
  allowed: a table
"#;

invalid_agent_name_and_version_are_both_reported:
r#"
[agent]
name = "My Agent"
version = "1.0"
"#
=>
r#"
agent.toml:2:8: agent.name: "My Agent" is not an agent name
  allowed: 1 to 64 lower-case letters, digits and hyphens, beginning with a letter or digit
agent.toml:3:11: agent.version: "1.0" is not a version: unexpected end of input while parsing minor version number
  allowed: MAJOR.MINOR.PATCH, such as "1.0.0"
"#;

misspelt_agent_key_is_refused_with_suggestion:
r#"
[agent]
nmae = "a"
version = "1.0.0"
"#
=>
r#"
agent.toml:1:1: agent.name: missing
  needed: a text
agent.toml:2:1: agent.nmae: unknown key
  did you mean "name"? allowed: "name", "title", "version", "description", "examples", "ask", "owner", "skill", "created", "anp"
"#;

agent_keys_that_are_not_texts_are_refused:
r#"
[agent]
name = 5
version = 1.0
title = true
description = 2026-01-01
"#
=>
r#"
agent.toml:2:8: agent.name: found the number 5
  allowed: a text
agent.toml:3:11: agent.version: found the number 1.0
  allowed: a text
agent.toml:4:9: agent.title: found true
  allowed: a text, or a table such as { en = "Read", zh-CN = "读取" }
agent.toml:5:15: agent.description: found the date or time 2026-01-01
  allowed: a text, or a table such as { en = "Read", zh-CN = "读取" }
"#;

agent_texts_with_an_invalid_language_or_without_text_are_refused:
r#"
[agent]
name = "a"
version = "1.0.0"
title = { "en_US!" = "A" }
description = {}
examples = ["Hello", { en = "" }, 3]
"#
=>
r#"
agent.toml:4:22: agent.title."en_US!": not a language
  allowed: a language tag such as "en" or "zh-CN"
agent.toml:5:15: agent.description: found no text
  allowed: at least one language
agent.toml:6:22: agent.examples[1]: found no text
  allowed: at least one language
agent.toml:6:29: agent.examples[1].en: found an empty text
  allowed: a non-empty text
agent.toml:6:35: agent.examples[2]: found the number 3
  allowed: a text, or a table such as { en = "Read", zh-CN = "读取" }
"#;

owner_without_name_and_with_invalid_url_is_refused:
r#"
[agent]
name = "a"
version = "1.0.0"
owner = { url = "example.com" }
"#
=>
r#"
agent.toml:4:9: agent.owner.name: missing
  needed: a text
agent.toml:4:17: agent.owner.url: "example.com" is not a web address: relative URL without a base
  allowed: an address beginning with "https://" or "http://"
"#;

scope_section_given_as_text_is_refused:
r#"
scope = ["a"]
[agent]
name = "a"
version = "1.0.0"
"#
=>
r#"
agent.toml:1:10: scope[0]: found the text "a"
  allowed: a table
"#;

all_faults_of_an_agent_file_are_reported_in_file_order:
r#"
[agent]
name = "Hotel"
version = "1"
colour = "red"

[brain]
kind = "rules"
fallback = "{{"

[[tool]]
name = "book"
description = "Books."
scope = "booking:wirte"
input = { type = "object", properties = { room = { type = "strnig" } } }
run = { mcp = "hotle" }
timeout_ms = 0

[[scope]]
id = "booking:write"
label = "Book"
sensitivity = "enormous"

[[intent]]
name = "book"
keywords = ["book"]
tool = "book"
answer = "Done."

[[intent.slot]]
name = "rom"
type = "text"

[[mcp]]
name = "hotel"
command = []
"#
=>
r#"
agent.toml:2:8: agent.name: "Hotel" is not an agent name
  allowed: 1 to 64 lower-case letters, digits and hyphens, beginning with a letter or digit
agent.toml:3:11: agent.version: "1" is not a version: unexpected end of input while parsing major version number
  allowed: MAJOR.MINOR.PATCH, such as "1.0.0"
agent.toml:4:1: agent.colour: unknown key
  allowed: "name", "title", "version", "description", "examples", "ask", "owner", "skill", "created", "anp"
agent.toml:8:12: brain.fallback: not a template: unexpected end of input, expected expression
  allowed: text with {{ … }} places and {% … %} blocks, in the Jinja language
agent.toml:13:9: tool "book".scope: no [[scope]] is named "booking:wirte"
  did you mean "booking:write"? declared: "booking:write"
agent.toml:14:9: tool "book".input: not a usable schema: at /properties/room/type: "strnig" is not valid under any of the schemas listed in the 'anyOf' keyword
  allowed: JSON Schema 2020-12 without remote references
agent.toml:15:15: tool "book".run.mcp: no [[mcp]] is named "hotle"
  did you mean "hotel"? declared: "hotel"
agent.toml:16:14: tool "book".timeout_ms: found 0
  allowed: a whole number from 1 to 600000
agent.toml:21:15: scope "booking:write".sensitivity: found "enormous"
  allowed: "low", "medium", "high"
agent.toml:30:8: intent "book".slot "rom".name: "book" takes no argument "rom"
  did you mean "room"? it takes: "room"
agent.toml:35:11: mcp "hotel".command: found an empty list
  allowed: a list of a program and its arguments, not empty
"#;
}

refused! {
key_without_value_is_a_toml_error:
r#"
x =
"#
=>
r#"
agent.toml:4:4: not TOML: string values must be quoted, expected literal string
"#;

unclosed_text_is_a_toml_error:
r#"
x = "abc
y = 1
"#
=>
r#"
agent.toml:4:9: not TOML: invalid basic string, expected `"`
"#;

duplicate_key_is_a_toml_error:
r#"
[brain]
kind = "rules"
kind = "rules"
"#
=>
r#"
agent.toml:6:1: not TOML: duplicate key
"#;

too_deep_nesting_is_a_toml_error:
r#"
x = [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]
"#
=>
r#"
agent.toml:4:85: not TOML: cannot recurse further; max recursion depth met
"#;

misspelt_section_is_refused_with_suggestion:
r#"
[[tools]]
name = "x"
"#
=>
r#"
agent.toml:4:3: tools: unknown key
  did you mean "tool"? allowed: "agent", "capabilities", "option", "scope", "tool", "brain", "intent", "mcp", "secrets", "allow", "information", "capability", "interface", "capability_flags"
"#;

unknown_section_is_refused:
r#"
[weather]
"#
=>
r#"
agent.toml:4:2: weather: unknown key
  allowed: "agent", "capabilities", "option", "scope", "tool", "brain", "intent", "mcp", "secrets", "allow", "information", "capability", "interface", "capability_flags"
"#;

table_in_place_of_array_of_tables_is_refused:
r#"
[tool]
name = "x"
"#
=>
r#"
agent.toml:4:1: tool: found a table
  allowed: any number of sections, each beginning with [[tool]]
"#;

array_of_tables_in_place_of_table_is_refused:
r#"
[[brain]]
kind = "rules"
"#
=>
r#"
agent.toml:4:1: brain: found a list of sections
  allowed: a single table, in single brackets
"#;

unknown_key_with_line_break_is_reported_escaped:
r#"
"a b\nc" = 1
"#
=>
r#"
agent.toml:4:1: agent."a b\nc": unknown key
  allowed: "name", "title", "version", "description", "examples", "ask", "owner", "skill", "created", "anp"
"#;
}

refused! {
unknown_capability_is_refused_with_suggestion:
r#"
[capabilities]
histroy = []
"#
=>
r#"
agent.toml:5:1: capabilities.histroy: unknown key
  did you mean "history"? allowed: "history", "stream", "application_tools", "images"
"#;

unknown_history_capability_is_refused_with_suggestion:
r#"
[capabilities]
history = ["compact"]
"#
=>
r#"
agent.toml:5:12: capabilities.history[0]: found "compact"
  did you mean "compacted"? allowed: "compacted", "full"
"#;

empty_list_of_stream_modes_is_refused:
r#"
[capabilities]
stream = []
"#
=>
r#"
agent.toml:5:10: capabilities.stream: found an empty list, so no client could receive an answer
  allowed: at least one of "delta", "message", "none"
"#;

text_in_place_of_boolean_capability_is_refused:
r#"
[capabilities]
application_tools = "yes"
"#
=>
r#"
agent.toml:5:21: capabilities.application_tools: found the text "yes"
  allowed: true or false
"#;

boolean_in_place_of_image_capability_list_is_refused:
r#"
[capabilities]
images = true
"#
=>
r#"
agent.toml:5:10: capabilities.images: found true
  allowed: a list of "https", "data"
"#;
}

#[test]
fn examples_that_are_too_many_or_too_long_are_refused() {
    let with = |examples: &str| format!("{}examples = [{examples}]\n", super::AGENT);
    let many = super::faults(&with(&"\"a\",".repeat(9)));
    assert_eq!(many, "agent.toml:4:45: agent.examples[8]: one of 9 examples\n  allowed: at most 8");
    let long = super::faults(&with(&format!("\"{}\"", "x".repeat(201))));
    let expected =
        "agent.toml:4:13: agent.examples[0]: has 201 characters\n  allowed: at most 200, so that it fits on a button";
    assert_eq!(long, expected);
}

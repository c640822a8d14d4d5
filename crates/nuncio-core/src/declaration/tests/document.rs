//! What is wrong with the file as a whole, `[agent]` and `[capabilities]`.

use super::{refused, refused_whole};

refused_whole! {
an_empty_file:
r#"
"#
=>
r#"
agent.toml:1:1: agent: missing
  needed: [agent] with a name and a version
"#;

an_agent_without_anything:
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

an_agent_that_is_a_text:
r#"
agent = "a"
"#
=>
r#"
agent.toml:1:9: agent: found the text "a"
  allowed: a table
"#;

an_agent_with_a_wrong_name_and_version:
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

an_agent_with_a_misspelt_key:
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
  did you mean "name"? allowed: "name", "title", "version", "description", "owner", "skill", "created", "anp"
"#;

an_agent_with_numbers_for_texts:
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
  allowed: a text
agent.toml:5:15: agent.description: found the date or time 2026-01-01
  allowed: a text
"#;

an_owner_without_a_name_or_a_page:
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

a_scope_that_is_no_section:
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

everything_wrong_is_said_at_once_in_the_order_of_the_file:
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
  allowed: "name", "title", "version", "description", "owner", "skill", "created", "anp"
agent.toml:8:12: brain.fallback: not a template: unexpected end of input, expected expression
  allowed: text with {{ … }} places and {% … %} blocks, in the Jinja language
agent.toml:13:9: tool "book".scope: no [[scope]] is called "booking:wirte"
  did you mean "booking:write"? declared: "booking:write"
agent.toml:14:9: tool "book".input: not a usable schema: at /properties/room/type: "strnig" is not valid under any of the schemas listed in the 'anyOf' keyword
  allowed: JSON Schema 2020-12 without remote references
agent.toml:15:15: tool "book".run.mcp: no [[mcp]] is called "hotle"
  did you mean "hotel"? declared: "hotel"
agent.toml:16:14: tool "book".timeout_ms: found 0
  allowed: a whole number from 1 to 600000
agent.toml:21:15: scope "booking:write".sensitivity: found "enormous"
  allowed: "low", "medium", "high"
agent.toml:30:8: intent "book".slot "rom".name: "book" takes no argument "rom"
  did you mean "room"? it takes: "room"
agent.toml:35:11: mcp "hotel".command: found an empty list
  allowed: a list of a program and its arguments, with something in it
"#;
}

refused! {
a_key_with_no_value_is_not_toml:
r#"
x =
"#
=>
r#"
agent.toml:4:4: not TOML: string values must be quoted, expected literal string
"#;

an_unclosed_text_is_not_toml:
r#"
x = "abc
y = 1
"#
=>
r#"
agent.toml:4:9: not TOML: invalid basic string, expected `"`
"#;

a_key_twice_is_not_toml:
r#"
[brain]
kind = "rules"
kind = "rules"
"#
=>
r#"
agent.toml:6:1: not TOML: duplicate key
"#;

nesting_without_end_is_refused:
r#"
x = [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]
"#
=>
r#"
agent.toml:4:85: not TOML: cannot recurse further; max recursion depth met
"#;

an_unknown_section:
r#"
[[tools]]
name = "x"
"#
=>
r#"
agent.toml:4:3: tools: unknown key
  did you mean "tool"? allowed: "agent", "capabilities", "brain", "intent", "option", "scope", "tool", "mcp", "secrets", "allow", "information", "capability", "interface", "capability_flags"
"#;

a_section_that_is_nothing_we_know:
r#"
[weather]
"#
=>
r#"
agent.toml:4:2: weather: unknown key
  allowed: "agent", "capabilities", "brain", "intent", "option", "scope", "tool", "mcp", "secrets", "allow", "information", "capability", "interface", "capability_flags"
"#;

one_section_where_several_are_meant:
r#"
[tool]
name = "x"
"#
=>
r#"
agent.toml:4:1: tool: found a table
  allowed: any number of sections, each beginning with [[tool]]
"#;

several_sections_where_one_is_meant:
r#"
[[brain]]
kind = "rules"
"#
=>
r#"
agent.toml:4:1: brain: found a list of sections
  allowed: a single table, in single brackets
"#;

a_key_with_odd_characters:
r#"
"a b\nc" = 1
"#
=>
r#"
agent.toml:4:1: agent."a b\nc": unknown key
  allowed: "name", "title", "version", "description", "owner", "skill", "created", "anp"
"#;
}

refused! {
an_unknown_capability:
r#"
[capabilities]
histroy = []
"#
=>
r#"
agent.toml:5:1: capabilities.histroy: unknown key
  did you mean "history"? allowed: "history", "stream", "application_tools", "images"
"#;

an_unknown_kind_of_history:
r#"
[capabilities]
history = ["compact"]
"#
=>
r#"
agent.toml:5:12: capabilities.history[0]: found "compact"
  did you mean "compacted"? allowed: "compacted", "full"
"#;

no_way_to_answer:
r#"
[capabilities]
stream = []
"#
=>
r#"
agent.toml:5:10: capabilities.stream: found an empty list, so nobody could be answered
  allowed: at least one of "delta", "message", "none"
"#;

a_flag_that_is_a_text:
r#"
[capabilities]
application_tools = "yes"
"#
=>
r#"
agent.toml:5:21: capabilities.application_tools: found the text "yes"
  allowed: true or false
"#;

pictures_that_are_not_a_list:
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

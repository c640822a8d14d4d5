//! What is wrong with `[brain]` and `[[intent]]`.

use super::refused;

refused! {
a_brain_of_no_kind:
r#"
[brain]
fallback = "?"
"#
=>
r#"
agent.toml:4:1: brain.kind: missing
  needed: one of "rules", "script", "model", "process", "aap"
"#;

a_brain_of_an_unknown_kind:
r#"
[brain]
kind = "rule"
"#
=>
r#"
agent.toml:5:8: brain.kind: found "rule"
  did you mean "rules"? allowed: "rules", "script", "model", "process", "aap"
"#;

a_script_brain_with_a_fallback_and_an_intent:
r#"
[brain]
kind = "script"
fallback = "?"
[[intent]]
name = "x"
"#
=>
r#"
agent.toml:6:1: brain.fallback: not allowed here
  only a brain of kind "rules" has a fallback
agent.toml:7:3: intent: not allowed here
  only a brain of kind "rules" has intents
"#;

a_fallback_that_is_no_template:
r#"
[brain]
kind = "rules"
fallback = "{{ oops"
"#
=>
r#"
agent.toml:6:12: brain.fallback: not a template: unexpected end of input, expected end of variable block
  allowed: text with {{ … }} places and {% … %} blocks, in the Jinja language
"#;

a_secret_said_to_people:
r#"
[brain]
kind = "rules"
fallback = "{{ secrets.KEY }}"
[secrets]
KEY = { env = "KEY" }
"#
=>
r#"
agent.toml:6:12: brain.fallback: a secret would be said to people
  allowed: secrets in headers, bodies, addresses and environment variables
"#;
}

refused! {
an_intent_nothing_can_mean:
r#"
[[intent]]
name = "go"
answer = "ok"
"#
=>
r#"
agent.toml:4:1: intent "go": nothing a person says can mean it
  needed: keywords, patterns or both
"#;

an_intent_without_an_answer:
r#"
[[intent]]
name = "go"
keywords = ["go"]
"#
=>
r#"
agent.toml:4:1: intent "go".answer: missing
  needed: what to say
"#;

an_empty_and_a_repeated_keyword:
r#"
[[intent]]
name = "go"
keywords = ["go", "go"]
answer = "ok"
[[intent]]
name = "on"
keywords = ["on", " "]
answer = "ok"
"#
=>
r#"
agent.toml:6:19: intent "go".keywords[1]: "go" is listed twice
  allowed: each once
agent.toml:10:19: intent "on".keywords[1]: found an empty text
  allowed: a text with something in it
"#;

a_pattern_that_does_not_compile:
r#"
[[intent]]
name = "go"
patterns = ['(go']
answer = "ok"
"#
=>
r#"
agent.toml:6:13: intent "go".patterns[0]: not a pattern: unclosed group
  allowed: a regular expression of Rust's regex crate
"#;

a_group_that_is_no_slot:
r#"
[[intent]]
name = "go"
patterns = ['(?<dya>.+)']
answer = "ok"
[[intent.slot]]
name = "day"
type = "date"
"#
=>
r#"
agent.toml:6:13: intent "go".patterns[0]: the group "dya" is not a slot of the intent
  did you mean "day"? slots: "day"
"#;

a_group_without_any_slot:
r#"
[[intent]]
name = "go"
patterns = ['(?<day>.+)']
answer = "ok"
"#
=>
r#"
agent.toml:6:13: intent "go".patterns[0]: the group "day" is not a slot of the intent
  the intent has no [[intent.slot]] at all
"#;

a_tool_that_is_not_declared:
r#"
[[intent]]
name = "go"
keywords = ["go"]
answer = "ok"
tool = "fnid"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
"#
=>
r#"
agent.toml:8:8: intent "go".tool: no [[tool]] is called "fnid"
  did you mean "find"? declared: "find"
"#;

a_tool_where_there_is_none:
r#"
[[intent]]
name = "go"
keywords = ["go"]
answer = "ok"
tool = "find"
"#
=>
r#"
agent.toml:8:8: intent "go".tool: no [[tool]] is called "find"
  the file has no [[tool]] at all
"#;

a_tool_no_server_is_said_to_bring:
r#"
[[intent]]
name = "go"
keywords = ["go"]
answer = "ok"
tool = "find"
[[mcp]]
name = "m"
command = ["x"]
import = ["other"]
"#
=>
r#"
agent.toml:8:8: intent "go".tool: no [[tool]] is called "find"
  declared: "other"
"#;

a_failure_with_nothing_to_fail:
r#"
[[intent]]
name = "go"
keywords = ["go"]
answer = "ok"
failure = "no"
"#
=>
r#"
agent.toml:8:1: intent "go".failure: not allowed here
  only an intent with a tool can fail
"#;

a_slot_the_tool_does_not_take:
r#"
[[intent]]
name = "go"
keywords = ["go"]
answer = "ok"
tool = "find"
[[intent.slot]]
name = "query"
type = "text"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
"#
=>
r#"
agent.toml:10:8: intent "go".slot "query".name: "find" takes no argument "query"
  it takes: "q"
"#;

two_slots_of_one_name:
r#"
[[intent]]
name = "go"
keywords = ["go"]
answer = "ok"
[[intent.slot]]
name = "a"
type = "text"
[[intent.slot]]
name = "a"
type = "text"
"#
=>
r#"
agent.toml:12:8: intent "go".slot "a".name: the intent has this slot already
  allowed: each name once
"#;

a_slot_of_an_unknown_type:
r#"
[[intent]]
name = "go"
keywords = ["go"]
answer = "ok"
[[intent.slot]]
name = "a"
type = "number"
"#
=>
r#"
agent.toml:10:8: intent "go".slot "a".type: found "number"
  allowed: "text", "date", "integer", "choice", "pattern"
"#;

a_choice_between_nothing:
r#"
[[intent]]
name = "go"
keywords = ["go"]
answer = "ok"
[[intent.slot]]
name = "a"
type = "choice"
[[intent.slot]]
name = "b"
type = "choice"
choices = []
"#
=>
r#"
agent.toml:8:1: intent "go".slot "a".choices: missing
  needed: the words to choose from
agent.toml:14:11: intent "go".slot "b".choices: found an empty list
  allowed: a list of texts, with something in it
"#;

choices_for_a_date:
r#"
[[intent]]
name = "go"
keywords = ["go"]
answer = "ok"
[[intent.slot]]
name = "a"
type = "date"
choices = ["x"]
pattern = "x"
"#
=>
r#"
agent.toml:11:1: intent "go".slot "a".choices: not allowed here
  only a slot of type "choice" has this
agent.toml:12:1: intent "go".slot "a".pattern: not allowed here
  only a slot of type "pattern" has this
"#;

defaults_the_slot_would_not_take:
r#"
[[intent]]
name = "go"
keywords = ["go"]
answer = "ok"
[[intent.slot]]
name = "a"
type = "integer"
default = "two"
[[intent.slot]]
name = "b"
type = "choice"
choices = ["x", "y"]
default = "z"
[[intent.slot]]
name = "c"
type = "pattern"
pattern = "^[0-9]+$"
default = "z"
[[intent.slot]]
name = "d"
type = "text"
default = 5
"#
=>
r#"
agent.toml:11:11: intent "go".slot "a".default: found "two"
  allowed: a whole number
agent.toml:16:11: intent "go".slot "b".default: found "z"
  allowed: "x", "y"
agent.toml:21:11: intent "go".slot "c".default: found "z"
  allowed: what matches "^[0-9]+$"
agent.toml:25:11: intent "go".slot "d".default: found the number 5
  allowed: a text
"#;

two_intents_of_one_name:
r#"
[[intent]]
name = "go"
keywords = ["go"]
answer = "ok"
[[intent]]
name = "go"
keywords = ["go"]
answer = "ok"
"#
=>
r#"
agent.toml:9:8: intent "go".name: the intent at line 4 has this name already
  allowed: one that no other intent has
"#;
}

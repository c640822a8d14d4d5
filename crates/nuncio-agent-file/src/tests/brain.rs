//! Faults in `[brain]` and `[[intent]]`.

use nuncio_core::agent::BrainSpec;

use super::{AGENT, refused};
use crate::parse;

#[test]
fn slot_is_required_if_it_has_a_question_or_the_tool_requires_its_argument() {
    let slot = |name: &str, rest: &str| format!("[[intent.slot]]\nname = \"{name}\"\n{rest}\n");
    let text = [
        AGENT.to_owned(),
        "[[intent]]\nname = \"i\"\nkeywords = [\"go\"]\ntool = \"t\"\nanswer = \"ok\"\n".to_owned(),
        slot("needed", "type = \"text\""),
        slot("asked", "type = \"text\"\nask = \"?\""),
        slot("free", "type = \"text\""),
        slot("kind", "type = \"choice\"\nchoices = [\"suite|suites\", \"single\"]\ndefault = \"suite\""),
        "[[tool]]\nname = \"t\"\ndescription = \"d\"\ninput = { type = \"object\", properties = { needed = {}, asked = {}, free = {}, kind = {} }, required = [\"needed\", \"kind\"] }\nrun = { answer = \"x\" }\n".to_owned(),
    ];
    let declared = parse("agent.toml", &text.concat()).unwrap();
    let BrainSpec::Rules(rules) = declared.agent.brain else { panic!("no rules brain") };
    let required: Vec<_> =
        rules.intents[0].slots.iter().filter(|slot| slot.is_required).map(|slot| &slot.name).collect();
    assert_eq!(required, ["needed", "asked"]);
    let wrong = text.concat().replace("default = \"suite\"", "default = \"tent\"");
    let faults = super::faults(&wrong);
    assert!(faults.contains("allowed: \"suite\", \"single\""), "{faults}");
}

refused! {
brain_without_kind_is_refused:
r#"
[brain]
fallback = "?"
"#
=>
r#"
agent.toml:4:1: brain.kind: missing
  needed: one of "rules", "script", "model", "process", "aap"
"#;

unknown_brain_kind_is_refused_with_suggestion:
r#"
[brain]
kind = "rule"
"#
=>
r#"
agent.toml:5:8: brain.kind: found "rule"
  did you mean "rules"? allowed: "rules", "script", "model", "process", "aap"
"#;

fallback_and_intent_are_refused_for_script_brain:
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

invalid_fallback_template_is_refused:
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

secret_in_fallback_answer_is_refused:
r#"
[brain]
kind = "rules"
fallback = "{{ secrets.KEY }}"
[secrets]
KEY = { env = "KEY" }
"#
=>
r#"
agent.toml:6:16: brain.fallback: a secret would be shown to people
  allowed: secrets in headers, bodies, addresses and environment variables
"#;
}

refused! {
intent_without_keywords_and_patterns_is_refused:
r#"
[[intent]]
name = "go"
answer = "ok"
"#
=>
r#"
agent.toml:4:1: intent "go": the intent can never match
  needed: keywords, patterns or both
"#;

intent_without_answer_is_refused:
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

empty_and_repeated_intent_keywords_are_refused:
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
  allowed: a non-empty text
"#;

invalid_intent_pattern_is_refused:
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

intent_pattern_group_without_matching_slot_is_refused_with_suggestion:
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

intent_pattern_group_is_refused_if_the_intent_has_no_slots:
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

intent_with_misspelt_tool_is_refused_with_suggestion:
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
agent.toml:8:8: intent "go".tool: no [[tool]] is named "fnid"
  did you mean "find"? declared: "find"
"#;

intent_with_tool_is_refused_if_the_file_declares_no_tools:
r#"
[[intent]]
name = "go"
keywords = ["go"]
answer = "ok"
tool = "find"
"#
=>
r#"
agent.toml:8:8: intent "go".tool: no [[tool]] is named "find"
  the file has no [[tool]] sections
"#;

intent_tool_missing_from_mcp_imports_is_refused:
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
agent.toml:8:8: intent "go".tool: no [[tool]] is named "find"
  declared: "other"
"#;

failure_text_of_intent_without_tool_is_refused:
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

intent_slot_that_is_no_argument_of_its_tool_is_refused:
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

duplicate_slot_name_is_refused:
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
agent.toml:12:8: intent "go".slot "a".name: the intent already has this slot
  allowed: each name once
"#;

unknown_slot_type_is_refused:
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

choice_slot_without_choices_is_refused:
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
  allowed: a list of texts, not empty
"#;

choices_and_pattern_are_refused_for_date_slot:
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

slot_default_that_does_not_fit_the_slot_is_refused:
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
  allowed: a text that matches "^[0-9]+$"
agent.toml:25:11: intent "go".slot "d".default: found the number 5
  allowed: a text
"#;

duplicate_intent_name_is_refused:
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
agent.toml:9:8: intent "go".name: the intent at line 4 already has this name
  allowed: one that no other intent has
"#;
}

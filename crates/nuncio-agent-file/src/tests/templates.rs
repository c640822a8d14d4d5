//! Templates in agent files: unknown names with their positions, and what an intent's reply may use.

use super::{AGENT, noted, notes, refused};

refused! {
unknown_filter_test_and_function_are_refused_at_their_position:
r#"
[[intent]]
name = "greet"
keywords = ["hello"]
answer = """
Hello \"{{ slots.who | uper }}\",
{% if language is oddd %}{{ now() }}{% endif %}
{{ language.upper() }} {{ slots.list | map("titel") | join }}"""
[[intent.slot]]
name = "who"
type = "text"
[[intent.slot]]
name = "list"
type = "text"
"#
=>
r#"
agent.toml:8:24: intent "greet".answer: there is no filter "uper"
  did you mean "upper"?
agent.toml:9:19: intent "greet".answer: there is no test "oddd"
  did you mean "odd"?
agent.toml:9:29: intent "greet".answer: there is no function "now"
  functions: debug, dict, namespace, range
agent.toml:10:4: intent "greet".answer: "language.upper" cannot be called
  values have no methods; use the filter: {{ … | upper }}
agent.toml:10:44: intent "greet".answer: there is no filter "titel"
  did you mean "title"?
"#;

slot_that_its_intent_does_not_have_is_refused:
r#"
[[intent]]
name = "meet"
keywords = ["meet"]
answer = "Hello {{ slots.nmae }}."
[[intent.slot]]
name = "name"
type = "text"
ask = "Who?"
[[intent]]
name = "bye"
keywords = ["bye"]
answer = "Bye {{ spoken.name }}."
"#
=>
r#"
agent.toml:7:20: intent "meet".answer: the intent has no slot "nmae"
  did you mean "name"? slots: "name"
agent.toml:15:18: intent "bye".answer: the intent has no slot "name"
  the intent has no [[intent.slot]] at all
"#;

template_that_can_never_be_rendered_and_empty_answer_without_a_tool_are_refused:
r#"
[[intent]]
name = "a"
keywords = ["a"]
answer = '{{ "a" | replace("b") }}'
[[intent]]
name = "b"
keywords = ["b"]
answer = ""
"#
=>
r#"
agent.toml:7:10: intent "a".answer: cannot be rendered: missing argument
  allowed: a template that can be rendered with any values
agent.toml:11:10: intent "b".answer: is empty
  needed: the text of the answer, because the intent has no tool whose result could be the answer
"#;

plain_answer_that_does_not_fit_the_output_schema_is_refused:
r#"
[[tool]]
name = "a"
description = "A."
input = { type = "object" }
output = { type = "object" }
run = { answer = "hello" }
[[tool]]
name = "b"
description = "B."
input = { type = "object" }
output = { type = "object", required = ["b"] }
run = { answer = '{"a": 1}' }
"#
=>
r#"
agent.toml:9:1: tool "a".run.answer: is not JSON, though the tool has an output schema: expected value at line 1 column 1
  write it as JSON, or remove "output"
agent.toml:15:1: tool "b".run.answer: does not fit the output schema: "b" is a required property
  correct one of the two
"#;

variable_that_is_unknown_where_a_value_is_needed_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["x", "{{ arg.q }}"], env = { A = "{{ q }} {{ range(3) }}" } }
[[mcp]]
name = "m"
command = ["x", "{{ args.q }}"]
import = true
env = { A = "{{ args.q }}" }
"#
=>
r#"
agent.toml:8:29: tool "find".run.command[1]: "arg" is unknown, so every call would fail
  did you mean "args"? known: args, secrets
agent.toml:8:57: tool "find".run.env.A: "q" is unknown, so every call would fail
  known: args, secrets
agent.toml:11:21: mcp "m".command[1]: "args" is unknown, so the server could not be reached
  known: secrets
agent.toml:13:17: mcp "m".env.A: "args" is unknown, so the server could not be reached
  known: secrets
"#;

argument_that_a_closed_schema_does_not_have_is_refused_at_any_depth:
r#"
[[tool]]
name = "find"
description = "Finds."
run = { http = { url = "https://a.example/{{ args.qq }}", body = "{{ args.room.nr }} {{ args.list[0].b }}" } }
[tool.input]
type = "object"
additionalProperties = false
required = ["q", "room", "list"]
[tool.input.properties]
q = { type = "string" }
room = { type = "object", properties = { id = {} }, required = ["id"], additionalProperties = false }
list = { type = "array", items = { type = "object", properties = { a = {} }, additionalProperties = false } }
"#
=>
r#"
agent.toml:7:46: tool "find".run.http.url: the input has no property "qq", so every call would fail
  did you mean "q"? properties: "q", "room", "list"
agent.toml:7:70: tool "find".run.http.body: the input has no property "nr", so every call would fail
  properties: "id"
agent.toml:7:89: tool "find".run.http.body: the input has no property "b", so every call would fail
  did you mean "a"? properties: "a"
"#;

address_with_a_placeholder_that_is_not_filled_in_is_refused:
r#"
[secrets]
K = { env = "K" }
[brain]
kind = "model"
provider = "openai"
model = "m"
base_url = "https://a.example/{{ secrets.K }}/v1"
key = "K"
[[mcp]]
name = "m"
url = "https://a.example/mcp?key={{ secrets.K }}"
import = true
"#
=>
r#"
agent.toml:10:12: brain.base_url: this address is not a template, so nothing would be filled in
  allowed: the whole address; a secret goes into a header, or where a key is named
agent.toml:14:7: mcp "m".url: this address is not a template, so nothing would be filled in
  allowed: the whole address; a secret goes into a header, or where a key is named
"#;

field_of_a_secret_is_refused:
r#"
[secrets]
K = { env = "K" }
[[tool]]
name = "find"
description = "Finds."
input = { type = "object" }
run = { http = { url = "https://a.example/", headers = { A = "{{ secrets.K.y }}", B = "{{ secrets.K }}" } } }
"#
=>
r#"
agent.toml:10:66: tool "find".run.http.headers.A: the secret "K" is a text and has no fields
  write {{ secrets.K }}
"#;

program_that_is_a_template_and_argument_with_foreign_braces_are_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object" }
run = { command = ["{{ args.program }}"] }
[[tool]]
name = "list"
description = "Lists."
input = { type = "object" }
run = { command = ["docker", "ps", "--format", "{{.ID}}"] }
"#
=>
r#"
agent.toml:8:20: tool "find".run.command[0]: the program is not a template
  allowed: the name or path of a program
agent.toml:13:48: tool "list".run.command[3]: not a template: unexpected `.`
  arguments are templates; to pass braces unchanged, write {% raw %}{{.ID}}{% endraw %}
"#;

value_in_the_script_of_an_interpreter_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} }, required = ["q"] }
run = { command = ["timeout", "5", "/bin/bash", "-ec", "grep {{ args.q }} notes"] }
[[tool]]
name = "count"
description = "Counts."
input = { type = "object", properties = { q = {} }, required = ["q"] }
run = { command = ["python3.12", "-c", "print({{ args.q }})", "{{ args.q }}"] }
"#
=>
r#"
agent.toml:8:56: tool "find".run.command[4]: a value in a script could run anything
  pass it as an argument after the script ($1 in a shell), or in env
agent.toml:13:40: tool "count".run.command[2]: a value in a script could run anything
  pass it as an argument after the script ($1 in a shell), or in env
"#;
}

noted! {
optional_argument_without_default_gets_warning_where_a_value_is_needed:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["x", "{{ args.q }}", "{{ args.p | default(1) }}"] }
[[tool]]
name = "look"
description = "Looks."
input = { type = "object", properties = { q = {} } }
run = { command = ["x", "{% if args.q %}{{ args.q }}{% endif %}", "{{ args.q | tojson }}"] }
"#
=>
r#"
agent.toml:12:29: tool "find".run.command[1]: "q" is optional, and a call without it would fail
  require it in the input, or write {{ args.q | default("") }}
agent.toml:12:45: tool "find".run.command[2]: the input has no property "p"
  did you mean "q"? properties: "q"
"#;

argument_of_a_tool_without_listed_properties_gets_warning:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object" }
run = { command = ["x", "{{ args.q }}"] }
[[tool]]
name = "look"
description = "Looks."
input = { type = "object", additionalProperties = true }
run = { command = ["x", "{{ args.q }}"] }
"#
=>
r#"
agent.toml:12:29: tool "find".run.command[1]: the input has no property "q"
  it lists no properties: add "q", and require it if every call needs it
"#;

reply_variable_that_its_intent_does_not_have_gets_warning:
r#"
[[intent]]
name = "meet"
keywords = ["meet"]
answer = "{{ slots.name }} {{ result.id }} {{ options.tone }} {{ spoken.name }} {{ intents }}"
[[intent.slot]]
name = "name"
type = "text"
ask = "{{ error }} {{ slots.name }}?"
[[intent]]
name = "find"
keywords = ["find"]
tool = "find"
answer = "{{ result.id }} {{ result.nr }} {{ text }} {{ error }}"
failure = "{{ error }} {{ denied }} {{ result }}"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object" }
output = { type = "object", properties = { id = {} }, additionalProperties = false }
run = { answer = "{}" }
"#
=>
r#"
agent.toml:11:31: intent "meet".answer: "result" is unknown and will be left out
  known: slots, spoken, language, options
agent.toml:11:47: intent "meet".answer: no [[option]] is named "tone"
  the file has no [[option]] sections
agent.toml:11:84: intent "meet".answer: "intents" is unknown and will be left out
  known: slots, spoken, language, options
agent.toml:15:11: intent "meet".slot "name".ask: "error" is unknown and will be left out
  known: slots, spoken, language, options
agent.toml:20:30: intent "find".answer: the output has no property "nr"
  properties: "id"
agent.toml:20:57: intent "find".answer: "error" is unknown and will be left out
  known: slots, spoken, language, options, text, result
agent.toml:21:40: intent "find".failure: "result" is unknown and will be left out
  known: slots, spoken, language, options, error, denied
"#;
}

#[test]
fn optional_value_used_outside_of_its_condition_in_a_template_gets_a_warning() {
    let tool = |body: &str| {
        format!(
            "{AGENT}[brain]\nkind = \"script\"\n[[tool]]\nname = \"t\"\ndescription = \"d\"\n\
             input = {{ type = \"object\", properties = {{ y = {{}} }} }}\n\
             run = {{ http = {{ method = \"POST\", url = \"https://a.example/\", body = '{body}' }} }}\n"
        )
    };
    for body in [
        "{% if args.y %}a{% endif %}{{ args.y }}",
        "{{ args.y }}{{ args.y | default(\"\") }}",
        "{% if args.y %}a{% else %}{{ args.y }}{% endif %}",
    ] {
        assert!(notes(&tool(body)).contains("\"y\" is optional, and a call without it would fail"), "{body}");
    }
    assert_eq!(notes(&tool("{% if args.y %}{{ args.y }}{% endif %}")), "");
}

#[test]
fn fallback_template_may_use_intents_language_and_options_but_not_slots() {
    let brain =
        "[brain]\nkind = \"rules\"\nfallback = \"{{ intents | join }} {{ language }} {{ options }} {{ slots }}\"\n";
    let intent = "[[intent]]\nname = \"i\"\nkeywords = [\"i\"]\nanswer = \"I.\"\n";
    let expected = "agent.toml:6:66: brain.fallback: \"slots\" is unknown and will be left out\n  known: language, options, intents";
    assert_eq!(notes(&format!("{AGENT}{brain}{intent}")), expected);
}

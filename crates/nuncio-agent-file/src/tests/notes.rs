//! Warnings about agent files that are allowed but probably unintended.

use super::noted;

noted! {
unused_scope_gets_warning:
r#"
[[scope]]
id = "a"
label = "A"
sensitivity = "low"
"#
=>
r#"
agent.toml:8:1: scope "a": no tool needs this scope
  use it in a tool, or remove it
"#;

unused_mcp_server_gets_warning:
r#"
[[mcp]]
name = "m"
command = ["x"]
"#
=>
r#"
agent.toml:8:1: mcp "m": no tool uses this server
  import its tools, or name it in a tool's run
"#;

unused_secret_gets_warning:
r#"
[secrets]
KEY = { env = "KEY" }
"#
=>
r#"
agent.toml:9:7: secrets.KEY: no template uses this secret
  write {{ secrets.KEY }}, or leave it out
"#;

hidden_tool_that_no_intent_uses_gets_warning:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
expose = false
"#
=>
r#"
agent.toml:8:1: tool "find": the tool cannot be called
  it is hidden, and no intent uses it
"#;

high_sensitivity_scope_without_description_gets_warning:
r#"
[[scope]]
id = "a"
label = "A"
sensitivity = "high"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
scope = "a"
"#
=>
r#"
agent.toml:8:1: scope "a".description: missing, though the sensitivity is high
  the person who is asked sees only the label; add a sentence that says what the scope allows
"#;

scope_description_missing_a_language_of_its_label_gets_warning:
r#"
[[scope]]
id = "a"
label = { en = "A", zh-CN = "甲" }
description = "A."
sensitivity = "high"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
scope = "a"
"#
=>
r#"
agent.toml:11:1: scope "a".description: not given in "zh-CN"
  the label has these languages; give the description in them too
"#;

low_sensitivity_write_scope_gets_warning_except_for_device_tools:
r#"
[[scope]]
id = "notes:write"
label = "A"
sensitivity = "low"
[[scope]]
id = "garden:delete"
label = "B"
sensitivity = "low"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
scope = "notes:write"
[[tool]]
name = "weed"
description = "Weeds."
input = { type = "object", properties = { q = {} } }
run = { device = true }
scope = "garden:delete"
"#
=>
r#"
agent.toml:8:1: scope "notes:write".sensitivity: is "low", though the scope lets tools change something
  only calls under a "high" scope need approval; "medium" shows people that the scope matters
"#;

intent_without_slot_for_a_required_tool_argument_gets_warning:
r#"
[[intent]]
name = "go"
keywords = ["go"]
answer = "ok"
tool = "find"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} }, required = ["q"] }
run = { command = ["true"] }
"#
=>
r#"
agent.toml:12:1: intent "go".tool: "find" cannot be called without "q", for which there is no slot
  the intent has no slots
"#;

required_tool_argument_missing_from_properties_gets_warning:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { room = {} }, required = ["rooom"] }
run = { command = ["true"] }
"#
=>
r#"
agent.toml:11:9: tool "find".input: requires "rooom", which is not among its properties
  did you mean "room"? properties: "room"
"#;

unknown_tool_argument_in_url_template_gets_warning:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { http = { url = "https://a.example/{{ args.qq }}" } }
"#
=>
r#"
agent.toml:12:46: tool "find".run.http.url: the input has no property "qq"
  did you mean "q"? properties: "q"
"#;

secret_in_command_argument_gets_warning:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object" }
run = { command = ["find", "--key={{ secrets.KEY }}"] }
[secrets]
KEY = { env = "KEY" }
"#
=>
r#"
agent.toml:12:28: tool "find".run.command[1]: other programs of this machine can read the secret in the command line
  pass it in env, if the program accepts that
"#;
}

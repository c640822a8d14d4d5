//! Tools run by people, devices or other hosts: valid and invalid settings.

use super::{AGENT, faults, noted, refused};
use crate::parse;
use nuncio_core::agent::{AnpMethod, ToolRunSpec};

fn tool(run: &str) -> String {
    format!(
        "{AGENT}[[tool]]\nname = \"find\"\ndescription = \"Finds.\"\n\
         input = {{ type = \"object\", properties = {{ q = {{}} }} }}\nrun = {{ {run} }}\n"
    )
}

#[test]
fn skill_target_must_be_a_url_or_skill_id_at_host() {
    for target in [
        "https://weather.example/skills/forecast.json",
        "http://localhost:7400/skills/script/echo",
        "https://[::1]:7400/a?b=c",
        "script/echo@localhost:7401",
        "a@example.com",
        "a.b/c-d@天气.example",
        "a/b@127.0.0.1",
        "a/b@[::1]:7400",
    ] {
        let declared =
            parse("agent.toml", &tool(&format!("skill = {target:?}"))).unwrap_or_else(|said| panic!("{said}"));
        let ToolRunSpec::Skill(run) = &declared.agent.tools[0].run else { panic!("not a skill") };
        assert_eq!(run.target, target);
    }
    for (target, problem) in [
        ("weather", "it has no host"),
        ("weather.example/forecast.json", "it has no host"),
        ("ftp://weather.example/a", "its scheme is \"ftp\""),
        ("https://", "empty host"),
        ("https://weather.example/{{ args.q }}", "it is not a template"),
        ("a b@example.com", "\"a b\" is not a skill id"),
        ("@example.com", "\"\" is not a skill id"),
        ("a//b@example.com", "\"a//b\" is not a skill id"),
        ("a@", "\"\" is not a host"),
        ("a@b@example.com", "\"b@example.com\" is not a host"),
        ("a@example.com/x", "\"example.com/x\" is not a host"),
        ("a@example.com?x", "\"example.com?x\" is not a host"),
        ("a@example.com:http", "\"example.com:http\" is not a host"),
        ("a@example com", "\"example com\" is not a host"),
        ("a@[::1", "\"[::1\" is not a host"),
    ] {
        let said = faults(&tool(&format!("skill = {target:?}")));
        let expected =
            format!("agent.toml:8:17: tool \"find\".run.skill: {target:?} is not a skill target: {problem}\n");
        assert!(said.starts_with(&expected), "{said}");
    }
    let said = faults(&tool(r#"skill = "https://ada:hunter2@weather.example/a""#));
    assert!(said.contains("run.skill: it is not a skill target: it contains a user name\n"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}

#[test]
fn anp_target_must_be_a_did_or_description_url() {
    let fingerprint = "e1_Hs6DWTRbRv1csGvLTRCtxMP67itGzrA-7zUwkqVC620";
    let did = format!("did:wba:localhost%3A7400:agents:hotel:{fingerprint}");
    for target in [did.as_str(), "did:wba:example.com:hotel", "https://example.com/agents/hotel/ad.json"] {
        for (method, expected) in [("", "find"), (", method = \"rooms.search\"", "rooms.search")] {
            let text = tool(&format!("anp = {target:?}{method}"));
            let declared = parse("agent.toml", &text).unwrap_or_else(|said| panic!("{said}"));
            let ToolRunSpec::Anp(run) = &declared.agent.tools[0].run else { panic!("not an agent") };
            assert_eq!((run.target.as_str(), &run.method), (target, &AnpMethod::Named(expected.to_owned())));
        }
    }
    let text = tool("anp = \"did:wba:example.com:hotel\", intent = \"find a free room\"");
    let declared = parse("agent.toml", &text).unwrap_or_else(|said| panic!("{said}"));
    let ToolRunSpec::Anp(run) = &declared.agent.tools[0].run else { panic!("not an agent") };
    assert_eq!(run.method, AnpMethod::ForIntent("find a free room".to_owned()));
    for (target, problem) in [
        ("hotel", "it is neither a DID nor an address"),
        ("did:web:example.com:a", "only did:wba is supported"),
        ("did:wba:example.com", "it is a host, not an agent"),
        ("did:wba:example.com::a", "its parts are letters, digits, '-', '_' and '.' between colons"),
        ("did:wba:example.com:a#key-1", "its parts are letters, digits, '-', '_' and '.' between colons"),
        ("ftp://example.com/ad.json", "its scheme is \"ftp\""),
        ("https://example.com", "it is a host, not the address of a description"),
        ("https://example.com/{{ args.q }}", "it is not a template"),
    ] {
        let said = faults(&tool(&format!("anp = {target:?}")));
        let expected =
            format!("agent.toml:8:15: tool \"find\".run.anp: {target:?} is not an agent target: {problem}\n");
        assert!(said.starts_with(&expected), "{said}");
    }
    let said = faults(&tool(r#"anp = "https://ada:hunter2@example.com/ad.json""#));
    assert!(said.contains("run.anp: it is not an agent target: it contains a user name\n"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}

refused! {
invalid_anp_tool_settings_are_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { anp = "did:wba:a.example:b", method = "a b", env = {} }
[[tool]]
name = "b"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { anp = 7, methud = "a" }
[[tool]]
name = "c"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["x"], method = "a", intent = "a" }
[[tool]]
name = "d"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { anp = "did:wba:a.example:b", method = "a", intent = "find" }
[[tool]]
name = "e"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { anp = "did:wba:a.example:b", intent = "find {{ args.q }}" }
"#
=>
r#"
agent.toml:8:47: tool "find".run.method: "a b" is not the name of a method
  allowed: up to 128 bytes without spaces
agent.toml:8:54: tool "find".run.env: not allowed here
  allowed only with "command"
agent.toml:13:15: tool "b".run.anp: found the number 7
  allowed: a text
agent.toml:13:18: tool "b".run.methud: unknown key
  did you mean "method"? allowed: "mcp", "http", "command", "human", "skill", "anp", "answer", "device", "method", "intent"
agent.toml:18:26: tool "c".run.method: not allowed here
  the method of another agent: allowed only with "anp"
agent.toml:18:40: tool "c".run.intent: not allowed here
  what to negotiate with another agent: allowed only with "anp"
agent.toml:23:61: tool "d".run.intent: an intent is negotiated, and "method" names a method
  allowed: either "method" or "intent"
agent.toml:28:47: tool "e".run.intent: "find {{ args.q }}" is not an intent
  allowed: up to 1024 bytes without templates, such as "find a free room"
"#;

invalid_human_tool_settings_are_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { human = false }
[[tool]]
name = "b"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { human = { instructions = "Use {{ secrets.KEY }}.", due = 1 } }
[[tool]]
name = "c"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { human = { instructions = "" }, env = {} }
[[tool]]
name = "d"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { human = "Find it.", command = ["x"] }
[secrets]
KEY = { env = "KEY" }
"#
=>
r#"
agent.toml:8:17: tool "find".run.human: found false
  allowed: true, or a table such as { instructions = "Fetch {{ args.parcel }}." }
agent.toml:13:42: tool "b".run.human.instructions: a secret would be shown to the person who does the task
  allowed: {{ args.NAME }}
agent.toml:13:60: tool "b".run.human.due: unknown key
  allowed: "instructions"
agent.toml:18:34: tool "c".run.human.instructions: found an empty text
  allowed: a non-empty text
agent.toml:18:40: tool "c".run.env: not allowed here
  allowed only with "command"
agent.toml:23:9: tool "d".run.human: not allowed together with "command"
  allowed: only one of "mcp", "http", "command", "human", "skill", "anp", "answer", "device"
agent.toml:23:17: tool "d".run.human: found the text "Find it."
  allowed: true, or a table such as { instructions = "Fetch {{ args.parcel }}." }
"#;

invalid_skill_tool_settings_are_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { skill = {} }
[[tool]]
name = "b"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { skill = { target = "a@b.example", api_key = "{{ secrets.KYE }}", token = "{{ secrets.KEY }}" } }
[[tool]]
name = "c"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { skill = { target = "a@b.example", client = { secret = 7, scope = "x" } } }
[[tool]]
name = "d"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { skill = { target = "a@b.example", apikey = "x", signature = "{{" } }
[[tool]]
name = "e"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { skill = true }
[secrets]
KEY = { env = "KEY" }
"#
=>
r#"
agent.toml:8:17: tool "find".run.skill.target: missing
  needed: the URL of the descriptor, or SKILL-ID@HOST
agent.toml:13:57: tool "b".run.skill.api_key: no secret is named "KYE"
  did you mean "KEY"? declared: "KEY"
agent.toml:13:74: tool "b".run.skill.token: not allowed together with "api_key"
  allowed: only one of "api_key", "token", "client", "signature"
agent.toml:18:52: tool "c".run.skill.client.id: missing
  needed: the client's id
agent.toml:18:63: tool "c".run.skill.client.secret: is not a non-empty text
  allowed: one such as "{{ secrets.NAME }}"
agent.toml:18:66: tool "c".run.skill.client.scope: unknown key
  allowed: "id", "secret"
agent.toml:23:43: tool "d".run.skill.apikey: unknown key
  did you mean "api_key"? allowed: "target", "api_key", "token", "client", "signature"
agent.toml:23:69: tool "d".run.skill.signature: not a template: unexpected end of input, expected expression
  allowed: text with {{ … }} places and {% … %} blocks, in the Jinja language
agent.toml:28:17: tool "e".run.skill: found true
  allowed: a text such as "hotel/find@example.com", or a table with a target
"#;
}

noted! {
human_tool_without_output_schema_or_with_unknown_variables_gets_warnings:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { human = { instructions = "Find {{ args.qq }} for {{ who }}." } }
"#
=>
r#"
agent.toml:8:1: tool "find".output: missing, so the person who does the task answers in one text field
  describe the answer with a JSON Schema, and the person gets a form for it
agent.toml:12:43: tool "find".run.human.instructions: the input has no property "qq"
  did you mean "q"? properties: "q"
agent.toml:12:61: tool "find".run.human.instructions: "who" is unknown and will be left out
  known: args
"#;

skill_credential_that_is_unencrypted_or_written_out_gets_warning:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { skill = { target = "http://b.example/a", api_key = "hunter2" } }
[[tool]]
name = "b"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { skill = { target = "http://127.0.0.1:7400/a", token = "{{ secrets.KEY }}{{ args.q | default(1) }}" } }
[secrets]
KEY = { env = "KEY" }
"#
=>
r#"
agent.toml:12:28: tool "find".run.skill.target: the credential is sent unencrypted
  use a URL that begins with "https://"
agent.toml:12:60: tool "find".run.skill.api_key: it is written out here, where anyone who can read the file gets it
  write {{ secrets.NAME }}, and declare its source in [secrets]
agent.toml:17:84: tool "b".run.skill.token: "args" is unknown and will be left out
  known: secrets
"#;
}

#[test]
fn device_tool_keys_are_read_and_the_tool_is_not_exposed_to_clients() {
    let text = format!(
        "{AGENT}[capability_flags]\nsupports_voice = false\n\
         [[scope]]\nid = \"mail:send\"\nlabel = \"Send mail\"\nsensitivity = \"low\"\n\
         label_i18n_key = \"agent.scope.mail.label\"\n\
         [[tool]]\nname = \"send_mail\"\ndescription = \"Sends.\"\nscope = \"mail:send\"\n\
         input = {{ type = \"object\" }}\n\
         run = {{ device = {{ required = true, description = {{ zh-CN = \"发送\" }} }} }}\n"
    );
    let agent = parse("agent.toml", &text).unwrap_or_else(|said| panic!("{said}")).agent;
    let (tool, run) = agent.device_tools().next().unwrap();
    assert!(run.required && !tool.exposed && agent.exposed_tools().next().is_none());
    assert_eq!(run.description.as_ref().unwrap().in_language("zh-CN"), "发送");
    assert_eq!(agent.flags.get("supports_voice"), Some(&false));
    assert_eq!(agent.scopes[0].label_key.as_deref(), Some("agent.scope.mail.label"));
}

refused! {
device_tool_without_scope_or_with_invalid_name_is_refused:
r#"
[[tool]]
name = "Find-it"
description = "Finds."
input = { type = "object" }
expose = true
run = { device = { description_i18n_key = "a b" } }
"#
=>
r#"
agent.toml:4:1: tool "Find-it".scope: missing
  needed: the permission that people are asked for
agent.toml:5:8: tool "Find-it".name: "Find-it" is not a valid name for a device tool
  allowed: 2 to 32 lower-case letters, digits and '_', beginning with a letter
agent.toml:8:1: tool "Find-it".expose: not allowed here
  a device tool is offered only to its person and to callers linked to them
agent.toml:9:43: tool "Find-it".run.device.description_i18n_key: is not a translation key
  allowed: 1 to 200 letters, digits, '_', '-' and '.', such as "agent.scope.mail_send.label"
"#;
}

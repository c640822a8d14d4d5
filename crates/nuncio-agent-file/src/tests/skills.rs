//! The `skill` table: defaults and faults.

use super::{AGENT, faults, noted, refused, refused_whole};
use crate::parse;
use nuncio_core::agent::{Skill, SkillAuth};

/// An agent file with a tool on line 4 that has this skill; `more` adds keys of the tool, such as a scope.
fn tool(more: &str, skill: &str) -> String {
    let scope = "[[scope]]\nid = \"s\"\nlabel = \"S\"\nsensitivity = \"low\"\n";
    format!(
        "{AGENT}[[tool]]\nname = \"find\"\ndescription = \"Finds.\"\n\
         input = {{ type = \"object\", properties = {{ q = {{}} }} }}\nrun = {{ command = [\"true\"] }}\n\
         {more}skill = {{ {skill} }}\n{}",
        if more.contains("scope") { scope } else { "" }
    )
}

fn skill(more: &str, said: &str) -> Skill {
    let text = tool(more, said);
    let declared = parse("agent.toml", &text).unwrap_or_else(|faults| panic!("{text}\n{faults}"));
    *declared.agent.tools[0].skill.clone().unwrap()
}

fn shown(skill: &Skill) -> String {
    let told = match &skill.auth {
        SkillAuth::ApiKey { header } => format!(" {header}"),
        SkillAuth::OAuth2 { issuer: Some(issuer) } => format!(" {issuer}"),
        _ => String::new(),
    };
    let Skill { id, name, version, .. } = skill;
    let words = (skill.kind.as_str(), skill.access.as_str(), skill.auth.as_str(), skill.method.as_str());
    format!("{id} {name} {version}: {} {} {}{told} {}", words.0, words.1, words.2, words.3)
}

#[test]
fn skill_keys_left_out_get_defaults() {
    for (more, said, is) in [
        ("", r#"type = "task""#, "a/find find 1.0.0: task public none POST"),
        ("title = \"Find it\"\n", r#"type = "plugin""#, "a/find Find it 1.0.0: plugin public none POST"),
        ("scope = \"s\"\n", r#"type = "api""#, "a/find find 1.0.0: api restricted api_key X-API-Key POST"),
        (
            "scope = \"s\"\n",
            r#"type = "api", access = "public""#,
            "a/find find 1.0.0: api public api_key X-API-Key POST",
        ),
        ("", r#"type = "api", access = "private""#, "a/find find 1.0.0: api private api_key X-API-Key POST"),
        ("", r#"type = "api", auth = "api_key""#, "a/find find 1.0.0: api public api_key X-API-Key POST"),
        ("", r#"type = "api", auth = "oauth2""#, "a/find find 1.0.0: api public oauth2 POST"),
        ("", r#"type = "api", auth = "custom", method = "PUT""#, "a/find find 1.0.0: api public custom PUT"),
        (
            "",
            r#"type = "api", auth = { oauth2 = "http://localhost:9000" }"#,
            "a/find find 1.0.0: api public oauth2 http://localhost:9000/ POST",
        ),
        (
            "",
            r#"type = "api", auth = { api_key = "x-key" }, method = "DELETE""#,
            "a/find find 1.0.0: api public api_key x-key DELETE",
        ),
        (
            "",
            r#"id = "b.c/d_1", name = "N", version = "10.0.2", type = "knowledge""#,
            "b.c/d_1 N 10.0.2: knowledge public none POST",
        ),
    ] {
        assert_eq!(shown(&skill(more, said)), is, "{said}");
    }
}

#[test]
fn skill_times_are_read_from_texts_or_toml_dates() {
    for (written, meant) in [
        (r#""2025-01-15T08:00:00Z""#, "2025-01-15T08:00:00.000Z"),
        (r#""2025-01-15T08:00:00.5+08:00""#, "2025-01-15T00:00:00.500Z"),
        ("2025-01-15T08:00:00Z", "2025-01-15T08:00:00.000Z"),
        ("2025-01-15 08:00:00-01:30", "2025-01-15T09:30:00.000Z"),
        ("2025-01-15", "2025-01-15T00:00:00.000Z"),
        (r#""2025-01-15""#, "2025-01-15T00:00:00.000Z"),
    ] {
        let skill = skill("", &format!("type = \"api\", created_at = {written}"));
        assert_eq!(skill.created_at.unwrap().to_string(), meant, "{written}");
    }
    for written in [r#""yesterday""#, r#""""#, "2025-01-15T08:00:00", "08:00:00", r#""2025-02-30""#, r#""预预预x""#]
    {
        let said = faults(&tool("", &format!("type = \"api\", created_at = {written}")));
        assert!(said.contains(r#"tool "find".skill.created_at: found "#), "{said}");
        assert!(said.ends_with(r#"allowed: an ISO 8601 time such as "2026-01-15T08:00:00Z", or a date"#), "{said}");
    }
    let wrong_kind = faults(&tool("", "type = \"api\", created_at = 2025"));
    assert!(wrong_kind.contains("found the number 2025"), "{wrong_kind}");
}

#[test]
fn reserved_or_invalid_api_key_header_is_refused() {
    for header in [
        "Authorization",
        "host",
        "Cookie",
        "Set-Cookie",
        "Content-Type",
        "content-digest",
        "Accept",
        "Accept-Language",
        "Idempotency-Key",
        "Prefer",
        "X-Forwarded-For",
        "X-Signature",
        "X-Signature-Nonce",
        "X-Skill-Caller-Id",
        "Sec-Fetch-Mode",
        "Proxy-Authorization",
        "TE",
        "If-None-Match",
        "traceparent",
    ] {
        let said = faults(&tool("", &format!("type = \"api\", auth = {{ api_key = \"{header}\" }}")));
        let expected =
            format!("{header:?} already has another meaning\n  allowed: a header of your own, such as \"X-API-Key\"");
        assert!(said.ends_with(&expected), "{said}");
    }
    for header in ["", "X Key", "X:Key", "键", "X-Key\\n"] {
        let said = faults(&tool("", &format!("type = \"api\", auth = {{ api_key = \"{header}\" }}")));
        assert!(said.starts_with(r#"agent.toml:9:44: tool "find".skill.auth.api_key: "#), "{said}");
    }
    for header in ["X-API-Key", "Hotel", "Authorization2", "X-Signed"] {
        skill("", &format!("type = \"api\", auth = {{ api_key = \"{header}\" }}"));
    }
}

refused! {
skill_without_type_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
skill = {}
"#
=>
r#"
agent.toml:9:9: tool "find".skill.type: missing
  needed: one of "plugin", "api", "knowledge", "task"
"#;

all_invalid_keys_of_a_skill_are_reported:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
[tool.skill]
id = "{host}/find"
name = ""
description = 1
version = "1.0.0-rc.1"
type = "tsak"
access = "pubic"
auth = "apikey"
method = "PATCH"
tags = ["a", "a"]
documentation_url = "docs.example"
created_at = "yesterday"
updated_at = true
retry = { max_attempts = 11, backoff_ms = 0, jitter = true }
keep_hours = 8761
concurrency = 0
acces = "public"
"#
=>
r#"
agent.toml:10:6: tool "find".skill.id: "{host}/find" is not a skill id
  allowed: 1 to 200 letters, digits, '_', '-', '.' and '/' between parts that are neither empty nor dots, not ending in '.json' or '/invoke'
agent.toml:11:8: tool "find".skill.name: found an empty text
  allowed: a non-empty text
agent.toml:12:15: tool "find".skill.description: found the number 1
  allowed: a text
agent.toml:13:11: tool "find".skill.version: "1.0.0-rc.1" is not a version of a skill
  allowed: MAJOR.MINOR.PATCH and nothing more, such as "1.0.0"
agent.toml:14:8: tool "find".skill.type: found "tsak"
  did you mean "task"? allowed: "plugin", "api", "knowledge", "task"
agent.toml:15:10: tool "find".skill.access: found "pubic"
  did you mean "public"? allowed: "public", "restricted", "private"
agent.toml:16:8: tool "find".skill.auth: found "apikey"
  did you mean "api_key"? allowed: "none", "api_key", "oauth2", "custom"
agent.toml:17:10: tool "find".skill.method: found "PATCH"
  allowed: "GET", "POST", "PUT", "DELETE"
agent.toml:18:14: tool "find".skill.tags[1]: "a" is listed twice
  allowed: each once
agent.toml:19:21: tool "find".skill.documentation_url: "docs.example" is not a web address: relative URL without a base
  allowed: an address beginning with "https://" or "http://"
agent.toml:20:14: tool "find".skill.created_at: found "yesterday"
  allowed: an ISO 8601 time such as "2026-01-15T08:00:00Z", or a date
agent.toml:21:14: tool "find".skill.updated_at: found true
  allowed: an ISO 8601 time such as "2026-01-15T08:00:00Z", or a date
agent.toml:22:26: tool "find".skill.retry.max_attempts: found 11
  allowed: a whole number from 1 to 10
agent.toml:22:43: tool "find".skill.retry.backoff_ms: found 0
  allowed: a whole number from 1 to 60000
agent.toml:22:46: tool "find".skill.retry.jitter: unknown key
  allowed: "max_attempts", "backoff_ms"
agent.toml:23:14: tool "find".skill.keep_hours: found 8761
  allowed: a whole number from 1 to 8760
agent.toml:24:15: tool "find".skill.concurrency: found 0
  allowed: a whole number from 1 to 1024
agent.toml:25:1: tool "find".skill.acces: unknown key
  did you mean "access"? allowed: "id", "name", "description", "version", "type", "access", "auth", "method", "tags", "documentation_url", "created_at", "updated_at", "retry", "keep_hours", "concurrency"
"#;

skill_of_hidden_tool_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
expose = false
skill = { type = "task" }
"#
=>
r#"
agent.toml:10:9: tool "find".skill: the skill could not be called, because the tool is hidden
  allowed: either the skill, or expose = false
"#;

restricted_skill_without_authentication_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
skill = { type = "task", access = "restricted", auth = "none" }
[[tool]]
name = "b"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
skill = { type = "task", access = "private", auth = "none" }
[[tool]]
name = "c"
description = "Finds."
scope = "s"
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
skill = { type = "task", auth = "none" }
[[scope]]
id = "s"
label = "S"
sensitivity = "low"
"#
=>
r#"
agent.toml:9:56: tool "find".skill.auth: a restricted skill needs authenticated callers, but this method authenticates none
  allowed: "api_key", "oauth2" or "custom"; or access = "public"
agent.toml:15:53: tool "b".skill.auth: a private skill needs authenticated callers, but this method authenticates none
  allowed: "api_key", "oauth2" or "custom"; or access = "public"
agent.toml:22:33: tool "c".skill.auth: a restricted skill needs authenticated callers, but this method authenticates none
  allowed: "api_key", "oauth2" or "custom"; or access = "public"
"#;

invalid_skill_authentication_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
skill = { type = "task", auth = { api_key = "X-Key", oauth2 = "https://login.example/?a=b" } }
[[tool]]
name = "b"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
skill = { type = "task", auth = { oauth = "https://login.example" } }
[[tool]]
name = "c"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
skill = { type = "task", auth = ["api_key"] }
"#
=>
r#"
agent.toml:9:54: tool "find".skill.auth.oauth2: not allowed together with "api_key"
  allowed: only one of "api_key", "oauth2"
agent.toml:9:63: tool "find".skill.auth.oauth2: "https://login.example/?a=b" is not a plain issuer URL
  allowed: an address without user, query and fragment, such as "https://login.example.com"
agent.toml:15:33: tool "b".skill.auth: has none of "api_key", "oauth2"
  needed: one of them
agent.toml:15:35: tool "b".skill.auth.oauth: unknown key
  did you mean "oauth2"? allowed: "api_key", "oauth2"
agent.toml:21:33: tool "c".skill.auth: found a list
  allowed: "none", "api_key", "oauth2", "custom", or a table such as { api_key = "X-API-Key" }
"#;

duplicate_skill_id_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
skill = { type = "task" }
[[tool]]
name = "b"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
skill = { type = "task", id = "{provider}/find" }
[[tool]]
name = "c"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
skill = { type = "task", id = "a/find" }
"#
=>
r#"
agent.toml:15:31: tool "b".skill.id: the skill at line 9 already has the id "a/find"
  allowed: one that no other skill has
agent.toml:21:31: tool "c".skill.id: the skill at line 9 already has the id "a/find"
  allowed: one that no other skill has
"#;

tool_name_that_gives_an_invalid_skill_id_is_refused:
r#"
[[tool]]
name = "find.json"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
skill = { type = "task" }
"#
=>
r#"
agent.toml:9:9: tool "find.json".skill.id: missing, and "a/find.json" is not a skill id
  allowed: 1 to 200 letters, digits, '_', '-', '.' and '/' between parts that are neither empty nor dots, not ending in '.json' or '/invoke'
"#;

skill_update_time_before_creation_time_is_refused:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
skill = { type = "task", created_at = 2026-02-01, updated_at = 2026-01-01, retry = {} }
"#
=>
r#"
agent.toml:9:64: tool "find".skill.updated_at: is before "created_at"
  allowed: the same time, or a later one
agent.toml:9:84: tool "find".skill.retry.max_attempts: missing
  needed: a whole number from 1 to 10
"#;
}

refused_whole! {
agent_skill_without_description_is_refused:
r#"
[agent]
name = "a"
version = "1.0.0"
skill = { type = "knowledge" }
"#
=>
r#"
agent.toml:4:9: agent.skill.description: missing
  needed: what it does, here or in [agent]
"#;

prerelease_agent_version_is_refused_as_skill_version:
r#"
[agent]
name = "a"
version = "1.0.0-beta"
description = "Answers."
skill = { type = "knowledge" }
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
[tool.skill]
type = "task"
"#
=>
r#"
agent.toml:5:9: agent.skill.version: missing, and the agent's version "1.0.0-beta" is not three numbers
  needed: MAJOR.MINOR.PATCH, such as "1.0.0"
agent.toml:11:1: tool "find".skill.version: missing, and the agent's version "1.0.0-beta" is not three numbers
  needed: MAJOR.MINOR.PATCH, such as "1.0.0"
"#;

fault_in_agent_name_or_version_is_not_repeated_for_its_skills:
r#"
[agent]
name = "A"
version = "1"
description = ""
skill = { type = "knowledge" }
[[tool]]
name = "find it"
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
skill = { type = "task" }
"#
=>
r#"
agent.toml:2:8: agent.name: "A" is not an agent name
  allowed: 1 to 64 lower-case letters, digits and hyphens, beginning with a letter or digit
agent.toml:3:11: agent.version: "1" is not a version: unexpected end of input while parsing major version number
  allowed: MAJOR.MINOR.PATCH, such as "1.0.0"
agent.toml:4:15: agent.description: found an empty text
  allowed: a non-empty text
agent.toml:6:1: tool "find it".description: missing
  needed: a text
agent.toml:7:8: tool "find it".name: "find it" is not a tool name
  allowed: 1 to 128 letters, digits, '_', '-' and '.'
"#;

agent_skill_and_tool_skill_with_same_id_are_refused:
r#"
[[tool]]
name = "ask"
description = "Asks."
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
skill = { type = "task" }
[agent]
name = "a"
version = "1.0.0"
description = "Answers."
skill = { type = "knowledge" }
"#
=>
r#"
agent.toml:6:9: tool "ask".skill.id: the skill at line 11 already has the id "a/ask"
  allowed: one that no other skill has
"#;
}

noted! {
scope_of_skill_without_authentication_gets_warning:
r#"
[[scope]]
id = "s"
label = "S"
sensitivity = "low"
[[tool]]
name = "find"
description = "Finds."
scope = "s"
input = { type = "object", properties = { q = {} } }
run = { command = ["true"] }
skill = { type = "api", access = "public", auth = "none" }
"#
=>
r#"
agent.toml:18:44: tool "find".skill.auth: its callers are "anonymous", and the tool needs "s"
  they are refused until you run `nuncio grant create anonymous a s`
"#;

object_and_array_inputs_of_get_skill_get_warning:
r#"
[[tool]]
name = "find"
description = "Finds."
input = { type = "object", properties = { q = { type = "string" }, near = { type = "object" }, tags = { type = "array" } } }
run = { command = ["true"] }
skill = { type = "api", method = "GET" }
"#
=>
r#"
agent.toml:13:34: tool "find".skill.method: inputs are sent in the query, with "near", "tags" as JSON
  "POST" and "PUT" take every input as it is
"#;
}

//! Generates the A2H manifest of an agent from the device tools in its agent file.

use std::collections::BTreeMap;

use nuncio_core::agent::{Agent, DeviceRunSpec, Scope, Tool};
use nuncio_core::manifest::{CheckedManifest, Manifest, ManifestFaults, SCHEMA_VERSION, ScopePresets};
use nuncio_core::text::TextByLanguage;
use serde_json::{Value, json};

/// Manifest generated from an agent file; `None` if the agent has no device tools.
#[must_use]
pub fn manifest(agent: &Agent) -> Option<Value> {
    let tools: Vec<Value> = agent.device_tools().map(|(named, run)| tool(named, run)).collect();
    if tools.is_empty() {
        return None;
    }
    let used = |scope: &&Scope| agent.device_tools().any(|(tool, _)| tool.scope.as_ref() == Some(&scope.id));
    Some(json!({
        "schema_version": SCHEMA_VERSION,
        "agent_version": agent.version.to_string(),
        "tools": tools,
        "permission_scopes": agent.scopes.iter().filter(used).map(scope).collect::<Vec<_>>(),
        "capability_flags": agent.flags,
    }))
}

/// The generated manifest after validation, or every violated rule; `None` if the agent has no device tools.
pub fn checked(agent: &Agent, presets: &ScopePresets) -> Result<Option<CheckedManifest>, ManifestFaults> {
    manifest(agent).map(|manifest| Manifest::check(manifest, presets)).transpose()
}

fn tool(tool: &Tool, run: &DeviceRunSpec) -> Value {
    let key = || format!("agent.cap.{}.description", stem(tool.name.as_str()));
    json!({
        "name": tool.name,
        "description_i18n_key": run.description_key.clone().unwrap_or_else(key),
        "description_fallback": with_english(&tool.description, run.description.as_ref()),
        "input_schema": tool.input.source(),
        "permission_scope": tool.scope,
        "required": run.required,
        "timeout_ms": u64::try_from(tool.timeout.as_millis()).unwrap_or(u64::MAX),
    })
}

fn scope(scope: &Scope) -> Value {
    let key = |part: &str| format!("agent.scope.{}.{part}", stem(scope.id.as_str()));
    json!({
        "id": scope.id,
        "label_i18n_key": scope.label_key.clone().unwrap_or_else(|| key("label")),
        "description_i18n_key": scope.description_key.clone().unwrap_or_else(|| key("description")),
        "label_fallback": scope.label,
        // A person must see a description, so the label stands in for a missing one.
        "description_fallback": scope.description.as_ref().unwrap_or(&scope.label),
        "sensitivity": scope.sensitivity,
    })
}

/// Form of a tool name or scope id in an i18n key: `filesystem:read` becomes `filesystem_read`.
fn stem(name: &str) -> String {
    name.replace([':', '.', '-'], "_")
}

/// The tool's English description with its translations.
fn with_english(english: &str, others: Option<&TextByLanguage>) -> BTreeMap<String, String> {
    let others =
        others.into_iter().flat_map(TextByLanguage::languages).map(|(tag, text)| (tag.to_owned(), text.to_owned()));
    std::iter::once(("en".to_owned(), english.to_owned())).chain(others).collect()
}

/// Properties in an agent file that an A2H manifest cannot express, as messages.
pub(crate) fn inexpressible(agent: &Agent) -> Vec<String> {
    let mut inexpressible = Vec::new();
    for (tool, _) in agent.device_tools() {
        let mut lost = |what: &str| inexpressible.push(format!("tool {}: {what}", tool.name));
        if tool.output.is_some() {
            lost("the schema of its result is not published to devices");
        }
        if tool.title.is_some() {
            lost("its title is not published, only its description");
        }
        if tool.human_authorization {
            lost(
                "human_authorization is not published; give its scope the sensitivity \"high\" so that the person is asked every time",
            );
        }
    }
    if agent.device_tools().next().is_some() {
        inexpressible
            .extend(agent.options.iter().map(|option| format!("option {}: people cannot set it", option.name)));
    }
    inexpressible
}

#[cfg(test)]
mod tests {

    use super::*;

    fn agent(rest: &str) -> Agent {
        let head = "[agent]\nname = \"helper\"\nversion = \"1.2.0\"\n[brain]\nkind = \"script\"\n";
        nuncio_agent_file::parse("agent.toml", &format!("{head}{rest}")).unwrap_or_else(|said| panic!("{said}")).agent
    }

    /// Agent file for the manifest example in A2H §2.2.
    const SEED: &str = r#"
[capability_flags]
supports_streaming = true
supports_artifacts = true
supports_voice = false
supports_group_chat = false

[[scope]]
id = "filesystem:read"
label = { en = "Read local files", zh-CN = "读取本地文件" }
description = "Open files and read them."
sensitivity = "medium"

[[scope]]
id = "booking:write"
label = "Book"
sensitivity = "low"

[[tool]]
name = "read_file"
description = "Reads a file."
scope = "filesystem:read"
input = { type = "object", properties = { path = { type = "string" } }, required = ["path"], additionalProperties = false }
timeout_ms = 5000
run = { device = true }

[[tool]]
name = "book"
description = "Books, on the server."
scope = "booking:write"
input = { type = "object" }
run = { command = ["true"] }
"#;

    #[test]
    fn agent_file_gives_the_manifest_of_the_specification_example() {
        let made = manifest(&agent(SEED)).unwrap();
        assert_eq!(
            made,
            json!({
                "schema_version": "1.0",
                "agent_version": "1.2.0",
                "tools": [{
                    "name": "read_file",
                    "description_i18n_key": "agent.cap.read_file.description",
                    "description_fallback": {"en": "Reads a file."},
                    "input_schema": {
                        "type": "object",
                        "properties": {"path": {"type": "string"}},
                        "required": ["path"],
                        "additionalProperties": false,
                    },
                    "permission_scope": "filesystem:read",
                    "required": false,
                    "timeout_ms": 5000,
                }],
                "permission_scopes": [{
                    "id": "filesystem:read",
                    "label_i18n_key": "agent.scope.filesystem_read.label",
                    "description_i18n_key": "agent.scope.filesystem_read.description",
                    "label_fallback": {"en": "Read local files", "zh-CN": "读取本地文件"},
                    "description_fallback": {"en": "Open files and read them."},
                    "sensitivity": "medium",
                }],
                "capability_flags": {
                    "supports_streaming": true,
                    "supports_artifacts": true,
                    "supports_voice": false,
                    "supports_group_chat": false,
                },
            })
        );
        assert!(checked(&agent(SEED), &ScopePresets::default()).unwrap().unwrap().warnings.is_empty());
    }

    #[test]
    fn manifest_omits_server_tools_and_is_absent_without_device_tools() {
        assert_eq!(manifest(&agent("")), None);
        let text = manifest(&agent(SEED)).unwrap().to_string();
        assert!(!text.contains("book"), "{text}");
    }

    #[test]
    fn i18n_keys_and_translations_in_the_agent_file_appear_in_the_manifest() {
        let made = manifest(&agent(
            r#"
[[scope]]
id = "mail:send.now"
label = "Send mail"
label_i18n_key = "x.label"
sensitivity = "low"

[[tool]]
name = "send_mail"
description = "Sends."
scope = "mail:send.now"
input = { type = "object" }
run = { device = { required = true, description_i18n_key = "x.send", description = { zh-CN = "发送" } } }
"#,
        ))
        .unwrap();
        let (tool, scope) = (&made["tools"][0], &made["permission_scopes"][0]);
        assert_eq!(tool["description_i18n_key"], "x.send");
        assert_eq!(tool["description_fallback"], json!({"en": "Sends.", "zh-CN": "发送"}));
        assert_eq!(tool["required"], true);
        assert_eq!(scope["label_i18n_key"], "x.label");
        assert_eq!(scope["description_i18n_key"], "agent.scope.mail_send_now.description");
    }

    #[test]
    fn tool_properties_that_a2h_cannot_express_and_manifest_faults_are_reported() {
        let agent = agent(
            r#"
[[scope]]
id = "shell:exec"
label = "Run programs"
sensitivity = "low"

[[tool]]
name = "run_it"
title = "Run it"
description = "Runs."
scope = "shell:exec"
input = { type = "object" }
output = { type = "object" }
human_authorization = true
run = { device = true }
"#,
        );
        assert_eq!(
            inexpressible(&agent),
            [
                "tool run_it: the schema of its result is not published to devices",
                "tool run_it: its title is not published, only its description",
                "tool run_it: human_authorization is not published; give its scope the sensitivity \"high\" so that the person is asked every time",
            ]
        );
        let faults = checked(&agent, &ScopePresets::default()).unwrap_err();
        assert_eq!(faults.faults()[0].pointer, "/permission_scopes/0/sensitivity");
    }
}

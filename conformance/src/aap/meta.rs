//! `GET /meta`.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::wire::AapServerUnderTest;
use crate::verdict::{CheckStopReason, CheckVerdict, ensure, equal, fail, short};

checks![
    meta_answers,
    meta_version,
    meta_agents,
    meta_names_unique,
    meta_semver,
    meta_options,
    meta_tools,
    meta_capabilities,
    meta_secret_defaults_empty,
    meta_select_defaults_listed,
    meta_script_agent,
];

async fn meta_answers(api: &AapServerUnderTest) -> CheckVerdict {
    let body = api.get("/meta").await?.status(200)?.json()?;
    ensure(body["agents"].is_array(), || format!("expected `agents` to be an array, got {}", body["agents"]))
}

async fn meta_version(api: &AapServerUnderTest) -> CheckVerdict {
    equal("version", &json!(3), &api.meta["version"])
}

async fn meta_agents(api: &AapServerUnderTest) -> CheckVerdict {
    for agent in api.agents() {
        text(agent, "name")?;
        text(agent, "version")?;
        optional_text(agent, "title")?;
        optional_text(agent, "description")?;
    }
    Ok(())
}

async fn meta_names_unique(api: &AapServerUnderTest) -> CheckVerdict {
    let mut seen = HashSet::new();
    for agent in api.agents() {
        let name = text(agent, "name")?;
        ensure(seen.insert(name), || format!("two agents are named {name:?}"))?;
    }
    Ok(())
}

async fn meta_semver(api: &AapServerUnderTest) -> CheckVerdict {
    for agent in api.agents() {
        let version = text(agent, "version")?;
        ensure(semver::Version::parse(version).is_ok(), || {
            format!("agent {}: expected a semantic version, got {version:?}", agent["name"])
        })?;
    }
    Ok(())
}

async fn meta_options(api: &AapServerUnderTest) -> CheckVerdict {
    for option in all(api, "options")? {
        text(option, "name")?;
        optional_text(option, "title")?;
        optional_text(option, "description")?;
        let kind = text(option, "type")?;
        ensure(matches!(kind, "text" | "secret" | "select"), || {
            format!("expected an option of type text, secret or select, got {option}")
        })?;
        ensure(option["default"].is_string(), || format!("expected a text `default`, got {option}"))?;
        let choices = option["options"].as_array();
        let listed = choices.is_some_and(|choices| choices.iter().all(Value::is_string));
        ensure(kind != "select" || listed, || format!("expected a select with `options`, got {option}"))?;
    }
    Ok(())
}

async fn meta_tools(api: &AapServerUnderTest) -> CheckVerdict {
    for tool in all(api, "tools")? {
        text(tool, "name")?;
        optional_text(tool, "title")?;
        ensure(tool["description"].is_string(), || {
            format!("expected a tool with a `description`, got {}", short(&tool.to_string()))
        })?;
        ensure(tool["parameters"].is_object() || tool["parameters"].is_boolean(), || {
            format!("expected `parameters` to be a JSON Schema, got {}", short(&tool.to_string()))
        })?;
    }
    Ok(())
}

async fn meta_capabilities(api: &AapServerUnderTest) -> CheckVerdict {
    let known = [
        ("history", &["compacted", "full"][..]),
        ("stream", &["delta", "message", "none"]),
        ("application", &["tools"]),
        ("image", &["http", "data"]),
    ];
    for agent in api.agents() {
        let capabilities = &agent["capabilities"];
        ensure(capabilities.is_null() || capabilities.is_object(), || {
            format!("expected `capabilities` to be an object, got {capabilities}")
        })?;
        for (group, features) in known {
            let group_value = &capabilities[group];
            ensure(group_value.is_null() || group_value.is_object(), || {
                format!("expected capabilities.{group} to be an object, got {group_value}")
            })?;
            for feature in features {
                // Only the presence of a capability counts, so `false` would mean supported.
                let declared = group_value.get(*feature);
                ensure(declared.is_none_or(Value::is_object), || {
                    format!("expected capabilities.{group}.{feature} to be an object or absent, got {group_value}")
                })?;
            }
        }
    }
    Ok(())
}

async fn meta_secret_defaults_empty(api: &AapServerUnderTest) -> CheckVerdict {
    for option in all(api, "options")?.into_iter().filter(|option| option["type"] == "secret") {
        equal(&format!("default of the secret {}", option["name"]), "", text_or_empty(option, "default"))?;
    }
    Ok(())
}

async fn meta_select_defaults_listed(api: &AapServerUnderTest) -> CheckVerdict {
    for option in all(api, "options")?.into_iter().filter(|option| option["type"] == "select") {
        let choices = option["options"].as_array().map_or(&[][..], Vec::as_slice);
        ensure(choices.contains(&option["default"]), || {
            format!("expected the default to be one of the options, got {option}")
        })?;
    }
    Ok(())
}

async fn meta_script_agent(api: &AapServerUnderTest) -> CheckVerdict {
    let agent = api.script_agent().ok_or_else(|| fail("expected an agent named `script`"))?;
    let find = |list: &str, name: &str| {
        let entries = agent[list].as_array().map_or(&[][..], Vec::as_slice);
        let found = entries.iter().find(|entry| entry["name"] == name).cloned();
        found.ok_or_else(|| fail(format!("expected `{name}` among the script agent's {list}, got {}", agent[list])))
    };
    find("tools", "add")?;
    find("tools", "lookup")?;
    equal("type of language", &json!("text"), &find("options", "language")?["type"])?;
    equal("type of apiKey", &json!("secret"), &find("options", "apiKey")?["type"])?;
    let model = find("options", "model")?;
    equal("type of model", &json!("select"), &model["type"])?;
    equal("options of model", &json!(["small", "large"]), &model["options"])?;
    for path in [
        "/history/compacted",
        "/history/full",
        "/stream/delta",
        "/stream/message",
        "/stream/none",
        "/application/tools",
        "/image/http",
        "/image/data",
    ] {
        let declared = agent["capabilities"].pointer(path).is_some();
        ensure(declared, || format!("expected the script agent to declare capabilities{path}"))?;
    }
    Ok(())
}

/// Entries of the list `list` of all agents; an absent list counts as empty.
fn all<'a>(api: &'a AapServerUnderTest, list: &str) -> Result<Vec<&'a Value>, CheckStopReason> {
    let mut entries = Vec::new();
    for agent in api.agents() {
        match &agent[list] {
            Value::Null => {}
            Value::Array(found) => entries.extend(found),
            other => return Err(fail(format!("expected `{list}` to be an array, got {other}"))),
        }
    }
    Ok(entries)
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str, CheckStopReason> {
    value[field]
        .as_str()
        .filter(|text| !text.is_empty())
        .ok_or_else(|| fail(format!("expected a text `{field}`, got {}", short(&value.to_string()))))
}

fn text_or_empty<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn optional_text(value: &Value, field: &str) -> CheckVerdict {
    ensure(value.get(field).is_none_or(Value::is_string), || {
        format!("expected `{field}` to be a text or absent, got {}", value[field])
    })
}

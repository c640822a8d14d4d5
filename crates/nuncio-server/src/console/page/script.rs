//! Data for the scripts of the page: the chosen agent, their texts, whether to ask for a key.

use nuncio_core::agent::{Agent, Capabilities, OptionKind, Sensitivity};
use serde_json::{Value, json};

use super::{Language, Texts, embedded, title};

pub(super) fn data(agent: Option<&Agent>, language: Language, needs_key: bool) -> String {
    embedded(&json!({
        "language": language.tag(),
        "texts": Texts::of(language).script,
        "needsKey": needs_key,
        "aap": "/aap",
        "agent": agent.map(|agent| agent_data(agent, language)),
    }))
}

fn agent_data(agent: &Agent, language: Language) -> Value {
    let tools = agent.exposed_tools().map(|tool| {
        let scope = tool.scope.as_ref().and_then(|id| agent.scope(id));
        json!({
            "name": tool.name,
            "title": tool.title.as_deref().unwrap_or(tool.name.as_str()),
            "scope": scope.map(|scope| scope.label.in_language(language.tag())),
            "level": scope.map(|scope| level(scope.sensitivity)),
            "sensitivity": scope.map(|scope| Texts::of(language).sensitivity.of(scope.sensitivity)),
            "operator": tool.human_authorization,
        })
    });
    let options = agent.options.iter().map(|option| {
        let secret = option.kind == OptionKind::Secret;
        json!({"name": option.name, "secret": secret, "default": if secret { "" } else { option.default.as_str() }})
    });
    json!({
        "name": agent.name,
        "title": title(agent),
        "tools": tools.collect::<Vec<_>>(),
        "options": options.collect::<Vec<_>>(),
        "history": history(&agent.capabilities),
        "stream": stream(&agent.capabilities),
    })
}

fn history(has: &Capabilities) -> Option<&'static str> {
    has.full_history.then_some("full").or(has.compacted_history.then_some("compacted"))
}

fn stream(has: &Capabilities) -> &'static str {
    match (has.stream_delta, has.stream_message) {
        (true, _) => "delta",
        (false, true) => "message",
        (false, false) => "none",
    }
}

pub(super) const fn level(sensitivity: Sensitivity) -> &'static str {
    match sensitivity {
        Sensitivity::Low => "low",
        Sensitivity::Medium => "medium",
        Sensitivity::High => "high",
    }
}

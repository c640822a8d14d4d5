//! Data for the scripts of the home page: the shown agent, the texts of the scripts, whether to ask for a key.

use nuncio_core::ErrorCode;
use nuncio_core::agent::{AapCapabilities, Agent, OptionValueType};
use serde_json::{Value, json};

use super::{Language, Texts, embeddable_json};
use crate::fault_texts;

pub(super) fn data(agent: Option<&Agent>, language: Language, needs_key: bool) -> String {
    embeddable_json(&json!({
        "language": language.tag(),
        "texts": Texts::of(language).script,
        "faults": faults(language),
        "needsKey": needs_key,
        "aap": "/aap",
        "agent": agent.map(|agent| agent_data(agent, language)),
    }))
}

/// What errors mean by their code, in a language other than that of the server's messages.
fn faults(language: Language) -> Value {
    match language {
        Language::English => json!({}),
        Language::Chinese => {
            ErrorCode::ALL.iter().filter_map(|code| Some((code.as_str(), fault_texts::chinese(*code)?))).collect()
        }
    }
}

fn agent_data(agent: &Agent, language: Language) -> Value {
    let tools = agent.exposed_tools().map(|tool| {
        let scope = tool.scope.as_ref().and_then(|id| agent.scope(id));
        json!({
            "name": tool.name,
            "title": tool.title_in(language.tag()),
            "scope": scope.map(|scope| scope.label.in_language(language.tag())),
            "level": scope.map(|scope| scope.sensitivity.as_str()),
            "sensitivity": scope.map(|scope| Texts::of(language).sensitivity.of(scope.sensitivity)),
            "operator": tool.human_authorization,
        })
    });
    let options = agent.options.iter().map(|option| {
        let secret = option.kind == OptionValueType::Secret;
        json!({"name": option.name, "secret": secret, "default": if secret { "" } else { option.default.as_str() }})
    });
    json!({
        "name": agent.name,
        "title": agent.title_in(language.tag()),
        "tools": tools.collect::<Vec<_>>(),
        "options": options.collect::<Vec<_>>(),
        "images": {"https": agent.capabilities.image_https, "data": agent.capabilities.image_data},
        "history": history_kind(&agent.capabilities),
        "stream": stream_kind(&agent.capabilities),
    })
}

fn history_kind(capabilities: &AapCapabilities) -> Option<&'static str> {
    capabilities.full_history.then_some("full").or(capabilities.compacted_history.then_some("compacted"))
}

fn stream_kind(capabilities: &AapCapabilities) -> &'static str {
    match (capabilities.stream_delta, capabilities.stream_message) {
        (true, _) => "delta",
        (false, true) => "message",
        (false, false) => "none",
    }
}

//! Parts of a declared agent that Skill Sharing cannot express.

use nuncio_core::agent::{Agent, Sensitivity, SkillAuth, Tool};
use serde_json::Value;

/// Keywords of an argument schema that the list of inputs or their own schemas express.
const EXPRESSED_KEYWORDS: &[&str] = &[
    "type",
    "properties",
    "required",
    "additionalProperties",
    "title",
    "description",
    "default",
    "examples",
    "$defs",
    "definitions",
    "$schema",
    "$id",
    "$comment",
];

/// Lists the parts of a declared agent that a skill's documents cannot express.
pub(crate) fn inexpressible(agent: &Agent) -> Vec<String> {
    let mut inexpressible = Vec::new();
    if agent.skills().next().is_some() {
        let texts = agent.translated_texts();
        inexpressible.extend(texts.iter().map(|text| format!("{text}: only the English text is published")));
    }
    for (tool, skill) in super::skills(agent) {
        let mut report = |what: &str| inexpressible.push(format!("skill {}: {what}", skill.id));
        let Some(tool) = tool else { continue };
        if let Some(scope) = tool.scope.as_ref().and_then(|id| agent.scope(id)) {
            match &skill.auth {
                SkillAuth::OAuth2 { .. } if scope.sensitivity == Sensitivity::Low => {}
                SkillAuth::OAuth2 { .. } => report("the sensitivity of its permission is not published to callers"),
                _ => report("the permission that it needs and its sensitivity are not published to callers"),
            }
        }
        if nuncio_core::policy::asks_others(agent, tool) {
            report("that each call waits for an operator's approval is not published to callers");
        }
        for keyword in lost_rules(tool) {
            report(&format!("the rule \"{keyword}\" for its inputs as a whole is not published to callers"));
        }
    }
    if agent.skills().next().is_some() {
        inexpressible
            .extend(agent.options.iter().map(|option| format!("option {}: callers cannot set it", option.name)));
    }
    inexpressible
}

/// Keywords of a tool's argument schema that apply to several inputs together, or to inputs that have no name.
fn lost_rules(tool: &Tool) -> impl Iterator<Item = &str> {
    let keywords = tool.input.source().as_object().into_iter().flatten();
    let is_lost = |(keyword, value): &(&String, &Value)| match keyword.as_str() {
        "additionalProperties" => value.is_object(),
        keyword => !EXPRESSED_KEYWORDS.contains(&keyword),
    };
    keywords.filter(is_lost).map(|(keyword, _)| keyword.as_str())
}

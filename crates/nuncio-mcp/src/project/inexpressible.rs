//! What MCP cannot express about an agent.

use nuncio_core::agent::Agent;

/// Parts of the declaration that MCP clients do not see, as sentences for the author.
pub(crate) fn inexpressible(agent: &Agent) -> Vec<String> {
    let mut sentences = Vec::new();
    if agent.owner.is_some() {
        sentences.push("agent.owner: the owner is not published to clients".to_owned());
    }
    if !agent.scopes.is_empty() {
        sentences.push(
            "scope: the sensitivity of a permission is not published to clients; a client learns of a missing permission \
             when it calls"
                .to_owned(),
        );
    }
    if !agent.options.is_empty() {
        sentences.push("option: clients cannot set options; each has its default".to_owned());
    }
    if agent.ask && !super::offers_ask(agent) {
        sentences.push("agent.ask: the tool named `ask` takes the place of the whole agent".to_owned());
    }
    for text in agent.translated_texts() {
        sentences.push(format!("{text}: only the English text is published"));
    }
    for tool in agent.exposed_tools() {
        let output = tool.output.as_ref().map(nuncio_core::schema::Schema::source);
        if output.is_some_and(|schema| schema["type"] != "object") {
            sentences.push(format!(
                "tool {}: clients of revision 2025-11-25 get its result as text, since its schema is not of an object",
                tool.name
            ));
        }
        if tool.hints.effect.is_none() {
            sentences.push(format!(
                "tool {}: clients assume that it may destroy something; `effect` says what it does",
                tool.name
            ));
        }
        if tool.human_authorization {
            sentences.push(format!(
                "tool {}: that an operator must approve each call is not published to clients",
                tool.name
            ));
        }
    }
    sentences
}

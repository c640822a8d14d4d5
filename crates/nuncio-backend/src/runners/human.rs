//! Tools that people run: the call becomes a task in the inbox and waits for its result.

use nuncio_core::agent::HumanRunSpec;
use nuncio_core::template::EscapeContext;
use nuncio_engine::ports::runner::{AuthorizedToolCall, ToolOutput, ToolRunError};
use serde_json::json;

pub(super) async fn run(run: &HumanRunSpec, call: &AuthorizedToolCall) -> Result<ToolOutput, ToolRunError> {
    let Some(inbox) = &call.inbox else {
        return Err(ToolRunError::Unavailable("this call cannot wait for a person".to_owned()));
    };
    let instructions = match &run.instructions {
        Some(template) => template
            .render(EscapeContext::Text, json!({ "args": call.arguments }))
            .map_err(|error| ToolRunError::Failed(format!("its instructions: {error}")))?,
        None => call.tool.description.clone(),
    };
    inbox.run_by_person(call, instructions).await
}

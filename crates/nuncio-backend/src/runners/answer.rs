//! Tools with a fixed answer in the agent file.

use nuncio_core::template::{EscapeContext, Template};
use nuncio_engine::ports::runner::{AuthorizedToolCall, ToolOutput, ToolRunError};
use serde_json::{Value, json};

/// Renders the answer template. If the tool declares an output schema, the text is parsed as JSON.
pub(super) fn run(template: &Template, call: &AuthorizedToolCall) -> Result<ToolOutput, ToolRunError> {
    let text = if template.is_plain() {
        template.as_str().to_owned()
    } else {
        let failed = |error| ToolRunError::Failed(format!("its answer: {error}"));
        template.render(EscapeContext::Text, json!({ "args": call.arguments })).map_err(failed)?
    };
    if call.tool.output.is_none() {
        return Ok(ToolOutput::text(text));
    }
    let value: Value = serde_json::from_str(&text)
        .map_err(|error| ToolRunError::Failed(format!("its answer must be JSON, but is not: {error}")))?;
    Ok(ToolOutput::json(value))
}

//! Validation of tool output against the declared schema.

use nuncio_core::ErrorCode;
use nuncio_core::agent::Tool;
use nuncio_core::execution::ExecutionFailure;

use crate::ports::runner::ToolOutput;

pub(super) fn check(tool: &Tool, output: &ToolOutput) -> Result<(), ExecutionFailure> {
    let Some(schema) = &tool.output else { return Ok(()) };
    let wrong = |message: String| Err(ExecutionFailure { code: ErrorCode::InvalidOutput, message });
    let Some(value) = &output.structured else {
        return wrong("it returned no structured result, but an output schema is declared".to_owned());
    };
    match schema.check(value).err().unwrap_or_default().first() {
        None => Ok(()),
        Some(fault) => wrong(format!("its result does not match the declared output schema: {fault}")),
    }
}

//! Validation of tool output against the declared schema.

use nuncio_core::Code;
use nuncio_core::agent::Tool;
use nuncio_core::execution::ExecutionFailure;

use crate::ports::runner::ToolOutput;

pub(super) fn check(tool: &Tool, output: &ToolOutput) -> Result<(), ExecutionFailure> {
    let Some(schema) = &tool.output else { return Ok(()) };
    let faults = match &output.structured {
        Some(value) => schema.check(value).err().unwrap_or_default(),
        None => {
            let message = "it gave no structured result, but one is declared".to_owned();
            return Err(ExecutionFailure { code: Code::InvalidOutput, message });
        }
    };
    match faults.first() {
        None => Ok(()),
        Some(fault) => {
            let message = format!("its result does not fit the declared output: {fault}");
            Err(ExecutionFailure { code: Code::InvalidOutput, message })
        }
    }
}

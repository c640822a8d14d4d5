//! Tool calls that the brain runs itself, outside this server, once the app allowed them.

use nuncio_core::ids::CallId;
use nuncio_core::message::{Content, Message};
use nuncio_core::turn::CallAnswer;

use super::turn::{RunningTurn, too_large};
use crate::call_failure::denial;
use crate::error::EngineError;

impl RunningTurn {
    /// Stores the results of external calls. A call without a reported result gets a placeholder, because every call in
    /// the history needs an answer.
    pub(super) async fn store_external_results(&mut self, results: Vec<(CallId, Content)>) -> Result<(), EngineError> {
        let asked = std::mem::take(&mut self.asked);
        for answer in asked.iter().filter(|answer| !results.iter().any(|(call, _)| call == answer.call())) {
            let content = Content::Text(untold(answer));
            self.turn.write(|log| log.tool_result(answer.call().as_str(), &content)).map_err(too_large)?;
            self.append(Message::tool(answer.call().clone(), content)).await?;
        }
        for (call, content) in results {
            self.append(Message::tool(call, content)).await?;
        }
        Ok(())
    }
}

fn untold(answer: &CallAnswer) -> String {
    match answer {
        CallAnswer::Permission { granted: false, reason, .. } => denial(reason.as_deref()),
        CallAnswer::Permission { granted: true, .. } | CallAnswer::Result { .. } => {
            "Tool call allowed; its result was not reported".to_owned()
        }
    }
}

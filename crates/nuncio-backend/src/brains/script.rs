//! Brain that plays a script from the user's message, so that tests can reach every path of a protocol without a
//! language model.
//!
//! The newest user message decides. If its text is `{"script":[step,…]}`, the n-th answer since then plays step n, and
//! the last step repeats. Any other text is answered with `You said: …`. [`item`] describes the items of a step.

use std::sync::Arc;

use async_trait::async_trait;
use nuncio_core::message::{Content, Message};
use nuncio_core::turn::StopReason;
use nuncio_engine::ports::brain::{
    Brain, BrainError, BrainStepInput, BrainStepStop, BrainWriter, HistoryNeed, OfferedTool,
};
use nuncio_engine::ports::clock::Clock;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::chunks::words;
use item::{EchoContent, ScriptItem};

mod item;
#[cfg(test)]
mod tests;

/// Brain of agents with `kind = "script"`.
#[derive(Debug)]
pub struct ScriptBrain {
    clock: Arc<dyn Clock>,
}

impl ScriptBrain {
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock }
    }
}

#[async_trait]
impl Brain for ScriptBrain {
    /// Only `{"echo": "roles"}` needs older messages.
    fn history_need(&self, exchange: &[Message]) -> HistoryNeed {
        let (said, _) = newest_user(exchange);
        if said.contains("roles") { HistoryNeed::Everything } else { HistoryNeed::NewestExchange }
    }

    async fn think(&self, prompt: BrainStepInput, writer: &mut BrainWriter) -> Result<BrainStepStop, BrainError> {
        let mut calls = false;
        let mut stop = None;
        for item in step(&prompt.history)? {
            match item {
                ScriptItem::Text(text) => {
                    for word in words(&text) {
                        writer.text(word).await?;
                    }
                }
                ScriptItem::Thinking(text) => {
                    for word in words(&text) {
                        writer.thinking(word).await?;
                    }
                }
                ScriptItem::Deltas { count, delta } => {
                    for _ in 0..count {
                        writer.text(&delta).await?;
                    }
                }
                ScriptItem::Tool { id, name, input } => {
                    calls = true;
                    writer.call(id, name, input);
                }
                ScriptItem::Echo(what) => writer.text(&echo(what, &prompt.history, &prompt.tools)).await?,
                ScriptItem::Sleep(span) => self.clock.sleep_until(self.clock.now().after(span)).await,
                ScriptItem::Stop(reason) => stop = Some(reason),
                ScriptItem::Throw(message) => return Err(BrainError::Failed(message)),
            }
        }
        let natural = if calls { StopReason::ToolUse } else { StopReason::EndTurn };
        Ok(BrainStepStop::ended(stop.unwrap_or(natural)))
    }
}

#[derive(Deserialize)]
struct ScriptJson<'a> {
    #[serde(borrow)]
    script: Vec<&'a RawValue>,
}

/// Items of the script step to play now. Only this step is parsed completely.
fn step(history: &[Message]) -> Result<Vec<ScriptItem>, BrainError> {
    let (said, since) = newest_user(history);
    let Ok(ScriptJson { script }) = serde_json::from_str(&said) else {
        return Ok(vec![ScriptItem::Text(format!("You said: {said}"))]);
    };
    let answers = since.iter().filter(|message| matches!(message, Message::Assistant { .. })).count();
    let Some(last) = script.len().checked_sub(1) else {
        return Ok(Vec::new());
    };
    let number = answers.min(last);
    item::items(script[number].get())
        .map_err(|fault| BrainError::Failed(format!("script step {}: {fault}", number + 1)))
}

/// Text of the newest user message, and the messages after it.
fn newest_user(history: &[Message]) -> (String, &[Message]) {
    match history.iter().rposition(|message| matches!(message, Message::User { .. })) {
        Some(at) => (history[at].text(), &history[at + 1..]),
        None => (String::new(), history),
    }
}

fn echo(what: EchoContent, history: &[Message], tools: &[OfferedTool]) -> String {
    let written = match what {
        EchoContent::Results => {
            let (_, since) = newest_user(history);
            let contents: Vec<&Content> = since
                .iter()
                .filter_map(|message| match message {
                    Message::Tool { content, .. } => Some(content),
                    _ => None,
                })
                .collect();
            serde_json::to_string(&contents)
        }
        EchoContent::Tools => serde_json::to_string(&tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>()),
        EchoContent::Roles => serde_json::to_string(&history.iter().map(Message::role).collect::<Vec<_>>()),
    };
    written.unwrap_or_else(|fault| format!("[{fault}]"))
}

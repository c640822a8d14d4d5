//! Reconstruction of a turn's messages from its events.

use serde::Deserialize;

use super::{ModelOutputKind, TurnEventLog, TurnLogEvent};
use crate::ids::CallId;
use crate::message::{Block, Content, Message, ToolCall};
use crate::turn::{StopReason, TurnOutcome};

#[derive(Deserialize)]
struct LoggedToolResult {
    #[serde(rename = "toolCallId")]
    tool_call_id: CallId,
    content: Content,
}

impl TurnEventLog {
    /// How the turn ended; `None` while it runs.
    #[must_use]
    pub fn stop(&self) -> Option<TurnOutcome> {
        match self.event(self.len().checked_sub(1)?)? {
            TurnLogEvent::Stopped(json) => serde_json::from_str(json).ok(),
            _ => None,
        }
    }

    /// The messages of the turn: the agent's text and the results of its tools. Unfinished output of a failed turn is
    /// left out, as in the history.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        let mut messages = Vec::new();
        let mut blocks: Vec<Block> = Vec::new();
        let mut calls = false;
        for (_, event) in self.from(0) {
            match event {
                TurnLogEvent::Started | TurnLogEvent::Delta(..) => {}
                TurnLogEvent::Block(ModelOutputKind::Text, text) => blocks.push(Block::text(text)),
                TurnLogEvent::Block(ModelOutputKind::Thinking, text) => blocks.push(Block::thinking(text)),
                TurnLogEvent::ToolCall(json) => {
                    calls = true;
                    blocks.extend(serde_json::from_str::<ToolCall>(json).ok().map(Block::tool_use));
                }
                TurnLogEvent::ToolResult(json) => {
                    flush(&mut messages, &mut blocks);
                    calls = false;
                    let result = serde_json::from_str::<LoggedToolResult>(json).ok();
                    messages.extend(result.map(|result| Message::tool(result.tool_call_id, result.content)));
                }
                TurnLogEvent::Stopped(json) => {
                    let failed = serde_json::from_str::<TurnOutcome>(json)
                        .is_ok_and(|stop| stop.stop_reason == StopReason::Error);
                    if !failed || calls {
                        flush(&mut messages, &mut blocks);
                    }
                }
            }
        }
        messages
    }
}

fn flush(messages: &mut Vec<Message>, blocks: &mut Vec<Block>) {
    if !blocks.is_empty() {
        messages.push(Message::assistant(std::mem::take(blocks)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ToolName;
    use crate::turn::{TokenUsage, TurnError};

    fn call(id: &str) -> ToolCall {
        ToolCall {
            id: CallId::parse(id).unwrap(),
            name: ToolName::parse("add").unwrap(),
            input: serde_json::Map::new(),
        }
    }

    fn stop(stop_reason: StopReason) -> TurnOutcome {
        TurnOutcome {
            stop_reason,
            turn_id: "s.1".into(),
            cancelled: false,
            usage: Some(TokenUsage::default()),
            error: None::<TurnError>,
        }
    }

    #[test]
    fn tool_result_starts_a_new_assistant_message() {
        let mut log = TurnEventLog::started();
        log.delta(ModelOutputKind::Thinking, "hm").unwrap();
        log.delta(ModelOutputKind::Text, "one ").unwrap();
        log.delta(ModelOutputKind::Text, "moment").unwrap();
        log.tool_call(&call("c1")).unwrap();
        log.tool_result("c1", &Content::from("3")).unwrap();
        log.delta(ModelOutputKind::Text, "It is 3.").unwrap();
        log.stopped(&stop(StopReason::EndTurn));
        assert_eq!(
            log.messages(),
            [
                Message::assistant(vec![Block::thinking("hm"), Block::text("one moment"), Block::tool_use(call("c1"))]),
                Message::tool(CallId::parse("c1").unwrap(), Content::from("3")),
                Message::assistant(vec![Block::text("It is 3.")]),
            ]
        );
        assert_eq!(log.stop().unwrap().stop_reason, StopReason::EndTurn);
    }

    #[test]
    fn messages_of_a_failed_turn_omit_its_unfinished_text() {
        let mut log = TurnEventLog::started();
        log.tool_call(&call("c1")).unwrap();
        log.tool_result("c1", &Content::from("3")).unwrap();
        log.delta(ModelOutputKind::Text, "It is").unwrap();
        log.stopped(&stop(StopReason::Error));
        assert_eq!(log.messages().len(), 2);
    }
}

//! Completes a turn without `turn_stop` from the history.

use std::time::Duration;

use nuncio_core::ids::CallId;
use nuncio_core::message::{Block, Content, Message};

use super::fold::TurnMessageBuilder;
use super::{AapConversation, TurnUpdate, since_user};
use crate::client::{Client, tolerant};
use crate::wire::session::HistoryKind;

/// Delays between history requests. A turn whose connection broke may still run.
const HISTORY_DELAYS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];
/// Number of history requests for results of a turn that has ended. Servers store a turn at its end.
pub(super) const RESULT_REQUESTS: usize = 3;

/// State of the conversation before the interrupted turn, used to find the turn in the history.
#[derive(Debug)]
pub(super) struct PreTurnState {
    /// Text of the last user message.
    user: String,
    /// Number of user messages; only set if the last two are identical.
    users: Option<usize>,
    /// Number of agent messages between the last user message and the turn.
    assistants: usize,
    /// Tools of the client and tools that require permission. An unanswered call of such a tool ends the turn.
    client_tools: Vec<String>,
    /// Calls that the turn's input allowed; their results come before the turn's first agent message.
    granted: Vec<CallId>,
}

impl PreTurnState {
    /// Reads the state from a conversation whose last message is the turn's input.
    pub(super) fn of(conversation: &AapConversation, granted: Vec<CallId>) -> Self {
        let users: Vec<&Message> =
            conversation.messages.iter().filter(|message| matches!(message, Message::User { .. })).collect();
        let user = users.last().map(|message| message.text()).unwrap_or_default();
        let repeated = users.len() > 1 && users[users.len() - 2].text() == user;
        let own = conversation.own_tools.iter().map(|tool| tool.name.clone());
        let asking = conversation.enabled_tools.iter().filter(|tool| tool.trust != Some(true));
        Self {
            user,
            users: repeated.then_some(users.len()),
            assistants: assistants(since_user(&conversation.messages)),
            client_tools: own.chain(asking.map(|tool| tool.name.to_string())).collect(),
            granted,
        }
    }

    /// Messages after the last user message, if the history contains the turn up to its end.
    fn exchange(&self, history: &[Message]) -> Option<Vec<Message>> {
        let mut users = history.iter().filter(|message| matches!(message, Message::User { .. }));
        if self.users.is_some_and(|anchor| users.clone().count() < anchor) || users.next_back()?.text() != self.user {
            return None;
        }
        let exchange = since_user(history);
        let last @ Message::Assistant { .. } = exchange.last()? else { return None };
        if assistants(exchange) <= self.assistants {
            return None;
        }
        let mut calls = last.tool_calls().peekable();
        let over =
            calls.peek().is_none() || calls.any(|call| self.client_tools.iter().any(|name| name == call.name.as_str()));
        over.then(|| exchange.to_vec())
    }

    /// Updates for the parts of the turn that were not received. A block that differs from the received text is
    /// reported completely, because a duplicate is better than a loss.
    pub(super) fn missing(&self, exchange: &[Message], received: &TurnMessageBuilder) -> Vec<TurnUpdate> {
        let mut text = received.text.as_str();
        let mut thinking = received.thinking.as_str();
        let mut assistants = 0;
        let mut updates = Vec::new();
        for message in exchange {
            assistants += usize::from(matches!(message, Message::Assistant { .. }));
            match message {
                Message::Assistant { content, .. } if assistants > self.assistants => {
                    let whole = [Block::text(content.text())];
                    let blocks = if matches!(content, Content::Text(_)) { &whole } else { content.blocks() };
                    for block in blocks {
                        updates.extend(match block {
                            Block::Text { text: block_text, .. } => {
                                missing_part(&mut text, block_text).map(TurnUpdate::Text)
                            }
                            Block::Thinking { thinking: block_text, .. } => {
                                missing_part(&mut thinking, block_text).map(TurnUpdate::Thinking)
                            }
                            Block::ToolUse { call, .. } if !received.knows(&call.id) => {
                                Some(TurnUpdate::Call(call.clone()))
                            }
                            Block::ToolUse { .. } | Block::Image { .. } => None,
                        });
                    }
                }
                Message::Tool { tool_call_id, content, .. }
                    if (assistants > self.assistants || self.granted.contains(tool_call_id))
                        && !received.has_answer(tool_call_id) =>
                {
                    updates.push(TurnUpdate::Result { call: tool_call_id.clone(), content: content.clone() });
                }
                _ => {}
            }
        }
        updates
    }
}

/// Polls the history until it contains the end of the turn or the attempts are used up.
pub(super) async fn poll_history(
    client: Client,
    session: String,
    kind: HistoryKind,
    anchor: PreTurnState,
) -> (PreTurnState, Option<Vec<Message>>) {
    for pause in HISTORY_DELAYS {
        tokio::time::sleep(pause).await;
        match client.history(&session, kind).await {
            Ok(history) => {
                if let Some(exchange) = anchor.exchange(&history) {
                    return (anchor, Some(exchange));
                }
            }
            Err(error) if error.is_not_found() => break,
            Err(_) => {}
        }
    }
    (anchor, None)
}

/// Looks for the results of `calls` in the history, with at most `requests` requests. Results that it lacks are left
/// out.
pub(super) async fn poll_results(
    client: Client,
    session: String,
    kind: HistoryKind,
    calls: Vec<CallId>,
    requests: usize,
) -> Vec<(CallId, Content)> {
    let mut found = Vec::new();
    for pause in HISTORY_DELAYS.into_iter().take(requests) {
        tokio::time::sleep(pause).await;
        match client.history(&session, kind).await {
            Ok(history) => found = results(since_user(&history), &calls),
            Err(error) if error.is_not_found() => break,
            Err(_) => {}
        }
        if found.len() == calls.len() {
            break;
        }
    }
    found
}

fn results(messages: &[Message], calls: &[CallId]) -> Vec<(CallId, Content)> {
    let result = |message: &Message| match message {
        Message::Tool { tool_call_id, content, .. } if calls.contains(tool_call_id) => {
            Some((tool_call_id.clone(), content.clone()))
        }
        _ => None,
    };
    messages.iter().filter_map(result).collect()
}

/// Whether the last message has unanswered tool calls.
pub(super) fn waits(exchange: &[Message]) -> bool {
    let answered = tolerant::answered(exchange);
    exchange.last().is_some_and(|last| last.tool_calls().any(|call| !answered.contains(&call.id)))
}

/// Part of a block that was not received; `unmatched` is received text that no earlier block matched.
fn missing_part(unmatched: &mut &str, block_text: &str) -> Option<String> {
    if let Some(rest) = unmatched.strip_prefix(block_text) {
        *unmatched = rest;
        return None;
    }
    let rest = block_text.strip_prefix(*unmatched).unwrap_or(block_text);
    *unmatched = "";
    Some(rest.to_owned())
}

fn assistants(messages: &[Message]) -> usize {
    messages.iter().filter(|message| matches!(message, Message::Assistant { .. })).count()
}

//! A turn whose end was not told: what the history says of it.

use std::time::Duration;

use nuncio_core::message::{Block, Content, Message};

use super::fold::Fold;
use super::{Conversation, Update, since_user};
use crate::client::session::HistoryKind;
use crate::client::{Client, tolerant};

/// When the history is looked at. A turn whose connection broke may still be going on.
const LOOKS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

/// What is known of the exchange before the turn that broke.
#[derive(Debug)]
pub(super) struct Known {
    /// The text of the last user message.
    user: String,
    /// The number of user messages, where it is needed to tell this one from the one before.
    users: Option<usize>,
    /// How many messages of the agent's came before the turn, since that user message.
    assistants: usize,
    /// The calls that may run without us: waiting for them is not our turn.
    ours: Vec<String>,
}

impl Known {
    /// Of a conversation that ends with the turn's input.
    pub(super) fn of(conversation: &Conversation) -> Self {
        let users: Vec<&Message> =
            conversation.messages.iter().filter(|message| matches!(message, Message::User { .. })).collect();
        let user = users.last().map(|message| message.text()).unwrap_or_default();
        let repeated = users.len() > 1 && users[users.len() - 2].text() == user;
        let own = conversation.own_tools.iter().map(|tool| tool.name.clone());
        let asking = conversation.switched_on.iter().filter(|tool| tool.trust != Some(true));
        Self {
            user,
            users: repeated.then_some(users.len()),
            assistants: assistants(since_user(&conversation.messages)),
            ours: own.chain(asking.map(|tool| tool.name.to_string())).collect(),
        }
    }

    /// The exchange in a history, if the turn is over there.
    fn exchange(&self, history: &[Message]) -> Option<Vec<Message>> {
        let mut users = history.iter().filter(|message| matches!(message, Message::User { .. }));
        if self.users.is_some_and(|known| users.clone().count() < known) || users.next_back()?.text() != self.user {
            return None;
        }
        let exchange = since_user(history);
        let last @ Message::Assistant { .. } = exchange.last()? else { return None };
        if assistants(exchange) <= self.assistants {
            return None;
        }
        let mut calls = last.tool_calls().peekable();
        let over = calls.peek().is_none() || calls.any(|call| self.ours.iter().any(|name| name == call.name.as_str()));
        over.then(|| exchange.to_vec())
    }

    /// What the turn has brought according to the exchange, beyond what was received. Pieces that
    /// differ are told again: better twice than never.
    pub(super) fn missing(&self, exchange: &[Message], received: &Fold) -> Vec<Update> {
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
                            Block::Text { text: said, .. } => unheard(&mut text, said).map(Update::Text),
                            Block::Thinking { thinking: said, .. } => {
                                unheard(&mut thinking, said).map(Update::Thinking)
                            }
                            Block::ToolUse { call, .. } if !received.knows(&call.id) => {
                                Some(Update::Call(call.clone()))
                            }
                            Block::ToolUse { .. } | Block::Image { .. } => None,
                        });
                    }
                }
                Message::Tool { tool_call_id, content, .. }
                    if assistants > self.assistants && !received.has_answer(tool_call_id) =>
                {
                    updates.push(Update::Result { call: tool_call_id.clone(), content: content.clone() });
                }
                _ => {}
            }
        }
        updates
    }
}

/// Asks the server for the exchange until the turn is over there, or for long enough.
pub(super) async fn look(
    client: Client,
    session: String,
    kind: HistoryKind,
    known: Known,
) -> (Known, Option<Vec<Message>>) {
    for pause in LOOKS {
        tokio::time::sleep(pause).await;
        match client.history(&session, kind).await {
            Ok(history) => {
                if let Some(exchange) = known.exchange(&history) {
                    return (known, Some(exchange));
                }
            }
            Err(error) if error.is_not_found() => break,
            Err(_) => {}
        }
    }
    (known, None)
}

/// Whether the last message of an exchange has calls without an answer.
pub(super) fn waits(exchange: &[Message]) -> bool {
    let answered = tolerant::answered(exchange);
    exchange.last().is_some_and(|last| last.tool_calls().any(|call| !answered.contains(&call.id)))
}

/// What of a block was not heard; `heard` is what was heard and not yet accounted for.
fn unheard(heard: &mut &str, said: &str) -> Option<String> {
    if let Some(rest) = heard.strip_prefix(said) {
        *heard = rest;
        return None;
    }
    let rest = said.strip_prefix(*heard).unwrap_or(said);
    *heard = "";
    Some(rest.to_owned())
}

fn assistants(messages: &[Message]) -> usize {
    messages.iter().filter(|message| matches!(message, Message::Assistant { .. })).count()
}

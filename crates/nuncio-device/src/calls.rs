//! Each call runs once. What becomes of it is on disk before it begins, and when it is over.

use nuncio_a2h::wire::artifact::{ErrorCode, Outcome, ToolCall};
use nuncio_core::conversation::MessagePlace;
use nuncio_core::digest::Digest;
use nuncio_core::ids::{AgentId, ConversationId, MessageId};
use nuncio_core::time::Timestamp;
use nuncio_identity::seal::{Change, KeepError};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::records::Records;

/// What is known of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CallRecord {
    /// Who called.
    pub(crate) agent: AgentId,
    /// The call, without its arguments once it is over.
    pub(crate) call: ToolCall,
    /// Where it came, and the answer goes.
    pub(crate) conversation: ConversationId,
    /// Its number there.
    pub(crate) seq: u64,
    /// The digest of the sealed message that brought it; none for one that an earlier version received.
    #[serde(default)]
    pub(crate) envelope: Option<Digest>,
    /// The digest of tool and arguments, by which a repetition is told from another call of the same name.
    pub(crate) digest: Digest,
    /// How far it has got.
    pub(crate) state: CallState,
    /// When it came.
    pub(crate) at: Timestamp,
}

/// Whence a call came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) agent: &'a AgentId,
    pub(crate) conversation: &'a ConversationId,
    pub(crate) seq: u64,
    /// The digest of the sealed message.
    pub(crate) envelope: Option<Digest>,
}

impl Origin<'_> {
    /// The id of the message that brought the call.
    pub(crate) fn message_id(&self) -> Option<MessageId> {
        MessagePlace { conversation: self.conversation.clone(), seq: self.seq }.id().ok()
    }
}

impl CallRecord {
    pub(crate) fn origin(&self) -> Origin<'_> {
        Origin { agent: &self.agent, conversation: &self.conversation, seq: self.seq, envelope: self.envelope }
    }
}

/// How far a call has got.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(crate) enum CallState {
    /// It is looked at, or the person is asked.
    Asked,
    /// It runs.
    Running,
    /// It is over.
    Over {
        /// What became of it.
        outcome: Outcome,
        /// Whether the answer is on its way.
        #[serde(default)]
        sent: bool,
    },
    /// Another device took it upon itself.
    Elsewhere,
}

/// How a call stands that came.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Came {
    /// It is new, and was written down.
    New,
    /// It came before, and what became of it is known.
    Again(Outcome),
    /// It came before, and is still being dealt with.
    Pending,
    /// It came before, and another device deals with it.
    Elsewhere,
    /// Another call has that name.
    Other,
}

/// The digest of what a call asks for.
pub(crate) fn digest(call: &ToolCall) -> Digest {
    Digest::of_json(&json!([call.tool_name, call.arguments, call.permission_scope]))
}

fn name(agent: &AgentId, call: &ToolCall) -> String {
    let id = Digest::of_bytes(format!("{agent}\n{}", call.call_id).as_bytes());
    format!("call/{id}")
}

/// Takes a call in, once.
pub(crate) fn take(records: &Records, origin: Origin<'_>, call: &ToolCall, now: Timestamp) -> Result<Came, KeepError> {
    let name = name(origin.agent, call);
    let known: Option<CallRecord> = records.get(&name)?;
    Ok(match known {
        None => {
            records.save(vec![moved(origin, call, CallState::Asked, now)])?;
            Came::New
        }
        Some(known) if known.digest != digest(call) => Came::Other,
        Some(CallRecord { state: CallState::Over { outcome, .. }, .. }) => Came::Again(outcome),
        Some(CallRecord { state: CallState::Elsewhere, .. }) => Came::Elsewhere,
        Some(_) => Came::Pending,
    })
}

/// The change by which a call gets further.
pub(crate) fn moved(origin: Origin<'_>, call: &ToolCall, state: CallState, at: Timestamp) -> Change {
    let Origin { agent, conversation, seq, envelope } = origin;
    let digest = digest(call);
    let mut call = call.clone();
    // What was asked for is needed no more once it is over; the digest stays.
    if matches!(state, CallState::Over { .. } | CallState::Elsewhere) {
        call.arguments = serde_json::Value::Null;
    }
    let name = name(agent, &call);
    let (agent, conversation) = (agent.clone(), conversation.clone());
    let record = CallRecord { agent, call, conversation, seq, envelope, digest, state, at };
    Records::put(&name, &record)
}

/// Calls that a process before this one left, and what is to be answered: nothing is run again, and nobody is asked
/// again for what they did not answer.
pub(crate) fn leftovers(records: &Records) -> Result<Vec<(CallRecord, Outcome)>, KeepError> {
    let mut left = Vec::new();
    for name in records.names("call/")? {
        let Some(record) = records.get::<CallRecord>(&name)? else { continue };
        let (error_code, message) = match record.state {
            CallState::Asked => (ErrorCode::Unavailable, "the device stopped before its person had answered"),
            CallState::Running => {
                (ErrorCode::PlatformError, "the device stopped while it ran; it may or may not have had an effect")
            }
            CallState::Over { .. } | CallState::Elsewhere => continue,
        };
        left.push((record, Outcome::Error { error_code, message: Some(message.to_owned()) }));
    }
    Ok(left)
}

/// Calls that are over, and whose answer may never have left.
pub(crate) fn unsent(records: &Records) -> Result<Vec<(CallRecord, Outcome)>, KeepError> {
    let mut left = Vec::new();
    for name in records.names("call/")? {
        let Some(record) = records.get::<CallRecord>(&name)? else { continue };
        if let CallState::Over { outcome, sent: false } = &record.state {
            let outcome = outcome.clone();
            left.push((record, outcome));
        }
    }
    Ok(left)
}

/// Remembers that the answer to a call is on its way.
pub(crate) fn sent(records: &Records, agent: &AgentId, call: &ToolCall) -> Result<(), KeepError> {
    let name = name(agent, call);
    let Some(mut record) = records.get::<CallRecord>(&name)? else { return Ok(()) };
    if let CallState::Over { sent, .. } = &mut record.state {
        *sent = true;
    }
    records.set(&name, &record)
}

/// Forgets calls that came before that time and are over.
pub(crate) fn forget(records: &Records, before: Timestamp) -> Result<Vec<Change>, KeepError> {
    let mut gone = Vec::new();
    for name in records.names("call/")? {
        let over = |record: &CallRecord| matches!(record.state, CallState::Over { .. } | CallState::Elsewhere);
        if records.get::<CallRecord>(&name)?.is_some_and(|record| over(&record) && record.at < before) {
            gone.push(Records::gone(&name));
        }
    }
    Ok(gone)
}

#[cfg(test)]
mod tests;

//! Stored state of tool calls, written before a call runs and when it ends, so that each runs at most once.

use nuncio_a2h::wire::artifact::{ToolCall, ToolErrorCode, ToolOutcome};
use nuncio_core::ErrorCode;
use nuncio_core::conversation::MessageRef;
use nuncio_core::digest::Digest;
use nuncio_core::ids::{AgentId, ConversationId, MessageId};
use nuncio_core::time::Timestamp;
use nuncio_identity::seal::{KeyStoreError, SealedRecordChange};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::DeviceError;
use crate::guard::failed;
use crate::record_store::RecordStore;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CallRecord {
    pub(crate) agent: AgentId,
    /// The tool call; its arguments are deleted when the call ends.
    pub(crate) call: ToolCall,
    /// Conversation in which the call arrived and to which the answer is sent.
    pub(crate) conversation: ConversationId,
    pub(crate) seq: u64,
    /// Digest of the sealed message that carried the call; `None` if an earlier program version stored the call.
    pub(crate) envelope: Option<Digest>,
    /// Digest of tool, arguments and scope, by which a repetition is distinguished from another call with the same id.
    pub(crate) digest: Digest,
    pub(crate) state: CallState,
    pub(crate) at: Timestamp,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct CallOrigin<'a> {
    pub(crate) agent: &'a AgentId,
    pub(crate) conversation: &'a ConversationId,
    pub(crate) seq: u64,
    /// Digest of the sealed message that carried the call.
    pub(crate) envelope: Option<Digest>,
}

impl CallOrigin<'_> {
    pub(crate) fn message_id(&self) -> Result<MessageId, DeviceError> {
        let message_ref = MessageRef { conversation: self.conversation.clone(), seq: self.seq };
        message_ref.id().map_err(|why| DeviceError::new(ErrorCode::Internal, why.to_string()))
    }
}

impl CallRecord {
    pub(crate) fn origin(&self) -> CallOrigin<'_> {
        CallOrigin { agent: &self.agent, conversation: &self.conversation, seq: self.seq, envelope: self.envelope }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(crate) enum CallState {
    /// The call is being checked, or waits for the person's decision.
    Asked,
    Running,
    Over {
        outcome: ToolOutcome,
        /// Whether the relay accepted the answer.
        #[serde(default)]
        sent: bool,
    },
    /// Another device of the person claimed the call.
    Elsewhere,
}

/// How an incoming call compares with the stored calls.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CallArrival {
    /// The call arrived for the first time and is now stored.
    New,
    /// The call was repeated and has ended with this outcome.
    Repeated(ToolOutcome),
    /// The call was repeated and is still in progress.
    Pending,
    /// The call was repeated and another device handles it.
    Elsewhere,
    /// The call has the id of an earlier call with other content.
    IdReused,
}

/// Digest of tool, arguments and scope of a call.
pub(crate) fn digest(call: &ToolCall) -> Digest {
    Digest::of_json(&json!([call.tool_name, call.arguments, call.permission_scope]))
}

fn name(agent: &AgentId, call: &ToolCall) -> String {
    let id = Digest::of_bytes(format!("{agent}\n{}", call.call_id).as_bytes());
    format!("call/{id}")
}

pub(crate) fn take(
    records: &RecordStore,
    origin: CallOrigin<'_>,
    call: &ToolCall,
    now: Timestamp,
) -> Result<CallArrival, KeyStoreError> {
    let name = name(origin.agent, call);
    Ok(match records.get::<CallRecord>(&name)? {
        None => {
            records.save(vec![moved(origin, call, CallState::Asked, now)])?;
            CallArrival::New
        }
        Some(stored) if stored.digest != digest(call) => CallArrival::IdReused,
        Some(CallRecord { state: CallState::Over { outcome, .. }, .. }) => CallArrival::Repeated(outcome),
        Some(CallRecord { state: CallState::Elsewhere, .. }) => CallArrival::Elsewhere,
        Some(_) => CallArrival::Pending,
    })
}

/// Record change that writes the new state of a call.
pub(crate) fn moved(origin: CallOrigin<'_>, call: &ToolCall, state: CallState, at: Timestamp) -> SealedRecordChange {
    let CallOrigin { agent, conversation, seq, envelope } = origin;
    let digest = digest(call);
    let mut call = call.clone();
    // Arguments are not stored after the end of a call; the digest remains.
    if matches!(state, CallState::Over { .. } | CallState::Elsewhere) {
        call.arguments = serde_json::Value::Null;
    }
    let name = name(agent, &call);
    let (agent, conversation) = (agent.clone(), conversation.clone());
    let record = CallRecord { agent, call, conversation, seq, envelope, digest, state, at };
    RecordStore::put(&name, &record)
}

/// Calls that the previous process did not answer, each with the answer to send: the stored outcome, or an error if the
/// call had not ended.
pub(crate) fn unanswered(records: &RecordStore) -> Result<Vec<(CallRecord, ToolOutcome)>, KeyStoreError> {
    let mut unanswered = Vec::new();
    for (_, record) in records.all::<CallRecord>("call/")? {
        let record = record?;
        let outcome = match &record.state {
            CallState::Asked => failed(ToolErrorCode::Unavailable, "the device stopped before its person had answered"),
            CallState::Running => {
                let message = "the device stopped while it ran; it may or may not have had an effect";
                failed(ToolErrorCode::PlatformError, message)
            }
            CallState::Over { outcome, sent: false } => outcome.clone(),
            CallState::Over { sent: true, .. } | CallState::Elsewhere => continue,
        };
        unanswered.push((record, outcome));
    }
    Ok(unanswered)
}

pub(crate) fn mark_answer_sent(records: &RecordStore, agent: &AgentId, call: &ToolCall) -> Result<(), KeyStoreError> {
    let name = name(agent, call);
    let Some(mut record) = records.get::<CallRecord>(&name)? else { return Ok(()) };
    if let CallState::Over { sent, .. } = &mut record.state {
        *sent = true;
    }
    records.set(&name, &record)
}

/// Changes that delete finished calls older than `before`.
pub(crate) fn forget(records: &RecordStore, before: Timestamp) -> Result<Vec<SealedRecordChange>, KeyStoreError> {
    let mut gone = Vec::new();
    for (name, record) in records.all::<CallRecord>("call/")? {
        let record = record?;
        if matches!(record.state, CallState::Over { .. } | CallState::Elsewhere) && record.at < before {
            gone.push(RecordStore::delete(&name));
        }
    }
    Ok(gone)
}

#[cfg(test)]
mod tests;

//! What is asked of the chain, and what became of it.

use nuncio_core::execution::{ExecutionFailure, TraceIds};
use nuncio_core::ids::{CallId, SessionId, ToolName};
use nuncio_core::message::Content;
use nuncio_core::policy::Protocol;
use nuncio_core::time::Timestamp;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::access::Caller;
use crate::invoke::Entry;
use crate::ports::runner::ToolOutput;
use crate::ports::store::Place;
use crate::publish::Served;

/// A wish to have a tool run.
pub struct Call<'a> {
    /// Who wishes it.
    pub caller: &'a Caller,
    /// By which protocol.
    pub protocol: Protocol,
    /// Whose tool.
    pub served: &'a Served,
    /// The call's id.
    pub id: CallId,
    /// The tool's name, as it was called.
    pub tool: ToolName,
    /// The arguments.
    pub arguments: Map<String, Value>,
    /// Whether the tool is within the caller's reach here; if not, it does not exist for them.
    pub offered: bool,
    /// What the app said about this call.
    pub client: ClientSays,
    /// The conversation and turn it belongs to.
    pub turn: Option<(SessionId, u64)>,
    /// Where its result goes, in the same commit as its record.
    pub place: Option<Place>,
    /// The execution it runs for, if that is not on disk yet: it goes there with the first thing that does.
    pub entry: Option<&'a Entry>,
    /// Identifiers to pass on.
    pub trace: &'a TraceIds,
    /// Told when its start is on disk, before it runs.
    pub began: Option<&'a (dyn Fn(Timestamp) + Sync)>,
    /// When it must be over.
    pub deadline: Timestamp,
    /// Stops it.
    pub cancel: &'a CancellationToken,
}

/// What the app said about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientSays {
    /// It is not asked: the protocol has no such question, or the tool is the agent's own.
    NotAsked,
    /// It trusts the tool.
    Trusts,
    /// It wants to be asked and has not been.
    AskFirst,
    /// Yes, to this call.
    Yes,
    /// No, to this call.
    No {
        /// Why.
        reason: Option<String>,
    },
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Called {
    /// It is over and recorded.
    Ended(Ended),
    /// The app must be asked first. Nothing has happened.
    AskClient,
}

/// A call that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// What the tool answered, or why it did not.
    pub result: Result<ToolOutput, ExecutionFailure>,
    /// When.
    pub at: Timestamp,
}

impl Ended {
    /// What the brain and the history get to see.
    #[must_use]
    pub fn content(&self) -> Content {
        match &self.result {
            Ok(output) => output.message_content(),
            Err(failure) => Content::Text(failure.message.clone()),
        }
    }
}

/// The spec's words for a refusal.
#[must_use]
pub fn denial(reason: Option<&str>) -> String {
    match reason {
        Some(reason) if !reason.is_empty() => format!("Tool call denied: {reason}"),
        _ => "Tool call denied".to_owned(),
    }
}

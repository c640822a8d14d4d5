//! Sends tool calls to people's devices and waits for the answers.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nuncio_core::call_source::CallSource;
use nuncio_core::conversation::MsgSubtype;
use nuncio_core::device_time::AGENT_WAITS;
use nuncio_core::ids::{CallId, ConversationId, ScopeId, ToolName};
use nuncio_core::notification::RelayParty;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::entropy::random_name;
use nuncio_engine::ports::runner::SentCallMessages;
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};

use super::context::PeerContext;
use super::error::{DeviceCallError, SendError};
use super::lock;
use super::outbox::SealedMessageOutbox;
use crate::client::RelayClientError;
use crate::wire::artifact::{Artifact, ArtifactPayload, ToolCall, ToolOutcome, ToolResponse};

/// Run time limit of a tool for which the manifest gives none.
const DEFAULT_TOOL_TIME: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Default)]
pub struct DeviceCallOptions {
    /// Id of the call, random by default. A device runs calls with the same id only once.
    pub call_id: Option<CallId>,
    /// Permission scope of the call; by default the tool's scope in the manifest.
    pub scope: Option<ScopeId>,
    /// Run time limit once the call may start; by default the one in the manifest.
    pub timeout: Option<Duration>,
    /// Caller and conversation behind the call, for the person who decides on it.
    pub source: Option<CallSource>,
    /// Receives a reference to each message that carries the call, for the audit record.
    pub sent: SentCallMessages,
}

/// A sent tool call that waits for its answer in the same conversation.
pub(super) struct UnansweredDeviceCall {
    conversation: ConversationId,
    answer: oneshot::Sender<ToolOutcome>,
    /// Notified when the device could not open the call; the call is then sent again.
    again: Arc<Notify>,
}

/// Sends tool calls to people's devices and waits for the answers.
pub struct DeviceToolCaller {
    pub(super) context: Arc<PeerContext>,
    pub(super) outbox: Arc<SealedMessageOutbox>,
    pub(super) waiting: Mutex<HashMap<CallId, UnansweredDeviceCall>>,
}

impl DeviceToolCaller {
    /// Calls a tool on the device of the person in a conversation, and waits for the result.
    ///
    /// # Errors
    /// The call could not be sent, the person or device refused, the tool failed, or no device answered in time.
    pub async fn call_tool(
        &self,
        conversation: &ConversationId,
        name: &str,
        arguments: Value,
    ) -> Result<Value, DeviceCallError> {
        self.call_tool_with(conversation, name, arguments, DeviceCallOptions::default()).await
    }

    /// Like [`Self::call_tool`], with options.
    pub async fn call_tool_with(
        &self,
        conversation: &ConversationId,
        name: &str,
        arguments: Value,
        options: DeviceCallOptions,
    ) -> Result<Value, DeviceCallError> {
        let sent = options.sent.clone();
        let call = self.tool_call(name, arguments, options).await?;
        let until = self.context.now().after(Duration::from_millis(call.timeout_ms) + AGENT_WAITS);
        let id = call.call_id.clone();
        let payload = json!(ArtifactPayload::Artifact { artifact: Artifact::ToolCall(call) });
        let (answer, answered) = oneshot::channel();
        let again = Arc::new(Notify::new());
        let waiting = UnansweredDeviceCall { conversation: conversation.clone(), answer, again: Arc::clone(&again) };
        lock(&self.waiting).insert(id.clone(), waiting);
        // Removes the entry in `waiting` also if this future is dropped.
        let _left = UnansweredDeviceCallGuard { calls: self, id: &id };
        self.send_call(conversation, payload.clone(), until, &sent).await?;
        let outcome = tokio::select! {
            outcome = answered => outcome.map_err(|_| DeviceCallError::NoAnswer)?,
            never = self.send_again(conversation, payload, until, &again, &sent) => match never {},
            () = self.context.clock.sleep_until(until) => return Err(DeviceCallError::NoAnswer),
        };
        match outcome {
            ToolOutcome::Ok { result } => Ok(result),
            ToolOutcome::Denied { reason } => Err(DeviceCallError::Denied(reason)),
            ToolOutcome::Error { error_code, message } => Err(DeviceCallError::Failed { code: error_code, message }),
        }
    }

    /// Sends a call again whenever `again` reports that the device could not open it.
    async fn send_again(
        &self,
        conversation: &ConversationId,
        payload: Value,
        until: Timestamp,
        again: &Notify,
        sent: &SentCallMessages,
    ) -> Infallible {
        loop {
            again.notified().await;
            if let Err(error) = self.send_call(conversation, payload.clone(), until, sent).await {
                tracing::warn!(%conversation, %error, "cannot send a call again");
            }
        }
    }

    /// Sends a tool call as soon as the relay's rate limit permits, at the latest at `until`.
    async fn send_call(
        &self,
        conversation: &ConversationId,
        payload: Value,
        until: Timestamp,
        sent: &SentCallMessages,
    ) -> Result<(), SendError> {
        loop {
            let send_permit = self.outbox.send_permit_until(conversation, until).await?;
            let delivered = self.outbox.deliver_call(send_permit, payload.clone()).await;
            let Err(SendError::Relay(RelayClientError::TooMany { seconds, .. })) = delivered else {
                return delivered.map(|message| message.into_iter().for_each(|message| sent.add(message)));
            };
            let free = self.context.now().after(Duration::from_secs(seconds.max(1)));
            if free >= until {
                return delivered.map(drop);
            }
            self.context.clock.sleep_until(free).await;
        }
    }

    /// Sends a device's answer to a tool call. Returns the number of the message in the conversation.
    pub async fn respond(&self, conversation: &ConversationId, response: ToolResponse) -> Result<u64, SendError> {
        let payload = json!(ArtifactPayload::Artifact { artifact: Artifact::ToolResponse(response) });
        self.outbox.send_artifact(conversation, MsgSubtype::ArtifactResponse, payload).await
    }

    async fn tool_call(
        &self,
        name: &str,
        arguments: Value,
        options: DeviceCallOptions,
    ) -> Result<ToolCall, DeviceCallError> {
        let fault = |why: &dyn ToString| DeviceCallError::Unsent(SendError::Fault(why.to_string()));
        let tool_name = ToolName::parse(name).map_err(|why| fault(&why))?;
        let call_id = match options.call_id {
            Some(id) => id,
            None => CallId::parse(&random_name(&*self.context.entropy, "call_")).map_err(|why| fault(&why))?,
        };
        let (scope, timeout) = match (options.scope, options.timeout) {
            (Some(scope), Some(timeout)) => (scope, timeout),
            (scope, timeout) => {
                let declared = self.declared(&tool_name).await?;
                (scope.unwrap_or(declared.0), timeout.unwrap_or(declared.1))
            }
        };
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        Ok(ToolCall { call_id, tool_name, arguments, permission_scope: scope, timeout_ms, source: options.source })
    }

    /// Scope and timeout that the agent's manifest declares for a tool.
    async fn declared(&self, name: &ToolName) -> Result<(ScopeId, Duration), DeviceCallError> {
        let RelayParty::Agent(me) = self.context.me() else { return Err(DeviceCallError::Undeclared(name.clone())) };
        let manifest = self.context.relay.manifest(me).await.map_err(SendError::from)?;
        let tools = manifest["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        let tool = tools.iter().find(|tool| tool["name"] == name.as_str());
        let scope = tool.and_then(|tool| ScopeId::parse(tool["permission_scope"].as_str()?).ok());
        let timeout =
            tool.and_then(|tool| tool["timeout_ms"].as_u64()).map_or(DEFAULT_TOOL_TIME, Duration::from_millis);
        Ok((scope.ok_or_else(|| DeviceCallError::Undeclared(name.clone()))?, timeout))
    }

    /// Sends the open calls of a conversation again after a device lost its session; the device runs each only once.
    pub(super) fn call_again(&self, conversation: &ConversationId) {
        let waiting = lock(&self.waiting);
        let there = waiting.values().filter(|waiting| waiting.conversation == *conversation);
        there.for_each(|waiting| waiting.again.notify_one());
    }

    /// Passes an answer to the call that waits for it in the same conversation; other answers are dropped.
    pub(super) fn resolve_call(&self, conversation: &ConversationId, response: ToolResponse) {
        let ToolResponse { call_id, outcome } = response;
        let mut waiting = lock(&self.waiting);
        match waiting.remove(&call_id) {
            Some(found) if found.conversation == *conversation => {
                let _ = found.answer.send(outcome);
            }
            Some(found) => {
                waiting.insert(call_id, found);
                tracing::warn!(%conversation, "dropped an answer that came from another conversation than its call");
            }
            None => tracing::info!(%conversation, call = %call_id, "dropped an answer without a waiting call"),
        }
    }
}

struct UnansweredDeviceCallGuard<'a> {
    calls: &'a DeviceToolCaller,
    id: &'a CallId,
}

impl Drop for UnansweredDeviceCallGuard<'_> {
    fn drop(&mut self) {
        lock(&self.calls.waiting).remove(self.id);
    }
}

//! Approvals by the caller's own person, who is asked by a form (elicitation):
//! <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation>
//!
//! In 2026-07-28 the question is a result, with which the client repeats its request; the state that it sends back is
//! sealed for caller, agent, tool and arguments, expires, and can be used once. In 2025-11-25 the question is a request
//! of the server in the stream of the call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nuncio_core::ErrorCode;
use nuncio_core::agent::{Agent, Tool};
use nuncio_core::digest::Digest;
use nuncio_core::policy::asks_own_person;
use nuncio_core::text;
use nuncio_core::time::Timestamp;
use nuncio_engine::call::ClientDecision;
use nuncio_engine::{Caller, Engine, EngineError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::AdmittedRequest;
use super::refuse::McpFailure;
use super::session::ClientSession;
use crate::wire::{JsonObject, error_code, meta};

/// Key of the question among those of a result.
const QUESTION: &str = "approval";
/// Limit of the arguments that a form shows, in bytes. About longer ones the operators are asked, who see all of them.
const MAX_SHOWN: usize = 4000;

/// Whether a client shows forms; without a mode it means forms.
pub(super) fn shows_forms(capabilities: Option<&Value>) -> bool {
    let Some(Value::Object(modes)) = capabilities.and_then(|all| all.get("elicitation")) else { return false };
    modes.contains_key("form") || !modes.contains_key("url")
}

/// How the caller's person decides on a call.
pub(super) enum ApprovalPath {
    /// The caller's person is not asked; the call chain asks others if necessary.
    NotAsked,
    /// The person answered in this request.
    Answered(ClientDecision),
    /// The question is the result.
    AsResult,
    /// The question is a request in the stream of the call.
    AsRequest(ClientSession),
}

impl ApprovalPath {
    pub(super) async fn of(
        of: &AdmittedRequest,
        tool: Option<&Tool>,
        arguments: &JsonObject,
        params: &JsonObject,
    ) -> Result<Self, McpFailure> {
        let is_asked = |tool: &&Tool| asks_own_person(&of.served.agent, tool, of.caller.speaks_for_person());
        let asked = tool.filter(is_asked);
        if let Some(session) = &of.session {
            let can_ask = session.shows_forms && super::headers::accepts_stream(&of.headers) && fits(arguments);
            return Ok(asked.filter(|_| can_ask).map_or(Self::NotAsked, |_| Self::AsRequest(session.clone())));
        }
        if let Some(state) = params.get("requestState") {
            let answer = params.get("inputResponses").and_then(|answers| answers.get(QUESTION));
            return redeem(of, tool, arguments, state, answer).await;
        }
        let capabilities = params.get("_meta").and_then(|meta| meta.get(meta::CLIENT_CAPABILITIES));
        let can_ask = shows_forms(capabilities) && fits(arguments);
        Ok(asked.filter(|_| can_ask).map_or(Self::NotAsked, |_| Self::AsResult))
    }

    /// The decision with which the call chain begins.
    pub(super) fn decision(&self) -> ClientDecision {
        match self {
            Self::NotAsked => ClientDecision::NotAsked,
            Self::Answered(decision) => decision.clone(),
            Self::AsResult | Self::AsRequest(_) => ClientDecision::AskFirst,
        }
    }
}

fn fits(arguments: &JsonObject) -> bool {
    Value::Object(arguments.clone()).to_string().len() <= MAX_SHOWN
}

/// What a person answered.
enum FormAnswer {
    Yes,
    No,
    /// The answer is missing or does not fit the form.
    Unclear,
}

impl FormAnswer {
    fn read(answer: Option<&Value>) -> Self {
        let Some(answer) = answer else { return Self::Unclear };
        match (answer["action"].as_str(), answer["content"]["approve"].as_bool()) {
            (Some("accept"), Some(true)) => Self::Yes,
            (Some("decline" | "cancel"), _) | (Some("accept"), Some(false)) => Self::No,
            _ => Self::Unclear,
        }
    }
}

const DECLINED: &str = "the person declined it";

fn declined(reason: &str) -> ClientDecision {
    ClientDecision::No { reason: Some(reason.to_owned()) }
}

/// Parameters of `elicitation/create`.
fn form(agent: &Agent, tool: &Tool, arguments: &JsonObject) -> Value {
    let (agent, tool) = (text::plain(agent.title_in("en")), text::plain(tool.title_in("en")));
    let arguments = text::printable(Value::Object(arguments.clone()).to_string());
    json!({
        "mode": "form",
        "message": format!("Allow this call?\n\nAgent: {agent}\nTool: {tool}\nArguments: {arguments}"),
        "requestedSchema": {
            "type": "object",
            "properties": {"approve": {"type": "boolean", "title": "Allow this call", "default": false}},
            "required": ["approve"],
        },
    })
}

/// What the client sends back with the answer.
#[derive(Serialize, Deserialize)]
struct SealedQuestion {
    /// Makes the question usable once.
    nonce: String,
    asked: Timestamp,
    until: Timestamp,
}

/// What a question is about; its state opens for nothing else.
fn purpose(caller: &Caller, agent: &Agent, tool: &str, arguments: &JsonObject) -> String {
    let digest = Digest::of_json(&Value::Object(arguments.clone()));
    format!("mcp approval\n{}\n{}\n{tool}\n{digest}", caller.principal, agent.name)
}

/// The result that asks the caller's person.
pub(super) fn question_result(
    engine: &Engine,
    caller: &Caller,
    agent: &Agent,
    tool: &Tool,
    arguments: &JsonObject,
) -> Value {
    let now = engine.now();
    let until = now.after(engine.approvals().time_limit());
    let question = SealedQuestion { nonce: engine.new_request_id(), asked: now, until };
    let question = serde_json::to_string(&question).unwrap_or_default();
    json!({
        "resultType": "input_required",
        "inputRequests": {QUESTION: {"method": "elicitation/create", "params": form(agent, tool, arguments)}},
        "requestState": engine.seal_for(&purpose(caller, agent, tool.name.as_str(), arguments), &question),
    })
}

/// Takes the answer to a question of [`question_result`].
async fn redeem(
    of: &AdmittedRequest,
    tool: Option<&Tool>,
    arguments: &JsonObject,
    state: &Value,
    answer: Option<&Value>,
) -> Result<ApprovalPath, McpFailure> {
    let invalid = || {
        let message = "`requestState` is not valid for this call: it was changed, used before, has expired, or belongs to \
                       another caller or other arguments; repeat the call without it";
        McpFailure::in_band(error_code::INVALID_PARAMS, message)
    };
    let engine = &of.mcp.engine;
    let (Some(state), Some(tool)) = (state.as_str(), tool) else { return Err(invalid()) };
    let opened = engine.open_sealed(&purpose(&of.caller, &of.served.agent, tool.name.as_str(), arguments), state);
    let question = opened.and_then(|text| serde_json::from_str::<SealedQuestion>(&text).ok());
    let question = question.filter(|question| engine.now() < question.until).ok_or_else(invalid)?;
    let decision = match FormAnswer::read(answer) {
        FormAnswer::Yes => ClientDecision::Yes,
        FormAnswer::No => declined(DECLINED),
        FormAnswer::Unclear => return Ok(ApprovalPath::AsResult),
    };
    let owner = format!("mcp approval {}", of.caller.principal);
    match engine.access().use_nonce(&owner, &question.nonce, question.asked..question.until).await? {
        true => Ok(ApprovalPath::Answered(decision)),
        false => Err(invalid()),
    }
}

/// Session and id of a request to a client.
type RequestKey = (Digest, String);

/// Requests to clients that wait for a response.
#[derive(Debug, Clone, Default)]
pub(super) struct ClientRequests(Arc<Mutex<HashMap<RequestKey, oneshot::Sender<Value>>>>);

impl ClientRequests {
    /// Passes a client's response on. A response to an unknown request is ignored, since it may have expired.
    pub(super) fn respond(&self, session: &ClientSession, id: &Value, response: Value) {
        let Some(id) = id.as_str() else { return };
        if let Some(waiting) = self.lock().remove(&(session.key, id.to_owned())) {
            // The call may have ended.
            let _ = waiting.send(response);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestKey, oneshot::Sender<Value>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A waiting request; dropping it ends its entry.
struct WaitingRequest {
    all: ClientRequests,
    key: RequestKey,
}

impl Drop for WaitingRequest {
    fn drop(&mut self) {
        self.all.lock().remove(&self.key);
    }
}

/// Asks the caller's person in the stream of the call, and waits for the answer.
pub(super) struct StreamQuestion<'a> {
    pub(super) engine: &'a Engine,
    pub(super) requests: &'a ClientRequests,
    pub(super) session: &'a ClientSession,
    pub(super) stream: &'a mpsc::Sender<Value>,
    pub(super) cancel: &'a CancellationToken,
}

impl StreamQuestion<'_> {
    pub(super) async fn ask(
        &self,
        agent: &Agent,
        tool: &Tool,
        arguments: &JsonObject,
    ) -> Result<ClientDecision, EngineError> {
        let id = format!("elicitation-{}", self.engine.new_request_id());
        let (sender, response) = oneshot::channel();
        let key = (self.session.key, id.clone());
        self.requests.lock().insert(key.clone(), sender);
        let _waiting = WaitingRequest { all: self.requests.clone(), key };
        let params = form(agent, tool, arguments);
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params});
        // A client that disconnected may still answer, since the call runs on.
        let _ = self.stream.send(request).await;
        let until = self.engine.now().after(self.engine.approvals().time_limit());
        tokio::select! {
            response = response => {
                let response = response.map_err(|_| EngineError::new(ErrorCode::Internal, "the question was lost"))?;
                Ok(match FormAnswer::read(Some(&response)) {
                    FormAnswer::Yes => ClientDecision::Yes,
                    FormAnswer::No => declined(DECLINED),
                    FormAnswer::Unclear => declined("the answer does not fit the form"),
                })
            }
            () = self.cancel.cancelled() => Ok(declined("the call was cancelled")),
            () = self.engine.clock().sleep_until(until) => Ok(declined("there was no answer in time")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elicitation_by_form_is_supported_unless_the_client_declares_only_urls() {
        for (capabilities, expected) in [
            (json!({}), false),
            (json!({"elicitation": {}}), true),
            (json!({"elicitation": {"form": {}}}), true),
            (json!({"elicitation": {"form": {}, "url": {}}}), true),
            (json!({"elicitation": {"url": {}}}), false),
            (json!({"elicitation": true}), false),
        ] {
            assert_eq!(shows_forms(Some(&capabilities)), expected, "{capabilities}");
        }
    }

    #[test]
    fn answer_counts_as_yes_only_if_it_is_accepted_and_true() {
        let read = |answer: Value| match FormAnswer::read(Some(&answer)) {
            FormAnswer::Yes => "yes",
            FormAnswer::No => "no",
            FormAnswer::Unclear => "unclear",
        };
        for (answer, expected) in [
            (json!({"action": "accept", "content": {"approve": true}}), "yes"),
            (json!({"action": "accept", "content": {"approve": false}}), "no"),
            (json!({"action": "decline", "content": {"approve": true}}), "no"),
            (json!({"action": "cancel"}), "no"),
            (json!({"action": "accept", "content": {"approve": "true"}}), "unclear"),
            (json!({"action": "accept"}), "unclear"),
            (json!({"action": "Accept", "content": {"approve": true}}), "unclear"),
            (json!("accept"), "unclear"),
        ] {
            assert_eq!(read(answer.clone()), expected, "{answer}");
        }
    }
}

//! JSON-RPC endpoint of one agent, with its tools as methods. Numeric ids and batches are accepted, unlike in the core
//! binding.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use nuncio_core::ErrorCode;
use nuncio_core::execution::{ExecutionFailure, TraceIds};
use nuncio_core::ids::ToolName;
use nuncio_core::message::Content;
use nuncio_core::policy::Protocol;
use nuncio_engine::call::ClientDecision;
use nuncio_engine::publish::PublishedAgent;
use nuncio_engine::sync_call::SyncToolCall;
use nuncio_engine::{Caller, EngineError};
use serde_json::{Map, Value, json};

use super::{AnpResult, AnpServerState, refuse};
use crate::project::chat_method;
use crate::wire::{AnpErrorCode, AnpResponse, RpcError};

const MAX_BATCH: usize = 32;

/// Error code of a tool that ran and failed, from the range JSON-RPC reserves for servers.
const TOOL_FAILED: i64 = -32000;

/// Handles `POST /agents/{name}/rpc`.
pub(super) async fn call(State(anp): State<AnpServerState>, Path(name): Path<String>, request: Request) -> AnpResult {
    let mut asked = anp.authenticate(request).await?;
    let missing = |error: EngineError| refuse(&EngineError { code: ErrorCode::NotFound, ..error });
    let served = anp.engine.agents().agent(&name).map_err(missing)?;
    let Some(caller) = asked.caller.clone() else {
        let refused = || refuse(&EngineError::new(ErrorCode::Unauthorized, "authentication is required"));
        return Err(asked.challenge.take().unwrap_or_else(refused));
    };
    let refused = |code, message| {
        let error = RpcError::new(code).with_message(message);
        Some(AnpResponse::error(None::<Value>, error).to_json())
    };
    let answer = match nuncio_core::json::read(&asked.body, crate::wire::MAX_REQUEST_BYTES) {
        Err(unreadable) => refused(AnpErrorCode::ParseError, format!("Parse error: {unreadable}")),
        Ok(Value::Array(requests)) if requests.is_empty() || requests.len() > MAX_BATCH => {
            refused(AnpErrorCode::InvalidRequest, format!("a batch has 1 to {MAX_BATCH} requests"))
        }
        Ok(Value::Array(requests)) => {
            let calls = requests.into_iter().map(|request| one(&anp, &served, &caller, request));
            let answers: Vec<_> = futures_util::future::join_all(calls).await.into_iter().flatten().collect();
            (!answers.is_empty()).then_some(Value::Array(answers))
        }
        Ok(request) => one(&anp, &served, &caller, request).await,
    };
    Ok(asked.answer(answer.as_ref()))
}

/// Handles one JSON-RPC request; returns `None` for a notification.
async fn one(anp: &AnpServerState, served: &Arc<PublishedAgent>, caller: &Caller, request: Value) -> Option<Value> {
    let id = request.get("id").cloned();
    let outcome = match read(request) {
        Ok((method, Some(arguments))) => run(anp, served, caller, &method, arguments).await,
        Ok((_, None)) => Err(invalid_params("send them by name, as an object")),
        // An invalid request gets an error even without an id.
        Err(fault) => {
            let id = id.filter(|id| id.is_string() || id.is_number());
            return Some(AnpResponse::error(id, fault).to_json());
        }
    };
    Some(AnpResponse::new(id?, outcome).to_json())
}

/// Parses method name and arguments; the arguments are `None` if they are not given by name.
fn read(request: Value) -> Result<(String, Option<Map<String, Value>>), RpcError> {
    let invalid =
        |message: &str| RpcError::new(AnpErrorCode::InvalidRequest).with_message(format!("Invalid request: {message}"));
    let Value::Object(mut members) = request else { return Err(invalid("it is not an object")) };
    if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(invalid("`jsonrpc` must be \"2.0\""));
    }
    if !matches!(members.get("id"), None | Some(Value::Null | Value::String(_) | Value::Number(_))) {
        return Err(invalid("`id` must be a text or a number"));
    }
    let Some(Value::String(method)) = members.shift_remove("method") else {
        return Err(invalid("`method` must be a text"));
    };
    let arguments = match members.shift_remove("params") {
        None => Some(Map::new()),
        Some(Value::Object(arguments)) => Some(arguments),
        Some(_) => None,
    };
    Ok((method, arguments))
}

async fn run(
    anp: &AnpServerState,
    served: &Arc<PublishedAgent>,
    caller: &Caller,
    method: &str,
    arguments: Map<String, Value>,
) -> Result<Value, RpcError> {
    if chat_method(&served.agent) == Some(method) {
        return anp.chat(served, caller, arguments).await;
    }
    let call = SyncToolCall {
        caller: caller.clone(),
        protocol: Protocol::Anp,
        served: Arc::clone(served),
        tool: ToolName::parse(method).map_err(|_| RpcError::new(AnpErrorCode::MethodNotFound))?,
        arguments,
        client: ClientDecision::NotAsked,
        trace: TraceIds::default(),
    };
    let ended = anp.engine.calls().call_and_wait(call).await?;
    let output = ended.result.map_err(of_failure)?;
    Ok(match output.structured {
        Some(_) => output.value(),
        None => from_text(output.message_content()),
    })
}

/// Result of a tool that returned content only: text that is a JSON object or array as JSON, other text unchanged.
fn from_text(content: Content) -> Value {
    match content {
        Content::Text(text) => match nuncio_core::json::read(text.as_bytes(), text.len()) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => value,
            _ => Value::String(text),
        },
        blocks @ Content::Blocks(_) => json!(blocks),
    }
}

/// Maps the failure of a tool to a JSON-RPC error.
fn of_failure(ExecutionFailure { code: reason, message, .. }: ExecutionFailure) -> RpcError {
    let code = match reason {
        ErrorCode::ToolNotFound => AnpErrorCode::MethodNotFound,
        ErrorCode::InvalidArguments => AnpErrorCode::InvalidParams,
        ErrorCode::ScopeNotGranted
        | ErrorCode::Denied
        | ErrorCode::ApprovalExpired
        | ErrorCode::ApprovalClosed
        | ErrorCode::Refused => AnpErrorCode::Forbidden,
        ErrorCode::ToolTimeout | ErrorCode::ToolBusy | ErrorCode::ToolUnavailable => {
            AnpErrorCode::TemporarilyUnavailable
        }
        _ => return tool_failed(message, reason, false),
    };
    with_reason(code, message, reason)
}

/// Maps an engine error that occurred before the tool ran to a JSON-RPC error.
impl From<EngineError> for RpcError {
    fn from(error: EngineError) -> Self {
        let code = match error.code {
            ErrorCode::ShuttingDown
            | ErrorCode::StoreUnavailable
            | ErrorCode::ComputationQueueFull
            | ErrorCode::QuotaExceeded
            | ErrorCode::TurnRunning => AnpErrorCode::TemporarilyUnavailable,
            ErrorCode::Internal => AnpErrorCode::InternalError,
            ErrorCode::Unauthorized => AnpErrorCode::Unauthorized,
            ErrorCode::ScopeNotGranted | ErrorCode::Denied => AnpErrorCode::Forbidden,
            _ => AnpErrorCode::InvalidParams,
        };
        with_reason(code, error.message, error.code)
    }
}

/// Builds a JSON-RPC error whose data also names the code of the engine's error.
pub(super) fn with_reason(code: AnpErrorCode, message: String, reason: ErrorCode) -> RpcError {
    RpcError::new(code).with_message(message).with_details(json!({"reason": reason}))
}

pub(super) fn tool_failed(message: String, reason: ErrorCode, retryable: bool) -> RpcError {
    let data = json!({"retryable": retryable, "details": {"reason": reason}});
    RpcError { code: TOOL_FAILED, message, data: Some(data) }
}

pub(super) fn invalid_params(message: &str) -> RpcError {
    RpcError::new(AnpErrorCode::InvalidParams).with_message(format!("Invalid params: {message}"))
}

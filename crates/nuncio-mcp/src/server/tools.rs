//! `tools/list` and `tools/call`: <https://modelcontextprotocol.io/specification/2026-07-28/server/tools>

use std::collections::BTreeSet;
use std::sync::Arc;

use http::StatusCode;
use nuncio_core::ErrorCode;
use nuncio_core::agent::Tool;
use nuncio_core::execution::TraceIds;
use nuncio_core::ids::ToolName;
use nuncio_core::policy::Protocol;
use nuncio_engine::access::AuthenticationMethod;
use nuncio_engine::call::{FinishedCall, ToolCallOutcome};
use nuncio_engine::sync_call::SyncToolCall;
use nuncio_engine::{Caller, EngineError};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::elicitation::{self, ApprovalPath, StreamQuestion};
use super::refuse::McpFailure;
use super::respond::{McpOutcome, PendingResult};
use super::{AdmittedRequest, McpServerState, ask, param_headers};
use crate::project::{self, ResultForm};
use crate::wire::{JsonObject, McpError, error_code, is_id, meta};

/// Number of tools per page.
const PAGE: usize = 100;

/// Lists the tools that the caller may use. Tools whose scope is missing are listed to holders of access tokens, since
/// their clients can ask the issuer for it.
pub(super) fn list(of: &AdmittedRequest, params: &JsonObject) -> Result<Value, McpFailure> {
    let agent = &of.served.agent;
    let declared = agent.tools.iter().filter(|tool| is_listed(of, tool)).map(|tool| ListedTool::Declared(tool));
    let mut tools = declared.chain(project::offers_ask(agent).then_some(ListedTool::Ask));
    match params.get("cursor") {
        None => {}
        // The cursor is the name of the last tool of the page before.
        Some(Value::String(last)) if tools.any(|tool| tool.name() == last) => {}
        Some(_) => return Err(McpFailure::in_band(error_code::INVALID_PARAMS, "`cursor` is not one of this list")),
    }
    let page: Vec<_> = tools.by_ref().take(PAGE).collect();
    let next = page.last().filter(|_| tools.next().is_some()).map(|tool| tool.name().to_owned());
    let described: Vec<_> = page.into_iter().map(|tool| tool.describe(of)).collect();
    Ok(project::tools_result(of.form(), &described, next))
}

enum ListedTool<'a> {
    Declared(&'a Tool),
    /// The whole agent.
    Ask,
}

impl ListedTool<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Declared(tool) => tool.name.as_str(),
            Self::Ask => project::ASK,
        }
    }

    fn describe(&self, of: &AdmittedRequest) -> Value {
        match self {
            Self::Declared(tool) => project::tool(of.form(), tool),
            Self::Ask => project::ask_tool(&of.served.agent),
        }
    }
}

fn is_listed(of: &AdmittedRequest, tool: &Tool) -> bool {
    let is_reachable = tool.exposed || tool.on_device() && of.caller.person.is_some();
    let can_ask_for_scope = matches!(of.caller.authentication, AuthenticationMethod::Token { .. });
    is_reachable && (can_ask_for_scope || of.mcp.engine.calls().tool_status(Some(&of.caller), &of.served, tool).granted)
}

/// Calls a tool through the call chain, or the whole agent.
pub(super) async fn call(of: &AdmittedRequest, mut params: JsonObject) -> Result<PendingResult, McpFailure> {
    let Some(Value::String(name)) = params.shift_remove("name") else {
        return Err(McpFailure::in_band(error_code::INVALID_PARAMS, "`name` must be a string"));
    };
    let arguments = match params.shift_remove("arguments") {
        None => JsonObject::new(),
        Some(Value::Object(arguments)) => arguments,
        Some(_) => return Err(McpFailure::in_band(error_code::INVALID_PARAMS, "`arguments` must be an object")),
    };
    if name == project::ASK && project::offers_ask(&of.served.agent) {
        let token = params.get("_meta").and_then(|meta| meta.get(meta::PROGRESS_TOKEN));
        return ask::begin(of, arguments, token.filter(|token| is_id(token)).cloned()).await;
    }
    let tool = ToolName::parse(&name).map_err(|_| unknown_tool(&name))?;
    let declared = of.served.agent.tool(tool.as_str()).filter(|tool| is_listed(of, tool));
    if let Some(declared) = declared.filter(|_| of.form() == ResultForm::Stateless) {
        param_headers::check(&of.headers, declared.input.source(), &arguments)?;
    }
    let approval = ApprovalPath::of(of, declared.map(|tool| &**tool), &arguments, &params).await?;
    let traceparent = params.get("_meta").and_then(|meta| meta.get(meta::TRACEPARENT)).and_then(Value::as_str);
    let cancel = of.mcp.engine.calls().new_cancellation();
    let call = SyncToolCall {
        caller: of.caller.clone(),
        protocol: Protocol::Mcp,
        served: Arc::clone(&of.served),
        tool,
        arguments,
        client: approval.decision(),
        trace: TraceIds { trace_id: None, traceparent: traceparent.and_then(nuncio_core::execution::traceparent) },
    };
    let (stream, requests) = mpsc::channel(1);
    let requests = matches!(approval, ApprovalPath::AsRequest(_)).then_some(requests);
    let finish = PendingToolCall { mcp: of.mcp.clone(), form: of.form(), call, approval, stream };
    let token = cancel.clone();
    Ok(PendingResult { outcome: Box::pin(finish.run(token)), progress: None, requests, cancel })
}

struct PendingToolCall {
    mcp: McpServerState,
    form: ResultForm,
    call: SyncToolCall,
    approval: ApprovalPath,
    /// Requests to the client, in the stream of the call.
    stream: mpsc::Sender<Value>,
}

impl PendingToolCall {
    async fn run(mut self, cancel: CancellationToken) -> McpOutcome {
        match self.mcp.engine.calls().call_until_cancelled(self.call.clone(), cancel.clone()).await? {
            ToolCallOutcome::Ended(ended) => self.result(&ended),
            ToolCallOutcome::AskClient => self.ask(cancel).await,
        }
    }

    /// Asks the caller's person, whose answer the client sends with a repeated request or in a response.
    async fn ask(&mut self, cancel: CancellationToken) -> McpOutcome {
        let (engine, SyncToolCall { caller, served, tool, arguments, .. }) = (&self.mcp.engine, &self.call);
        let unanswerable = || EngineError::new(ErrorCode::Internal, "this call has no app that could be asked");
        let tool = served.agent.tool(tool.as_str()).ok_or_else(unanswerable)?;
        let ApprovalPath::AsRequest(session) = &self.approval else {
            let question = elicitation::question_result(engine, caller, &served.agent, tool, arguments);
            return Ok(project::completed(self.form, &served.agent, question));
        };
        let question =
            StreamQuestion { engine, requests: &self.mcp.questions, session, stream: &self.stream, cancel: &cancel };
        self.call.client = question.ask(&served.agent, tool, arguments).await?;
        match self.mcp.engine.calls().call_until_cancelled(self.call.clone(), cancel).await? {
            ToolCallOutcome::Ended(ended) => self.result(&ended),
            ToolCallOutcome::AskClient => Err(unanswerable().into()),
        }
    }

    fn result(&self, ended: &FinishedCall) -> McpOutcome {
        let agent = &self.call.served.agent;
        match &ended.result {
            Err(failure) if failure.code == ErrorCode::ToolNotFound => Err(unknown_tool(self.call.tool.as_str())),
            Err(failure) if failure.code == ErrorCode::ScopeNotGranted => {
                self.missing_scope(&failure.message).map_or_else(|| Ok(self.completed(ended)), Err)
            }
            _ => Ok(project::completed(self.form, agent, project::call_result(self.form, ended))),
        }
    }

    fn completed(&self, ended: &FinishedCall) -> Value {
        project::completed(self.form, &self.call.served.agent, project::call_result(self.form, ended))
    }

    /// The refusal of a call whose scope an issuer could add to the caller's access token: with the scopes that the token
    /// has and the missing one.
    fn missing_scope(&self, message: &str) -> Option<McpFailure> {
        let agent = &self.call.served.agent;
        let Caller { authentication: AuthenticationMethod::Token { scopes, .. }, .. } = &self.call.caller else {
            return None;
        };
        let missing = agent.tool(self.call.tool.as_str())?.scope.clone()?;
        let scopes: BTreeSet<_> = scopes.iter().cloned().chain([missing]).collect();
        let error = EngineError::new(ErrorCode::ScopeNotGranted, message);
        let failure = McpFailure { status: StatusCode::FORBIDDEN, ..McpFailure::from(error) };
        Some(self.mcp.challenge_for(failure, &format!("/agents/{}/mcp", agent.name), &scopes))
    }
}

fn unknown_tool(name: &str) -> McpFailure {
    let message = format!("Unknown tool: {}", nuncio_core::text::name(name));
    McpFailure::new(StatusCode::OK, McpError::new(error_code::INVALID_PARAMS, message))
}

//! Connection to an MCP server, over a child process or streamable HTTP.
//!
//! Transports: <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports>

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use nuncio_confine::RunningProgram;
use nuncio_core::agent::{Agent, McpServerSpec, McpTransport};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest, Implementation,
    JsonObject, PaginatedRequestParams, ProtocolVersion, RequestMetaObject, ServerResult, Tool,
};
use rmcp::service::{
    ClientLifecycleMode, PeerRequestOptions, RequestHandle, RunningService, serve_client_with_lifecycle_and_ct,
};
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig};
use rmcp::{Peer, RoleClient, ServiceError};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::ChildStderr;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::SERVER_TIMEOUT;
use super::errors::{self, McpConnectError, refused};
use super::slot::ReopenableMcpConnection;
use super::start::downloads_packages;
use crate::runners::RunnerAndBrainServices;
use crate::runners::process::{StartedProgram, StderrTail, printable};
use crate::runners::profile::{ProgramPermissions, explain};
use crate::runners::secrets::SecretValues;
use crate::within;

/// Time for an MCP server to exit by itself before it is killed.
const EXIT_GRACE: Duration = Duration::from_secs(1);
/// Maximum number of pages when listing tools.
const MAX_PAGES: usize = 100;
/// Maximum number of concurrent calls to one MCP server over HTTP.
const MAX_HTTP_CALLS: usize = 256;
/// Maximum number of bytes of a standard-error line that are logged.
const MAX_LOGGED: usize = 2 * 1024;

type Client = RunningService<RoleClient, ClientConfig>;

/// Connection to an MCP server; dropping it closes the connection.
#[derive(Debug)]
pub(super) struct McpConnection {
    peer: Peer<RoleClient>,
    stop: CancellationToken,
    /// Cancelled when the connection has ended and its resources are released.
    ended: CancellationToken,
    output: Arc<McpServerStderr>,
}

/// Standard error of an MCP server, with the secrets that must be removed from it.
#[derive(Debug)]
struct McpServerStderr {
    tail: Mutex<StderrTail>,
    secrets: SecretValues,
    /// Permissions of the MCP server, if it is a child process.
    profile: OnceLock<Arc<ProgramPermissions>>,
    /// Receives the lines while they are written.
    reader: Option<mpsc::Sender<String>>,
}

impl McpServerStderr {
    /// Adds the end of the server's standard error to a failure text, with secrets redacted, unless it was already shown
    /// while it was written.
    fn with(&self, failure: &str) -> String {
        let stderr_text = self.tail.lock().unwrap_or_else(PoisonError::into_inner).text();
        let failure = self.secrets.redact(failure);
        if stderr_text.is_empty() {
            return self.explain(failure);
        }
        let quoted = self.secrets.redact(&format!("; its standard error: {stderr_text:?}"));
        // The quoted text may indicate the missing permission, so that it is removed afterwards.
        let explained = self.explain(format!("{failure}{quoted}"));
        let is_shown = self.reader.as_ref().is_some_and(|reader| !reader.is_closed());
        if is_shown { explained.replacen(&quoted, "", 1) } else { explained }
    }

    /// Adds to a failure text the missing permission that the text indicates.
    fn explain(&self, failure: String) -> String {
        explain(self.profile.get().map(Arc::as_ref), failure)
    }

    fn on(&self, refused: McpConnectError) -> McpConnectError {
        match refused {
            McpConnectError::Hello(why) => McpConnectError::Hello(self.with(&why)),
            McpConnectError::Other(why) => McpConnectError::Other(self.with(&why)),
        }
    }
}

/// Opens a connection and performs the handshake. The error text continues a sentence about the server.
pub(super) async fn open(
    services: &RunnerAndBrainServices,
    agent: &Agent,
    server: &McpServerSpec,
    base_dir: &Path,
    slot: Weak<ReopenableMcpConnection>,
) -> Result<Arc<McpConnection>, String> {
    // Most servers use `initialize`; servers of the revision without it refuse it.
    let newer = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let handshake_timeout = match &server.transport {
        McpTransport::Http { .. } => SERVER_TIMEOUT,
        McpTransport::Stdio { command, .. } => {
            if downloads_packages(&command.program) {
                tracing::info!(agent = %agent.name, server = %server.name, "starting the MCP server; on its first start its packages may have to be downloaded");
            }
            services.mcp_start.timeout
        }
    };
    let mut refusal = None;
    for lifecycle in [ClientLifecycleMode::Initialize, newer] {
        let attempt = connect(services, agent, server, base_dir, lifecycle, slot.clone());
        match within(&*services.clock, handshake_timeout, attempt).await {
            Some(Ok(connection)) => return Ok(connection),
            Some(Err(McpConnectError::Hello(why))) => {
                refusal.get_or_insert(why);
            }
            Some(Err(McpConnectError::Other(why))) => return Err(why),
            None => return Err(late(server, handshake_timeout)),
        }
    }
    Err(refusal.unwrap_or_default())
}

/// Describes a handshake that took too long.
fn late(server: &McpServerSpec, limit: Duration) -> String {
    let late = format!("it did not complete the initialization within {limit:?}");
    match &server.transport {
        McpTransport::Stdio { command, .. } if downloads_packages(&command.program) => {
            format!("{late}; if its packages were still downloading, try again, or raise `limits.mcp_start_seconds`")
        }
        _ => late,
    }
}

/// Performs one kind of handshake, and starts a task that detects the end of the connection and cleans up.
async fn connect(
    services: &RunnerAndBrainServices,
    agent: &Agent,
    server: &McpServerSpec,
    base_dir: &Path,
    lifecycle: ClientLifecycleMode,
    slot: Weak<ReopenableMcpConnection>,
) -> Result<Arc<McpConnection>, McpConnectError> {
    let (McpTransport::Stdio { env: lines, .. } | McpTransport::Http { headers: lines, .. }) = &server.transport;
    let secrets =
        SecretValues::read(agent, base_dir, server.transport.templates()).await.map_err(McpConnectError::Other)?;
    let lines = secrets.lines(lines).map_err(McpConnectError::Other)?;
    let argv = match &server.transport {
        McpTransport::Stdio { command, .. } => secrets.command(command).map_err(McpConnectError::Other)?,
        McpTransport::Http { .. } => Vec::new(),
    };
    let reader = services.mcp_start.stderr.clone();
    let output = Arc::new(McpServerStderr { tail: Mutex::default(), secrets, profile: OnceLock::new(), reader });
    let stop = CancellationToken::new();
    let hello =
        ClientConfig::new(ClientCapabilities::default(), Implementation::new("nuncio", env!("CARGO_PKG_VERSION")));

    let (client, child, stderr_log) = match &server.transport {
        McpTransport::Http { url, .. } => {
            let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                .max_concurrent_requests(MAX_HTTP_CALLS)
                .custom_headers(headers(lines).map_err(McpConnectError::Other)?);
            let transport = StreamableHttpClientTransport::with_client(services.http.clone(), config);
            let client = serve_client_with_lifecycle_and_ct(hello, transport, lifecycle, stop.clone()).await;
            let client = client.map_err(|error| output.on(refused(&error)))?;
            (client, None, None)
        }
        McpTransport::Stdio { .. } => {
            let mut started =
                services.programs.start(agent, base_dir, &argv, lines).await.map_err(McpConnectError::Other)?;
            if let Some(profile) = &started.profile {
                let _ = output.profile.set(Arc::clone(profile));
            }
            let (Some(stdin), Some(stdout), Some(stderr)) = started.running.pipes() else {
                return Err(McpConnectError::Other("it was started without its pipes".into()));
            };
            let name = format!("{}/{}", agent.name, server.name);
            let stderr_log = AbortOnDropHandle::new(tokio::spawn(log_stderr(name, stderr, Arc::clone(&output))));
            let client = serve_client_with_lifecycle_and_ct(hello, (stdout, stdin), lifecycle, stop.clone()).await;
            let client = match client {
                Ok(client) => client,
                Err(error) => {
                    // Remaining standard error may still arrive.
                    let _ = tokio::time::timeout(EXIT_GRACE, started.running.child.wait()).await;
                    let _ = tokio::time::timeout(EXIT_GRACE, stderr_log).await;
                    return Err(output.on(refused(&error)));
                }
            };
            (client, Some(started), Some(stderr_log))
        }
    };

    let ended = CancellationToken::new();
    let connection =
        Arc::new(McpConnection { peer: client.peer().clone(), stop: stop.clone(), ended: ended.clone(), output });
    let known = Arc::downgrade(&connection);
    tokio::spawn(async move {
        let lost = move || {
            if let (Some(slot), Some(connection)) = (slot.upgrade(), known.upgrade()) {
                slot.mark_lost(&connection, &connection.end(None));
            }
        };
        monitor(client, stop, child, lost).await;
        drop(stderr_log);
        ended.cancel();
    });
    Ok(connection)
}

/// Waits until either side ends the connection, and ends the child process.
async fn monitor(client: Client, stop: CancellationToken, mut child: Option<StartedProgram>, lost: impl FnOnce()) {
    let exit = async |child: &mut Option<StartedProgram>| match child {
        Some(program) => drop(program.running.child.wait().await),
        None => std::future::pending().await,
    };
    let mut service = std::pin::pin!(client.waiting());
    tokio::select! {
        _ = &mut service => {}
        () = exit(&mut child) => {}
        // A child process sees its pipe closed; a child that does not read the pipe is killed below.
        () = stop.cancelled() => drop(tokio::time::timeout(EXIT_GRACE, &mut service).await),
    }
    if let Some(StartedProgram { running: RunningProgram { group, child }, .. }) = &mut child {
        let _ = tokio::time::timeout(EXIT_GRACE, child.wait()).await;
        group.kill();
        let _ = child.wait().await;
    }
    lost();
}

impl McpConnection {
    pub(super) fn is_open(&self) -> bool {
        !self.peer.is_transport_closed() && !self.stop.is_cancelled()
    }

    /// Description of how the connection ended.
    pub(super) fn end(&self, error: Option<&ServiceError>) -> String {
        self.output.with(&error.map_or_else(|| "it ended".into(), errors::lost))
    }

    /// Adds to the failure text of a call the missing permission that the text indicates.
    pub(super) fn explain(&self, failure: String) -> String {
        self.output.explain(failure)
    }

    /// Calls a tool. Dropping the future sends a cancellation to the server.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: JsonObject,
        trace: &BTreeMap<&'static str, String>,
    ) -> Result<ServerResult, ServiceError> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let mut options = PeerRequestOptions::no_options();
        if !trace.is_empty() {
            let trace: JsonObject =
                trace.iter().map(|(key, value)| ((*key).to_owned(), Value::from(value.as_str()))).collect();
            options = options.with_meta(RequestMetaObject::from(trace));
        }
        let mut waiting = McpRequestGuard(Some(self.peer.send_request_with_option(request, options).await?));
        let answer = match &mut waiting.0 {
            Some(handle) => (&mut handle.rx).await,
            None => return Err(ServiceError::TransportClosed),
        };
        waiting.0 = None;
        answer.unwrap_or(Err(ServiceError::TransportClosed))
    }

    /// Lists all tools of the server, page by page.
    pub(super) async fn tools(&self) -> Result<Vec<Tool>, String> {
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let page = self.peer.list_tools(Some(params)).await.map_err(|error| match error {
                ServiceError::McpError(error) => error.message.into_owned(),
                ServiceError::UnexpectedResponse => "the list cannot be read".into(),
                error => self.end(Some(&error)),
            })?;
            tools.extend(page.tools);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(tools);
            }
        }
        Err(format!("there are more than {MAX_PAGES} pages of them"))
    }

    /// Closes the connection and waits until its resources are released.
    pub(super) async fn close(&self) {
        self.stop.cancel();
        self.ended.cancelled().await;
    }
}

impl Drop for McpConnection {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Pending request; dropping it cancels the request at the server.
struct McpRequestGuard(Option<RequestHandle<RoleClient>>);

impl Drop for McpRequestGuard {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(handle.cancel(Some("the caller no longer waits".into())));
        }
    }
}

fn headers(lines: Vec<(String, String)>) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let header = |(name, value): (String, String)| {
        let parsed = HeaderName::try_from(&name).map_err(|_| format!("{name:?} is not a valid header name"))?;
        let mut value =
            HeaderValue::try_from(value).map_err(|_| format!("the value of the header {name} is not valid"))?;
        value.set_sensitive(true);
        Ok((parsed, value))
    };
    lines.into_iter().map(header).collect()
}

/// Reads a child's standard error to its end, so that the child never blocks on writing it. Each line is logged without
/// secrets and passed to the reader; the end is kept for failure texts.
async fn log_stderr(server: String, stderr: ChildStderr, output: Arc<McpServerStderr>) {
    let mut lines = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut lines).take(MAX_LOGGED as u64).read_until(b'\n', &mut line).await;
        if matches!(read, Ok(0) | Err(_)) {
            return;
        }
        output.tail.lock().unwrap_or_else(PoisonError::into_inner).push(&line);
        let text = printable(&String::from_utf8_lossy(&line));
        let text = output.secrets.redact(text.trim_end());
        tracing::debug!(%server, "{text}");
        if let Some(reader) = &output.reader {
            // A full or closed channel must not block the server.
            let _ = reader.try_send(text);
        }
    }
}

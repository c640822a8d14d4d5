//! One connection to an MCP server, over a child process or streamable HTTP.
//!
//! Transports: <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports>

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use nuncio_confine::Running;
use nuncio_core::agent::{Agent, McpServer, McpTransport};
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
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::slot::Slot;
use super::trouble::{self, Refused, refused};
use super::{INSTALL_PATIENCE, INSTALLERS, PATIENCE, World};
use crate::runners::process::{Program, Tail, printable};
use crate::runners::profile::Profile;
use crate::runners::secrets::Secrets;

/// How long a server may take to end by itself once it is told to.
const GRACE: Duration = Duration::from_secs(1);
/// How many pages of tools a server may have.
const MAX_PAGES: usize = 100;
/// How many calls may be waiting for one HTTP server at once.
const MAX_HTTP_CALLS: usize = 256;
/// How much of one line a child writes to its standard error is logged.
const MAX_LOGGED: usize = 2 * 1024;

type Client = RunningService<RoleClient, ClientConfig>;

/// A connection; dropping it ends it.
#[derive(Debug)]
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    stop: CancellationToken,
    /// Set when nothing is left of it.
    ended: CancellationToken,
    words: Arc<Words>,
}

/// What a server says beside the protocol, and what must not be repeated of it.
#[derive(Debug)]
struct Words {
    tail: Mutex<Tail>,
    secrets: Secrets,
    /// What the server may reach, if it is a program of ours.
    profile: OnceLock<Arc<Profile>>,
}

impl Words {
    /// A failure with what the server said last, if it is one that can.
    fn with(&self, failure: &str) -> String {
        let said = self.tail.lock().unwrap_or_else(PoisonError::into_inner).text();
        let whole = if said.is_empty() { failure.to_owned() } else { format!("{failure}; it said {said:?}") };
        self.explain(self.secrets.redact(&whole))
    }

    /// A failure with the missing permission it shows, if it shows one.
    fn explain(&self, failure: String) -> String {
        match self.profile.get() {
            Some(profile) => profile.explain(failure),
            None => failure,
        }
    }

    fn on(&self, refused: Refused) -> Refused {
        match refused {
            Refused::Hello(why) => Refused::Hello(self.with(&why)),
            Refused::Other(why) => Refused::Other(self.with(&why)),
        }
    }
}

/// Opens a connection and says hello. The error ends a sentence about the server.
pub(super) async fn open(
    world: &Arc<World>,
    agent: &Agent,
    server: &McpServer,
    base_dir: &Path,
    slot: Weak<Slot>,
) -> Result<Arc<Connection>, String> {
    // Most servers of today say hello by `initialize`; those of the revision that dropped it refuse.
    let newer = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let patience = patience(server);
    let mut refusal = None;
    for lifecycle in [ClientLifecycleMode::Initialize, newer] {
        let attempt = Attempt::start(world, agent, server, base_dir, lifecycle);
        match world.within(patience, attempt).await {
            Some(Ok(attempt)) => return Ok(attempt.watched(slot)),
            Some(Err(Refused::Hello(why))) => {
                refusal.get_or_insert(why);
            }
            Some(Err(Refused::Other(why))) => return Err(why),
            None => return Err(format!("it did not say hello within {patience:?}")),
        }
    }
    Err(refusal.unwrap_or_default())
}

/// How long a server may take to say hello.
fn patience(server: &McpServer) -> Duration {
    let McpTransport::Stdio { argv, .. } = &server.transport else { return PATIENCE };
    let program = argv.first().and_then(|program| Path::new(program).file_name()?.to_str());
    if program.is_some_and(|program| INSTALLERS.contains(&program)) { INSTALL_PATIENCE } else { PATIENCE }
}

/// A connection that said hello, not yet looked after.
struct Attempt {
    client: Client,
    stop: CancellationToken,
    child: Option<Program>,
    words: Arc<Words>,
    listening: Option<AbortOnDropHandle<()>>,
}

impl Attempt {
    async fn start(
        world: &World,
        agent: &Agent,
        server: &McpServer,
        base_dir: &Path,
        lifecycle: ClientLifecycleMode,
    ) -> Result<Self, Refused> {
        let (McpTransport::Stdio { env: lines, .. } | McpTransport::Http { headers: lines, .. }) = &server.transport;
        let secrets =
            Secrets::read(agent, base_dir, lines.iter().map(|(_, template)| template)).await.map_err(Refused::Other)?;
        let lines = secrets.lines(lines).map_err(Refused::Other)?;
        let words = Arc::new(Words { tail: Mutex::default(), secrets, profile: OnceLock::new() });
        let stop = CancellationToken::new();
        let hello =
            ClientConfig::new(ClientCapabilities::default(), Implementation::new("nuncio", env!("CARGO_PKG_VERSION")));

        match &server.transport {
            McpTransport::Http { url, .. } => {
                let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .max_concurrent_requests(MAX_HTTP_CALLS)
                    .custom_headers(headers(lines).map_err(Refused::Other)?);
                let transport = StreamableHttpClientTransport::with_client(world.http.clone(), config);
                let client = serve_client_with_lifecycle_and_ct(hello, transport, lifecycle, stop.clone()).await;
                let client = client.map_err(|error| words.on(refused(&error)))?;
                Ok(Self { client, stop, child: None, words, listening: None })
            }
            McpTransport::Stdio { argv, .. } => {
                let mut started = world.programs.start(agent, base_dir, argv, lines).await.map_err(Refused::Other)?;
                if let Some(profile) = &started.profile {
                    let _ = words.profile.set(Arc::clone(profile));
                }
                let (Some(stdin), Some(stdout), Some(stderr)) = started.running.pipes() else {
                    return Err(Refused::Other("it was started without its pipes".into()));
                };
                let name = format!("{}/{}", agent.name, server.name);
                let listening = AbortOnDropHandle::new(tokio::spawn(listen(name, stderr, Arc::clone(&words))));
                let client = serve_client_with_lifecycle_and_ct(hello, (stdout, stdin), lifecycle, stop.clone()).await;
                let client = match client {
                    Ok(client) => client,
                    Err(error) => {
                        // What it complained about may still be on its way.
                        let _ = tokio::time::timeout(GRACE, started.running.child.wait()).await;
                        let _ = tokio::time::timeout(GRACE, listening).await;
                        return Err(words.on(refused(&error)));
                    }
                };
                Ok(Self { client, stop, child: Some(started), words, listening: Some(listening) })
            }
        }
    }

    /// The connection, with someone who notices its end and clears up.
    fn watched(self, slot: Weak<Slot>) -> Arc<Connection> {
        let Self { client, stop, child, words, listening } = self;
        let ended = CancellationToken::new();
        let connection =
            Arc::new(Connection { peer: client.peer().clone(), stop: stop.clone(), ended: ended.clone(), words });
        let known = Arc::downgrade(&connection);
        tokio::spawn(async move {
            let lost = move || {
                if let (Some(slot), Some(connection)) = (slot.upgrade(), known.upgrade()) {
                    slot.lost(&connection, &connection.end(None));
                }
            };
            watch(client, stop, child, lost).await;
            drop(listening);
            ended.cancel();
        });
        connection
    }
}

/// Waits for the end of a connection, whichever side ends it, and leaves no process behind.
async fn watch(client: Client, stop: CancellationToken, mut child: Option<Program>, lost: impl FnOnce()) {
    let exit = async |child: &mut Option<Program>| match child {
        Some(program) => drop(program.running.child.wait().await),
        None => std::future::pending().await,
    };
    let mut service = std::pin::pin!(client.waiting());
    tokio::select! {
        _ = &mut service => {}
        () = exit(&mut child) => {}
        // Told to end, a server on a pipe finds it closed; one that reads nothing never does.
        () = stop.cancelled() => drop(tokio::time::timeout(GRACE, &mut service).await),
    }
    if let Some(Program { running: Running { group, child }, .. }) = &mut child {
        let _ = tokio::time::timeout(GRACE, child.wait()).await;
        group.kill();
        let _ = child.wait().await;
    }
    lost();
}

impl Connection {
    pub(super) fn is_open(&self) -> bool {
        !self.peer.is_transport_closed() && !self.stop.is_cancelled()
    }

    /// How the connection ended, by that error or by itself.
    pub(super) fn end(&self, error: Option<&ServiceError>) -> String {
        self.words.with(&error.map_or_else(|| "it ended".into(), trouble::lost))
    }

    /// A failure of a call with the missing permission it shows, if it shows one.
    pub(super) fn explain(&self, failure: String) -> String {
        self.words.explain(failure)
    }

    /// Calls a tool. Dropping the future tells the server that nobody waits any more.
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
        let mut waiting = Waiting(Some(self.peer.send_request_with_option(request, options).await?));
        let answer = match &mut waiting.0 {
            Some(handle) => (&mut handle.rx).await,
            None => return Err(ServiceError::TransportClosed),
        };
        waiting.0 = None;
        answer.unwrap_or(Err(ServiceError::TransportClosed))
    }

    /// Every tool of the server, page by page.
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

    /// Ends the connection and waits until nothing of it is left.
    pub(super) async fn close(&self) {
        self.stop.cancel();
        self.ended.cancelled().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A request whose answer is awaited; dropped before that, it is cancelled on the other side.
struct Waiting(Option<RequestHandle<RoleClient>>);

impl Drop for Waiting {
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
        let parsed = HeaderName::try_from(&name).map_err(|_| format!("{name:?} is no header name"))?;
        let mut value =
            HeaderValue::try_from(value).map_err(|_| format!("the value of the header {name} cannot be sent"))?;
        value.set_sensitive(true);
        Ok((parsed, value))
    };
    lines.into_iter().map(header).collect()
}

/// Reads a child's standard error for as long as it has one: a child must never wait for us.
async fn listen(server: String, stderr: ChildStderr, words: Arc<Words>) {
    let mut lines = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut lines).take(MAX_LOGGED as u64).read_until(b'\n', &mut line).await;
        if matches!(read, Ok(0) | Err(_)) {
            return;
        }
        words.tail.lock().unwrap_or_else(PoisonError::into_inner).push(&line);
        let text = printable(&String::from_utf8_lossy(&line));
        tracing::debug!(%server, "{}", words.secrets.redact(text.trim_end()));
    }
}

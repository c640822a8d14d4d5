//! In-process gateway for tests, on a free port with its own data directory.

use std::fs::DirEntry;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nuncio_core::approval::Approval;
use nuncio_core::audit::{AuditEventRecord, AuditRecord};
use nuncio_core::grant::KeyScopes;
use nuncio_core::ids::ScopeId;
use nuncio_core::principal::Principal;
use nuncio_engine::access::NewApiKeyRequest;
use nuncio_engine::ports::Clock;
use nuncio_engine::ports::store::KeyRole;
use nuncio_engine::{Caller, Engine};
use nuncio_server::admin::{self, AdminCommand};
use nuncio_server::settings::Settings;
use nuncio_server::{
    AgentFilesSource, ListenAddress, OperatorError, SecretKeySource, ServeOptions, Server, StoreLocation, SystemClock,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tempfile::TempDir;

use crate::background_panics::BackgroundPanicCheck;
use crate::leftovers::assert_none_left;
use crate::{AapClient, RawHttpResponse, eventually};

#[derive(Debug)]
pub struct GatewayBuilder {
    agents: TempDir,
    source: Option<PathBuf>,
    data: Option<Arc<TempDir>>,
    secret_key: SecretKeySource,
    store: StoreLocation,
    settings: Settings,
    open: bool,
    dev: bool,
    public_url: Option<String>,
    port: u16,
    clock: Arc<dyn Clock>,
    executable: PathBuf,
}

/// A running test gateway. Dropping it aborts the server; [`Gateway::stop`] stops it properly. Both fail the test if a
/// background task panicked.
#[derive(Debug)]
pub struct Gateway {
    server: Server,
    data: Arc<TempDir>,
    agents: TempDir,
    /// Folder of the served agents.
    source: PathBuf,
    /// Dropped after the server.
    _panics: BackgroundPanicCheck,
}

#[derive(Debug, Clone)]
pub struct ApiKeyHolder {
    /// Identity of the key holder in the engine.
    pub caller: Caller,
    pub secret: String,
    /// AAP client that sends the holder's API key.
    pub aap: AapClient,
}

impl Gateway {
    #[must_use]
    pub fn builder() -> GatewayBuilder {
        GatewayBuilder {
            agents: tempfile::tempdir().unwrap(),
            source: None,
            data: None,
            secret_key: SecretKeySource::DataDirectory,
            store: StoreLocation::DataDirectory,
            settings: Settings::default(),
            open: false,
            dev: false,
            public_url: None,
            port: 0,
            clock: Arc::new(SystemClock),
            executable: PathBuf::from("nuncio"),
        }
    }

    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    #[must_use]
    pub fn engine(&self) -> &Engine {
        self.server.engine()
    }

    /// Address of the gateway to connect to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        let mut address = self.server.addresses()[0];
        if address.ip().is_unspecified() {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        address
    }

    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// AAP client without an API key.
    #[must_use]
    pub fn aap(&self) -> AapClient {
        AapClient::new(format!("{}/aap", self.url()), None)
    }

    #[must_use]
    pub fn aap_with_key(&self, key: &str) -> AapClient {
        AapClient::new(format!("{}/aap", self.url()), Some(key.to_owned()))
    }

    /// Creates an API key with these scopes; an empty list means all scopes.
    pub async fn key(&self, scopes: &[&str]) -> ApiKeyHolder {
        let scopes = match scopes {
            [] => KeyScopes::All,
            some => KeyScopes::Only(some.iter().map(|scope| ScopeId::parse(scope).unwrap()).collect()),
        };
        let (key, secret) = self
            .engine()
            .access()
            .create_key(NewApiKeyRequest { name: None, person: None, scopes, role: KeyRole::App, term: None })
            .await
            .unwrap();
        let caller = Caller::new(Principal::Key(key.id));
        ApiKeyHolder { caller, aap: self.aap_with_key(&secret), secret }
    }

    /// Sends raw bytes to the gateway and reads until the connection closes; `None` without a response.
    pub async fn raw(&self, request: impl AsRef<[u8]>) -> Option<RawHttpResponse> {
        RawHttpResponse::exchange(self.address(), request.as_ref()).await
    }

    /// Sends a command over the admin socket, as the operator's commands do.
    pub async fn order(&self, order: AdminCommand) -> Result<Value, OperatorError> {
        admin::ask(self.data(), &order).await.map(Option::unwrap)
    }

    /// Waits until `count` approvals are pending for the operators.
    pub async fn questions(&self, count: usize) -> Vec<Approval> {
        eventually("approvals are pending", async || {
            let pending = self.engine().approvals().pending_approvals().await.unwrap();
            (pending.len() == count).then_some(pending)
        })
        .await
    }

    /// Waits for the only pending approval.
    pub async fn question(&self) -> Approval {
        self.questions(1).await.remove(0)
    }

    /// Audit records of calls, oldest first.
    pub async fn audit(&self) -> Vec<AuditRecord> {
        self.records().await
    }

    /// Audit records of changes to people, agents and consent, oldest first.
    pub async fn audit_events(&self) -> Vec<AuditEventRecord> {
        self.records().await
    }

    /// Audit records that can be parsed as `R`.
    async fn records<R: DeserializeOwned>(&self) -> Vec<R> {
        let (mut records, mut seen) = (Vec::new(), 0);
        loop {
            let links = self.engine().records().audit_links(seen, 100).await.unwrap();
            let Some(last) = links.last() else { return records };
            seen = last.number;
            records.extend(links.iter().filter_map(|stored| serde_json::from_str(&stored.link.record).ok()));
        }
    }

    #[must_use]
    pub fn data(&self) -> &Path {
        self.data.path()
    }

    /// Copy of the data directory as a crash at this moment would leave it on disk.
    #[must_use]
    pub fn data_as_after_a_crash(&self) -> Arc<TempDir> {
        let copy = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(self.data()).unwrap() {
            copy_into(copy.path(), &entry.unwrap());
        }
        Arc::new(copy)
    }

    /// Path of a file in the folder of an agent, where the agent's commands run.
    #[must_use]
    pub fn file(&self, folder: &str, name: &str) -> PathBuf {
        self.agents.path().join(folder).join(name)
    }

    /// Replaces an agent file while the gateway runs.
    pub fn rewrite_agent(&self, folder: &str, text: &str) {
        std::fs::write(self.file(folder, "agent.toml"), text).unwrap();
    }

    /// Stops the gateway and returns its data directory for another start. Panics if the server leaves work running.
    pub async fn stop(self) -> Arc<TempDir> {
        self.server.stop().await;
        assert_none_left(self.data.path(), &self.source).await;
        self.data
    }
}

impl GatewayBuilder {
    /// Adds an agent, given as the text of its file.
    #[must_use]
    pub fn agent(self, folder: &str, text: &str) -> Self {
        let path = self.agents.path().join(folder);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("agent.toml"), text).unwrap();
        self
    }

    /// Serves the agents of an existing file or folder.
    #[must_use]
    pub fn agents_from(mut self, path: impl Into<PathBuf>) -> Self {
        self.source = Some(path.into());
        self
    }

    /// Uses an existing data directory.
    #[must_use]
    pub fn data(mut self, data: Arc<TempDir>) -> Self {
        self.data = Some(data);
        self
    }

    #[must_use]
    pub fn store(mut self, store: StoreLocation) -> Self {
        self.store = store;
        self
    }

    #[must_use]
    pub fn secret_key(mut self, source: SecretKeySource) -> Self {
        self.secret_key = source;
        self
    }

    #[must_use]
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Listens on every address and admits callers without an API key.
    #[must_use]
    pub fn open_to_anyone(mut self) -> Self {
        self.open = true;
        self
    }

    /// Starts the gateway in development mode, in which local peers are reached over plain HTTP.
    #[must_use]
    pub fn dev(mut self) -> Self {
        self.dev = true;
        self
    }

    #[must_use]
    pub fn public_url(mut self, url: &str) -> Self {
        self.public_url = Some(url.to_owned());
        self
    }

    /// Uses a fixed port, such as that of an earlier gateway.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    #[must_use]
    pub fn clock(mut self, clock: &(impl Clock + Clone)) -> Self {
        self.clock = Arc::new(clock.clone());
        self
    }

    /// Sets the program that stands for the command `nuncio`.
    #[must_use]
    pub fn executable(mut self, path: impl Into<PathBuf>) -> Self {
        self.executable = path.into();
        self
    }

    pub async fn start(self) -> Gateway {
        self.try_start().await.unwrap()
    }

    pub async fn try_start(self) -> Result<Gateway, OperatorError> {
        let panics = BackgroundPanicCheck::new();
        let data = self.data.unwrap_or_else(|| Arc::new(tempfile::tempdir().unwrap()));
        let source = self.source.unwrap_or_else(|| self.agents.path().to_owned());
        let host = if self.open { "0.0.0.0" } else { "127.0.0.1" };
        let server = Server::start(ServeOptions {
            agents: AgentFilesSource::Path(source.clone()),
            data: data.path().to_owned(),
            secret_key: self.secret_key,
            store: self.store,
            listen: ListenAddress { host: host.to_owned(), port: self.port },
            settings: self.settings,
            open: self.open,
            unconfined: false,
            tls: None,
            extra_ca: None,
            dev: self.dev,
            public_url: self.public_url.map(|url| url.parse().unwrap()),
            clock: self.clock,
            requests: None,
            executable: self.executable,
        })
        .await?;
        Ok(Gateway { server, data, agents: self.agents, source, _panics: panics })
    }
}

/// Copies a file or a folder recursively, without sockets.
fn copy_into(folder: &Path, entry: &DirEntry) {
    let (kind, to) = (entry.file_type().unwrap(), folder.join(entry.file_name()));
    if kind.is_file() {
        std::fs::copy(entry.path(), to).unwrap();
    } else if kind.is_dir() {
        std::fs::create_dir(&to).unwrap();
        for entry in std::fs::read_dir(entry.path()).unwrap() {
            copy_into(&to, &entry.unwrap());
        }
    }
}

//! A whole server in the test's own process, on a free port, with its own data directory.

use std::fs::DirEntry;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nuncio_core::approval::Approval;
use nuncio_core::audit::{AuditEventRecord, AuditRecord};
use nuncio_core::grant::KeyScopes;
use nuncio_core::ids::ScopeId;
use nuncio_core::principal::Principal;
use nuncio_engine::access::NewKey;
use nuncio_engine::ports::Clock;
use nuncio_engine::ports::store::KeyRole;
use nuncio_engine::{Caller, Engine};
use nuncio_server::admin::{self, AdminCommand};
use nuncio_server::settings::Settings;
use nuncio_server::{AgentSource, ListenOn, ServeOptions, Server, StartError, SystemClock};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tempfile::TempDir;

use crate::{AapClient, RawAnswer, eventually};

/// A gateway to be started.
#[derive(Debug)]
pub struct GatewayBuilder {
    agents: TempDir,
    source: Option<PathBuf>,
    data: Option<Arc<TempDir>>,
    settings: Settings,
    open: bool,
    dev: bool,
    public_url: Option<String>,
    port: u16,
    clock: Arc<dyn Clock>,
    executable: PathBuf,
}

/// A running gateway. It is stopped when it is dropped, roughly; call [`Gateway::stop`] to stop it
/// properly.
#[derive(Debug)]
pub struct Gateway {
    server: Server,
    data: Arc<TempDir>,
    agents: TempDir,
}

/// Someone with an API key.
#[derive(Debug, Clone)]
pub struct KeyHolder {
    /// Who they are to the server.
    pub caller: Caller,
    /// The key.
    pub secret: String,
    /// A client that sends it.
    pub aap: AapClient,
}

impl Gateway {
    /// A gateway without agents yet.
    #[must_use]
    pub fn builder() -> GatewayBuilder {
        GatewayBuilder {
            agents: tempfile::tempdir().unwrap(),
            source: None,
            data: None,
            settings: Settings::default(),
            open: false,
            dev: false,
            public_url: None,
            port: 0,
            clock: Arc::new(SystemClock),
            executable: PathBuf::from("nuncio"),
        }
    }

    /// The running server.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The engine inside.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        self.server.engine()
    }

    /// Where to reach it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        let mut address = self.server.addresses()[0];
        if address.ip().is_unspecified() {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        address
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// A client of its AAP side, without a key.
    #[must_use]
    pub fn aap(&self) -> AapClient {
        AapClient::new(format!("{}/aap", self.url()), None)
    }

    /// A client of its AAP side, with a key.
    #[must_use]
    pub fn aap_with_key(&self, key: &str) -> AapClient {
        AapClient::new(format!("{}/aap", self.url()), Some(key.to_owned()))
    }

    /// Makes a key with these scopes; with all when there are none.
    pub async fn key(&self, scopes: &[&str]) -> KeyHolder {
        let scopes = match scopes {
            [] => KeyScopes::All,
            some => KeyScopes::Only(some.iter().map(|scope| ScopeId::parse(scope).unwrap()).collect()),
        };
        let (key, secret) = self
            .engine()
            .create_key(NewKey { name: None, person: None, scopes, role: KeyRole::App, term: None })
            .await
            .unwrap();
        let caller = Caller::new(Principal::Key(key.id));
        KeyHolder { caller, aap: self.aap_with_key(&secret), secret }
    }

    /// Sends bytes as they are and reads what comes until the connection ends.
    pub async fn raw(&self, request: impl AsRef<[u8]>) -> Option<RawAnswer> {
        RawAnswer::exchange(self.address(), request.as_ref()).await
    }

    /// Has an order carried out over the admin socket, as the operator's commands do.
    ///
    /// # Errors
    /// It is not carried out.
    pub async fn order(&self, order: AdminCommand) -> Result<Value, StartError> {
        admin::ask(self.data(), &order).await.map(Option::unwrap)
    }

    /// Waits until that many questions wait for the operators.
    pub async fn questions(&self, count: usize) -> Vec<Approval> {
        eventually("questions wait for the operators", async || {
            let pending = self.engine().pending_approvals().await.unwrap();
            (pending.len() == count).then_some(pending)
        })
        .await
    }

    /// Waits for the one question that waits for the operators.
    pub async fn question(&self) -> Approval {
        self.questions(1).await.remove(0)
    }

    /// Every audit record of a call, oldest first.
    pub async fn audit(&self) -> Vec<AuditRecord> {
        self.records().await
    }

    /// Every audit record of what changed about people, agents and consent, oldest first.
    pub async fn happened(&self) -> Vec<AuditEventRecord> {
        self.records().await
    }

    /// Every audit record of that kind; each is of one of the two.
    async fn records<R: DeserializeOwned>(&self) -> Vec<R> {
        let (mut records, mut seen) = (Vec::new(), 0);
        loop {
            let links = self.engine().audit_links(seen, 100).await.unwrap();
            let Some(last) = links.last() else { return records };
            seen = last.seq;
            records.extend(links.iter().filter_map(|link| serde_json::from_str(&link.record).ok()));
        }
    }

    /// Its data directory.
    #[must_use]
    pub fn data(&self) -> &Path {
        self.data.path()
    }

    /// A copy of its data directory as it is now: what a crash at this moment would leave.
    #[must_use]
    pub fn data_as_after_a_crash(&self) -> Arc<TempDir> {
        let copy = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(self.data()).unwrap() {
            copy_into(copy.path(), &entry.unwrap());
        }
        Arc::new(copy)
    }

    /// A file in the folder of an agent given by its text, where its commands run.
    #[must_use]
    pub fn file(&self, folder: &str, name: &str) -> PathBuf {
        self.agents.path().join(folder).join(name)
    }

    /// Writes an agent file anew while the gateway runs.
    pub fn rewrite_agent(&self, folder: &str, text: &str) {
        std::fs::write(self.file(folder, "agent.toml"), text).unwrap();
    }

    /// Stops it and returns its data directory, to start another on it.
    pub async fn stop(self) -> Arc<TempDir> {
        self.server.stop().await;
        self.data
    }
}

impl GatewayBuilder {
    /// With an agent, by the text of its file.
    #[must_use]
    pub fn agent(self, folder: &str, text: &str) -> Self {
        let path = self.agents.path().join(folder);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("agent.toml"), text).unwrap();
        self
    }

    /// With the agents of a file or folder that is there already.
    #[must_use]
    pub fn agents_from(mut self, path: impl Into<PathBuf>) -> Self {
        self.source = Some(path.into());
        self
    }

    /// On a data directory that was used before.
    #[must_use]
    pub fn data(mut self, data: Arc<TempDir>) -> Self {
        self.data = Some(data);
        self
    }

    /// With these settings.
    #[must_use]
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// On every address, open to anyone without a key.
    #[must_use]
    pub fn open_to_anyone(mut self) -> Self {
        self.open = true;
        self
    }

    /// Developing: peers on this machine are reached over plain http.
    #[must_use]
    pub fn dev(mut self) -> Self {
        self.dev = true;
        self
    }

    /// With this address for others.
    #[must_use]
    pub fn public_url(mut self, url: &str) -> Self {
        self.public_url = Some(url.to_owned());
        self
    }

    /// On this port, such as one that a gateway had before.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// With this clock.
    #[must_use]
    pub fn clock(mut self, clock: &(impl Clock + Clone)) -> Self {
        self.clock = Arc::new(clock.clone());
        self
    }

    /// With this program for the command `nuncio`.
    #[must_use]
    pub fn executable(mut self, path: impl Into<PathBuf>) -> Self {
        self.executable = path.into();
        self
    }

    /// Starts it.
    pub async fn start(self) -> Gateway {
        self.try_start().await.unwrap()
    }

    /// Starts it, or says why not.
    ///
    /// # Errors
    /// It does not start.
    pub async fn try_start(self) -> Result<Gateway, StartError> {
        let data = self.data.unwrap_or_else(|| Arc::new(tempfile::tempdir().unwrap()));
        let source = self.source.unwrap_or_else(|| self.agents.path().to_owned());
        let host = if self.open { "0.0.0.0" } else { "127.0.0.1" };
        let server = Server::start(ServeOptions {
            agents: AgentSource::Path(source),
            data: data.path().to_owned(),
            listen: ListenOn { host: host.to_owned(), port: self.port },
            settings: self.settings,
            open: self.open,
            unconfined: false,
            tls: None,
            extra_ca: None,
            dev: self.dev,
            public_url: self.public_url.map(|url| url.parse().unwrap()),
            clock: self.clock,
            executable: self.executable,
        })
        .await?;
        Ok(Gateway { server, data, agents: self.agents })
    }
}

/// Copies a file, or a folder with what is in it; sockets are not copied.
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

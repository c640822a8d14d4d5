//! Starts and stops a server. Everything is opened, recovered and checked before the first request.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nuncio_anp::client::{AnpClient, AnpClientOptions, LocalDidUrlScheme};
use nuncio_anp::directory::RemoteDirectoryRegistrar;
use nuncio_anp::project::HostDocumentSettings;
use nuncio_anp::server::AnpServerState;
use nuncio_auth::did::{DidResolver, LocalhostDidPolicy};
use nuncio_auth::person_tokens::public_key;
use nuncio_auth::{
    Authenticator, DidAuthenticator, NetworkExposure, PersonTokenIssuer, RequestSignatureVerifier, TrustedIssuers,
};
use nuncio_backend::brains::LocalBrainFactory;
use nuncio_backend::fetch::{AllowedAddresses, GuardedFetch, install_crypto};
use nuncio_backend::runners::{ToolRunner, ToolRunnerConfig};
use nuncio_bus::LocalBus;
use nuncio_core::manifest::ScopePresets;
use nuncio_core::{ErrorCode, opaque_debug};
use nuncio_engine::jobs::JobHandlers;
use nuncio_engine::nodes::AdoptedWorkReport;
use nuncio_engine::ports::meter::NoopMeter;
use nuncio_engine::ports::store::info::{COPYING_FROM, MOVED_TO};
use nuncio_engine::ports::{Clock, Meter, Store};
use nuncio_engine::secret_cipher::SecretCipher;
use nuncio_engine::sweeps::Sweeps;
use nuncio_engine::{Engine, EngineLimits, EnginePorts};
use nuncio_http::device_tokens::DeviceTokenIssuer as _;
use nuncio_http::{BodyBudget, BodyLimits};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use crate::admin;
use crate::agent_hooks::LazyFetch;
use crate::agent_peers::{AgentKeyStoreFolder, AgentPeers};
use crate::agents::{AgentFilesSource, AgentPublisher, ServedAgentFiles, load};
use crate::anp_identities::AnpIdentities;
use crate::checkpoints::AuditCheckpoints;
use crate::data::{DataDir, SecretKeySource, StoreLocation};
use crate::dids::{Dids, PublicUrlSource, key_files};
use crate::endpoint::{ListenAddress, TlsFiles, bind, listen_failed, read_file, tls_acceptor};
use crate::error::OperatorError;
use crate::fronts::{self, ProtocolDependencies};
use crate::hosting::{HostDescription, check_documents};
use crate::http::{self, RequestObserver, client_address::TrustedProxies};
use crate::keyring::{PEOPLE_KEY, ServerKeyring, WEBHOOK_KEY, import_key_files};
use crate::listen::{
    ConnectionAcceptor, ConnectionLimits, ConnectionTimeouts, Connections, ServerRuntimes, raise_descriptor_limit,
};
use crate::messages::DirectMessageSender;
use crate::metrics::Metrics;
use crate::node;
use crate::programs::ProgramRules;
use crate::registry;
use crate::rekey::{SecretKeyFile, finish_rekey};
use crate::retention;
use crate::server_url;
use crate::settings::{LoopbackAccess, RemoteRelaySetting, Settings};
use crate::system::SystemEntropy;
use crate::webhooks::WebhookSigner;

#[derive(Debug, Clone)]
pub struct ServeOptions {
    pub agents: AgentFilesSource,
    pub data: PathBuf,
    pub secret_key: SecretKeySource,
    pub store: StoreLocation,
    pub listen: ListenAddress,
    pub settings: Settings,
    /// Whether to serve other machines without keys (`--open`).
    pub open: bool,
    /// Whether to serve tools that need another person's approval although this system cannot confine programs.
    pub unconfined: bool,
    /// Certificate and key for TLS.
    pub tls: Option<TlsFiles>,
    /// A PEM file of additional trusted certificate authorities.
    pub extra_ca: Option<PathBuf>,
    /// Development mode: peers on loopback may be reached over plain http.
    pub dev: bool,
    /// The public URL in published documents; the listen address if none is given.
    pub public_url: Option<Url>,
    pub clock: Arc<dyn Clock>,
    /// Called after every answered request (`--verbose`).
    pub requests: Option<RequestObserver>,
    /// The executable that runs when an agent file names the command `nuncio`.
    pub executable: PathBuf,
}

pub struct Server {
    engine: Engine,
    addresses: Vec<SocketAddr>,
    exposure: NetworkExposure,
    tls: bool,
    tasks: TaskTracker,
    /// Cancelled first when the server stops, so that no new connection or turn begins.
    stop: CancellationToken,
    /// Cancelled when no turn runs any more, which ends the admin socket and the audit checkpoints.
    done: CancellationToken,
    /// Cancelled last, which drops connections and deliveries that still run.
    closed: CancellationToken,
    /// Time that running turns have to finish when the server stops.
    grace: Duration,
    did_auth: Arc<DidAuthenticator>,
    dids: Dids,
    peers: Arc<AgentPeers>,
    data: DataDir,
}

/// Opens the engine of a data directory for operator commands that run while no server does.
pub async fn open_engine(data: DataDir, clock: Arc<dyn Clock>) -> Result<admin::AdminApi, OperatorError> {
    let settings = Settings::default();
    let with = EngineAssemblyOptions {
        clock: Arc::clone(&clock),
        executable: PathBuf::new(),
        extra_ca: None,
        dev: false,
        meter: Arc::new(NoopMeter),
        stop: CancellationToken::new(),
    };
    let AssembledEngine { engine, fetch, peers, keyring, .. } = assemble(&data, &settings, &with).await?;
    node::refuse_others(&engine, &data).await?;
    engine.access().load().await?;
    let dids = Dids::open_offline(keyring.clone(), clock).await?;
    let directory = registry::agents::open(&engine, fetch, &settings.registry, LocalDidUrlScheme::Https, None).await?;
    let invites = admin::InviteServerIdentity { key: public_key(&keyring.signing_key(PEOPLE_KEY).await?), url: None };
    let checkpoints = Arc::new(AuditCheckpoints::open(&data, keyring.clone()).await?);
    let secret_key_file = data.secret_key_file();
    let host = admin::AdminCommandProcess::CommandLine { loopback: loopback_setting(&data), _lock: Arc::new(data) };
    Ok(admin::AdminApi { engine, checkpoints, dids, directory, invites, peers, secret_key_file, host })
}

/// The setting that the next server of this data directory reads. A faulty file is reported when that server starts.
fn loopback_setting(data: &DataDir) -> Option<LoopbackAccess> {
    let named = std::env::var_os("NUNCIO_CONFIG").map(PathBuf::from);
    let file = named.unwrap_or_else(|| data.path().join("nuncio.toml"));
    Settings::load(&file, false, |name| std::env::var(name).ok()).ok()?.access.loopback
}

/// Options for the implementations of the engine's ports, apart from data directory and settings.
struct EngineAssemblyOptions {
    clock: Arc<dyn Clock>,
    executable: PathBuf,
    extra_ca: Option<PathBuf>,
    dev: bool,
    meter: Arc<dyn Meter>,
    /// Cancelled first when the server stops, so that no new connection or turn begins.
    stop: CancellationToken,
}

/// The engine, with those implementations of its ports that the server also uses directly.
struct AssembledEngine {
    engine: Engine,
    runners: Arc<ToolRunner>,
    peers: Arc<AgentPeers>,
    fetch: Arc<GuardedFetch>,
    keyring: ServerKeyring,
}

/// Opens the store and connects the engine to the implementations of its ports.
async fn assemble(
    data: &DataDir,
    settings: &Settings,
    with: &EngineAssemblyOptions,
) -> Result<AssembledEngine, OperatorError> {
    install_crypto();
    let wrong = |message: String| OperatorError::new(ErrorCode::ConfigInvalid, message);
    let roots = with.extra_ca.as_ref().map(|path| read_file(path)).transpose()?;
    let allow = AllowedAddresses::parse(settings.outbound.allow.iter().map(String::as_str)).map_err(wrong)?;
    let fetch = Arc::new(GuardedFetch::new(allow, with.dev, roots.as_deref()).map_err(wrong)?);
    let runners = ToolRunner::new(ToolRunnerConfig {
        http: fetch.client_for_configured(),
        fetch: Arc::clone(&fetch) as _,
        clock: Arc::clone(&with.clock),
        entropy: Arc::new(SystemEntropy),
        local_dids: if with.dev { LocalDidUrlScheme::Http } else { LocalDidUrlScheme::Https },
        executable: with.executable.clone(),
        working_dir: data.path().to_owned(),
        confined: true,
        mcp_start: settings.limits.mcp_start(),
    });
    let runners = Arc::new(runners.with_agreement_file(data.path().join("agreements.json")));
    let entropy = Arc::new(SystemEntropy);
    let secret_key = data.secret_key(&*entropy)?;
    let store = node::open_store(data, Arc::clone(&with.meter)).await?;
    data.keep_secret_key()?;
    refuse_moved(&*store).await?;
    let cipher = SecretCipher::new(&secret_key);
    let secret_key_file = data.secret_key_file();
    let next_key = secret_key_file.as_ref().map(SecretKeyFile::next).transpose()?.flatten();
    let mut secrets = vec![secret_key];
    if let Some(next) = next_key {
        cipher.replace_key(&next);
        secrets.insert(0, next);
    }
    let keyring = ServerKeyring::open(Arc::clone(&store), cipher.clone()).await?;
    let files = data.private_files();
    import_key_files(&keyring, &files, key_files(&files, with.clock.now())?).await?;
    let ports = EnginePorts {
        store,
        bus: Arc::new(LocalBus::default()),
        brains: Arc::new(LocalBrainFactory::new(&runners)),
        runner: Arc::clone(&runners) as _,
        clock: Arc::clone(&with.clock),
        cipher,
        entropy,
        meter: Arc::clone(&with.meter),
    };
    let standing = settings.grant.iter().map(crate::settings::GrantSetting::standing).collect();
    let limits = EngineLimits {
        drafting: settings.anp.drafting,
        consent: settings.a2h.rules()?,
        relay: settings.a2h.relaying(),
        ..settings.limits.engine()
    };
    let engine = Engine::new(ports, limits, standing);
    let seals = AgentKeyStoreFolder::new(data.path().join("seals"), secrets);
    let relays = settings.a2h.relay.clone();
    engine.records().record_rewind().await?;
    let peers = Arc::new(AgentPeers::new(engine.clone(), seals, relays, Arc::clone(&fetch), &with.stop));
    if let (Some(file), Some(next)) = (&secret_key_file, next_key) {
        finish_rekey(&engine, &peers, file, &next).await?;
    }
    let weak_peers = Arc::downgrade(&peers);
    runners.set_peers(weak_peers);
    Ok(AssembledEngine { engine, runners, peers, fetch, keyring })
}

/// Refuses a store that is used elsewhere, or that is not complete.
async fn refuse_moved(store: &dyn Store) -> Result<(), OperatorError> {
    let info = store.store_info().await?;
    let message = match (info.get(MOVED_TO), info.get(COPYING_FROM)) {
        (Some(to), _) => format!("this store was copied to {to} and is used there; open that one"),
        (None, Some(from)) => {
            format!("this store is an unfinished copy of {from}; repeat the `nuncio store copy` command that began it")
        }
        (None, None) => return Ok(()),
    };
    Err(OperatorError::new(ErrorCode::StoreMoved, message))
}

/// The HTTP client for webhooks of agents' accounts. Anyone with an account may set a URL, so the client reaches only
/// the public internet, and this machine if the operator allows it; `[outbound] allow` does not apply.
fn webhook_fetch(settings: &Settings, with: &EngineAssemblyOptions) -> Result<LazyFetch, OperatorError> {
    let roots = with.extra_ca.as_ref().map(|path| read_file(path)).transpose()?;
    let loopback = with.dev || settings.a2h.allow_loopback_webhooks;
    Ok(LazyFetch::new(Box::new(move || {
        let fetch = GuardedFetch::connecting_anew(AllowedAddresses::none(), loopback, roots.as_deref())?;
        Ok(Arc::new(fetch) as _)
    })))
}

impl Server {
    /// Opens the data directory, ends the turns and calls that a crash interrupted, publishes the agents and listens.
    pub async fn start(options: ServeOptions) -> Result<Self, OperatorError> {
        let settings = &options.settings;
        // A server that cannot serve its agent files changes nothing: it neither creates a data directory nor moves the
        // DIDs in one to this address.
        check_agents(&options.agents, &settings.a2h.rules()?.presets)?;
        let most_connections = raise_descriptor_limit();
        let data = DataDir::open_when_writable(&options.data, &*options.clock).await?;
        let secret_key_file = options.secret_key.file();
        let data = data.with_secret_key(options.secret_key).with_store(options.store);
        refuse_damage(&data).await?;
        let metrics = Arc::new(Metrics::new());
        let [stop, done, closed] = std::array::from_fn(|_| CancellationToken::new());
        let with = EngineAssemblyOptions {
            clock: options.clock,
            executable: options.executable,
            extra_ca: options.extra_ca,
            dev: options.dev,
            meter: Arc::clone(&metrics) as _,
            stop: stop.clone(),
        };
        let AssembledEngine { engine, runners, peers, fetch, keyring } = assemble(&data, settings, &with).await?;
        // Read before recovery adds records, so that records cut off the end are noticed.
        let audit_heads = engine.records().audit_heads().await?;
        node::join(&engine, &data).await?;
        engine.load_recent_calls().await?;
        engine.access().load().await?;

        let listeners = bind(&options.listen).await?;
        let addresses = listeners.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>();
        let addresses = addresses.map_err(|error| listen_failed(&error))?;
        let issuers = TrustedIssuers::open(&settings.issuer, Arc::clone(&fetch) as _, Arc::clone(&with.clock))
            .map_err(|why| OperatorError::new(ErrorCode::ConfigInvalid, why))?;
        for issuer in settings.issuer.iter().filter(|issuer| issuer.people.is_none()) {
            tracing::warn!(
                issuer = issuer.url.as_str(),
                "[[issuer]] does not set `people`, so its subjects do not count as people who use this server themselves: they are admitted only with a scope of an agent and cannot approve calls; write `people = true` or `people = false`"
            );
        }
        let has_credentials = engine.access().has_keys() || !issuers.is_empty();
        let exposure = exposure(&addresses, options.open, settings.access.loopback, has_credentials)?;
        let signatures = Arc::new(RequestSignatureVerifier::new(engine.clone(), &settings.signatures));
        let tls = options.tls.as_ref().map(tls_acceptor).transpose()?;

        let source =
            if options.public_url.is_some() { PublicUrlSource::ByOperator } else { PublicUrlSource::ByListening };
        let public_url = options.public_url.map(|url| url.to_string());
        let did_url = public_url.clone().or_else(|| server_url::for_dids(&addresses, tls.is_some()));
        let base = public_url.unwrap_or_else(|| server_url::by_listening(&addresses, tls.is_some()));
        let dids = Dids::open(keyring.clone(), did_url.as_deref(), source, Arc::clone(&with.clock)).await?;
        runners.set_signers(Arc::new(dids.clone()));
        let localhost = match (with.dev, &with.extra_ca) {
            (true, Some(_)) => LocalhostDidPolicy::HttpsOrHttp,
            (true, None) => LocalhostDidPolicy::Http,
            (false, Some(_)) => LocalhostDidPolicy::Https,
            (false, None) => LocalhostDidPolicy::Refused,
        };
        let host_dids = Arc::new(dids.clone());
        let resolver =
            DidResolver::new(Arc::clone(&host_dids) as _, Arc::clone(&fetch) as _, Arc::clone(&with.clock), localhost);
        let did_auth = Arc::new(DidAuthenticator::new(host_dids, resolver, engine.clone(), &base));
        let people_key = keyring.signing_key(PEOPLE_KEY).await?;
        let people = Arc::new(PersonTokenIssuer::new(people_key, &base, Arc::clone(&with.clock)));
        let bodies = BodyLimits {
            bytes: settings.limits.body_bytes,
            time: Duration::from_secs(settings.limits.body_seconds),
            budget: BodyBudget::new(settings.limits.body_bytes_in_flight),
        };
        let auth = Authenticator {
            engine: engine.clone(),
            exposure,
            bodies: bodies.clone(),
            issuers: Arc::new(issuers),
            signatures,
            dids: Arc::clone(&did_auth),
            people: Arc::clone(&people),
        };
        let crawler = registry::open(&engine, Arc::clone(&fetch) as _, &settings.registry).await?;
        let local_dids = if with.dev { LocalDidUrlScheme::Http } else { LocalDidUrlScheme::Https };
        let directory =
            registry::agents::open(&engine, Arc::clone(&fetch) as _, &settings.registry, local_dids, Some(&base))
                .await?;
        let anp_options = AnpClientOptions { local: local_dids, ..AnpClientOptions::default() };
        let client =
            AnpClient::new(Arc::clone(&fetch) as _, Arc::clone(&with.clock), Arc::new(SystemEntropy), anp_options);
        let register = settings.registry.register.clone();
        let anp_host = HostDocumentSettings::new(&base);
        let directory_publisher = RemoteDirectoryRegistrar::new(
            engine.clone(),
            client.clone(),
            Arc::new(dids.clone()),
            anp_host.clone(),
            register,
        );
        let hosting = HostDescription::new(&base, settings, Arc::clone(&auth.issuers), dids.clone())?;
        let programs = ProgramRules { data: data.path().to_owned(), secret_key_file, unconfined: options.unconfined };
        let mut publisher = AgentPublisher {
            engine: engine.clone(),
            runners,
            peers: Arc::clone(&peers),
            source: options.agents,
            hosting: hosting.clone(),
            programs,
            registrar: directory_publisher.clone(),
            served: ServedAgentFiles::default(),
        };
        let checkpoints = AuditCheckpoints::open(&data, keyring.clone()).await?;
        checkpoints.report_missing(&audit_heads);
        publisher.refresh().await?;
        let served = engine.agents().list();
        let unknown = |relay: &&RemoteRelaySetting| served.iter().all(|agent| agent.name != relay.agent);
        for RemoteRelaySetting { agent, .. } in settings.a2h.relay.iter().filter(unknown) {
            tracing::warn!(%agent, "[[a2h.relay]] names an agent that is not served here");
        }
        // The first search for the work of dead nodes ends before the first request, the later ones run beside them.
        let adopted = engine.nodes().adopt_orphans().await?;
        if adopted != AdoptedWorkReport::default() {
            tracing::warn!(
                turns = adopted.turns,
                calls = adopted.calls,
                approvals = adopted.approvals,
                executions = adopted.executions,
                "ended the turns, calls and approvals that were interrupted when the server stopped, and continued its \
                 executions"
            );
        }
        engine.webhooks().resume_webhooks().await?;
        engine.nodes().start();
        let webhook_key = keyring.signing_key(WEBHOOK_KEY).await?;
        let signer = Arc::new(WebhookSigner::new(webhook_key, settings.webhooks.secret()?.as_deref()));
        checkpoints.begin(&engine).await;
        let tasks = TaskTracker::new();
        let proxies = Arc::new(TrustedProxies::new(&settings.http.trusted_proxies));
        let identities = Arc::new(AnpIdentities::new(&did_auth, &engine, &hosting));
        let anp_host = HostDocumentSettings { drafts: engine.drafts().is_enabled(), ..anp_host };
        let anp = AnpServerState::new(engine.clone(), anp_host, bodies.clone(), identities, directory.clone());
        let parts = ProtocolDependencies {
            engine: &engine,
            auth: &auth,
            hosting: &hosting,
            settings,
            bodies,
            metrics,
            signer,
            fetch: Arc::clone(&fetch) as _,
            fetch_for_agents: Arc::new(webhook_fetch(settings, &with)?),
            crawler: &crawler,
            anp: &anp,
            directory: &directory,
            directory_publisher: &directory_publisher,
        };
        let (mut routes, mut handlers) = (Vec::new(), JobHandlers::default());
        for front in fronts::start(&parts) {
            routes.push(front.routes);
            handlers.append(front.handlers);
        }
        let app = http::app(&parts, routes.into_iter(), Arc::clone(&proxies), options.requests);
        let acceptor = ConnectionAcceptor {
            app,
            tls,
            times: ConnectionTimeouts {
                head: Duration::from_secs(settings.limits.header_seconds),
                write: Duration::from_secs(settings.limits.write_seconds),
            },
            connections: Connections::new(ConnectionLimits {
                total: settings.limits.connections.min(most_connections),
                per_address: settings.limits.connections_per_address,
            }),
            proxies,
            runtimes: ServerRuntimes::start(exposure).map_err(|error| listen_failed(&error))?,
        };
        let tls = acceptor.tls.is_some();
        for listener in listeners {
            let accepting = acceptor.clone().run(listener, stop.clone(), closed.clone());
            acceptor.runtimes.spawn_unidentified(tasks.track_future(accepting));
        }
        let messages = DirectMessageSender { engine: engine.clone(), anp, client, dids: dids.clone() };
        let server = admin::AdminServerParts {
            crawler: crawler.clone(),
            publisher: directory_publisher.clone(),
            messages,
            exposure,
        };
        let admin_api = admin::AdminApi {
            engine: engine.clone(),
            checkpoints: Arc::new(checkpoints),
            dids: dids.clone(),
            directory: directory.clone(),
            invites: admin::InviteServerIdentity { key: people.key(), url: Some(people.audience().to_owned()) },
            peers: Arc::clone(&peers),
            secret_key_file: data.secret_key_file(),
            host: admin::AdminCommandProcess::Server(Box::new(server)),
        };
        let sweeps =
            retention::add_sweeps(Sweeps::new(&engine), Arc::clone(&admin_api.checkpoints), &settings.retention);
        sweeps.start(&mut handlers).await?;
        tasks.spawn(admin::listen(data.path(), admin_api, done.clone())?);
        tasks.spawn(publisher.follow(stop.clone()));
        tasks.spawn(Arc::clone(engine.jobs()).run(handlers, stop.clone(), closed.clone()));
        let grace = Duration::from_secs(settings.limits.shutdown_seconds);
        Ok(Self { engine, addresses, exposure, tls, tasks, stop, done, closed, grace, did_auth, dids, peers, data })
    }

    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Authenticates callers by DID.
    #[must_use]
    pub fn did_auth(&self) -> &Arc<DidAuthenticator> {
        &self.did_auth
    }

    #[must_use]
    pub fn dids(&self) -> &Dids {
        &self.dids
    }

    #[must_use]
    pub fn exposure(&self) -> NetworkExposure {
        self.exposure
    }

    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The URL of the server for people on this machine.
    #[must_use]
    pub fn url(&self) -> String {
        server_url::by_listening(&self.addresses, self.tls)
    }

    /// The URL of the server for people in the same network, if it listens on all addresses of this machine.
    #[must_use]
    pub fn network_url(&self) -> Option<String> {
        server_url::in_network(&self.addresses, self.tls)
    }

    /// Stops the server: takes no new requests, lets running turns finish within the limit, and stores everything.
    pub async fn stop(self) {
        self.stop.cancel();
        self.engine.shut_down(self.grace).await;
        self.done.cancel();
        // Streams end with their turns; their last bytes get a moment to be sent.
        let last = self.engine.clock().sleep_until(self.engine.now().after(Duration::from_secs(2)));
        self.tasks.close();
        tokio::select! {
            () = self.tasks.wait() => {}
            () = last => self.closed.cancel(),
        }
        self.closed.cancel();
        self.tasks.wait().await;
        self.peers.close().await;
        node::leave(&self.engine, &self.data).await;
    }
}

opaque_debug!(Server);

/// Refuses agent files that cannot be read or described in every protocol.
fn check_agents(source: &AgentFilesSource, presets: &ScopePresets) -> Result<(), OperatorError> {
    load(source)?.iter().try_for_each(|(_, declared)| check_documents(&declared.agent, presets))
}

/// Refuses to serve a store that is damaged. Only a part of a large database is checked.
async fn refuse_damage(data: &DataDir) -> Result<(), OperatorError> {
    if !data.store().is_in_data_directory() {
        return Ok(());
    }
    let database = data.database();
    let checked = tokio::task::spawn_blocking(move || nuncio_store::quick_check(&database)).await;
    let found = checked
        .map_err(|error| OperatorError::new(ErrorCode::Internal, format!("the store check failed: {error}")))??;
    if !found.complete {
        tracing::info!(
            "the database is large, so only a part of it was checked; `nuncio store check` checks all of it"
        );
    }
    let Some(problem) = found.problems.first() else { return Ok(()) };
    let path = data.path().display();
    let message = format!(
        "the store in {path} is damaged: {problem}. Copy the whole directory first; `nuncio store check --data {path}` lists all damage; then restore a backup"
    );
    Err(OperatorError::new(ErrorCode::StoreDamaged, message))
}

fn exposure(
    addresses: &[SocketAddr],
    open: bool,
    loopback: Option<LoopbackAccess>,
    has_credentials: bool,
) -> Result<NetworkExposure, OperatorError> {
    if addresses.iter().all(|address| address.ip().is_loopback()) {
        return Ok(match loopback {
            None => NetworkExposure::Loopback,
            Some(LoopbackAccess::Open) => NetworkExposure::OpenLoopback,
            Some(LoopbackAccess::Keys) => NetworkExposure::ClosedLoopback,
        });
    }
    if loopback.is_some() {
        tracing::warn!(
            "[access] loopback has no effect: this server listens beyond this machine, so no request counts as local"
        );
    }
    match (open, has_credentials) {
        (true, _) => Ok(NetworkExposure::Open),
        (false, true) => Ok(NetworkExposure::Network),
        (false, false) => Err(OperatorError::new(
            ErrorCode::KeysRequired,
            "listening beyond this machine needs a key: make one with `nuncio key create`, declare an [[issuer]] in \
             nuncio.toml, or pass --open to serve anyone",
        )),
    }
}

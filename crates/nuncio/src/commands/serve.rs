//! `nuncio serve`: runs the server until a stop signal.

use std::path::Path;
use std::sync::Arc;

use anstream::{eprintln, println};
use nuncio_confine::confinement;
use nuncio_core::ErrorCode;
use nuncio_core::text::{TextByLanguage, plain};
use nuncio_engine::ports::Clock as _;
use nuncio_server::ProtocolFront;
use nuncio_server::StoreLocation;
use nuncio_server::settings::Settings;
use nuncio_server::{
    AgentFilesSource, AnsweredRequest, KeylessAccess, RequestObserver, ServeOptions, Server, SystemClock, TlsFiles,
    describe_confinement, fronts, telemetry,
};
use owo_colors::OwoColorize as _;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::ServeArguments;
use crate::commands::chat::clean::clean;
use crate::commands::consumer::wrapped;
use crate::output::{fault, shell_quote};

const GRAND_HOTEL: &str = include_str!("../../../../examples/hotel/agent.toml");

pub(crate) async fn run(flags: ServeArguments, json: bool) -> anyhow::Result<()> {
    let config = flags.config.clone().unwrap_or_else(|| flags.data.path.join("nuncio.toml"));
    let settings = Settings::load(&config, flags.config.is_some(), |name| std::env::var(name).ok())?;
    let _telemetry = telemetry::start(&settings.log.level, settings.log.format);
    let agents = match flags.agents {
        Some(path) => AgentFilesSource::Path(path),
        None => AgentFilesSource::Embedded { name: "the Grand Hotel example", text: GRAND_HOTEL },
    };
    let tls = flags.tls_cert.zip(flags.tls_key).map(|(certificate, key)| TlsFiles { certificate, key });
    let executable = std::env::current_exe()
        .map_err(|error| fault(ErrorCode::Internal, format!("this program cannot be found: {error}")))?;
    // The process is protected before any secret is in its memory.
    if let Err(error) = nuncio_confine::protect_this_process() {
        tracing::warn!(%error, "other programs of this account can read this process's memory");
    }
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let secret_key = flags.data.secret_key()?;
    let store = StoreLocation::parse(flags.data.store.as_deref().or(settings.store.as_deref()))?;
    let data = flags.data.path;
    let starting = Server::start(ServeOptions {
        agents,
        data: data.clone(),
        secret_key,
        store,
        listen: flags.listen,
        settings,
        open: flags.open,
        unconfined: flags.unconfined,
        tls,
        extra_ca: flags.extra_ca,
        dev: flags.dev,
        public_url: flags.public_url.clone(),
        clock: Arc::new(SystemClock),
        requests: flags.verbose.then(|| RequestObserver(Arc::new(move |request| print_request(request, json)))),
        executable,
    });
    // The start can wait for free disk space; a stop signal ends the wait.
    let server = tokio::select! {
        server = starting => server?,
        _ = interrupt.recv() => std::process::exit(130),
        _ = terminate.recv() => std::process::exit(143),
    };
    let has_public_url = flags.public_url.is_some();
    let url = flags.public_url.map_or_else(|| server.url(), |url| url.as_str().trim_end_matches('/').to_owned());
    print_overview(&server, &url, has_public_url, &data, json);

    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    if !json {
        eprintln!("{}", "Stopping: running turns may finish. Again to stop at once.".dimmed());
    }
    tokio::select! {
        () = server.stop() => Ok(()),
        _ = interrupt.recv() => std::process::exit(130),
        _ = terminate.recv() => std::process::exit(143),
    }
}

/// Prints one line about a request: when it was answered (UTC), method, path, status and time.
fn print_request(request: &AnsweredRequest<'_>, json: bool) {
    let AnsweredRequest { method, path, status, took } = request;
    let now = SystemClock.now().to_string();
    let ms = took.as_millis();
    if json {
        return eprintln!("{}", json!({"time": now, "method": method, "path": path, "status": status, "ms": ms}));
    }
    let time = now.get(11..19).unwrap_or_default();
    let path = plain(path);
    match status {
        400.. => eprintln!("{} {method} {path} {} {ms} ms", time.dimmed(), status.red()),
        _ => eprintln!("{} {method} {path} {status} {ms} ms", time.dimmed()),
    }
}

/// Prints the agents, the URLs of the pages and documents, and how requests authenticate.
fn print_overview(server: &Server, url: &str, has_public_url: bool, data: &Path, json: bool) {
    let agents = server.engine().agents().list();
    let has_programs = agents.iter().any(|agent| agent.programs().next().is_some());
    let has_keys = server.engine().access().has_keys();
    let state = KeylessAccess::of_server(server.exposure(), has_keys);
    if json {
        let names: Vec<_> = agents.iter().map(|agent| agent.name.as_str()).collect();
        let mut overview = json!({
            "url": url,
            "agents": names,
            "access": state,
            "programs": has_programs.then(|| json!({
                "confined": confinement(),
                "says": describe_confinement(confinement()),
            })),
        });
        for point in fronts().map(ProtocolFront::entry_point) {
            let (key, path) = point.json;
            let path = point.of_several_agents.filter(|_| agents.len() > 1).unwrap_or(path);
            overview[key] = format!("{url}{path}").into();
        }
        println!("{overview}");
        return;
    }
    println!("{} serves", "Nuncio".bold());
    for agent in &agents {
        match agent.title.as_ref().map(TextByLanguage::in_english).map(clean).filter(|title| !title.is_empty()) {
            Some(title) => println!("  {}  {}", agent.name.bold(), title.dimmed()),
            None => println!("  {}", agent.name.bold()),
        }
    }
    println!();
    let entry_points = fronts().map(ProtocolFront::entry_point);
    let used = entry_points.filter(|point| agents.iter().any(|agent| (point.shows)(agent)));
    let links =
        used.map(|point| (point.label, point.of_several_agents.filter(|_| agents.len() > 1).unwrap_or(point.document)));
    for (label, path) in std::iter::once(("page", "/")).chain(links).chain([("health", "/healthz")]) {
        println!("  {label:<7}  {}", format!("{url}{path}").cyan());
    }
    if !has_public_url && let Some(network) = server.network_url() {
        println!("  {:<7}  {}", "network", format!("{network}/").cyan());
    }
    println!();
    if has_programs {
        println!("Confinement: {}.", describe_confinement(confinement()));
        for agent in agents.iter().filter(|agent| agent.allow.unix && agent.programs().next().is_some()) {
            println!("{} agent {} allows Unix sockets.", "Unconfined:".yellow(), agent.name);
        }
    }
    let needs_key = server.exposure().asks_for_keys(has_keys);
    match wrapped(state.describe(), "") {
        text if state == KeylessAccess::OpenToAll => println!("{}", text.yellow()),
        text => println!("{text}"),
    }
    if needs_key {
        println!("Send the key as: Authorization: Bearer KEY");
    }
    if let Some(agent) = agents.first() {
        let target = url.strip_prefix("http://").filter(|host| host.starts_with("localhost")).unwrap_or(url);
        let several = if agents.len() > 1 { format!(" --agent {}", agent.name) } else { String::new() };
        let key = if needs_key { "NUNCIO_KEY=… " } else { "" };
        println!("\nTalk to it on the page above, or here:\n  {key}nuncio chat {}{several}", shell_quote(target));
    }
    if agents.iter().any(|agent| agent.device_tools().next().is_some()) {
        let data = match data.to_str() {
            Some("nuncio-data") => String::new(),
            _ => format!(" --data {}", shell_quote(&data.display().to_string())),
        };
        println!("\nIt has tools that run on people's devices. To add a person:\n  nuncio user invite NAME{data}");
    }
}

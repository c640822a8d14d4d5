//! `cargo xtask bench aap`: streams, documents, sessions, turns and memory.

use std::path::Path;

use anyhow::Context as _;
use serde_json::json;

use crate::client::{RawHttpConnection, field};
use crate::process::Server;
use crate::report::{ThroughputMeasurement, heading, measure, row};
use crate::store::BenchStore;

pub(crate) mod conversation_age;

const DELTAS: usize = 1000;

/// CPU costs of the protocol's TypeScript SDK with all data in memory, measured once on another machine.
const SDK: ServerCpuCosts = ServerCpuCosts { delta: 13.0, session: 286.0, turn: 297.0, scattered_turn: 297.0 };

/// CPU costs of a server, in microseconds.
struct ServerCpuCosts {
    delta: f64,
    session: f64,
    turn: f64,
    scattered_turn: f64,
}

/// Which sessions have turns at the same time in the benchmark.
#[derive(Clone, Copy)]
pub(crate) enum SessionDiskLayout {
    /// Sessions that were created one after the other.
    Together,
    /// Sessions that were created at different times, so that each has its own pages on disk.
    Scattered,
}

/// Measures the server. With a `peer`, another server of the protocol, the same run measures that one too; it needs an
/// agent named `script` that echoes a text and plays `{"script": [[{"deltas": …}]]}`, below `/aap`.
pub(crate) async fn run(nuncio: &Path, examples: &Path, peer: Option<&Path>, quick: bool) -> anyhow::Result<()> {
    let scale = if quick { 10 } else { 1 };
    let data = tempfile::tempdir()?;
    let bare = Server::start(&std::env::current_exe()?, &["bare"]).await?;
    let agents = examples.join("script");
    let (data_path, agents) = (data.path().display().to_string(), agents.display().to_string());
    let ours =
        Server::start(nuncio, &["--json", "serve", &agents, "--listen", "127.0.0.1:0", "--data", &data_path]).await?;

    heading();
    let mut delta_cpu = 0.0;
    for clients in [1, 32, 256] {
        let streams = (2048 / scale).max(clients);
        let here = streamed(&ours, clients, streams).await?;
        let channel = bare_streams(&bare, "channel", clients, streams).await?;
        let coalesced = bare_streams(&bare, "coalesced", clients, streams).await?;
        let what = format!("delta, {clients} streams at once");
        row(&what, here, "axum Sse over a channel", channel);
        row(&what, here, "pre-encoded, coalesced", coalesced);
        delta_cpu = here.cpu;
    }
    let requests = 100_000 / scale;
    let meta = measure_gets(&ours, "/aap/meta", requests).await?;
    let fixed = measure_gets(&bare, "/static", requests).await?;
    row("GET /meta", meta, "a bare static response", fixed);
    println!();

    let here = costs(&ours, scale, delta_cpu).await?;
    let peer_costs = match peer {
        Some(program) => peer_costs(program, scale).await?,
        None => SDK,
    };
    println!("| operation | CPU each, on disk | the SDK's, in memory | times cheaper |");
    println!("|---|---|---|---|");
    for (what, ours, theirs) in [
        ("delta", here.delta, peer_costs.delta),
        ("session creation", here.session, peer_costs.session),
        ("turn", here.turn, peer_costs.turn),
        ("turn in conversations of all ages", here.scattered_turn, peer_costs.scattered_turn),
    ] {
        println!("| {what} | {ours:.2} µs | {theirs:.2} µs | {:.1} |", theirs / ours);
    }
    println!();
    conversation_age::run(nuncio, &agents, 1000 / scale, &BenchStore::Sqlite).await?;
    memory(nuncio, &agents, scale).await
}

/// Measures the costs of sessions and turns; `delta` is the cost of a delta, measured before.
async fn costs(server: &Server, scale: usize, delta: f64) -> anyhow::Result<ServerCpuCosts> {
    let session = sessions(server, 20_000 / scale).await?.cpu;
    let turn = small_turns(server, 20_000 / scale, SessionDiskLayout::Together).await?.cpu;
    let scattered_turn = small_turns(server, 20_000 / scale, SessionDiskLayout::Scattered).await?.cpu;
    Ok(ServerCpuCosts { delta, session, turn, scattered_turn })
}

/// Measures another server of the protocol with the same work, after a warm-up.
async fn peer_costs(program: &Path, scale: usize) -> anyhow::Result<ServerCpuCosts> {
    const CLIENTS: usize = 32;
    let peer = Server::start(program, &[]).await?;
    costs(&peer, scale * 4, 0.0).await?;
    streamed(&peer, CLIENTS, CLIENTS).await?;
    let delta = streamed(&peer, CLIENTS, (512 / scale).max(CLIENTS)).await?.cpu;
    costs(&peer, scale, delta).await
}

/// Measures streams of a thousand deltas, one per turn.
async fn streamed(server: &Server, clients: usize, streams: usize) -> anyhow::Result<ThroughputMeasurement> {
    let script = json!({"script": [[{"deltas": DELTAS, "delta": "hello "}]]}).to_string();
    let turn = json!({"stream": "delta", "messages": [{"role": "user", "content": script}]}).to_string();
    let mut connections = Vec::new();
    for _ in 0..clients {
        let mut connection = RawHttpConnection::open(&server.address).await?;
        let path = format!("/aap/sessions/{}/turns", new_session(&mut connection).await?);
        connections.push((connection, path));
    }
    let rounds = streams / clients;
    measure(server, clients * rounds * DELTAS, async {
        in_parallel(connections, async |(connection, path): &mut (RawHttpConnection, String)| {
            // A new session after a few turns keeps the history as short as that of a chat.
            for round in 0..rounds {
                if round % 4 == 3 {
                    *path = format!("/aap/sessions/{}/turns", new_session(connection).await?);
                }
                let body = connection.post(path, &turn).await?;
                anyhow::ensure!(body.ends_with(b"\n\n") && body.len() > DELTAS * 40, "{} bytes", body.len());
            }
            Ok(())
        })
        .await
    })
    .await
}

async fn bare_streams(
    server: &Server,
    kind: &str,
    clients: usize,
    streams: usize,
) -> anyhow::Result<ThroughputMeasurement> {
    let path = format!("/{kind}/{DELTAS}");
    let connections = connect(server, clients).await?;
    let rounds = streams / clients;
    measure(server, clients * rounds * DELTAS, async {
        in_parallel(connections, async |connection: &mut RawHttpConnection| {
            for _ in 0..rounds {
                connection.post(&path, "{}").await?;
            }
            Ok(())
        })
        .await
    })
    .await
}

pub(crate) async fn measure_gets(
    server: &Server,
    path: &str,
    requests: usize,
) -> anyhow::Result<ThroughputMeasurement> {
    const CLIENTS: usize = 32;
    let connections = connect(server, CLIENTS).await?;
    measure(server, requests / CLIENTS * CLIENTS, async {
        in_parallel(connections, async |connection: &mut RawHttpConnection| {
            for _ in 0..requests / CLIENTS {
                connection.get(path).await?;
            }
            Ok(())
        })
        .await
    })
    .await
}

pub(crate) async fn sessions(server: &Server, count: usize) -> anyhow::Result<ThroughputMeasurement> {
    const CLIENTS: usize = 64;
    let connections = connect(server, CLIENTS).await?;
    measure(server, count / CLIENTS * CLIENTS, async {
        in_parallel(connections, async |connection: &mut RawHttpConnection| {
            for _ in 0..count / CLIENTS {
                new_session(connection).await?;
            }
            Ok(())
        })
        .await
    })
    .await
}

/// Measures turns with a short answer, ten per session.
pub(crate) async fn small_turns(
    server: &Server,
    count: usize,
    going_on: SessionDiskLayout,
) -> anyhow::Result<ThroughputMeasurement> {
    const CLIENTS: usize = 64;
    let turn = json!({"messages": [{"role": "user", "content": "hello"}]}).to_string();
    let rounds = count.div_ceil(CLIENTS * 10);
    let mut connections: Vec<_> =
        connect(server, CLIENTS).await?.into_iter().map(|connection| (connection, Vec::new())).collect();
    // Session ids begin with the time, so sessions that were created one after the other are neighbours on disk.
    let at_once = match going_on {
        SessionDiskLayout::Together => 1,
        SessionDiskLayout::Scattered => rounds,
    };
    for _ in 0..rounds / at_once {
        for (connection, paths) in &mut connections {
            for _ in 0..at_once {
                paths.push(format!("/aap/sessions/{}/turns", new_session(connection).await?));
            }
        }
    }
    measure(server, CLIENTS * rounds * 10, async {
        in_parallel(connections, async |(connection, paths): &mut (RawHttpConnection, Vec<String>)| {
            for path in paths.iter() {
                for _ in 0..10 {
                    connection.post(path, &turn).await?;
                }
            }
            Ok(())
        })
        .await
    })
    .await
}

/// Measures the memory of ten thousand idle sessions, then of ten thousand open streams.
async fn memory(nuncio: &Path, agents: &str, scale: usize) -> anyhow::Result<()> {
    let data = tempfile::tempdir()?;
    let path = data.path().display().to_string();
    let server =
        Server::start(nuncio, &["--json", "serve", agents, "--listen", "127.0.0.1:0", "--data", &path]).await?;
    let count = 10_000 / scale;
    // Memory that the first requests allocate permanently is not counted.
    sessions(&server, 640).await?;
    let before = server.memory_mib();
    sessions(&server, count).await?;
    let idle = server.memory_mib();
    let script = json!({"script": [[{"text": "waiting"}, {"sleep": 600_000}]]}).to_string();
    let turn = json!({"stream": "delta", "messages": [{"role": "user", "content": script}]}).to_string();
    let mut open = Vec::new();
    for _ in 0..count {
        let mut connection =
            RawHttpConnection::open(&server.address).await.context("is the limit on open files high enough?")?;
        let path = format!("/aap/sessions/{}/turns", new_session(&mut connection).await?);
        connection.post_and_leave_open(&path, &turn).await?;
        open.push(connection);
    }
    let streaming = server.memory_mib();
    println!("| memory of the server | MiB |\n|---|---|");
    println!("| after a first few hundred requests | {before:.1} |");
    println!("| {count} idle sessions add | {:.1} |", idle - before);
    println!("| with {count} open streams, each in a running turn | {streaming:.1} |");
    Ok(())
}

async fn connect(server: &Server, clients: usize) -> anyhow::Result<Vec<RawHttpConnection>> {
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(RawHttpConnection::open(&server.address).await?);
    }
    Ok(connections)
}

async fn new_session(connection: &mut RawHttpConnection) -> anyhow::Result<String> {
    field(&connection.post("/aap/sessions", r#"{"agent":{"name":"script"}}"#).await?, "sessionId")
}

/// Runs the same work on all items concurrently.
pub(crate) async fn in_parallel<T>(
    items: Vec<T>,
    work: impl AsyncFn(&mut T) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let work = &work;
    let all = items.into_iter().map(|mut item| async move { work(&mut item).await });
    futures_util::future::try_join_all(all).await?;
    Ok(())
}

//! Thousands of connected people: their cost while idle, and when all of them are notified at once.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use futures_util::{SinkExt as _, StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::people::{self, BenchDevice, SCOPE, manifest};
use super::{BenchmarkGoalResult, start};
use crate::client::RawHttpConnection;
use crate::process::Server;

/// Number of concurrent connection attempts.
const AT_ONCE: usize = 64;
/// Memory limit of the server with all connections, in MiB.
const MOST_MIB: f64 = 300.0;

pub(super) async fn run(nuncio: &Path, count: usize) -> anyhow::Result<Vec<BenchmarkGoalResult>> {
    let folder = tempfile::tempdir()?;
    let server = start(nuncio, folder.path()).await?;
    let devices = people::enrol(&server, &folder.path().join("data"), count).await?;
    let mut connection = RawHttpConnection::open(&server.address).await?;
    let (agent, _) = devices[0].make_agent(&mut connection, manifest(0)).await?;
    let devices = people::allow(&server, devices, &agent, SCOPE).await?;
    server.stop().await?;

    // The baseline is the memory of a server that has served no request yet.
    let server = start(nuncio, folder.path()).await?;
    let devices = people::refresh(&server, devices).await?;
    let before = server.memory_mib();
    let began = Instant::now();
    let sockets = connect(&server, &devices).await?;
    println!("{count} connected in {:.1} s", began.elapsed().as_secs_f64());
    let idle = server.memory_mib();
    let result = notify_all(&server, &devices[0], &agent, sockets).await?;
    let after = server.memory_mib();
    println!("Memory: {before:.0} MiB before the first, {idle:.0} with all, {after:.0} when all had been told.");
    let all = result.heard == count && result.twice == 0;
    let received = format!(
        "{} heard, {} of them twice; the last after {:.2} s; {:.0} µs of CPU each, judging and committing included",
        result.heard, result.twice, result.last, result.cpu
    );
    Ok(vec![
        BenchmarkGoalResult {
            what: "idle WebSockets of 5,000 people",
            asked: "< 300 MiB",
            measured: format!("{idle:.0} MiB ({:.0} KiB each)", (idle - before) * 1024.0 / count as f64),
            met: idle < MOST_MIB,
        },
        BenchmarkGoalResult {
            what: "one `reauth_required` to all of them",
            asked: "each hears it once",
            measured: received,
            met: all,
        },
    ])
}

type DeviceWebSocket = WebSocketStream<TcpStream>;

async fn connect(server: &Server, devices: &[BenchDevice]) -> anyhow::Result<Vec<DeviceWebSocket>> {
    let each = devices.iter().map(|device| async move {
        let stream = TcpStream::connect(&server.address).await?;
        stream.set_nodelay(true)?;
        let config = WebSocketConfig::default().read_buffer_size(1024).write_buffer_size(0);
        let url = format!("ws://{}/a2h/ws/human", server.address);
        let (mut socket, _) = client_async_with_config(url, stream, Some(config)).await?;
        // The value of `after` skips all earlier events.
        send_frame(&mut socket, &json!({"type": "auth", "token": device.token, "after": u32::MAX})).await?;
        let answer = frame(&mut socket).await?;
        ensure!(answer["type"] == "auth.ok", "{}: {answer}", device.person);
        Ok(socket)
    });
    stream::iter(each).buffered(AT_ONCE).try_collect().await
}

async fn send_frame(socket: &mut DeviceWebSocket, frame: &Value) -> anyhow::Result<()> {
    Ok(socket.send(Message::text(frame.to_string())).await?)
}

async fn frame(socket: &mut DeviceWebSocket) -> anyhow::Result<Value> {
    loop {
        match socket.next().await.context("the connection ended")?? {
            Message::Text(text) => return Ok(serde_json::from_str(&text)?),
            Message::Close(why) => bail!("the connection was closed: {why:?}"),
            _ => {}
        }
    }
}

/// Result of sending one event to all sockets.
struct BroadcastMeasurement {
    heard: usize,
    twice: usize,
    /// Seconds until the last device was notified.
    last: f64,
    /// CPU microseconds per device.
    cpu: f64,
}

/// Publishes a manifest that breaks the consent of all devices, so that all are notified.
async fn notify_all(
    server: &Server,
    owner: &BenchDevice,
    agent: &str,
    sockets: Vec<DeviceWebSocket>,
) -> anyhow::Result<BroadcastMeasurement> {
    let count = sockets.len();
    let mut listening = JoinSet::new();
    for mut socket in sockets {
        listening.spawn(async move {
            let seq = reauth(&mut socket).await?;
            anyhow::Ok((socket, seq, Instant::now()))
        });
    }
    let mut connection = RawHttpConnection::open(&server.address).await?;
    let (cpu, began) = (server.cpu_micros(), Instant::now());
    let change = json!({"capability_manifest": manifest(1)});
    let answer = owner.ask(&mut connection, "PATCH", &format!("/a2h/agents/{agent}"), &change).await?;
    println!("published in {:.2} s", began.elapsed().as_secs_f64());
    ensure!(answer["capability_manifest_version"] == 2, "{answer}");
    let received = listening.join_all().await.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let cpu = (server.cpu_micros() - cpu) / count as f64;
    let last = received.iter().map(|(_, _, at)| at.duration_since(began).as_secs_f64()).fold(0.0, f64::max);
    // All earlier events arrive before the answer to this request.
    let again = received.into_iter().map(|(mut socket, seq, _)| async move {
        send_frame(&mut socket, &json!({"type": "resume", "after": seq})).await?;
        let mut twice = 0;
        loop {
            let frame = frame(&mut socket).await?;
            match frame["type"].as_str() {
                Some("resume.ok") => return anyhow::Ok(twice),
                Some("h2a.reauth_required") => twice += 1,
                _ => {}
            }
        }
    });
    let twice: Vec<usize> = stream::iter(again).buffer_unordered(AT_ONCE).try_collect().await?;
    Ok(BroadcastMeasurement { heard: twice.len(), twice: twice.iter().sum(), last, cpu })
}

async fn reauth(socket: &mut DeviceWebSocket) -> anyhow::Result<u64> {
    loop {
        let frame = frame(socket).await?;
        if frame["type"] == "h2a.reauth_required" {
            return frame["seq"].as_u64().context("an event has a number");
        }
    }
}

/// Connected devices that count received messages.
pub(crate) struct ListeningSockets {
    _tasks: JoinSet<()>,
    received: Arc<AtomicUsize>,
}

pub(super) async fn listen(server: &Server, devices: &[BenchDevice]) -> anyhow::Result<ListeningSockets> {
    let received = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for mut socket in connect(server, devices).await? {
        let received = Arc::clone(&received);
        tasks.spawn(async move {
            while let Some(Ok(next)) = socket.next().await {
                if matches!(next, Message::Text(text) if text.contains("message.new")) {
                    received.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    Ok(ListeningSockets { _tasks: tasks, received })
}

impl ListeningSockets {
    /// Waits until exactly `count` messages were received.
    pub(super) async fn until(&self, count: usize) -> anyhow::Result<()> {
        loop {
            match self.received.load(Ordering::Relaxed) {
                received if received == count => return Ok(()),
                received => ensure!(received < count, "{received} messages were heard of {count}"),
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

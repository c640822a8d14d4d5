//! A message from its sender to the disk and to every mailbox, over HTTP, compared with the same rows written directly.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::people::{self, BenchDevice, SCOPE, manifest, run_concurrently, text, unique};
use super::sockets::{self, ListeningSockets};
use super::{BenchmarkGoalResult, start};
use crate::aap::in_parallel;
use crate::client::RawHttpConnection;
use crate::process::Server;
use crate::report::{ThroughputMeasurement, heading, measure, row};

/// Number of concurrent senders.
pub(super) const CLIENTS: usize = 64;
/// Number of conversations per sender.
pub(super) const CONVERSATIONS: usize = 8;
/// Size of an envelope, in bytes.
pub(super) const ENVELOPE: usize = 1024;

pub(super) async fn run(nuncio: &Path, count: usize) -> anyhow::Result<Vec<BenchmarkGoalResult>> {
    let folder = tempfile::tempdir()?;
    let server = start(nuncio, folder.path()).await?;
    let stage = RelayBenchSetup::prepare(&server, &folder.path().join("data")).await?;
    // One round before the measurement warms up caches and connections.
    stage.send(&server, count / 10, SenderKind::Person, None).await?;
    let (mut to_two, mut to_one) = (bare(count, 2)?, bare(count, 1)?);
    let person = stage.send(&server, count, SenderKind::Person, None).await?;
    let agent = stage.send(&server, count, SenderKind::Agent, None).await?;
    // The lower bound is measured before and after, because the load of the machine may change.
    for (bare, again) in [(&mut to_two, self::bare(count, 2)?), (&mut to_one, self::bare(count, 1)?)] {
        bare.cpu = f64::midpoint(bare.cpu, again.cpu);
        bare.rate = f64::midpoint(bare.rate, again.rate);
    }
    let listening = sockets::listen(&server, &stage.devices).await?;
    let delivered = stage.send(&server, count, SenderKind::Agent, Some(&listening)).await?;
    heading();
    row("1 KB from a person to an agent", person, "the same rows by hand", to_two);
    row("1 KB from an agent to a person", agent, "the same rows by hand", to_one);
    row("… who hears it on a socket", delivered, "the same rows by hand", to_one);
    let goal = |what, ours: ThroughputMeasurement, bare: ThroughputMeasurement| BenchmarkGoalResult {
        what,
        asked: "≤ 3 × the CPU of the bare write",
        measured: format!("{:.2} ({:.0} µs, the rows {:.0} µs)", ours.cpu / bare.cpu, ours.cpu, bare.cpu),
        met: ours.cpu <= 3.0 * bare.cpu,
    };
    Ok(vec![
        goal("durable relay, a person sends", person, to_two),
        goal("durable relay, an agent sends", agent, to_one),
    ])
}

/// Measures writing the rows alone, in a separate process.
fn bare(count: usize, told: usize) -> anyhow::Result<ThroughputMeasurement> {
    let output =
        Command::new(std::env::current_exe()?).args(["rows", &count.to_string(), &told.to_string()]).output()?;
    let measured: Value = serde_json::from_slice(&output.stdout).context("the bare run failed")?;
    let number = |name: &str| measured[name].as_f64().with_context(|| format!("no {name}"));
    Ok(ThroughputMeasurement { rate: number("rate")?, cpu: number("cpu")? })
}

#[derive(Clone, Copy)]
pub(crate) enum SenderKind {
    Person,
    Agent,
}

pub(crate) struct RelayBenchSetup {
    devices: Vec<BenchDevice>,
    agents: Vec<String>,
    /// Conversation ids, by device, then by agent.
    conversations: Vec<Vec<String>>,
}

impl RelayBenchSetup {
    pub(crate) async fn prepare(server: &Server, data: &Path) -> anyhow::Result<Self> {
        let mut devices = people::enrol(server, data, CLIENTS).await?;
        let mut connection = RawHttpConnection::open(&server.address).await?;
        let mut agents = Vec::new();
        for _ in 0..CONVERSATIONS {
            agents.push(devices[0].make_agent(&mut connection, manifest(0)).await?);
        }
        for (agent, _) in &agents {
            devices = people::allow(server, devices, agent, SCOPE).await?;
        }
        let conversations =
            run_concurrently(server, devices.iter().collect(), async |connection, device: &BenchDevice| {
                let mut all = Vec::new();
                for (agent, _) in &agents {
                    let new = json!({"type": "h2a", "with": [{"type": "agent", "id": agent}]});
                    let made = device.ask(connection, "POST", "/a2h/conversations", &new).await?;
                    all.push(text(&made["id"])?);
                }
                Ok(all)
            })
            .await?;
        Ok(Self { devices, agents: agents.into_iter().map(|(_, token)| token).collect(), conversations })
    }

    /// Sends `count` messages from 64 clients, each in all of its conversations in turn; returns when all listeners
    /// have received them.
    pub(crate) async fn send(
        &self,
        server: &Server,
        count: usize,
        sender: SenderKind,
        listening: Option<&ListeningSockets>,
    ) -> anyhow::Result<ThroughputMeasurement> {
        let mut clients = Vec::new();
        for client in 0..CLIENTS {
            clients.push((client, RawHttpConnection::open(&server.address).await?));
        }
        let envelope = json!({"sealed": "x".repeat(ENVELOPE - 13)}).to_string();
        ensure!(envelope.len() == ENVELOPE);
        let envelope = &envelope;
        let rounds = count / CLIENTS;
        measure(server, rounds * CLIENTS, async {
            in_parallel(clients, async |(client, connection): &mut (usize, RawHttpConnection)| {
                for round in 0..rounds {
                    let conversation = round % CONVERSATIONS;
                    let path = format!("/a2h/conversations/{}/messages", self.conversations[*client][conversation]);
                    let token = match sender {
                        SenderKind::Person => &self.devices[*client].token,
                        SenderKind::Agent => &self.agents[conversation],
                    };
                    let id = unique();
                    let body = format!(
                        r#"{{"client_message_id":"0123456789abcdef{id:016x}","content_type":"text","envelope":{envelope}}}"#
                    );
                    let lines = format!("authorization: Bearer {token}\r\n");
                    connection.post_with(&path, &lines, &body).await?;
                }
                Ok(())
            })
            .await?;
            match listening {
                Some(listening) => listening.until(rounds * CLIENTS).await,
                None => Ok(()),
            }
        })
        .await
    }
}

//! `cargo xtask bench skill`: executions, the index, and a database with a million finished executions.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use serde_json::json;

use crate::aap::in_parallel;
use crate::client::{RawHttpConnection, field};
use crate::process::Server;
use crate::report::{ThroughputMeasurement, heading, measure, row};
use crate::sql;

const CLIENTS: usize = 64;

pub(crate) const AGENT: &str = r#"
[agent]
name = "bench"
version = "1.0.0"
description = "Answers at once."

[brain]
kind = "script"

[[tool]]
name = "instant"
description = "Answers at once."
input = { type = "object", properties = { text = { type = "string" } }, required = ["text"], additionalProperties = false }
output = { type = "object", properties = { text = { type = "string" } }, required = ["text"] }
run = { answer = '{"text":"hello"}' }
skill = { type = "api", access = "public", auth = "none" }
"#;

pub(crate) async fn run(nuncio: &Path, quick: bool) -> anyhow::Result<()> {
    let scale = if quick { 10 } else { 1 };
    let count = 64_000 / scale;
    let folder = tempfile::tempdir()?;
    let agent = folder.path().join("agent.toml");
    std::fs::write(&agent, AGENT)?;
    let data = folder.path().join("data");

    let bare = bare(count)?;
    let server = start(nuncio, &agent, &data).await?;
    executions(&server, count / 10).await?;
    let two = executions(&server, count).await?;
    let one = measure_sync_executions(&server, count).await?;
    heading();
    row("execution: accept, run, read back", two, "batched SQL by hand, no HTTP", bare);
    row("the same in one request (`Prefer: wait`)", one, "batched SQL by hand, no HTTP", bare);
    drop(server);

    let finished = 1_000_000 / scale;
    sql::fill(&data.join("nuncio.db"), finished)?;
    let server = start(nuncio, &agent, &data).await?;
    executions(&server, count / 10).await?;
    let full = executions(&server, count).await?;
    row(&format!("with {finished} finished ones on disk"), full, "with none", two);
    drop(server);

    let many = folder.path().join("many");
    for agent in 0..10 {
        let home = many.join(format!("agent{agent}"));
        std::fs::create_dir_all(&home)?;
        std::fs::write(home.join("agent.toml"), many_skills(agent, 1_000 / scale))?;
    }
    let server = start(nuncio, &many, &folder.path().join("many-data")).await?;
    let bytes = RawHttpConnection::open(&server.address).await?.get("/.well-known/skill-sharing").await?.len();
    let index = measure_gets(&server, "/.well-known/skill-sharing", 2_000 / scale).await?;
    let health = measure_gets(&server, "/healthz", 20_000 / scale).await?;
    row(&format!("index of {} skills, {} KiB", 10_000 / scale, bytes / 1024), index, "GET /healthz", health);
    Ok(())
}

fn bare(count: usize) -> anyhow::Result<ThroughputMeasurement> {
    let output = Command::new(std::env::current_exe()?).args(["sql", &count.to_string()]).output()?;
    let output: serde_json::Value = serde_json::from_slice(&output.stdout).context("the bare run failed")?;
    let number = |name: &str| output[name].as_f64().with_context(|| format!("no {name}"));
    Ok(ThroughputMeasurement { rate: number("rate")?, cpu: number("cpu")? })
}

async fn start(nuncio: &Path, agent: &Path, data: &Path) -> anyhow::Result<Server> {
    let (agent, data) = (agent.display().to_string(), data.display().to_string());
    Server::start(nuncio, &["--json", "serve", &agent, "--listen", "127.0.0.1:0", "--data", &data]).await
}

fn request() -> String {
    json!({"caller": {"id": "bench", "type": "service"}, "skill_id": "bench/instant", "inputs": {"text": "hello"}})
        .to_string()
}

/// Measures executions whose start and result are separate requests.
pub(crate) async fn executions(server: &Server, count: usize) -> anyhow::Result<ThroughputMeasurement> {
    let body = request();
    measured(server, count, async |connection| {
        let accepted = connection.post("/skills/bench/instant/invoke", &body).await?;
        let id = field(&accepted, "execution_id")?;
        let path = format!("/executions/{id}/result");
        let result = connection.get_with(&path, "prefer: wait=10\r\n").await?;
        anyhow::ensure!(field(&result, "status")? == "completed");
        Ok(())
    })
    .await
}

/// Measures executions that are started, completed and returned in one request.
pub(crate) async fn measure_sync_executions(server: &Server, count: usize) -> anyhow::Result<ThroughputMeasurement> {
    let body = request();
    measured(server, count, async |connection| {
        let result = connection.post_with("/skills/bench/instant/invoke", "prefer: wait=10\r\n", &body).await?;
        anyhow::ensure!(field(&result, "status")? == "completed");
        Ok(())
    })
    .await
}

async fn measured(
    server: &Server,
    count: usize,
    work: impl AsyncFn(&mut RawHttpConnection) -> anyhow::Result<()>,
) -> anyhow::Result<ThroughputMeasurement> {
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        connections.push(RawHttpConnection::open(&server.address).await?);
    }
    let rounds = count / CLIENTS;
    measure(server, rounds * CLIENTS, async {
        in_parallel(connections, async |connection: &mut RawHttpConnection| {
            for _ in 0..rounds {
                work(connection).await?;
            }
            Ok(())
        })
        .await
    })
    .await
}

async fn measure_gets(server: &Server, path: &str, count: usize) -> anyhow::Result<ThroughputMeasurement> {
    measured(server, count, async |connection| connection.get(path).await.map(|_| ())).await
}

/// Agent file with `count` skills. The skills are spread over several agents, because the size of a file is limited.
fn many_skills(agent: usize, count: usize) -> String {
    let mut text = AGENT.replace("name = \"bench\"", &format!("name = \"bench{agent}\""));
    for number in 0..count.saturating_sub(1) {
        let _ = write!(
            text,
            "\n[[tool]]\nname = \"skill{number}\"\ndescription = \"Answers at once, as number {number}.\"\n\
             input = {{ type = \"object\" }}\nrun = {{ answer = \"{number}\" }}\n\
             skill = {{ type = \"api\", access = \"public\", auth = \"none\" }}\n"
        );
    }
    text
}

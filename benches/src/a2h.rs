//! `cargo xtask bench a2h`: sealing, the relay, and thousands of connected people.

use std::path::Path;

use clap::ValueEnum;

use crate::process::Server;

mod people;
mod primitives;
pub(crate) mod relay;
pub(crate) mod rows;
mod seal;
mod sockets;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum A2hBenchmark {
    /// Sealing and opening
    Seal,
    /// Messages over HTTP
    Relay,
    /// Thousands of connected people
    Sockets,
}

struct BenchmarkGoalResult {
    what: &'static str,
    asked: &'static str,
    measured: String,
    met: bool,
}

pub(crate) async fn run(nuncio: &Path, only: Option<A2hBenchmark>, quick: bool) -> anyhow::Result<()> {
    let scale = if quick { 10 } else { 1 };
    let is_wanted = |part| only.is_none_or(|only| only == part);
    let mut goals = Vec::new();
    if is_wanted(A2hBenchmark::Seal) {
        goals.extend(seal::run(20_000 / scale)?);
    }
    if is_wanted(A2hBenchmark::Relay) {
        goals.extend(relay::run(nuncio, 64_000 / scale).await?);
    }
    if is_wanted(A2hBenchmark::Sockets) {
        goals.extend(sockets::run(nuncio, 5_000 / scale).await?);
    }
    println!("\n| what | asked | measured | ok |");
    println!("|---|---|---|---|");
    for BenchmarkGoalResult { what, asked, measured, met } in goals {
        println!("| {what} | {asked} | {measured} | {} |", if met { "yes" } else { "**no**" });
    }
    Ok(())
}

/// Starts a server in a new or existing data directory.
async fn start(nuncio: &Path, folder: &Path) -> anyhow::Result<Server> {
    let (agent, data) = (folder.join("agent.toml"), folder.join("data"));
    if !data.exists() {
        std::fs::write(&agent, AGENT)?;
        std::fs::create_dir(&data)?;
        // The limits per person and for anonymous callers are raised, because few clients send the load of thousands.
        std::fs::write(data.join("nuncio.toml"), "[limits]\nrequests_per_minute = 1000000000\n")?;
    }
    let (agent, data) = (agent.display().to_string(), data.display().to_string());
    Server::start(nuncio, &["--json", "serve", &agent, "--listen", "127.0.0.1:0", "--data", &data]).await
}

const AGENT: &str = r#"
[agent]
name = "bench"
version = "1.0.0"
description = "Only here because a server serves somebody."

[brain]
kind = "script"
"#;

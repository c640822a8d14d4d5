//! `cargo xtask bench store`: the same work on SQLite and on PostgreSQL, and stores that hold a million executions.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use nuncio_test_postgres::PostgresServer;

use crate::a2h::relay::{RelayBenchSetup, SenderKind};
use crate::aap::{self, SessionDiskLayout, conversation_age};
use crate::process::Server;
use crate::report::ThroughputMeasurement;
use crate::skill;

mod filled;
mod rows_alone;

/// Measurements of each kind, of which the median counts.
const REPETITIONS: usize = 5;

#[derive(Args)]
pub(crate) struct StoreBenchmark {
    /// The program to measure
    #[arg(long)]
    nuncio: PathBuf,
    /// The examples of the workspace
    #[arg(long)]
    examples: PathBuf,
    /// Run only this part
    #[arg(long)]
    part: Option<StoreBenchmarkPart>,
    /// Number of finished executions in the filled stores
    #[arg(long, default_value_t = 1_000_000)]
    executions: usize,
    /// Number of sessions in the filled stores
    #[arg(long, default_value_t = 100_000)]
    sessions: usize,
    /// A tenth of the work, to see that the benchmark runs
    #[arg(long)]
    quick: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StoreBenchmarkPart {
    /// Turns, executions and relay posts on both stores, and the rows of executions alone
    Operations,
    /// Executions and sessions in a large store
    Filled,
    /// Turns in old conversations in PostgreSQL
    Ages,
}

/// A new store of a server under measurement.
pub(crate) enum BenchStore<'a> {
    Sqlite,
    Postgres { server: &'a PostgresServer, database: &'a str },
}

impl<'a> BenchStore<'a> {
    pub(crate) fn create(server: &'a PostgresServer, database: &'a str) -> Self {
        let _ = server.query("postgres", &format!("CREATE DATABASE {database} TEMPLATE template0"));
        Self::Postgres { server, database }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres { .. } => "PostgreSQL",
        }
    }

    /// Serves an agent file or a folder of agents.
    pub(crate) async fn serve(&self, nuncio: &Path, agents: &str, data: &Path) -> anyhow::Result<Server> {
        let data = data.display().to_string();
        let mut arguments = vec!["--json", "serve", agents, "--listen", "127.0.0.1:0", "--data", &data];
        let url;
        if let Self::Postgres { server, database } = self {
            url = server.url(database);
            arguments.extend(["--store", &url]);
        }
        Server::start(nuncio, &arguments).await
    }

    /// CPU time of the database server so far, in microseconds.
    fn database_cpu_micros(&self) -> f64 {
        match self {
            Self::Sqlite => 0.0,
            Self::Postgres { server, .. } => crate::process::cpu_micros_of_children(server.process_id()),
        }
    }
}

/// A server with its store, and its data directory.
struct ServedStore<'a> {
    store: BenchStore<'a>,
    folder: tempfile::TempDir,
    server: Server,
}

impl<'a> ServedStore<'a> {
    async fn start(nuncio: &Path, store: BenchStore<'a>) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        // The agents that the benchmarks of AAP and of Skill Sharing use.
        for (name, text) in [("bench", skill::AGENT.to_owned()), ("script", script_agent())] {
            let home = folder.path().join("agents").join(name);
            std::fs::create_dir_all(&home)?;
            std::fs::write(home.join("agent.toml"), text)?;
        }
        let data = folder.path().join("data");
        std::fs::create_dir(&data)?;
        // Few clients send the load of thousands.
        std::fs::write(data.join("nuncio.toml"), "[limits]\nrequests_per_minute = 1000000000\n")?;
        let server = serve(nuncio, &store, folder.path()).await?;
        Ok(Self { store, folder, server })
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }
}

async fn serve(nuncio: &Path, store: &BenchStore<'_>, folder: &Path) -> anyhow::Result<Server> {
    store.serve(nuncio, &folder.join("agents").display().to_string(), &folder.join("data")).await
}

fn script_agent() -> String {
    let begin = skill::AGENT.split("[[tool]]").next().unwrap_or_default();
    begin.replace("name = \"bench\"", "name = \"script\"")
}

pub(crate) async fn run(options: &StoreBenchmark) -> anyhow::Result<()> {
    let StoreBenchmark { nuncio, examples, part, executions, sessions, quick } = options;
    let scale = if *quick { 10 } else { 1 };
    let is_wanted = |this| part.is_none_or(|part| part == this);
    let postgres =
        PostgresServer::start_with("-c shared_buffers=512MB -c max_wal_size=4GB -c checkpoint_timeout=15min");
    if is_wanted(StoreBenchmarkPart::Operations) {
        operations(nuncio, &postgres, 16_000 / scale).await?;
    }
    if is_wanted(StoreBenchmarkPart::Filled) {
        filled::run(nuncio, &postgres, 16_000 / scale, executions / scale, sessions / scale).await?;
    }
    if is_wanted(StoreBenchmarkPart::Ages) {
        let agents = examples.join("script").display().to_string();
        println!("PostgreSQL:\n");
        let store = BenchStore::create(&postgres, "ages");
        conversation_age::run(nuncio, &agents, 1000 / scale, &store).await?;
    }
    Ok(())
}

/// Measures the same operations on both stores in turn, and the rows of executions alone.
async fn operations(nuncio: &Path, postgres: &PostgresServer, count: usize) -> anyhow::Result<()> {
    let sqlite = ServedStore::start(nuncio, BenchStore::Sqlite).await?;
    let database = ServedStore::start(nuncio, BenchStore::create(postgres, "operations")).await?;
    let relays = [
        RelayBenchSetup::prepare(&sqlite.server, &sqlite.data()).await?,
        RelayBenchSetup::prepare(&database.server, &database.data()).await?,
    ];
    let mut measured: [[Vec<ThroughputMeasurement>; 2]; 4] = Default::default();
    let mut alone = Vec::new();
    // The first round warms up caches and connections.
    for round in 0..=REPETITIONS {
        let count = if round == 0 { count / 4 } else { count };
        let mut results = [const { Vec::new() }; 4];
        for (served, relay) in [&sqlite, &database].into_iter().zip(&relays) {
            let server = &served.server;
            results[0].push(aap::small_turns(server, count, SessionDiskLayout::Together).await?);
            results[1].push(skill::executions(server, count).await?);
            results[2].push(skill::measure_sync_executions(server, count).await?);
            results[3].push(relay.send(server, count, SenderKind::Person, None).await?);
        }
        alone.push(rows_alone::rate(postgres, "operations", count)?);
        if round == 0 {
            alone.clear();
            continue;
        }
        for (all, pair) in measured.iter_mut().zip(results) {
            for (store, one) in all.iter_mut().zip(pair) {
                store.push(one);
            }
        }
    }
    println!("| operation | SQLite | CPU each | PostgreSQL | CPU each | CPU ratio |\n|---|---|---|---|---|---|");
    let names = ["turn", "execution: accept, run, read back", "execution in one request", "relay post"];
    for (name, [sqlite, postgres]) in names.iter().zip(&measured) {
        let (sqlite, postgres) = (median(sqlite)?, median(postgres)?);
        println!(
            "| {name} | {:.0}/s | {:.2} µs | {:.0}/s | {:.2} µs | {:.2} |",
            sqlite.rate,
            sqlite.cpu,
            postgres.rate,
            postgres.cpu,
            postgres.cpu / sqlite.cpu
        );
    }
    alone.sort_by(f64::total_cmp);
    let alone = alone[alone.len() / 2];
    println!("\n| durable executions in PostgreSQL | ours | pgbench with the same rows | ratio |\n|---|---|---|---|");
    for (name, [_, postgres]) in names.iter().zip(&measured).skip(1).take(2) {
        let ours = median(postgres)?.rate;
        println!("| {name} | {ours:.0}/s | {alone:.0}/s | {:.2} |", ours / alone);
    }
    println!();
    Ok(())
}

/// The median of the rates and of the CPU times.
fn median(measured: &[ThroughputMeasurement]) -> anyhow::Result<ThroughputMeasurement> {
    let middle = |of: fn(&ThroughputMeasurement) -> f64| {
        let mut values: Vec<f64> = measured.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().context("no measurement")
    };
    Ok(ThroughputMeasurement { rate: middle(|one| one.rate)?, cpu: middle(|one| one.cpu)? })
}

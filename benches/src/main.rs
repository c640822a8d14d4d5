//! Benchmarks: each compares the release binary with a lower bound in the same run, and prints ratios and CPU time per
//! operation.

mod a2h;
mod aap;
mod anp;
mod bare;
mod client;
mod judge;
mod process;
mod report;
mod skill;
mod sql;
mod store;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    what: Benchmark,
}

#[derive(Subcommand)]
enum Benchmark {
    /// AAP: streams, documents, sessions, turns, memory
    Aap {
        /// The program to measure
        #[arg(long)]
        nuncio: PathBuf,
        /// The examples of the workspace
        #[arg(long)]
        examples: PathBuf,
        /// Another server of the protocol to compare with; it prints `{"url": …}` when it listens
        #[arg(long)]
        peer: Option<PathBuf>,
        /// A tenth of the work, to see that the benchmark runs
        #[arg(long)]
        quick: bool,
    },
    /// Skill Sharing: executions, the index, a million finished executions
    Skill {
        /// The program to measure
        #[arg(long)]
        nuncio: PathBuf,
        /// The examples of the workspace
        #[arg(long)]
        examples: PathBuf,
        /// A tenth of the work, to see that the benchmark runs
        #[arg(long)]
        quick: bool,
    },
    /// ANP: signed requests, descriptions, negotiation
    Anp {
        /// The program to measure
        #[arg(long)]
        nuncio: PathBuf,
        /// The examples of the workspace
        #[arg(long)]
        examples: PathBuf,
        /// The program that verifies with the `anp` crate
        #[arg(long)]
        verifier: PathBuf,
        /// A tenth of the work, to see that the benchmark runs
        #[arg(long)]
        quick: bool,
    },
    /// A2H: sealing, the relay, connected people
    A2h {
        /// The program to measure
        #[arg(long)]
        nuncio: PathBuf,
        /// The examples of the workspace
        #[arg(long)]
        examples: Option<PathBuf>,
        /// Run only this part
        #[arg(long)]
        part: Option<a2h::A2hBenchmark>,
        /// A tenth of the work, to see that the benchmark runs
        #[arg(long)]
        quick: bool,
    },
    /// A2H: the change judge
    A2hJudge {
        /// A few rounds, to see that the benchmark runs
        #[arg(long)]
        quick: bool,
    },
    /// Both stores: operations, large stores, old conversations
    Store(store::StoreBenchmark),
    /// Lower bound for executions: the same rows written directly
    Sql {
        /// Number of executions
        count: usize,
    },
    /// Lower bound for relayed messages: the same rows written directly
    Rows {
        /// Number of messages
        count: usize,
        /// Number of recipients per message
        told: usize,
    },
    /// The bare server that others are compared with
    Bare {
        /// A file to serve at /document
        #[arg(long)]
        document: Option<PathBuf>,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Cli::parse().what {
        Benchmark::Aap { nuncio, examples, peer, quick } => aap::run(&nuncio, &examples, peer.as_deref(), quick).await,
        Benchmark::Skill { nuncio, examples: _, quick } => skill::run(&nuncio, quick).await,
        Benchmark::A2hJudge { quick } => judge::run(quick),
        Benchmark::A2h { nuncio, examples: _, part, quick } => a2h::run(&nuncio, part, quick).await,
        Benchmark::Store(options) => store::run(&options).await,
        Benchmark::Rows { count, told } => a2h::rows::run(count, told).await,
        Benchmark::Sql { count } => sql::run(count).await,
        Benchmark::Anp { nuncio, examples: _, verifier, quick } => anp::run(&nuncio, &verifier, quick).await,
        Benchmark::Bare { document } => bare::serve(document).await,
    }
}

//! Benchmarks: the release binary beside a bare limit, in one run, as ratios and CPU an operation.

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

use std::path::PathBuf;

use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
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
    /// Skill Sharing: executions, the index, a million finished ones
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
    /// A2H: sealing, the relay, people who are connected
    A2h {
        /// The program to measure
        #[arg(long)]
        nuncio: PathBuf,
        /// The examples of the workspace
        #[arg(long)]
        examples: Option<PathBuf>,
        /// Run only this part
        #[arg(long)]
        part: Option<a2h::Part>,
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
    /// Executions as rows, written by hand
    Sql {
        /// Number of executions
        count: usize,
    },
    /// Relayed messages as rows, written by hand
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
        What::Aap { nuncio, examples, peer, quick } => aap::run(&nuncio, &examples, peer.as_deref(), quick).await,
        What::Skill { nuncio, examples: _, quick } => skill::run(&nuncio, quick).await,
        What::A2hJudge { quick } => judge::run(quick),
        What::A2h { nuncio, examples: _, part, quick } => a2h::run(&nuncio, part, quick).await,
        What::Rows { count, told } => a2h::rows::run(count, told).await,
        What::Sql { count } => sql::run(count).await,
        What::Anp { nuncio, examples: _, verifier, quick } => anp::run(&nuncio, &verifier, quick).await,
        What::Bare { document } => bare::serve(document).await,
    }
}

//! Runs the rows of a protocol against a server: `nuncio-conformance http://127.0.0.1:7400/aap`, or
//! `nuncio-conformance --protocol skill http://127.0.0.1:7400`.

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use nuncio_conformance::{RequirementOutcome, RequirementSource, ServerUnderTest, aap, skill};

/// Checks a server against a protocol, row by row.
#[derive(Parser)]
struct ConformanceArguments {
    /// The base address, such as http://127.0.0.1:7400/aap; for Skill Sharing http://127.0.0.1:7400.
    base: String,
    /// Protocol whose requirements are checked.
    #[arg(long, value_enum, default_value_t = ConformanceProtocol::Aap)]
    protocol: ConformanceProtocol,
    /// The bearer key to send.
    #[arg(long, env = "AAP_KEY", hide_env_values = true)]
    key: Option<String>,
    /// A key of another owner, for the rows about ownership.
    #[arg(long, env = "AAP_OTHER_KEY", hide_env_values = true)]
    other_key: Option<String>,
    /// A secret to sign requests with, for the rows of Skill Sharing about signatures.
    #[arg(long, env = "SKILL_SECRET", hide_env_values = true)]
    secret: Option<String>,
    /// Leave out what Nuncio chose where the protocol is silent.
    #[arg(long)]
    protocol_only: bool,
    /// Only rows with this text in their id or check.
    #[arg(long)]
    only: Option<String>,
    /// How many checks run at once.
    #[arg(long, default_value_t = 8)]
    parallel: usize,
    /// Also list the rows that were not tried, and why.
    #[arg(long)]
    all: bool,
}

/// The protocols there are rows of.
#[derive(Clone, Copy, ValueEnum)]
enum ConformanceProtocol {
    /// The Agent Application Protocol v3.
    Aap,
    /// Skill Sharing 1.0.
    Skill,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = ConformanceArguments::parse();
    let mut target = ServerUnderTest::new(arguments.base).with_parallel(arguments.parallel);
    if let Some(key) = arguments.key {
        target = target.with_key(key);
    }
    if let Some(key) = arguments.other_key {
        target = target.with_other_key(key);
    }
    if let Some(secret) = arguments.secret {
        target = target.with_secret(secret);
    }
    let mut suite = match arguments.protocol {
        ConformanceProtocol::Aap => aap(),
        ConformanceProtocol::Skill => skill(),
    };
    if arguments.protocol_only {
        suite = suite.without(RequirementSource::Ours);
    }
    if let Some(part) = &arguments.only {
        suite = suite.only(part);
    }

    let report = suite.run(&target).await;
    if arguments.all {
        for row in &report.rows {
            match &row.outcome {
                RequirementOutcome::Passed => println!("passed    {}  {}", row.row.id, row.row.sentence),
                RequirementOutcome::Excluded(why) => println!("excluded  {}  {why}", row.row.id),
                RequirementOutcome::Skipped(why) => println!("skipped   {}  {why}", row.row.id),
                RequirementOutcome::Failed(_) => {}
            }
        }
    }
    print!("{report}");
    if report.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

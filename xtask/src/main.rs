//! `cargo xtask`: the development commands of this workspace.

mod attack;
mod bench;
mod deny;
mod flaky;
mod fuzz;
mod language;
mod links;
mod methods;
mod modules;
mod names;
mod needs;
mod portable;
mod report;
mod schema;
mod simulate;
mod test;
mod tidy;
mod wording;

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Jobs around the code of Nuncio")]
struct Cli {
    #[command(subcommand)]
    job: XtaskCommand,
}

#[derive(Subcommand)]
enum XtaskCommand {
    /// Install what the tests need, then check and test everything
    Test {
        /// Passed on to the test runner, such as a name to filter by
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Check the project rules: dependencies between crates, names, comments
    Tidy,
    /// Check and test the build that other systems than Linux get
    Portable {
        /// A cargo command to run in that build instead, such as `nextest run -p nuncio-device`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Check licences, bans and sources of the dependencies by `deny.toml`
    Deny,
    /// Run the fuzz targets; a finding is stored in `fuzz/artifacts/`
    Fuzz {
        /// How long each target runs
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Only this target
        #[arg(long)]
        target: Option<String>,
    },
    /// Repeat the tests while every core is busy, and list each test that failed
    Flaky {
        /// How often each test runs
        #[arg(long, default_value_t = 20)]
        times: u32,
        /// Passed on to the test runner, such as a name to filter by
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Run several engines on one store under a seeded scheduler, with faults; `--help` lists the options
    #[command(disable_help_flag = true)]
    Simulate {
        /// Passed on to the simulator, such as `--seeds N`, `--seed S` or `--sabotage no-fence`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Write the schemas of Skill Sharing and agent files into `schema/`, and the reference in `docs/agent-file.md`
    Schema {
        /// Write nothing; fail when they are not up to date
        #[arg(long)]
        check: bool,
    },
    /// Attack the release binary, and print what each attack achieved before and achieves now
    Attack {
        /// Only attacks whose names contain one of these
        names: Vec<String>,
    },
    /// Measure the release binary beside a bare limit, in one run
    Bench {
        /// What to measure: aap, skill, anp, a2h, a2h-judge, store
        name: String,
        /// With aap: a program that is another server of the protocol, measured in the same run
        #[arg(long)]
        peer: Option<PathBuf>,
        /// A tenth of everything, to see that it works
        #[arg(long)]
        quick: bool,
        /// Passed on to the benchmark, such as `--part filled --executions N --sessions N` of store
        #[arg(last = true)]
        options: Vec<String>,
    },
}

fn main() -> anyhow::Result<()> {
    let root = root();
    match Cli::parse().job {
        XtaskCommand::Test { rest } => test::run(&root, &rest),
        XtaskCommand::Tidy => tidy::run(&root),
        XtaskCommand::Portable { command } => portable::run(&root, &command),
        XtaskCommand::Deny => deny::run(&root),
        XtaskCommand::Fuzz { seconds, target } => fuzz::run(&root, seconds, target.as_deref()),
        XtaskCommand::Flaky { times, rest } => flaky::run(&root, times, &rest),
        XtaskCommand::Simulate { options } => simulate::run(&root, &options),
        XtaskCommand::Schema { check } => schema::run(&root, check),
        XtaskCommand::Attack { names } => attack::run(&root, &names),
        XtaskCommand::Bench { name, peer, quick, options } => {
            bench::run(&root, &name, peer.as_deref(), quick, &options)
        }
    }
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

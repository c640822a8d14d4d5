//! `cargo xtask simulate`.

use std::process::ExitCode;

use clap::Parser;
use nuncio_simulator::{StoreSabotage, simulate};

/// Run several engines on one store under a seeded scheduler, with faults, and check their promises
#[derive(Parser)]
struct Cli {
    /// How many consecutive seeds to run
    #[arg(long, default_value_t = 2000)]
    seeds: u64,
    /// The first seed; a random one if absent
    #[arg(long)]
    from: Option<u64>,
    /// Run only this seed, and print what happens
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// Break a promise on purpose
    #[arg(long)]
    sabotage: Option<StoreSabotage>,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    if let Some(seed) = cli.seed {
        return Ok(match simulate(seed, cli.sabotage) {
            Ok(kept) => {
                kept.history.iter().for_each(|event| println!("{event}"));
                println!("seed {seed} kept all promises");
                ExitCode::SUCCESS
            }
            Err(broken) => {
                println!("{broken}");
                ExitCode::FAILURE
            }
        });
    }
    let first = cli.from.unwrap_or_else(random_seed);
    println!("seeds {first} to {}", first.wrapping_add(cli.seeds - 1));
    let workers = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let broken = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..workers)
            .map(|worker| {
                scope.spawn(move || {
                    (worker..cli.seeds)
                        .step_by(usize::try_from(workers).expect("it was a usize"))
                        .map(|offset| first.wrapping_add(offset))
                        .find_map(|seed| simulate(seed, cli.sabotage).err())
                })
            })
            .collect();
        runs.into_iter().filter_map(|run| run.join().expect("the simulation does not panic")).next()
    });
    let Some(broken) = broken else {
        println!("{} seeds kept all promises", cli.seeds);
        return Ok(ExitCode::SUCCESS);
    };
    println!("{broken}\nrepeat it with `cargo xtask simulate --seed {}`", broken.seed);
    Ok(ExitCode::FAILURE)
}

fn random_seed() -> u64 {
    std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0)
}

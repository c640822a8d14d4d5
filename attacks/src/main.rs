//! Runs the attacks against a binary and prints a table: attack, result before, result now.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use nuncio_attacks::{AttackedBinary, all};

#[derive(Parser)]
struct Cli {
    /// The binary to attack
    #[arg(long)]
    binary: PathBuf,
    /// Run only attacks whose names contain one of these
    names: Vec<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    // The path is made absolute, because each server starts in another folder.
    let target = AttackedBinary::new(cli.binary.canonicalize().unwrap_or(cli.binary));
    let is_chosen = |name: &str| cli.names.is_empty() || cli.names.iter().any(|part| name.contains(part.as_str()));
    let (mut held, mut broke) = (0, 0);
    println!("| attack | before | now |\n|---|---|---|");
    for attack in all().into_iter().filter(|attack| is_chosen(attack.name)) {
        let now = match (attack.run)(target.clone()).await {
            Ok(result) => {
                held += 1;
                result
            }
            Err(error) => {
                broke += 1;
                format!("**FAILED**: {error:#}").replace('\n', " ")
            }
        };
        println!("| {} | {} | {now} |", attack.name.replace('_', " "), attack.before);
    }
    println!("\n{held} passed, {broke} failed");
    if broke == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

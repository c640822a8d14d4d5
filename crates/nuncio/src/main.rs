//! `nuncio`: the command line.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

mod cli;
mod commands;
mod output;

use std::process::ExitCode;

use clap::Parser as _;

use cli::Cli;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let json = cli.json;
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return output::failed(json, &error.into()),
    };
    match runtime.block_on(commands::run(cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::failed(json, &error),
    }
}

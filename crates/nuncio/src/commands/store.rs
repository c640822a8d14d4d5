//! `nuncio store`: checks the store, shows its size, and moves it to another place.

use std::sync::Arc;

use anstream::println;
use anyhow::Context as _;
use nuncio_core::ErrorCode;
use nuncio_engine::ports::store::{Store as _, StoreCheckResult, StoreStatus};
use nuncio_server::admin::replies::RekeyedStore;
use nuncio_server::admin::{AdminCommand, ServerReplyOrDataDir};
use nuncio_server::store_copy::{CopyReport, StoreAddress};
use nuncio_server::{OperatorError, StoreLocation, SystemClock, store_copy};
use nuncio_store::PostgresStore;
use owo_colors::OwoColorize as _;

use super::operator::{ask_or_lock, run_command};
use crate::cli::{DataDirCommand, DataDirOption, StoreSubcommand};
use crate::commands::chat::clean::clean;
use crate::output::{AlreadyReportedError, counted, fault, table, text};

pub(crate) async fn run(
    DataDirCommand { command, data }: DataDirCommand<StoreSubcommand>,
    json: bool,
) -> anyhow::Result<()> {
    match command {
        StoreSubcommand::Check => run_check(&data, json).await,
        StoreSubcommand::Status => {
            require_store(&data)?;
            run_command(&data, AdminCommand::StoreStatus, json, |status| print_status(&status)).await
        }
        StoreSubcommand::Rekey => {
            require_store(&data)?;
            run_command(&data, AdminCommand::StoreRekey, json, |RekeyedStore { values, file }| {
                println!("{} {}.", "replaced:".green().bold(), clean(&file.display().to_string()));
                println!("{} were encrypted again. Keep a copy of the new key.", counted(values, "value"));
            })
            .await
        }
        StoreSubcommand::Copy { from, to } => {
            let (from, to) = (StoreAddress::parse(&from), StoreAddress::parse(&to));
            let (secret_key, clock) = (data.secret_key()?, Arc::new(SystemClock));
            let report = store_copy::copy(&from, &to, &data.path, &secret_key, clock).await?;
            if json {
                println!("{}", serde_json::to_value(&report)?);
                return Ok(());
            }
            let CopyReport { from, to, data, tables, rows } = report;
            println!("{} {rows} rows in {tables} tables; every digest is equal.", "copied:".green().bold());
            println!("Use {} from now on; {} does not open any more.", clean(&to), clean(&from));
            let data = data.display().to_string();
            if data != to {
                println!("The data directory with its keys is still {}.", clean(&data));
            }
            Ok(())
        }
    }
}

fn print_status(status: &StoreStatus) {
    println!("{} {} (schema {})", status.kind.bold(), clean(&status.place), status.schema);
    let rows = status.tables.iter().map(|table| vec![text(&table.name), text(table.rows), text(table.bytes)]);
    table(&["TABLE", "ROWS", "BYTES"], rows);
    match status.unfinished.first() {
        None => println!("\nNo work is unfinished."),
        Some(oldest) => println!("\nThe oldest unfinished work is a {} since {}.", oldest.kind, oldest.oldest),
    }
    for work in &status.unfinished {
        println!("  {}: {}, the oldest since {}", work.kind, work.count, work.oldest);
    }
}

async fn run_check(data: &DataDirOption, json: bool) -> anyhow::Result<()> {
    let found = check(data).await?;
    if json {
        println!("{}", serde_json::json!({"intact": found.problems.is_empty(), "problems": found.problems}));
    } else if found.problems.is_empty() {
        println!("{} no damage was found.", "intact:".green().bold());
    } else {
        for problem in &found.problems {
            println!("{} {}", "damaged:".red().bold(), clean(problem));
        }
        println!("{}", "more: nuncio explain store_damaged".dimmed());
    }
    if found.problems.is_empty() { Ok(()) } else { Err(AlreadyReportedError.into()) }
}

fn require_store(data: &DataDirOption) -> anyhow::Result<()> {
    if !matches!(data.store()?, StoreLocation::DataDirectory) || data.path.join("nuncio.db").exists() {
        return Ok(());
    }
    let message = format!("there is no database in {}; name a data directory with --data", data.path.display());
    Err(fault(ErrorCode::DataDirUnusable, message))
}

/// Checks the database in the running server, or in this process when no server runs. This process opens the database
/// only for reading, because writing could make damage worse.
async fn check(data: &DataDirOption) -> anyhow::Result<StoreCheckResult> {
    require_store(data)?;
    let data = match ask_or_lock(data, &AdminCommand::StoreCheck).await? {
        ServerReplyOrDataDir::Server(reply) => {
            return serde_json::from_value(reply).context("the server's answer is not a check result");
        }
        ServerReplyOrDataDir::ThisProcess(data) => data,
    };
    if let StoreLocation::Postgres(address) = data.store() {
        let store = PostgresStore::open((**address).clone()).await.map_err(OperatorError::from)?;
        return Ok(store.check().await.map_err(OperatorError::from)?);
    }
    let database = data.database();
    let found = tokio::task::spawn_blocking(move || nuncio_store::full_check(&database)).await?;
    Ok(found.map_err(OperatorError::from)?)
}

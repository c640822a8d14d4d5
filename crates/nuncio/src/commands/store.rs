//! `nuncio store`: checks the stored data for damage.

use anstream::println;
use anyhow::Context as _;
use nuncio_core::Code;
use nuncio_engine::ports::store::{Store as _, StoreCheckResult};
use nuncio_server::admin::{AdminCommand, ServerReplyOrDataDir};
use nuncio_server::{OperatorError, StoreLocation};
use nuncio_store::PostgresStore;
use owo_colors::OwoColorize as _;

use super::operator::ask_or_lock;
use crate::cli::{DataDirCommand, DataDirOption, StoreSubcommand};
use crate::commands::chat::clean::clean;
use crate::output::{AlreadyReported, fault};

pub(crate) async fn run(
    DataDirCommand { command: StoreSubcommand::Check, data }: DataDirCommand<StoreSubcommand>,
    json: bool,
) -> anyhow::Result<()> {
    let found = check(&data).await?;
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
    if found.problems.is_empty() { Ok(()) } else { Err(AlreadyReported.into()) }
}

/// Checks the database in the running server, or in this process when no server runs. This process opens the database
/// only for reading, because writing could make damage worse.
async fn check(data: &DataDirOption) -> anyhow::Result<StoreCheckResult> {
    if matches!(data.store()?, StoreLocation::DataDirectory) && !data.path.join("nuncio.db").exists() {
        let message = format!("there is no database in {}; name a data directory with --data", data.path.display());
        return Err(fault(Code::DataDirUnusable, message));
    }
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

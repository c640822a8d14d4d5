//! `nuncio backup` and `nuncio restore`: one file with everything in the store.

use std::path::Path;
use std::sync::Arc;

use anstream::println;
use nuncio_core::ErrorCode;
use nuncio_server::backup::{BackupReport, RestoreReport};
use nuncio_server::{DataDir, StoreLocation, SystemClock, backup};
use owo_colors::OwoColorize as _;

use crate::cli::DataDirOption;
use crate::commands::consumer::print_note;
use crate::output::{counted, fault};

pub(crate) async fn back_up(file: &Path, data: &DataDirOption, json: bool) -> anyhow::Result<()> {
    require_data_directory(data)?;
    let report = backup::back_up(&data.path, &data.secret_key()?, file, &SystemClock).await?;
    if json {
        println!("{}", serde_json::to_value(&report)?);
        return Ok(());
    }
    let BackupReport { file, rows, bytes, .. } = report;
    println!("{} {}: {}, {bytes} bytes.", "backed up:".green().bold(), file.display(), counted(rows, "row"));
    print_note("the secret key is not in the backup; keep it apart, without it the secrets cannot be read");
    Ok(())
}

/// Refuses a store that these commands cannot copy yet, instead of copying the wrong one.
fn require_data_directory(data: &DataDirOption) -> anyhow::Result<()> {
    if matches!(data.store()?, StoreLocation::DataDirectory) {
        return Ok(());
    }
    let message = "this version of Nuncio backs up and restores the store of a data directory alone; leave out --store and \
                   NUNCIO_STORE, or use pg_dump for a PostgreSQL store";
    Err(fault(ErrorCode::StoreUnavailable, message))
}

pub(crate) async fn restore(file: &Path, data: &DataDirOption, json: bool) -> anyhow::Result<()> {
    require_data_directory(data)?;
    let opened = DataDir::open(&data.path)?.with_secret_key(data.secret_key()?);
    let report = backup::restore(opened, file, Arc::new(SystemClock)).await?;
    if json {
        println!("{}", serde_json::to_value(&report)?);
        return Ok(());
    }
    let RestoreReport { created_at, rows, left_out } = report;
    println!("{} {} as of {created_at}.", "restored:".green().bold(), counted(rows, "row"));
    println!("Left out, because it could be used a second time: {}.", counted(left_out, "row"));
    Ok(())
}

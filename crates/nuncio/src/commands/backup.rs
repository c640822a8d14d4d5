//! `nuncio backup` and `nuncio restore`: one file with everything in the store.

use std::path::Path;
use std::sync::Arc;

use anstream::println;
use nuncio_server::backup::{BackupReport, RestoreReport};
use nuncio_server::{DataDir, SystemClock, backup};
use owo_colors::OwoColorize as _;

use crate::cli::DataDirOption;
use crate::commands::consumer::print_note;
use crate::output::counted;

pub(crate) async fn back_up(file: &Path, data: &DataDirOption, json: bool) -> anyhow::Result<()> {
    let report = backup::back_up(&data.path, &data.store()?, &data.secret_key()?, file, &SystemClock).await?;
    if json {
        println!("{}", serde_json::to_value(&report)?);
        return Ok(());
    }
    let BackupReport { file, rows, bytes, .. } = report;
    println!("{} {}: {}, {bytes} bytes.", "backed up:".green().bold(), file.display(), counted(rows, "row"));
    print_note("the secret key is not in the backup; keep it apart, without it the secrets cannot be read");
    Ok(())
}

pub(crate) async fn restore(file: &Path, data: &DataDirOption, json: bool) -> anyhow::Result<()> {
    backup::require_file(file)?;
    let (secret_key, store) = (data.secret_key()?, data.store()?);
    let opened = DataDir::open(&data.path)?.with_secret_key(secret_key).with_store(store);
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

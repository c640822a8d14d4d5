//! Backups of a store: one file with everything in the store, and with the audit key and the checkpoints beside it. The
//! secret key is not in it.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nuncio_core::ErrorCode;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Clock;
use nuncio_engine::secret_cipher::SecretCipher;
use nuncio_store::SCHEMA_VERSION;
use nuncio_store::dump::backup_file::{BackupFileError, BackupHeader, BackupWriter, FileInBackup};
use nuncio_store::dump::{StoreSnapshot, TableShape, Value, read_stored_keyring};
use serde::Serialize;

use crate::checkpoints::CHECKPOINTS_FILE;
use crate::data::{AUDIT_KEY, DataDir, PrivateFiles, SecretKeySource, StoreLocation, private};
use crate::error::OperatorError;
use crate::keyring;
use crate::system::SystemEntropy;

mod restore;

pub use restore::{RestoreReport, restore};

/// The record name to which the audit key in a backup is sealed.
const AUDIT_KEY_PLACE: &str = "backup/audit.key";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BackupReport {
    pub file: PathBuf,
    pub tables: usize,
    pub rows: u64,
    pub bytes: u64,
}

/// Writes a backup of the store of a data directory, which a server may use meanwhile. The file appears under its name
/// when it is complete.
pub async fn back_up(
    data: &Path,
    location: &StoreLocation,
    secret_key: &SecretKeySource,
    to: &Path,
    clock: &dyn Clock,
) -> Result<BackupReport, OperatorError> {
    if to.exists() {
        return Err(unwritable(to, "it exists already; choose another name"));
    }
    let folder = folder_of(to);
    if !folder.is_dir() {
        return Err(unwritable(to, &format!("the folder {} does not exist", folder.display())));
    }
    let files = DataDir::files_of(data)?;
    let cipher = SecretCipher::new(&secret_key.read_existing(&files)?);
    // Read before the store, because a checkpoint newer than the store would mean that records were cut off.
    let beside = files_beside(&files, &cipher)?;
    let mut store = location.snapshot(data).await?;
    if store.schema_version() < SCHEMA_VERSION {
        let message = "an earlier version of Nuncio wrote the store; start the server once, and then back up";
        return Err(OperatorError::new(ErrorCode::StoreUnavailable, message));
    }
    keyring::open_all(&cipher, read_stored_keyring(&mut *store).await?)?;
    let partial = partial_name(to);
    let written = write(&mut *store, &partial, &beside, clock.now()).await;
    let report = match written.and_then(|report| publish(&partial, to).map(|()| report)) {
        Ok((tables, rows)) => BackupReport { file: to.to_owned(), tables, rows, bytes: size(to) },
        Err(error) => {
            let _ = fs::remove_file(&partial);
            return Err(error);
        }
    };
    Ok(report)
}

/// The files of a data directory that belong to a backup. The audit key is sealed, like the keys in the store.
fn files_beside(files: &PrivateFiles, cipher: &SecretCipher) -> Result<Vec<FileInBackup>, OperatorError> {
    let mut beside = Vec::new();
    if let Some(lines) = files.read(CHECKPOINTS_FILE)? {
        let content = String::from_utf8_lossy(&lines).into_owned();
        beside.push(FileInBackup { name: CHECKPOINTS_FILE.to_owned(), content });
    }
    if let Some(key) = files.read(AUDIT_KEY)? {
        let content = cipher.seal(&SystemEntropy, AUDIT_KEY_PLACE, &STANDARD.encode(key));
        beside.push(FileInBackup { name: AUDIT_KEY.to_owned(), content });
    }
    Ok(beside)
}

async fn write(
    store: &mut dyn StoreSnapshot,
    partial: &Path,
    beside: &[FileInBackup],
    at: Timestamp,
) -> Result<(usize, u64), OperatorError> {
    let failed = |error: BackupFileError| unwritable(partial, &error.to_string());
    let file = private().create(true).truncate(true).open(partial).map_err(|error| failed(error.into()))?;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let header = BackupHeader { version, schema: store.schema_version(), created_at: at };
    let mut out = BackupWriter::begin(BufWriter::new(file), &header).map_err(failed)?;
    let tables = store.tables().to_vec();
    let mut count = 0;
    for table in &tables {
        out.begin_table(table).map_err(failed)?;
        write_rows(store, table, &mut out, partial).await?;
        count += out.end_table().map_err(failed)?.rows;
    }
    beside.iter().try_for_each(|file| out.file(file)).map_err(failed)?;
    let file = out.finish().map_err(failed)?.into_inner().map_err(|error| failed(error.into_error().into()))?;
    file.sync_all().map_err(|error| failed(error.into()))?;
    Ok((tables.len(), count))
}

async fn write_rows(
    store: &mut dyn StoreSnapshot,
    table: &TableShape,
    out: &mut BackupWriter<BufWriter<File>>,
    partial: &Path,
) -> Result<(), OperatorError> {
    let mut after: Option<Vec<Value>> = None;
    loop {
        let rows = store.rows(table, after.as_deref()).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = Some(table.key_of(last));
        for row in &rows {
            out.row(row).map_err(|error| unwritable(partial, &error.to_string()))?;
        }
    }
}

fn publish(partial: &Path, to: &Path) -> Result<(), OperatorError> {
    fs::rename(partial, to)
        .and_then(|()| File::open(folder_of(to))?.sync_all())
        .map_err(|error| unwritable(to, &error.to_string()))
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn partial_name(to: &Path) -> PathBuf {
    let mut name = to.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

fn size(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |found| found.len())
}

fn unwritable(file: &Path, why: &str) -> OperatorError {
    OperatorError::new(ErrorCode::StoreBackupInvalid, format!("the backup {} cannot be written: {why}", file.display()))
}

fn invalid(file: &Path, why: &str) -> OperatorError {
    let message = format!("{} cannot be restored: {why}; nothing was changed", file.display());
    OperatorError::new(ErrorCode::StoreBackupInvalid, message)
}

/// Refuses a backup file that does not exist, before the data directory is opened.
pub fn require_file(file: &Path) -> Result<(), OperatorError> {
    if matches!(file.try_exists(), Ok(false)) {
        return Err(invalid(file, "the file does not exist"));
    }
    Ok(())
}

fn open(file: &Path) -> Result<BufReader<File>, OperatorError> {
    File::open(file).map(BufReader::new).map_err(|error| invalid(file, &error.to_string()))
}

//! Restores a backup into a data directory or a PostgreSQL database without a store.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nuncio_core::ErrorCode;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Clock;
use nuncio_engine::ports::store::info::{REWOUND_AT, SIGNATURES_SINCE};
use nuncio_engine::secret_cipher::SecretCipher;
use nuncio_store::dump::backup_file::{BackupFileError, BackupPart, BackupReader, FileInBackup};
use nuncio_store::dump::{CopyError, RewoundRows, Row, StoreTarget, TableShape, keyring_entry, replace_info};
use nuncio_store::{PostgresAddress, PostgresTarget, SCHEMA_VERSION, SqliteTarget};
use serde::Serialize;

use super::{AUDIT_KEY_PLACE, invalid, open};
use crate::checkpoints::CHECKPOINTS_FILE;
use crate::data::{AUDIT_KEY, DataDir, StoreLocation};
use crate::error::OperatorError;
use crate::keyring;
use crate::serve::open_engine;

/// Name of the database until it is complete.
const UNFINISHED: &str = "nuncio.db.restoring";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RestoreReport {
    /// Time at which the backup was written.
    pub created_at: Timestamp,
    pub rows: u64,
    /// Number of rows that must not come back, such as unused one-time grants.
    pub left_out: u64,
}

/// Restores a backup. What could be used a second time is left out, and the audit record says that the store went back
/// in time. A failure changes nothing.
pub async fn restore(data: DataDir, file: &Path, clock: Arc<dyn Clock>) -> Result<RestoreReport, OperatorError> {
    refuse_existing(&data)?;
    let cipher = SecretCipher::new(&data.existing_secret_key()?);
    let at = clock.now();
    let report = match data.store() {
        StoreLocation::DataDirectory => restore_file(&data, file, &cipher, at).await?,
        StoreLocation::Postgres(address) => restore_database(&data, address, file, &cipher, at).await?,
    };
    // Records the restore. If it is interrupted here, the next start does.
    drop(open_engine(data, clock).await?);
    Ok(report)
}

/// Fills a database file, which gets its name when it is complete.
async fn restore_file(
    data: &DataDir,
    file: &Path,
    cipher: &SecretCipher,
    at: Timestamp,
) -> Result<RestoreReport, OperatorError> {
    let unfinished = data.path().join(UNFINISHED);
    remove_unfinished(&unfinished);
    let restored = fill_file(data, &unfinished, file, cipher, at).await;
    if restored.is_err() {
        remove_unfinished(&unfinished);
    }
    restored
}

async fn fill_file(
    data: &DataDir,
    unfinished: &Path,
    file: &Path,
    cipher: &SecretCipher,
    at: Timestamp,
) -> Result<RestoreReport, OperatorError> {
    let mut backup = open_backup(file)?;
    let mut target = SqliteTarget::create(unfinished, backup.header().schema)?;
    let (report, beside) = fill(&mut backup, &mut target, file, cipher, at).await?;
    target.commit().await?;
    target.check_references().await?;
    target.close()?;
    put_beside(data, file, &beside, cipher)?;
    let failed = |error: std::io::Error| invalid(file, &error.to_string());
    fs::rename(unfinished, data.database()).map_err(failed)?;
    File::open(data.path()).and_then(|folder| folder.sync_all()).map_err(failed)?;
    Ok(report)
}

/// Fills a PostgreSQL database in one transaction.
async fn restore_database(
    data: &DataDir,
    address: &PostgresAddress,
    file: &Path,
    cipher: &SecretCipher,
    at: Timestamp,
) -> Result<RestoreReport, OperatorError> {
    let mut backup = open_backup(file)?;
    let created = PostgresTarget::create(address.clone(), backup.header().schema).await;
    let mut target = created.map_err(|error| match error {
        CopyError::Store(error) => error.into(),
        _ => {
            let message = format!("the database {address} contains a store already: restore into an empty database");
            OperatorError::new(ErrorCode::StoreNotEmpty, message)
        }
    })?;
    let (report, beside) = fill(&mut backup, &mut target, file, cipher, at).await?;
    put_beside(data, file, &beside, cipher)?;
    target.commit().await?;
    Ok(report)
}

/// Only a data directory without a store and without keys of sessions with devices can be restored into: with keys that
/// are newer than the backup, the restored conversations would continue in sessions that the backup does not know.
fn refuse_existing(data: &DataDir) -> Result<(), OperatorError> {
    let is_here = data.store().is_in_data_directory();
    for name in is_here.then_some(DataDir::DATABASE).into_iter().chain(["seals"]) {
        let path = data.path().join(name);
        let is_empty_folder = fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_none());
        if path.exists() && !is_empty_folder {
            let message = format!(
                "{} exists already: restore into an empty data directory that contains only secret.key, or move the \
                 earlier store away",
                path.display()
            );
            return Err(OperatorError::new(ErrorCode::StoreNotEmpty, message));
        }
    }
    Ok(())
}

fn remove_unfinished(database: &Path) {
    for ending in ["", "-wal", "-shm"] {
        let mut name = database.as_os_str().to_owned();
        name.push(ending);
        let _ = fs::remove_file(PathBuf::from(name));
    }
}

fn open_backup(file: &Path) -> Result<BackupReader<BufReader<File>>, OperatorError> {
    let wrong = |error: BackupFileError| invalid(file, &error.to_string());
    let backup = BackupReader::open(open(file)?).map_err(wrong)?;
    if backup.header().schema > SCHEMA_VERSION {
        return Err(wrong(BackupFileError::Newer));
    }
    Ok(backup)
}

/// Fills a new store from a backup, which is checked on the way. Nothing is committed.
async fn fill(
    backup: &mut BackupReader<BufReader<File>>,
    target: &mut dyn StoreTarget,
    file: &Path,
    cipher: &SecretCipher,
    at: Timestamp,
) -> Result<(RestoreReport, Vec<FileInBackup>), OperatorError> {
    let mut report = RestoreReport { created_at: backup.header().created_at, rows: 0, left_out: 0 };
    let beside = copy_parts(backup, target, cipher, at, &mut report).await.map_err(|error| match error {
        PartError::Backup(error) => invalid(file, &error.to_string()),
        PartError::Operator(error) => error,
    })?;
    Ok((report, beside))
}

enum PartError {
    Backup(BackupFileError),
    Operator(OperatorError),
}

impl From<BackupFileError> for PartError {
    fn from(error: BackupFileError) -> Self {
        Self::Backup(error)
    }
}

impl<E: Into<OperatorError>> From<E> for PartError {
    fn from(error: E) -> Self {
        Self::Operator(error.into())
    }
}

async fn copy_parts(
    backup: &mut BackupReader<BufReader<File>>,
    target: &mut dyn StoreTarget,
    cipher: &SecretCipher,
    at: Timestamp,
    report: &mut RestoreReport,
) -> Result<Vec<FileInBackup>, PartError> {
    let rules = RewoundRows { at };
    let mut waiting = target.tables().to_vec();
    let tables = waiting.clone();
    let (mut table, mut beside, mut keys) = (None::<TableShape>, Vec::new(), Vec::new());
    loop {
        match backup.next_part()? {
            BackupPart::Table(shape) => {
                let place = waiting.iter().position(|own| *own == shape);
                let place = place.ok_or(BackupFileError::Damaged("it has a table that its version does not have"))?;
                table = Some(waiting.remove(place));
            }
            BackupPart::Rows(rows) => {
                let table = table.as_ref().ok_or(BackupFileError::Damaged("rows have no table"))?;
                let count = rows.len();
                if table.name == "keyring" {
                    keys.extend(rows.iter().filter_map(|row| keyring_entry(table, row)));
                }
                let rows: Vec<Row> = rows.into_iter().filter_map(|row| rules.adapt(table, row)).collect();
                report.rows += rows.len() as u64;
                report.left_out += (count - rows.len()) as u64;
                target.insert(table, rows).await?;
            }
            BackupPart::TableEnd => table = None,
            BackupPart::File(file) => beside.push(file),
            BackupPart::End if waiting.is_empty() => break,
            BackupPart::End => return Err(BackupFileError::Damaged("a table is missing").into()),
        }
    }
    keyring::open_all(cipher, keys)?;
    let entries = [REWOUND_AT, SIGNATURES_SINCE].map(|name| (name.to_owned(), at.as_millis().to_string()));
    replace_info(target, &tables, &entries.into()).await?;
    Ok(beside)
}

/// Writes the audit key and the checkpoints, unless the data directory has others.
fn put_beside(
    data: &DataDir,
    file: &Path,
    beside: &[FileInBackup],
    cipher: &SecretCipher,
) -> Result<(), OperatorError> {
    let files = data.private_files();
    let mut contents = Vec::new();
    for FileInBackup { name, content } in beside {
        let content = match name.as_str() {
            CHECKPOINTS_FILE => content.clone().into_bytes(),
            AUDIT_KEY => {
                let key = cipher.open(AUDIT_KEY_PLACE, content).and_then(|key| STANDARD.decode(key).ok());
                key.ok_or_else(|| invalid(file, "the audit key in it cannot be decrypted"))?
            }
            _ => return Err(invalid(file, "it contains a file of an unknown name")),
        };
        if files.read(name)?.is_some_and(|own| own != content) {
            let message = format!(
                "{} contains another {name} than the backup: restore into an empty data directory that contains only \
                 secret.key",
                data.path().display()
            );
            return Err(OperatorError::new(ErrorCode::StoreNotEmpty, message));
        }
        contents.push((name, content));
    }
    contents.into_iter().try_for_each(|(name, content)| files.write(name, &content))
}

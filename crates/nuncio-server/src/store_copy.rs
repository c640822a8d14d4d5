//! Moves a store to another place: `nuncio store copy FROM TO`.
//!
//! The source is marked before the copy becomes usable, so that at no time two stores continue from the same state. An
//! interrupted copy is finished by the same command.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nuncio_core::ErrorCode;
use nuncio_engine::ports::Clock;
use nuncio_engine::ports::store::info::MOVED_TO;
use nuncio_store::dump::{
    CopyError, StoreSnapshot as _, StoreTarget as _, copy_store, finish_copy, read_info, replace_info,
};
use nuncio_store::{SqliteKeyStore, SqliteSnapshot, SqliteTarget};
use serde::Serialize;

use crate::checkpoints::CHECKPOINTS_FILE;
use crate::data::{AUDIT_KEY, DataDir, SECRET_KEY, SecretKeySource};
use crate::error::OperatorError;
use crate::serve::open_engine;

/// Folder of the keys that agents have in sessions with people's devices.
const SEALS: &str = "seals";

/// A store as `nuncio store copy` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreAddress {
    DataDir(PathBuf),
    Postgres(String),
}

impl StoreAddress {
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let is_url = ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme));
        if is_url { Self::Postgres(text.to_owned()) } else { Self::DataDir(PathBuf::from(text)) }
    }

    fn data_dir(&self) -> Result<&Path, OperatorError> {
        match self {
            Self::DataDir(path) => Ok(path),
            Self::Postgres(_) => Err(OperatorError::new(
                ErrorCode::StoreUnavailable,
                "this version of Nuncio cannot copy PostgreSQL stores; name two data directories",
            )),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CopyReport {
    pub from: String,
    pub to: String,
    pub tables: usize,
    pub rows: u64,
}

/// Copies a store into an empty one, which is used from then on. Each table is compared by number of rows and digest.
pub async fn copy(
    from: &StoreAddress,
    to: &StoreAddress,
    secret_key: &SecretKeySource,
    clock: Arc<dyn Clock>,
) -> Result<CopyReport, OperatorError> {
    let (from, to) = (from.data_dir()?, to.data_dir()?);
    if !from.join(DataDir::DATABASE).exists() {
        let message = format!("there is no store in {}; name a data directory", from.display());
        return Err(OperatorError::new(ErrorCode::DataDirUnusable, message));
    }
    let source = open_source(from, secret_key, clock).await?;
    if to.canonicalize().is_ok_and(|to| to == source.path()) {
        return Err(OperatorError::new(ErrorCode::BadRequest, "source and target are the same data directory"));
    }
    let target = DataDir::open(to)?.with_secret_key(secret_key.clone());
    let (origin, place) = (source.path().display().to_string(), target.path().display().to_string());
    let mut snapshot = SqliteSnapshot::open(&source.database())?;
    let tables = snapshot.tables().to_vec();
    let mut marks = read_info(&mut snapshot, &tables).await?;
    if let Some(moved) = marks.get(MOVED_TO).filter(|moved| **moved != place) {
        let message = format!("this store was copied to {moved} and is used there; copy that one");
        return Err(OperatorError::new(ErrorCode::StoreMoved, message));
    }
    check_target(&source, &target)?;
    let mut copy = SqliteTarget::open(&target.database())?;
    let copied = copy_store(&mut snapshot, &mut copy, &origin).await.map_err(|error| copy_failed(error, &target))?;
    copy.check_references().await?;
    copy_files(&source, &target)?;
    // From here on, only the copy can be used, and only once it is finished.
    marks.insert(MOVED_TO.to_owned(), place.clone());
    let mut source_info = SqliteTarget::open(&source.database())?;
    replace_info(&mut source_info, &tables, &marks).await?;
    source_info.commit().await?;
    finish_copy(&mut snapshot, &mut copy, &origin).await?;
    let rows = copied.iter().map(|table| table.rows).sum();
    Ok(CopyReport { from: origin, to: place, tables: copied.len(), rows })
}

/// Locks the source. Its schema becomes that of this version, and key files of earlier versions move into it.
async fn open_source(
    path: &Path,
    secret_key: &SecretKeySource,
    clock: Arc<dyn Clock>,
) -> Result<DataDir, OperatorError> {
    let open = || Ok::<_, OperatorError>(DataDir::open(path)?.with_secret_key(secret_key.clone()));
    match open_engine(open()?, clock).await {
        // A moved source is copied again if the copy was interrupted after the mark.
        Err(error) if error.code != ErrorCode::StoreMoved => return Err(error),
        _ => {}
    }
    open()
}

fn copy_failed(error: CopyError, target: &DataDir) -> OperatorError {
    let message = format!("the store cannot be copied to {}: {error}", target.path().display());
    match error {
        CopyError::Store(error) => error.into(),
        CopyError::NotEmpty => OperatorError::new(ErrorCode::StoreNotEmpty, message),
        CopyError::OtherSchema { .. } | CopyError::Differs(_) => {
            OperatorError::new(ErrorCode::StoreUnavailable, message)
        }
    }
}

/// A target without a database must not have files of another store. With one, the copy was begun before, or the
/// database says what is in it.
fn check_target(source: &DataDir, target: &DataDir) -> Result<(), OperatorError> {
    let key = source.existing_secret_key()?;
    let files = target.private_files();
    if files.read(SECRET_KEY)?.is_some_and(|own| own != key) {
        let message = format!("{} contains the secret.key of another store", target.path().display());
        return Err(OperatorError::new(ErrorCode::SecretKeyWrong, message));
    }
    if target.database().exists() {
        return Ok(());
    }
    for name in [AUDIT_KEY, CHECKPOINTS_FILE, SEALS] {
        if target.path().join(name).exists() {
            let message = format!("{} contains {name} of another store; name an empty folder", target.path().display());
            return Err(OperatorError::new(ErrorCode::StoreNotEmpty, message));
        }
    }
    Ok(())
}

/// Copies the files beside the database: keys, checkpoints, and the sessions of agents with devices. The source is not
/// used any more when the copy is, so no ratchet key is used twice.
fn copy_files(source: &DataDir, target: &DataDir) -> Result<(), OperatorError> {
    let (from, to) = (source.private_files(), target.private_files());
    for name in [SECRET_KEY, AUDIT_KEY, CHECKPOINTS_FILE] {
        if let Some(content) = from.read(name)? {
            to.write(name, &content)?;
        }
    }
    for name in from.stems(SEALS, ".db")? {
        let name = format!("{SEALS}/{name}.db");
        // Opening moves what is in the write-ahead file into the database.
        let path = source.path().join(&name);
        drop(SqliteKeyStore::open(&path).map_err(|why| from.broken(&name, &why.to_string()))?);
        let content = fs::read(&path).map_err(|why| from.broken(&name, &why.to_string()))?;
        to.write(&name, &content)?;
    }
    File::open(target.path()).and_then(|folder| folder.sync_all()).map_err(|why| to.broken("", &why.to_string()))
}

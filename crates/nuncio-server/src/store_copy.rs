//! Moves a store to another place: `nuncio store copy FROM TO`.
//!
//! The source is marked before the copy becomes usable, so that at no time two stores continue from the same state. An
//! interrupted copy is finished by the same command.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_engine::Engine;
use nuncio_engine::ports::Clock;
use nuncio_engine::ports::store::info::MOVED_TO;
use nuncio_store::dump::{CopyError, copy_store, finish_copy, read_info, replace_info};
use nuncio_store::{PostgresAddress, SqliteKeyStore};
use serde::Serialize;

use crate::checkpoints::CHECKPOINTS_FILE;
use crate::data::{AUDIT_KEY, DataDir, SECRET_KEY, SecretKeySource, StoreLocation};
use crate::error::OperatorError;
use crate::node;
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
        if PostgresAddress::is_url(text) { Self::Postgres(text.to_owned()) } else { Self::DataDir(PathBuf::from(text)) }
    }

    fn location(&self) -> Result<StoreLocation, OperatorError> {
        match self {
            Self::DataDir(_) => Ok(StoreLocation::DataDirectory),
            Self::Postgres(url) => StoreLocation::parse(Some(url)),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CopyReport {
    pub from: String,
    pub to: String,
    /// The data directory that is used with the copy.
    pub data: PathBuf,
    pub tables: usize,
    pub rows: u64,
}

/// Copies a store into an empty one, which is used from then on. Each table is compared by number of rows and digest.
/// `data` is the data directory that is used with a source in PostgreSQL. A target in PostgreSQL is used with the data
/// directory of the source.
pub async fn copy(
    from: &StoreAddress,
    to: &StoreAddress,
    data: &Path,
    secret_key: &SecretKeySource,
    clock: Arc<dyn Clock>,
) -> Result<CopyReport, OperatorError> {
    let source = SourceStore::open(from, data, secret_key, clock).await?;
    let copied = move_store(&source, to, secret_key).await;
    source.close().await;
    copied
}

/// The store that is moved. Its data directory is locked, and a store that others could open has this process as its
/// node.
struct SourceStore {
    data: DataDir,
    node: Option<Engine>,
}

impl SourceStore {
    /// Locks a store. Its schema becomes that of this version, and key files of earlier versions move into it.
    async fn open(
        from: &StoreAddress,
        data: &Path,
        secret_key: &SecretKeySource,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, OperatorError> {
        let location = from.location()?;
        let path = match from {
            StoreAddress::DataDir(path) if !path.join(DataDir::DATABASE).exists() => {
                let message = format!("there is no store in {}; name a data directory", path.display());
                return Err(OperatorError::new(ErrorCode::DataDirUnusable, message));
            }
            StoreAddress::DataDir(path) => path,
            StoreAddress::Postgres(_) => data,
        };
        // Names what is missing, before an empty database gets tables.
        drop(location.snapshot(path).await?);
        let open = || -> Result<DataDir, OperatorError> {
            Ok(DataDir::open(path)?.with_secret_key(secret_key.clone()).with_store(location.clone()))
        };
        let opened = match open_engine(open()?, clock).await {
            Ok(api) => Some(api.engine),
            // A moved source is copied again if the copy was interrupted after the mark.
            Err(error) if error.code == ErrorCode::StoreMoved => None,
            Err(error) => return Err(error),
        };
        let data = open()?;
        let node = opened.filter(|_| !location.is_in_data_directory());
        if let Some(engine) = &node {
            node::join(engine, &data).await?;
        }
        Ok(Self { data, node })
    }

    fn place(&self) -> String {
        self.data.store().place(self.data.path())
    }

    /// Ends the node, so that the next one need not wait for its lease.
    async fn close(self) {
        if let Some(engine) = &self.node {
            engine.shut_down(Duration::ZERO).await;
            node::leave(engine, &self.data).await;
        }
    }
}

/// Where a store is moved to.
struct TargetStore<'source> {
    location: StoreLocation,
    data: &'source DataDir,
}

impl TargetStore<'_> {
    fn place(&self) -> String {
        self.location.place(self.data.path())
    }
}

async fn move_store(
    source: &SourceStore,
    to: &StoreAddress,
    secret_key: &SecretKeySource,
) -> Result<CopyReport, OperatorError> {
    let other = match to {
        StoreAddress::DataDir(path) if !is_same(path, source.data.path()) => {
            Some(DataDir::open(path)?.with_secret_key(secret_key.clone()))
        }
        _ => None,
    };
    let target = TargetStore { location: to.location()?, data: other.as_ref().unwrap_or(&source.data) };
    let (origin, place) = (source.place(), target.place());
    if origin == place {
        return Err(OperatorError::new(ErrorCode::BadRequest, "source and target are the same store"));
    }
    let mut snapshot = source.data.store().snapshot(source.data.path()).await?;
    let tables = snapshot.tables().to_vec();
    let mut marks = read_info(&mut *snapshot, &tables).await?;
    if let Some(moved) = marks.get(MOVED_TO).filter(|moved| **moved != place) {
        let message = format!("this store was copied to {moved} and is used there; copy that one");
        return Err(OperatorError::new(ErrorCode::StoreMoved, message));
    }
    if let Some(other) = &other {
        check_target(&source.data, other)?;
    }
    let mut copy = target.location.target(target.data.path()).await?;
    let copied = copy_store(&mut *snapshot, &mut *copy, &origin).await.map_err(|error| copy_failed(error, &place))?;
    copy.check_references().await?;
    if let Some(other) = &other {
        copy_files(&source.data, other)?;
    }
    // From here on, only the copy can be used, and only once it is finished.
    marks.insert(MOVED_TO.to_owned(), place.clone());
    let mut source_info = source.data.store().target(source.data.path()).await?;
    replace_info(&mut *source_info, &tables, &marks).await?;
    source_info.commit().await?;
    finish_copy(&mut *snapshot, &mut *copy, &origin).await?;
    let rows = copied.iter().map(|table| table.rows).sum();
    Ok(CopyReport { from: origin, to: place, data: target.data.path().to_owned(), tables: copied.len(), rows })
}

fn is_same(path: &Path, existing: &Path) -> bool {
    path.canonicalize().is_ok_and(|path| path == existing)
}

fn copy_failed(error: CopyError, place: &str) -> OperatorError {
    let message = format!("the store cannot be copied to {place}: {error}");
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

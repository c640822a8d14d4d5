//! The store in a PostgreSQL database.
//!
//! Commits go through writer lanes, each a connection whose transactions contain many commits (`lanes`). Changes are
//! translated to statements that are sent in one go (`writes`). Readers have their own connections (`readers`). Each
//! subject has its changes and reads in its own file, named as in the SQLite store.

mod access;
mod accounts;
mod address;
mod approvals;
mod audit;
mod bundles;
mod calls;
mod changes;
mod check;
mod connection;
mod direct_messages;
mod directory;
mod drafts;
mod dump;
mod executions;
mod forget;
mod info;
mod jobs;
mod keyring;
mod lanes;
mod mail;
mod migrations;
mod nodes;
mod people;
mod problem;
mod readers;
mod relations;
mod relayed;
mod rows;
mod sealed;
mod sessions;
mod status;
mod tasks;
mod tls;
mod webhooks;
mod writes;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use nuncio_core::ids::Incarnation;
use nuncio_core::principal::Principal;
use nuncio_engine::ports::Meter;
use nuncio_engine::ports::meter::NoopMeter;
use nuncio_engine::ports::store::{Change, Store, StoreCheckResult, StoreError, StoreStatus};
use tokio::sync::Mutex;

pub use address::PostgresAddress;
use connection::{Connector, Session};
pub use dump::{PostgresSnapshot, PostgresTarget};
use lanes::WriterLanes;
use readers::ReaderPool;
use writes::params;

/// A store in a PostgreSQL database. Dropping it waits for queued commits, so drop it where blocking is allowed.
pub struct PostgresStore {
    connector: Connector,
    /// The connection that claims jobs.
    claims: Mutex<Option<Session>>,
    readers: ReaderPool,
    lanes: WriterLanes,
}

impl PostgresStore {
    /// Opens the store, and creates its tables in an empty database.
    ///
    /// # Errors
    /// The database cannot be used, is configured so that it would lose commits, or was written by a newer version.
    pub async fn open(address: PostgresAddress) -> Result<Self, StoreError> {
        Self::open_counted(address, Arc::new(NoopMeter)).await
    }

    /// Like [`PostgresStore::open`], with a meter for commits.
    pub async fn open_counted(address: PostgresAddress, meter: Arc<dyn Meter>) -> Result<Self, StoreError> {
        let connector = Connector::new(address)?;
        connection::check_server(&connector).await?;
        let session = connector.connect_for_maintenance().await?;
        migrations::run(&session).await?;
        session.execute("DELETE FROM commits WHERE used_at < now() - INTERVAL '7 days'", []).await?;
        let found = session.rows("SELECT gen_random_uuid()::TEXT", []).await?;
        let process: String = found.first().map_or(Ok(String::new()), |row| rows::get(row, 0))?;
        let lanes = WriterLanes::start(connector.clone(), process, meter)?;
        Ok(Self { readers: ReaderPool::new(connector.clone()), connector, lanes, claims: Mutex::default() })
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn commit(&self, changes: Vec<Change>) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        self.lanes.commit(changes).await
    }

    fn fence(&self, incarnation: &Incarnation) {
        self.lanes.fence(incarnation);
    }

    async fn bytes_stored(&self, owner: &Principal) -> Result<u64, StoreError> {
        let sql = "SELECT GREATEST(sum(bytes), 0)::BIGINT FROM stored_bytes WHERE owner = $1";
        let bytes = self.readers.first(sql, params![owner.to_string()], |row| rows::optional(row, 0, rows::number));
        Ok(bytes.await?.flatten().unwrap_or_default())
    }

    async fn check_writable(&self) -> Result<(), StoreError> {
        self.lanes.check().await
    }

    async fn check(&self) -> Result<StoreCheckResult, StoreError> {
        check::full(&self.connector).await
    }

    async fn status(&self) -> Result<StoreStatus, StoreError> {
        status::read(self).await
    }

    async fn compact(&self) -> Result<(), StoreError> {
        let session = self.connector.connect_for_maintenance().await?;
        // `VACUUM (FULL)` would lock every table for as long as it takes to write it anew.
        session.client.batch_execute("VACUUM").await.map_err(|error| problem::SqlError::from(error).into())
    }

    fn queued(&self) -> usize {
        self.lanes.queued()
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("address", &self.connector.address().to_string()).finish_non_exhaustive()
    }
}

//! Read connections.
//!
//! Reads share connections and are sent without waiting for each other. A read of caller-dependent length has other
//! connections, so that short reads do not wait for it. Nothing is read from a standby, which may show older states.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nuncio_engine::ports::store::StoreError;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_postgres::Row;

use super::connection::{Connector, OUTAGE_LIMIT, Session, is_outage};
use super::problem::SqlError;
use super::writes::SqlValue;

/// Number of connections for short reads, and for reads of any length.
const READ_CONNECTIONS: usize = 4;

pub(super) struct ReaderPool {
    connector: Connector,
    points: Vec<ReadConnection>,
    lists: Vec<ReadConnection>,
}

#[derive(Default)]
struct ReadConnection {
    session: Mutex<Option<Arc<Session>>>,
    /// Number of reads that wait for a result.
    in_flight: AtomicUsize,
}

impl ReaderPool {
    pub(super) fn new(connector: Connector) -> Self {
        let connections = || (0..READ_CONNECTIONS).map(|_| ReadConnection::default()).collect();
        Self { connector, points: connections(), lists: connections() }
    }

    /// Reads the first row of a query that returns few rows.
    pub(super) async fn first<T>(
        &self,
        sql: &str,
        params: Vec<SqlValue>,
        read: impl FnOnce(&Row) -> Result<T, SqlError>,
    ) -> Result<Option<T>, StoreError> {
        let rows = self.rows(&self.points, sql, &params).await?;
        Ok(rows.first().map(read).transpose()?)
    }

    /// Returns whether a query has a row.
    pub(super) async fn exists(&self, sql: &str, params: Vec<SqlValue>) -> Result<bool, StoreError> {
        Ok(!self.rows(&self.points, sql, &params).await?.is_empty())
    }

    /// Reads all rows of a query.
    pub(super) async fn all<T>(
        &self,
        sql: &str,
        params: Vec<SqlValue>,
        read: impl FnMut(&Row) -> Result<T, SqlError>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = self.rows(&self.lists, sql, &params).await?;
        Ok(rows.iter().map(read).collect::<Result<_, _>>()?)
    }

    /// Reads all rows of a query that returns few rows.
    pub(super) async fn few<T>(
        &self,
        sql: &str,
        params: Vec<SqlValue>,
        read: impl FnMut(&Row) -> Result<T, SqlError>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = self.rows(&self.points, sql, &params).await?;
        Ok(rows.iter().map(read).collect::<Result<_, _>>()?)
    }

    /// Runs a query on the connection with the fewest reads, and again while the server is away for a short time.
    async fn rows(
        &self,
        connections: &[ReadConnection],
        sql: &str,
        params: &[SqlValue],
    ) -> Result<Vec<Row>, StoreError> {
        let deadline = Instant::now() + OUTAGE_LIMIT;
        loop {
            let least = connections.iter().min_by_key(|connection| connection.in_flight.load(Ordering::Relaxed));
            let Some(connection) = least else { return Err(StoreError::Unavailable("no read connection".to_owned())) };
            let problem = match connection.rows(&self.connector, deadline, sql, params).await {
                Ok(rows) => return Ok(rows),
                Err(problem) => problem,
            };
            if !is_outage(&problem) || Instant::now() >= deadline {
                return Err(problem.into());
            }
        }
    }
}

impl ReadConnection {
    async fn rows(
        &self,
        connector: &Connector,
        deadline: Instant,
        sql: &str,
        params: &[SqlValue],
    ) -> Result<Vec<Row>, SqlError> {
        let _counted = CountedRead::begin(&self.in_flight);
        self.session(connector, deadline).await?.rows(sql, params).await
    }

    async fn session(&self, connector: &Connector, deadline: Instant) -> Result<Arc<Session>, SqlError> {
        let mut current = self.session.lock().await;
        if let Some(session) = current.as_ref().filter(|session| !session.is_closed()) {
            return Ok(Arc::clone(session));
        }
        let session = Arc::new(connector.connect_within(deadline.saturating_duration_since(Instant::now())).await?);
        *current = Some(Arc::clone(&session));
        Ok(session)
    }
}

/// Counts a read for as long as it lives.
struct CountedRead<'connection>(&'connection AtomicUsize);

impl<'connection> CountedRead<'connection> {
    fn begin(in_flight: &'connection AtomicUsize) -> Self {
        in_flight.fetch_add(1, Ordering::Relaxed);
        Self(in_flight)
    }
}

impl Drop for CountedRead<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

//! Read connections.
//!
//! A point read takes microseconds once its pages are cached, less than a thread switch, so it runs on the calling
//! thread with its own connections. A read of caller-dependent length runs on a blocking thread with other connections,
//! so that neither kind waits for the other.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use nuncio_engine::ports::store::StoreError;
use rusqlite::{Connection, Params, Row};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::SqlError;
use super::{connection, rows};

/// Number of read connections of each kind.
const READ_CONNECTIONS: usize = 4;

pub(super) struct ReaderPool {
    points: [Mutex<Connection>; READ_CONNECTIONS],
    next: AtomicUsize,
    idle: Arc<Mutex<Vec<Connection>>>,
    free: Arc<Semaphore>,
}

impl ReaderPool {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let mut points = Vec::with_capacity(READ_CONNECTIONS);
        let mut idle = Vec::with_capacity(READ_CONNECTIONS);
        for _ in 0..READ_CONNECTIONS {
            points.push(Mutex::new(connection::reading(path)?));
            idle.push(connection::reading(path)?);
        }
        Ok(Self {
            points: points.try_into().expect("as many were pushed as the array is long"),
            next: AtomicUsize::new(0),
            idle: Arc::new(Mutex::new(idle)),
            free: Arc::new(Semaphore::new(READ_CONNECTIONS)),
        })
    }

    /// Runs a short read on the calling thread.
    pub(super) fn point<T>(&self, read: impl FnOnce(&Connection) -> Result<T, SqlError>) -> Result<T, StoreError> {
        Ok(read(&self.any_point())?)
    }

    /// Runs a read of any length on a blocking thread.
    pub(super) async fn list<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, SqlError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = Arc::clone(&self.free).acquire_owned().await.expect("the semaphore is never closed");
        let lease = ReaderLease::take(Arc::clone(&self.idle), permit);
        tokio::task::spawn_blocking(move || lease.with(read))
            .await
            .map_err(|error| StoreError::Unavailable(format!("a read was stopped: {error}")))?
    }

    /// Reads the first row of a query on the calling thread.
    pub(super) fn first<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T, SqlError>,
    ) -> Result<Option<T>, StoreError> {
        self.point(|connection| rows::first(connection, sql, params, read))
    }

    /// Returns on the calling thread whether a query has a row.
    pub(super) fn exists(&self, sql: &str, params: impl Params) -> Result<bool, StoreError> {
        self.point(|connection| rows::exists(connection, sql, params))
    }

    /// Reads all rows of a query on a blocking thread.
    pub(super) async fn all<T: Send + 'static>(
        &self,
        sql: impl AsRef<str> + Send + 'static,
        params: impl Params + Send + 'static,
        read: fn(&Row<'_>) -> Result<T, SqlError>,
    ) -> Result<Vec<T>, StoreError> {
        self.list(move |connection| rows::all(connection, sql.as_ref(), params, read)).await
    }

    /// A free connection, or else the next one in turn.
    fn any_point(&self) -> MutexGuard<'_, Connection> {
        let start = self.next.fetch_add(1, Ordering::Relaxed);
        for offset in 0..READ_CONNECTIONS {
            match self.points[start.wrapping_add(offset) % READ_CONNECTIONS].try_lock() {
                Ok(connection) => return connection,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        lock(&self.points[start % READ_CONNECTIONS])
    }
}

/// A borrowed connection that returns to the pool even if the read panics. It holds the permit, so that a caller that
/// stops waiting does not free a connection in use.
struct ReaderLease {
    connection: Option<Connection>,
    idle: Arc<Mutex<Vec<Connection>>>,
    _permit: OwnedSemaphorePermit,
}

impl ReaderLease {
    fn take(idle: Arc<Mutex<Vec<Connection>>>, permit: OwnedSemaphorePermit) -> Self {
        let connection = lock(&idle).pop();
        Self { connection, idle, _permit: permit }
    }

    fn with<T>(&self, read: impl FnOnce(&Connection) -> Result<T, SqlError>) -> Result<T, StoreError> {
        let connection = self.connection.as_ref().expect("there are as many permits as connections");
        Ok(read(connection)?)
    }
}

impl Drop for ReaderLease {
    /// Returns the connection before the permit is released.
    fn drop(&mut self) {
        lock(&self.idle).extend(self.connection.take());
    }
}

/// Locks a connection. A panicking read resets its statements, so a poisoned connection stays usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

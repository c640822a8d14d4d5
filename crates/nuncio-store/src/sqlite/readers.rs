//! The connections that read.
//!
//! A point read takes a few microseconds once its pages are cached, less than handing it to
//! another thread and being woken again: it is done where it is asked, on connections that nobody
//! uses for anything longer. A read whose length a conversation or a caller decides goes to a
//! thread that may block, on connections of its own, so that neither kind waits for the other.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use nuncio_engine::ports::store::StoreError;
use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connection;
use super::problem::Problem;

/// How many connections there are of each kind.
const CONNECTIONS: usize = 4;

/// Both kinds.
pub(super) struct Readers {
    points: [Mutex<Connection>; CONNECTIONS],
    next: AtomicUsize,
    idle: Arc<Mutex<Vec<Connection>>>,
    free: Arc<Semaphore>,
}

impl Readers {
    /// Opens them all.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let mut points = Vec::with_capacity(CONNECTIONS);
        let mut idle = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            points.push(Mutex::new(connection::reading(path)?));
            idle.push(connection::reading(path)?);
        }
        Ok(Self {
            points: points.try_into().expect("as many were pushed as the array is long"),
            next: AtomicUsize::new(0),
            idle: Arc::new(Mutex::new(idle)),
            free: Arc::new(Semaphore::new(CONNECTIONS)),
        })
    }

    /// Reads one row by its key, here and now.
    pub(super) fn point<T>(&self, read: impl FnOnce(&Connection) -> Result<T, Problem>) -> Result<T, StoreError> {
        Ok(read(&self.any_point())?)
    }

    /// Reads what may be long, elsewhere.
    pub(super) async fn list<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = Arc::clone(&self.free).acquire_owned().await.expect("the semaphore is never closed");
        let lease = Lease::take(Arc::clone(&self.idle), permit);
        tokio::task::spawn_blocking(move || lease.with(read))
            .await
            .map_err(|error| StoreError::Unavailable(format!("a read was given up: {error}")))?
    }

    /// One that is free, or else the next in turn, which will be in a moment.
    fn any_point(&self) -> MutexGuard<'_, Connection> {
        let start = self.next.fetch_add(1, Ordering::Relaxed);
        for offset in 0..CONNECTIONS {
            match self.points[start.wrapping_add(offset) % CONNECTIONS].try_lock() {
                Ok(connection) => return connection,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        lock(&self.points[start % CONNECTIONS])
    }
}

/// A connection that goes back where it came from, whatever becomes of the read. The permit
/// travels with it: a caller that stops waiting does not free a connection that is in use.
struct Lease {
    connection: Option<Connection>,
    idle: Arc<Mutex<Vec<Connection>>>,
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    fn take(idle: Arc<Mutex<Vec<Connection>>>, permit: OwnedSemaphorePermit) -> Self {
        let connection = lock(&idle).pop();
        Self { connection, idle, _permit: permit }
    }

    fn with<T>(&self, read: impl FnOnce(&Connection) -> Result<T, Problem>) -> Result<T, StoreError> {
        let connection = self.connection.as_ref().expect("there are as many permits as connections");
        Ok(read(connection)?)
    }
}

impl Drop for Lease {
    /// Runs before the permit is given back, so that whoever gets it finds a connection.
    fn drop(&mut self) {
        lock(&self.idle).extend(self.connection.take());
    }
}

/// A read that panicked has reset its statements on the way out: its connection can be used on.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

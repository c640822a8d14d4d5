//! Pool for long computations, such as judging a manifest change. Few run at a time and the queue is bounded, so that
//! they never delay other requests.

use std::sync::Arc;

use nuncio_core::ErrorCode;
use tokio::sync::Semaphore;

use crate::error::EngineError;

/// Maximum number of waiting computations. Most take milliseconds, the largest one to two seconds.
const MAX_WAITING: usize = 64;

/// Maximum number of computations that run at once, however many cores there are.
const MAX_RUNNING: usize = 4;

/// `Retry-After` of a refused caller, in seconds.
pub(crate) const RETRY_AFTER_SECONDS: u64 = 5;

#[derive(Debug)]
pub(crate) struct ComputePool {
    running: Arc<Semaphore>,
    /// One permit per running or waiting computation.
    admitted: Arc<Semaphore>,
}

impl Default for ComputePool {
    /// A pool with as many threads as half of the cores, at least 1 and at most 4; the other cores answer requests.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::new((cores / 2).clamp(1, MAX_RUNNING), MAX_WAITING)
    }
}

impl ComputePool {
    fn new(running: usize, waiting: usize) -> Self {
        Self { running: Arc::new(Semaphore::new(running)), admitted: Arc::new(Semaphore::new(running + waiting)) }
    }

    /// Runs a computation for a caller; refused when 64 others wait.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let Ok(admitted) = Arc::clone(&self.admitted).try_acquire_owned() else {
            let message = "the queue of long computations is full; try again in a few seconds";
            return Err(EngineError::new(ErrorCode::ComputationQueueFull, message));
        };
        // The permit moves into the computation, so that a caller who stops waiting does not free capacity.
        let admitted_work = move || {
            let _admitted = admitted;
            work()
        };
        self.run_for_operator(admitted_work).await
    }

    /// Runs a computation for the operator, who is not refused when the queue is full.
    ///
    /// # Errors
    /// The computation panicked.
    pub(crate) async fn run_for_operator<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let running = Arc::clone(&self.running).acquire_owned().await.expect("the semaphore is never closed");
        let running_work = move || {
            let _running = running;
            work()
        };
        tokio::task::spawn_blocking(running_work).await.map_err(|error| {
            tracing::error!(%error, "a computation failed");
            EngineError::new(ErrorCode::Internal, "a computation failed; nothing was changed")
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn full_compute_queue_refuses_callers_but_not_the_operator() {
        let pool = Arc::new(ComputePool::new(1, 1));
        let (release, released) = mpsc::channel::<()>();
        let (started, has_started) = tokio::sync::oneshot::channel();
        let first = tokio::spawn({
            let pool = Arc::clone(&pool);
            async move {
                pool.run(move || {
                    let _ = started.send(());
                    let _ = released.recv();
                    1
                })
                .await
            }
        });
        has_started.await.unwrap();
        let waiting = tokio::spawn({
            let pool = Arc::clone(&pool);
            async move { pool.run(|| 2).await }
        });
        while pool.admitted.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.run(|| 3).await.unwrap_err().code, ErrorCode::ComputationQueueFull);
        let operator = tokio::spawn({
            let pool = Arc::clone(&pool);
            async move { pool.run_for_operator(|| 4).await }
        });
        release.send(()).unwrap();
        let results = [first.await, waiting.await, operator.await];
        assert_eq!(results.map(|result| result.unwrap().unwrap()), [1, 2, 4]);
        assert_eq!(pool.run(|| 5).await.unwrap(), 5, "there is room again");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn compute_pool_limits_concurrent_computations() {
        let pool = Arc::new(ComputePool::new(2, 100));
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let (pool, now, most) = (Arc::clone(&pool), Arc::clone(&now), Arc::clone(&most));
                tokio::spawn(async move {
                    pool.run(move || {
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::yield_now();
                        now.fetch_sub(1, Ordering::SeqCst);
                    })
                    .await
                    .unwrap();
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert!(most.load(Ordering::SeqCst) <= 2);
    }

    #[tokio::test]
    async fn panicking_computation_returns_an_error_and_releases_its_slot() {
        let pool = ComputePool::new(1, 0);
        let failed: Result<(), _> = pool.run(|| panic!("on purpose")).await;
        assert_eq!(failed.unwrap_err().code, ErrorCode::Internal);
        assert_eq!(pool.run(|| 2).await.unwrap(), 2);
    }
}

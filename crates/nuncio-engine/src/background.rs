//! The engine's background tasks.

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

/// Tasks that the server waits for before it stops. They run on the runtime on which the engine was made: a request may
/// be answered by another one, which is for unidentified callers and has a low priority.
#[derive(Debug, Clone)]
pub(crate) struct BackgroundTasks {
    tracker: TaskTracker,
    /// None if the engine was made outside a runtime; tasks then run where they are spawned.
    runtime: Option<Handle>,
}

impl BackgroundTasks {
    pub(crate) fn new() -> Self {
        Self { tracker: TaskTracker::new(), runtime: Handle::try_current().ok() }
    }

    pub(crate) fn spawn<T>(&self, task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T>
    where
        T: Send + 'static,
    {
        match &self.runtime {
            Some(runtime) => self.tracker.spawn_on(task, runtime),
            None => self.tracker.spawn(task),
        }
    }

    /// Spawns a task that nothing waits for when the server stops.
    pub(crate) fn spawn_untracked(&self, task: impl Future<Output = ()> + Send + 'static) {
        match &self.runtime {
            Some(runtime) => runtime.spawn(task),
            None => tokio::spawn(task),
        };
    }

    pub(crate) fn tracker(&self) -> &TaskTracker {
        &self.tracker
    }
}

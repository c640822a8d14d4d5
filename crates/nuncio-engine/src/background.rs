use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

/// Background tasks that the server waits for before it stops. They run on the runtime that created the engine, because
/// the runtime of a request may be the low-priority one for unidentified callers.
#[derive(Debug, Clone)]
pub(crate) struct BackgroundTasks {
    pub(crate) tracker: TaskTracker,
    /// `None` if the engine was created outside a runtime; tasks then run where they are spawned.
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
        self.tracker.spawn_on(task, &self.handle())
    }

    /// Spawns a task that the server does not wait for when it stops.
    pub(crate) fn spawn_untracked(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.handle().spawn(task);
    }

    fn handle(&self) -> Handle {
        self.runtime.clone().unwrap_or_else(Handle::current)
    }
}

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

/// Background tasks that the server waits for before it stops. They run on the runtime that created the engine, because
/// the runtime of a request may be the low-priority one for unidentified callers.
#[derive(Debug, Clone)]
pub(crate) struct BackgroundTasks {
    tracker: TaskTracker,
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
        match &self.runtime {
            Some(runtime) => self.tracker.spawn_on(task, runtime),
            None => self.tracker.spawn(task),
        }
    }

    /// Spawns a task that the server does not wait for when it stops.
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

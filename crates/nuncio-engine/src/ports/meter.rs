//! What is counted while the engine works. Nothing is counted per delta: the finest grain is a call,
//! a turn, or a commit.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::audit::AuditRecord;
use nuncio_core::execution::Execution;
use nuncio_core::ids::AgentName;
use nuncio_core::turn::Stop;

/// Someone who counts. It is told of everything as it happens, so it answers at once.
pub trait Meter: fmt::Debug + Send + Sync {
    /// A turn began.
    fn turn_began(&self, agent: &AgentName);
    /// A turn is over, and on disk.
    fn turn_ended(&self, agent: &AgentName, stop: &Stop, took: Duration);
    /// A call is over. A tool that the agent does not have is not `declared`: its name is the
    /// brain's invention, and there is no end to those.
    fn call_ended(&self, record: &AuditRecord, declared: bool);
    /// An execution is over, and on disk.
    fn execution_ended(&self, execution: &Execution);
    /// Someone began to read a turn as a stream.
    fn stream_opened(&self);
    /// And has stopped, or hung up.
    fn stream_closed(&self);
    /// A manifest of so many bytes was published; zero when it was cleared.
    fn manifest_published(&self, _bytes: usize, _breaking: bool) {}
    /// The store made the changes of so many callers in one transaction.
    fn committed(&self, callers: usize, took: Duration);
}

/// Nobody counts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Uncounted;

impl Meter for Uncounted {
    fn turn_began(&self, _agent: &AgentName) {}
    fn turn_ended(&self, _agent: &AgentName, _stop: &Stop, _took: Duration) {}
    fn call_ended(&self, _record: &AuditRecord, _declared: bool) {}
    fn execution_ended(&self, _execution: &Execution) {}
    fn stream_opened(&self) {}
    fn stream_closed(&self) {}
    fn committed(&self, _callers: usize, _took: Duration) {}
}

/// A stream that is being read, counted as open until it is dropped.
#[derive(Debug)]
pub struct OpenStream(Arc<dyn Meter>);

impl OpenStream {
    pub(crate) fn new(meter: &Arc<dyn Meter>) -> Self {
        meter.stream_opened();
        Self(Arc::clone(meter))
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.stream_closed();
    }
}

//! Metrics of the engine, per call, turn, stream or commit, never per delta.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::audit::AuditRecord;
use nuncio_core::execution::Execution;
use nuncio_core::ids::AgentName;
use nuncio_core::turn::TurnOutcome;

/// Receives metrics. Implementations must not block.
pub trait Meter: fmt::Debug + Send + Sync {
    fn turn_began(&self, agent: &AgentName);
    /// Reports a turn that ended. It is stored, unless the store failed.
    fn turn_ended(&self, agent: &AgentName, stop: &TurnOutcome, took: Duration);
    /// Reports a call that ended. `declared` is false for a tool that the agent does not have: such names are unbounded
    /// and must not become labels.
    fn call_ended(&self, record: &AuditRecord, declared: bool);
    /// Reports an execution that ended and is stored.
    fn execution_ended(&self, execution: &Execution);
    /// Reports that a reader opened a turn as a stream.
    fn stream_opened(&self);
    /// Reports that a reader closed its stream.
    fn stream_closed(&self);
    /// Reports a published manifest; zero bytes when it was cleared.
    fn manifest_published(&self, _bytes: usize, _breaking: bool) {}
    /// Reports messages that a turn read from the store, because they were not in memory, with the bytes of their JSON.
    fn history_read(&self, _messages: usize, _bytes: usize) {}
    /// Reports a transaction of the store and the number of callers whose changes it committed.
    fn committed(&self, callers: usize, took: Duration);
}

/// A meter that discards all metrics.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoopMeter;

impl Meter for NoopMeter {
    fn turn_began(&self, _agent: &AgentName) {}
    fn turn_ended(&self, _agent: &AgentName, _stop: &TurnOutcome, _took: Duration) {}
    fn call_ended(&self, _record: &AuditRecord, _declared: bool) {}
    fn execution_ended(&self, _execution: &Execution) {}
    fn stream_opened(&self) {}
    fn stream_closed(&self) {}
    fn committed(&self, _callers: usize, _took: Duration) {}
}

/// Counts a stream as open until dropped.
#[derive(Debug)]
pub struct OpenStreamGuard(Arc<dyn Meter>);

impl OpenStreamGuard {
    pub(crate) fn new(meter: &Arc<dyn Meter>) -> Self {
        meter.stream_opened();
        Self(Arc::clone(meter))
    }
}

impl Drop for OpenStreamGuard {
    fn drop(&mut self) {
        self.0.stream_closed();
    }
}

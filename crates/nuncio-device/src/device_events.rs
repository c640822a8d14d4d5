//! Notifications about changes on a device, so that open pages reload.

use nuncio_core::ids::AgentId;
use serde::Serialize;
use tokio::sync::broadcast;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DeviceEvent {
    /// The audit log has a new entry.
    #[serde(rename = "happened")]
    AuditChanged,
    /// An agent's request, grants or keys changed.
    Agent { agent: AgentId },
    /// The person's devices changed.
    Devices,
    /// A message arrived, or its delivery state changed.
    Talk { agent: AgentId },
}

#[derive(Debug)]
pub(crate) struct EventSender(broadcast::Sender<DeviceEvent>);

impl EventSender {
    pub(crate) fn new() -> Self {
        Self(broadcast::Sender::new(256))
    }

    pub(crate) fn notify(&self, news: DeviceEvent) {
        // Without subscribers the event is dropped.
        let _ = self.0.send(news);
    }

    pub(crate) fn listen(&self) -> broadcast::Receiver<DeviceEvent> {
        self.0.subscribe()
    }
}

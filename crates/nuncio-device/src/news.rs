//! Notifications about changes on a device, so that open pages reload.

use nuncio_core::ids::AgentId;
use serde::Serialize;
use tokio::sync::broadcast;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum News {
    /// The audit log has a new entry.
    Happened,
    /// An agent's request, grants or keys changed.
    Agent { agent: AgentId },
    /// The person's devices changed.
    Devices,
    /// A message arrived, or its delivery state changed.
    Talk { agent: AgentId },
}

#[derive(Debug)]
pub(crate) struct Teller(broadcast::Sender<News>);

impl Teller {
    pub(crate) fn new() -> Self {
        Self(broadcast::Sender::new(256))
    }

    pub(crate) fn tell(&self, news: News) {
        // Without subscribers the event is dropped.
        let _ = self.0.send(news);
    }

    pub(crate) fn listen(&self) -> broadcast::Receiver<News> {
        self.0.subscribe()
    }
}

//! What happens on a device, for whoever shows it: a hint to look again, and no more.

use nuncio_core::ids::AgentId;
use serde::Serialize;
use tokio::sync::broadcast;

/// Something happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum News {
    /// Something was written to the log.
    Happened,
    /// Something about an agent changed: what it asks, what it may, its keys.
    Agent {
        /// Which.
        agent: AgentId,
    },
    /// The person's devices changed.
    Devices,
    /// Something was said, or what was said got further.
    Talk {
        /// With whom.
        agent: AgentId,
    },
}

/// Where it is told.
#[derive(Debug)]
pub(crate) struct Teller(broadcast::Sender<News>);

impl Teller {
    pub(crate) fn new() -> Self {
        Self(broadcast::Sender::new(256))
    }

    /// Tells whoever listens.
    pub(crate) fn tell(&self, news: News) {
        // Nobody need be there.
        let _ = self.0.send(news);
    }

    pub(crate) fn listen(&self) -> broadcast::Receiver<News> {
        self.0.subscribe()
    }
}

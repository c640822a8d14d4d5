//! Notifications sent by agents: on the desktop, or on open pages where there is no desktop.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nuncio_core::ids::AgentId;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::tools::{Caller, LocalTool, Notify, ToolFailure};

/// Notification from an agent. All texts are plain text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Notice {
    agent: AgentId,
    name: String,
    title: String,
    body: String,
}

/// Broadcasts notifications to open pages.
#[derive(Debug)]
pub struct Board(broadcast::Sender<Notice>);

impl Default for Board {
    fn default() -> Self {
        Self(broadcast::Sender::new(32))
    }
}

impl Board {
    pub(super) fn listen(&self) -> broadcast::Receiver<Notice> {
        self.0.subscribe()
    }
}

/// Shows notifications on the desktop, or else on the pages.
#[derive(Debug)]
pub struct Notices {
    pub desktop: Notify,
    pub board: Arc<Board>,
}

#[async_trait]
impl LocalTool for Notices {
    async fn run(&self, arguments: &Value, time: Duration) -> Result<Value, ToolFailure> {
        self.desktop.run(arguments, time).await
    }

    async fn run_for(&self, caller: &Caller, arguments: &Value, time: Duration) -> Result<Value, ToolFailure> {
        let why = match self.desktop.run(arguments, time).await {
            Err(ToolFailure::Unavailable(why)) => why,
            shown => return shown,
        };
        let (title, body) = Notify::words(arguments)?;
        let notice = Notice { agent: caller.agent.clone(), name: caller.name.clone(), title, body };
        // Without an open page the agent gets the error.
        self.board.0.send(notice).map_err(|_| ToolFailure::Unavailable(why))?;
        Ok(json!({"shown": true}))
    }
}

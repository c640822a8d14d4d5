//! Notifications: those that agents send, on the desktop or on open pages, and those about questions that wait.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nuncio_core::ids::AgentId;
use nuncio_http::pages::Language;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::texts::Texts;
use crate::prompt::{PermissionPrompt, PromptAnswer, PromptQuestion};
use crate::tools::{DesktopNotificationTool, LocalTool, LocalToolCaller, LocalToolFailure};

/// Notification from an agent for open pages. All texts are plain text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct NotificationFromAgent {
    agent: AgentId,
    name: String,
    title: String,
    body: String,
}

/// Broadcasts agents' notifications to open pages.
#[derive(Debug)]
pub struct NoticeChannel(broadcast::Sender<NotificationFromAgent>);

impl Default for NoticeChannel {
    fn default() -> Self {
        Self(broadcast::Sender::new(32))
    }
}

impl NoticeChannel {
    pub(super) fn listen(&self) -> broadcast::Receiver<NotificationFromAgent> {
        self.0.subscribe()
    }
}

/// Tool that shows a notification on the desktop, or else on open pages.
#[derive(Debug)]
pub struct NotificationTool {
    pub desktop: DesktopNotificationTool,
    pub notices: Arc<NoticeChannel>,
}

#[async_trait]
impl LocalTool for NotificationTool {
    async fn run(&self, arguments: &Value, time: Duration) -> Result<Value, LocalToolFailure> {
        self.desktop.run(arguments, time).await
    }

    async fn run_for(
        &self,
        caller: &LocalToolCaller,
        arguments: &Value,
        time: Duration,
    ) -> Result<Value, LocalToolFailure> {
        let why = match self.desktop.run(arguments, time).await {
            Err(LocalToolFailure::Unavailable(why)) => why,
            shown => return shown,
        };
        let (title, body) = DesktopNotificationTool::title_and_body(arguments)?;
        let notice = NotificationFromAgent { agent: caller.agent.clone(), name: caller.name.clone(), title, body };
        // Without an open page the agent gets the error.
        self.notices.0.send(notice).map_err(|_| LocalToolFailure::Unavailable(why))?;
        Ok(json!({"shown": true}))
    }
}

/// Time limit for the desktop to accept a notification.
const NOTICE_TIME: Duration = Duration::from_secs(5);

/// Prompt that also shows a desktop notification, so that the person learns of a question when no page is visible.
#[derive(Debug)]
pub struct NotifyingPrompt {
    pub prompt: Arc<dyn PermissionPrompt>,
    pub desktop: DesktopNotificationTool,
    pub language: Language,
}

#[async_trait]
impl PermissionPrompt for NotifyingPrompt {
    async fn ask(&self, question: &PromptQuestion) -> PromptAnswer {
        let text = &Texts::of(self.language).notice;
        let title = text.waits.replace("{tool}", question.tool.as_str()).replace("{agent}", &question.agent_name);
        let (desktop, notice) = (self.desktop.clone(), json!({"title": title, "body": text.answer}));
        // Without a desktop there is no notification; the pages show the question in any case.
        tokio::spawn(async move { desktop.run(&notice, NOTICE_TIME).await });
        self.prompt.ask(question).await
    }

    fn is_attended(&self) -> bool {
        self.prompt.is_attended()
    }
}

//! Sessions there that wait for an answer from here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nuncio_aap::client::{Client, Conversation};
use nuncio_core::ids::{CallId, SessionId};
use nuncio_core::message::{Extra, Message, ToolCall};
use nuncio_core::time::Timestamp;
use nuncio_core::turn::CallAnswer;
use nuncio_engine::ports::clock::Clock;

use super::result_of;

/// How many may wait; the one that has waited longest goes first.
const MAX_WAITING: usize = 1024;
/// How long one may wait.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);
/// How long taking a session away may take.
const CLOSING: Duration = Duration::from_secs(10);

/// A session on the other server.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) conversation: Conversation,
    /// The calls it waits for, in the order they were said here. Their ids are those over there.
    pub(super) calls: Vec<ToolCall>,
    /// Of the calls that our app allowed or denied: the id there, and the id here.
    pub(super) asked: HashMap<CallId, CallId>,
}

impl Line {
    pub(super) fn new(conversation: Conversation) -> Self {
        Self { conversation, calls: Vec::new(), asked: HashMap::new() }
    }

    /// The answers it waits for, from the history here and the app's word; nothing when the history
    /// does not go on where the line waits.
    fn answers(&self, history: &[Message], words: &[CallAnswer]) -> Option<Vec<CallAnswer>> {
        let at = history.iter().rposition(|message| matches!(message, Message::Assistant { .. }))?;
        let (said, since) = (&history[at], &history[at + 1..]);
        let here: Vec<&ToolCall> = said.tool_calls().collect();
        if here.len() != self.calls.len() || since.iter().any(|message| matches!(message, Message::User { .. })) {
            return None;
        }
        let answer = |(here, there): (&&ToolCall, &ToolCall)| {
            if here.name != there.name || here.input != there.input {
                return None;
            }
            let call = there.id.clone();
            match words.iter().find(|word| *word.call() == here.id) {
                Some(CallAnswer::Permission { granted, reason, .. }) => {
                    Some(CallAnswer::Permission { call, granted: *granted, reason: reason.clone() })
                }
                _ => {
                    let content = result_of(since, &here.id)?.clone();
                    Some(CallAnswer::Result { call, content, extra: Extra::new() })
                }
            }
        };
        here.iter().zip(&self.calls).map(answer).collect()
    }

    /// Notes which calls here the answers are for, so that their results find their way back.
    fn expect(&mut self, history: &[Message], words: &[CallAnswer]) {
        let said = history.iter().rfind(|message| matches!(message, Message::Assistant { .. }));
        let here = said.into_iter().flat_map(Message::tool_calls);
        let asked = here.zip(&self.calls).filter(|(here, _)| words.iter().any(|word| *word.call() == here.id));
        self.asked = asked.map(|(here, there)| (there.id.clone(), here.id.clone())).collect();
    }

    /// The line with the answers for it; see [`Self::answers`]. One that waits for others is closed.
    pub(super) fn answered(mut self, history: &[Message], words: &[CallAnswer]) -> Option<(Self, Vec<CallAnswer>)> {
        let Some(answers) = self.answers(history, words) else {
            self.close();
            return None;
        };
        self.expect(history, words);
        Some((self, answers))
    }

    /// Takes the session away there.
    fn close(self) {
        drop(Watch::over(&self.conversation));
    }
}

/// The lines of a brain, by the conversation here.
#[derive(Debug)]
pub(super) struct Lines {
    waiting: Mutex<HashMap<SessionId, (Timestamp, Line)>>,
    clock: Arc<dyn Clock>,
}

impl Lines {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { waiting: Mutex::default(), clock }
    }

    pub(super) fn take(&self, session: &SessionId) -> Option<Line> {
        self.lock().remove(session).map(|(_, line)| line)
    }

    pub(super) fn keep(&self, session: SessionId, line: Line) {
        let now = self.clock.now();
        let mut waiting = self.lock();
        let mut left: Vec<Line> = waiting.insert(session, (now, line)).map(|(_, line)| line).into_iter().collect();
        left.extend(waiting.extract_if(|_, (since, _)| since.until(now) > MAX_WAIT).map(|(_, (_, line))| line));
        if waiting.len() > MAX_WAITING {
            let oldest = waiting.iter().min_by_key(|(_, (since, _))| *since).map(|(session, _)| session.clone());
            left.extend(oldest.and_then(|oldest| waiting.remove(&oldest)).map(|(_, line)| line));
        }
        drop(waiting);
        left.into_iter().for_each(Line::close);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, (Timestamp, Line)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whoever stops thinking, for whatever reason, leaves nothing running there and nothing behind.
pub(super) struct Watch {
    there: Option<(Client, String)>,
}

impl Watch {
    pub(super) fn over(conversation: &Conversation) -> Self {
        Self { there: Some((conversation.client().clone(), conversation.session().to_owned())) }
    }

    /// The session is still needed.
    pub(super) fn over_for_now(mut self) {
        self.there = None;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let (Some((client, session)), Ok(runtime)) = (self.there.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        runtime.spawn(async move {
            let close = async {
                // No turn may be running, and not every server can stop one.
                let _ = client.cancel(&session).await;
                client.delete_session(&session).await
            };
            if let Ok(Err(error)) = tokio::time::timeout(CLOSING, close).await {
                tracing::debug!(%error, "a session of another server was left behind");
            }
        });
    }
}

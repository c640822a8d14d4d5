//! Remote sessions that wait for an answer from the local side.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use nuncio_aap::client::{AapConversation, Client};
use nuncio_core::bounded_cache::BoundedCache;
use nuncio_core::ids::{CallId, SessionId};
use nuncio_core::message::{Message, ToolCall, UnknownMessageFields};
use nuncio_core::turn::CallAnswer;
use nuncio_engine::ports::clock::Clock;

use super::result_of;

/// Maximum number of waiting remote sessions; above it, the oldest is dropped first.
const MAX_WAITING: usize = 1024;
/// Longest time that a remote session is kept waiting for an answer.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);
/// Timeout for deleting a remote session.
const DELETE_TIMEOUT: Duration = Duration::from_secs(10);

/// Remote session in the middle of a turn.
#[derive(Debug)]
pub(super) struct RemoteTurn {
    pub(super) conversation: AapConversation,
    /// Calls that the remote session waits for, in the order they were forwarded, with remote ids.
    pub(super) calls: Vec<ToolCall>,
    /// Remote id to local id, for calls that the local client allowed or denied.
    pub(super) asked: HashMap<CallId, CallId>,
}

impl RemoteTurn {
    pub(super) fn new(conversation: AapConversation) -> Self {
        Self { conversation, calls: Vec::new(), asked: HashMap::new() }
    }

    /// Answers that the session waits for, from the local history and the client's permissions; `None` if the history
    /// does not continue this turn. Records the local ids of the answered calls, so that their results can be matched.
    fn answers(&mut self, history: &[Message], permissions: &[CallAnswer]) -> Option<Vec<CallAnswer>> {
        let at = history.iter().rposition(|message| matches!(message, Message::Assistant { .. }))?;
        let (said, since) = (&history[at], &history[at + 1..]);
        let here: Vec<&ToolCall> = said.tool_calls().collect();
        if here.len() != self.calls.len() || since.iter().any(|message| matches!(message, Message::User { .. })) {
            return None;
        }
        let mut asked = HashMap::new();
        let answer = |(here, there): (&&ToolCall, &ToolCall)| {
            if here.name != there.name || here.input != there.input {
                return None;
            }
            let call = there.id.clone();
            let permission = permissions.iter().find(|permission| *permission.call() == here.id);
            if permission.is_some() {
                asked.insert(call.clone(), here.id.clone());
            }
            match permission {
                Some(CallAnswer::Permission { granted, reason, .. }) => {
                    Some(CallAnswer::Permission { call, granted: *granted, reason: reason.clone() })
                }
                _ => {
                    let content = result_of(since, &here.id)?.clone();
                    Some(CallAnswer::Result { call, content, extra: UnknownMessageFields::new() })
                }
            }
        };
        let answers = here.iter().zip(&self.calls).map(answer).collect::<Option<_>>()?;
        self.asked = asked;
        Some(answers)
    }

    /// Returns the session with its answers, see [`Self::answers`]. A session that waits for other answers is deleted.
    pub(super) fn answered(
        mut self,
        history: &[Message],
        permissions: &[CallAnswer],
    ) -> Option<(Self, Vec<CallAnswer>)> {
        let Some(answers) = self.answers(history, permissions) else {
            self.close();
            return None;
        };
        Some((self, answers))
    }

    /// Deletes the remote session.
    fn close(self) {
        drop(RemoteSessionGuard::over(&self.conversation));
    }
}

/// Remote sessions that wait for an answer, by local session id.
#[derive(Debug)]
pub(super) struct WaitingRemoteTurns {
    waiting: BoundedCache<SessionId, RemoteTurn>,
    clock: Arc<dyn Clock>,
}

impl WaitingRemoteTurns {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { waiting: BoundedCache::new(MAX_WAITING), clock }
    }

    pub(super) fn take(&self, session: &SessionId) -> Option<RemoteTurn> {
        self.waiting.remove(session)
    }

    pub(super) fn keep(&self, session: SessionId, remote_turn: RemoteTurn) {
        let now = self.clock.now();
        let mut left = self.waiting.take_expired(now);
        left.extend(self.waiting.put_weighted(session, remote_turn, now.after(MAX_WAIT), 1));
        left.into_iter().for_each(RemoteTurn::close);
    }
}

/// Cancels the turn and deletes the remote session when dropped, also if the brain fails or is aborted.
pub(super) struct RemoteSessionGuard {
    remote: Option<(Client, String)>,
}

impl RemoteSessionGuard {
    pub(super) fn over(conversation: &AapConversation) -> Self {
        Self { remote: Some((conversation.client().clone(), conversation.session().to_owned())) }
    }

    /// Drops the guard without deleting the remote session.
    pub(super) fn keep_session(mut self) {
        self.remote = None;
    }
}

impl Drop for RemoteSessionGuard {
    fn drop(&mut self) {
        let (Some((client, session)), Ok(runtime)) = (self.remote.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        runtime.spawn(async move {
            let close = async {
                // There may be no running turn, and not every server can cancel one.
                let _ = client.cancel(&session).await;
                client.delete_session(&session).await
            };
            if let Ok(Err(error)) = tokio::time::timeout(DELETE_TIMEOUT, close).await {
                tracing::debug!(%error, "a session on another server could not be deleted");
            }
        });
    }
}

//! Direct messages between agents (ANP `direct.send`). A pending reply is stored from before the agent's turn begins
//! until it is delivered; a reply to a message of a local agent is stored with that message.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::backoff::Backoff;
use nuncio_core::digest::Digest;
use nuncio_core::ids::{AgentName, SessionId};
use nuncio_core::policy::Protocol;
use nuncio_core::time::Timestamp;
use nuncio_core::turn::TurnState;
use serde_json::json;

use crate::access::Caller;
use crate::context::{CommitResultExt as _, EngineContext};
use crate::converse::{ConversationService, IdempotencyKey};
use crate::error::EngineError;
use crate::jobs::{JobRetries, JobService};
use crate::ports::store::{
    Change, ClaimedJob, Conflict, DirectMessageChange, DirectMessageReply, DirectMessageStore, Job, JobChange, JobKind,
    JobSelection, PendingReply, SentDirectMessage,
};
use crate::publish::PublishedAgent;

const RETRIES: JobRetries =
    JobRetries { attempts: 12, backoff: Backoff::doubling(Duration::from_secs(5), Duration::from_secs(3 * 3600)) };

/// Extra time after the turn limit at which a reply is checked even without a notification.
const CHECK_MARGIN: Duration = Duration::from_secs(60);

const MESSAGE_RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyAddress {
    /// DID of the agent to which the reply is delivered.
    pub to: String,
    pub answers: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncomingMessage {
    /// Session of the caller that the message continues.
    pub session: SessionId,
    pub text: String,
    /// Idempotency key of the message: a message with the same key is a repetition.
    pub once: IdempotencyKey,
    pub from: ReplyAddress,
    pub protocol: Protocol,
}

/// State of a pending reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirectReplyState {
    Text(String),
    /// No reply: the agent said nothing, or the turn never began.
    Nothing,
    /// There is no reply yet, because the turn still runs.
    NotYet,
}

/// Service for direct messages between agents and their pending replies.
pub struct DirectMessageService {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) store: Arc<dyn DirectMessageStore>,
    pub(crate) jobs: Arc<JobService>,
    pub(crate) conversations: Arc<ConversationService>,
}

impl DirectMessageService {
    /// Passes a message to an agent; its reply is delivered to `from`, also after a restart. Message and pending reply
    /// are stored when this returns.
    ///
    /// # Errors
    /// The message was refused. No pending reply is left then.
    pub async fn receive_direct_message(
        &self,
        caller: &Caller,
        served: &PublishedAgent,
        message: IncomingMessage,
    ) -> Result<(), EngineError> {
        let IncomingMessage { session, text, once, from, protocol } = message;
        let name = json!([served.agent.name, from.to, from.answers, once.key, once.body]);
        let reply = PendingReply {
            id: Digest::of_json(&name).to_string(),
            session: session.clone(),
            request: once.key.clone(),
            owner: caller.principal.clone(),
            agent: served.agent.name.clone(),
            to: from.to,
            answers: from.answers,
        };
        // Stored before the turn: a crash in between leaves a pending reply without a turn, which is detected; the
        // other order could lose a reply.
        let job = Job {
            kind: JobKind::Reply,
            key: reply.id.clone(),
            receiver: session.to_string(),
            lane: None,
            due: self.context.now().after(self.context.limits.turn + CHECK_MARGIN),
            attempts: 0,
        };
        let id = reply.id.clone();
        let changes = vec![DirectMessageChange::PutPendingReply(reply).into(), JobChange::Put(job).into()];
        self.context.commit(changes).await?;
        let begun =
            self.conversations.begin_unattended_turn(caller, session.as_str(), text, protocol, Some(once)).await;
        let turn = match begun {
            Ok(turn) => turn,
            Err(error) => {
                self.context.commit_one(DirectMessageChange::RemovePendingReply(id)).await?;
                return Err(error);
            }
        };
        // The commit that ends a turn makes its reply due. The turn of a repeated message may have ended before.
        if turn.read(|log| log.stop().is_some()) {
            let (kind, jobs) = (JobKind::Reply, JobSelection::Key(id));
            self.context.commit_one(JobChange::Hasten { kind, jobs, due: self.context.now() }).await?;
        }
        Ok(())
    }

    /// The pending reply of a job. `None` if it was deleted with its session; the job is then stored as ended.
    pub async fn pending_reply(&self, job: &ClaimedJob) -> Result<Option<PendingReply>, EngineError> {
        let found = self.store.pending_reply(&job.job.key).await?;
        if found.is_none() {
            self.jobs.end(job).await?;
        }
        Ok(found)
    }

    /// Content of a pending reply; a failure message is a reply too.
    pub async fn reply_content(&self, reply: &PendingReply) -> Result<DirectReplyState, EngineError> {
        let caller = Caller::new(reply.owner.clone());
        let route = format!("turns/{}", reply.session);
        let begun = self.conversations.store.idempotency_record(&reply.owner, &route, &reply.request).await?;
        let Some(number) = begun.and_then(|begun| begun.turn) else { return Ok(DirectReplyState::Nothing) };
        let turn = match self.conversations.turn(&caller, reply.session.as_str(), Some(number)).await {
            Ok(turn) => turn,
            Err(error) if matches!(error.code, ErrorCode::TurnNotFound | ErrorCode::SessionNotFound) => {
                return Ok(DirectReplyState::Nothing);
            }
            Err(error) => return Err(error),
        };
        if !turn.read(|log| log.stop().is_some()) {
            let stored = self.conversations.store.turn(&reply.session, number).await?;
            if stored.is_none_or(|stored| stored.state == TurnState::Running) {
                return Ok(DirectReplyState::NotYet);
            }
            // Readers see the end of a turn right after it was stored.
            turn.finished().await;
        }
        let text = turn.answer().unwrap_or_else(|failure| failure.message);
        Ok(if text.is_empty() { DirectReplyState::Nothing } else { DirectReplyState::Text(text) })
    }

    /// Removes a reply that was delivered or has no content.
    pub async fn remove_pending_reply(&self, job: &ClaimedJob) -> Result<(), EngineError> {
        self.jobs.end_with(job, remove_reply(job)).await
    }

    /// Schedules the next attempt and returns its time. After the 12th attempt the reply is removed; the result is then
    /// `None`.
    pub async fn retry_pending_reply(&self, job: &ClaimedJob) -> Result<Option<Timestamp>, EngineError> {
        self.jobs.retry_or_end_with(job, RETRIES, remove_reply(job)).await
    }

    /// Postpones a pending reply whose turn still runs.
    pub async fn postpone_pending_reply(&self, job: &ClaimedJob) -> Result<(), EngineError> {
        self.jobs.postpone(job, self.context.now().after(CHECK_MARGIN)).await
    }

    /// Deletes outgoing messages older than 30 days.
    pub(crate) async fn forget_old_messages(&self) -> Result<(), EngineError> {
        let before = self.context.now().before(MESSAGE_RETENTION);
        Ok(self.context.commit_one(DirectMessageChange::Forget(before)).await?)
    }

    /// Stores an outgoing message before it is sent, so that the reply can be matched.
    pub async fn record_direct_message(
        &self,
        agent: &AgentName,
        id: &str,
        to: &str,
    ) -> Result<SentDirectMessage, EngineError> {
        let now = self.context.now();
        let message = SentDirectMessage {
            id: id.to_owned(),
            agent: agent.clone(),
            to: to.to_owned(),
            sent_at: now,
            answer: None,
        };
        self.context.commit_one(DirectMessageChange::Create(message.clone())).await?;
        Ok(message)
    }

    /// An outgoing message of an agent, with its reply once it came.
    pub async fn direct_message(&self, agent: &AgentName, id: &str) -> Result<SentDirectMessage, EngineError> {
        let found = self.store.direct_message(agent, id).await?;
        found.ok_or_else(|| {
            EngineError::new(ErrorCode::NotFound, format!("agent {agent} has not sent a message with this id"))
        })
    }

    /// Stores a reply to an outgoing message; returns false unless `from` is its recipient.
    pub async fn record_direct_reply(
        &self,
        agent: &AgentName,
        id: &str,
        from: &str,
        text: String,
    ) -> Result<bool, EngineError> {
        let answer = DirectMessageReply { text, at: self.context.now() };
        let change =
            DirectMessageChange::Answer { agent: agent.clone(), id: id.to_owned(), from: from.to_owned(), answer };
        Ok(self.context.commit_one(change).await.made_unless(Conflict::Missing)?)
    }
}

fn remove_reply(job: &ClaimedJob) -> Vec<Change> {
    vec![DirectMessageChange::RemovePendingReply(job.job.key.clone()).into()]
}

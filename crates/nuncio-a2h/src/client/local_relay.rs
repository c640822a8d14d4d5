//! Relay client for an agent that runs in the same process as the relay.

use std::sync::Arc;

use async_trait::async_trait;
use nuncio_core::ErrorCode;
use nuncio_core::bundle::{KeyBundle, KeyBundleId, OneTimeKey};
use nuncio_core::conversation::{Conversation, MessageRef, StreamId};
use nuncio_core::ids::{AgentId, ConversationId, MessageId};
use nuncio_core::notification::{Notification, QueuedNotification, RelayParty};
use nuncio_core::principal::Principal;
use nuncio_engine::consent::ConsentError;
use nuncio_engine::people::KeyBundleUpload;
use nuncio_engine::relay::{MessageToPost, NewConversation, StreamSender};
use nuncio_engine::{AuthenticationMethod, Caller, Engine, EngineError};
use serde_json::Value;
use tokio::sync::{Mutex, mpsc};

use super::{RelayClient, RelayClientError, RelayEvent, RelayEventKind};
use crate::stream_frames;
use crate::wire::stream::{RelayStreamFrame, StreamFrame};

const EVENTS_PER_READ: usize = 100;

/// Reader name under which an agent's read position is stored.
const READER_NAME: &str = "agent";

/// Relay client that calls the engine directly, for an agent in the same process.
#[derive(Debug)]
pub struct InProcessRelayClient {
    engine: Engine,
    caller: Caller,
    me: RelayParty,
    /// Sender of the agent's streams; created with the first stream.
    streamer: Arc<Mutex<Option<StreamSender>>>,
    /// Channel of notices about streams that the engine ended; [`RelayClient::events`] returns them.
    ended: (mpsc::UnboundedSender<RelayStreamFrame>, Mutex<mpsc::UnboundedReceiver<RelayStreamFrame>>),
}

impl InProcessRelayClient {
    #[must_use]
    pub fn new(engine: Engine, agent: AgentId) -> Self {
        let caller =
            Caller { authentication: AuthenticationMethod::AgentToken, ..Caller::new(Principal::Agent(agent.clone())) };
        let (tell, ended) = mpsc::unbounded_channel();
        let (me, ended) = (RelayParty::Agent(agent), (tell, Mutex::new(ended)));
        Self { engine, caller, me, streamer: Arc::default(), ended }
    }

    /// Ends a stream when its time limit is over, even without further frames.
    fn watch(&self, stream: StreamId) {
        let (engine, streamer, tell) = (self.engine.clone(), Arc::downgrade(&self.streamer), self.ended.0.clone());
        self.engine.spawn(async move {
            loop {
                let due = {
                    let Some(streamer) = streamer.upgrade() else { return };
                    let mut streamer = streamer.lock().await;
                    let Some(streamer) = &mut *streamer else { return };
                    for (stream, why) in streamer.expire() {
                        let _ = tell.send(RelayStreamFrame::ended(stream, why.as_str()));
                    }
                    streamer.due_of(&stream)
                };
                let Some(due) = due else { return };
                tokio::select! {
                    () = engine.clock().sleep_until(due) => {}
                    () = engine.until_closing() => return,
                }
            }
        });
    }

    async fn delivered(&self, mailed: QueuedNotification) -> Result<RelayEvent, RelayClientError> {
        let QueuedNotification { seq, notification, .. } = mailed;
        let what = match notification {
            Notification::Message { conversation, seq } => {
                match self.engine.relay().relayed(&MessageRef { conversation, seq }).await? {
                    Some(posted) => RelayEventKind::Message(Box::new(posted)),
                    None => RelayEventKind::Other("message.forgotten".to_owned()),
                }
            }
            Notification::KeysChanged { owner } => RelayEventKind::KeysChanged(owner),
            Notification::RelationEstablished { relation, .. }
            | Notification::ConsentChanged { relation, .. }
            | Notification::RelationRevoked { relation, .. }
            | Notification::Restored { relation, .. } => RelayEventKind::Relation(relation),
            _ => RelayEventKind::Other("other".to_owned()),
        };
        Ok(RelayEvent { seq, what })
    }
}

#[async_trait]
impl RelayClient for InProcessRelayClient {
    fn me(&self) -> &RelayParty {
        &self.me
    }

    async fn register_keys(&self, bundle: Option<KeyBundle>, keys: Vec<OneTimeKey>) -> Result<usize, RelayClientError> {
        let upload = KeyBundleUpload { bundle, one_time_keys: keys };
        Ok(self.engine.device_keys().register_keys(&self.caller, upload).await?.one_time_keys)
    }

    async fn keys_of(&self, owner: &RelayParty) -> Result<Vec<KeyBundle>, RelayClientError> {
        Ok(self.engine.device_keys().keys_of(&self.caller, owner).await?)
    }

    async fn one_time_key(&self, id: &KeyBundleId) -> Result<OneTimeKey, RelayClientError> {
        Ok(self.engine.device_keys().take_one_time_key(&self.caller, Some(id.owner.clone()), &id.device).await?)
    }

    async fn conversation(&self, id: &ConversationId) -> Result<Conversation, RelayClientError> {
        Ok(self.engine.relay().conversation_for(&self.caller, id).await?.conversation)
    }

    async fn conversation_with(&self, other: &RelayParty) -> Result<Conversation, RelayClientError> {
        let kind = super::read::kind_of_two(&self.me, other)?;
        let new = NewConversation { kind, with: vec![other.clone()] };
        Ok(self.engine.relay().open_conversation(&self.caller, new).await?.0.conversation)
    }

    async fn post(&self, conversation: &ConversationId, post: MessageToPost) -> Result<u64, RelayClientError> {
        Ok(self.engine.relay().post_message(&self.caller, conversation, post).await?.posted.seq)
    }

    async fn events(&self, after: Option<u64>) -> Result<Vec<RelayEvent>, RelayClientError> {
        let after = match after {
            Some(after) => after,
            None => self.engine.mailbox().mail_read(&self.me, READER_NAME).await?,
        };
        let mut ended = self.ended.1.lock().await;
        let mail = tokio::select! {
            mail = self.engine.mailbox().next_mail(&self.me, after, EVENTS_PER_READ) => mail?,
            Some(news) = ended.recv() => {
                return Ok(vec![RelayEvent { seq: 0, what: RelayEventKind::Stream(Box::new(news)) }]);
            }
        };
        if mail.is_empty() {
            return Err(RelayClientError::Unreachable("the server is stopping".to_owned()));
        }
        let mut all = Vec::with_capacity(mail.len());
        for mailed in mail {
            all.push(self.delivered(mailed).await?);
        }
        Ok(all)
    }

    async fn acknowledge(&self, seq: u64) -> Result<(), RelayClientError> {
        Ok(self.engine.mailbox().mark_mail_read(&self.me, READER_NAME, seq).await?)
    }

    async fn claim(&self, message: &MessageId) -> Result<bool, RelayClientError> {
        match self.engine.relay().claim_message(&self.caller, message).await {
            Err(error) if error.code == ErrorCode::MessageClaimed => Ok(false),
            other => Ok(other.map(|_| true)?),
        }
    }

    async fn manifest(&self, agent: &AgentId) -> Result<Value, RelayClientError> {
        let account = self.engine.accounts().account(agent).await?;
        let version = self.engine.manifests().current_manifest(&account).await?;
        let text = version.and_then(|version| version.manifest);
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    }

    fn streams(&self) -> bool {
        true
    }

    async fn stream(&self, frame: StreamFrame) -> Result<(), RelayClientError> {
        let mut streamer = self.streamer.lock().await;
        let streamer = match &mut *streamer {
            Some(streamer) => streamer,
            none => none.insert(self.engine.relay().streamer(self.caller.clone())?),
        };
        let begins = matches!(frame, StreamFrame::Start(_)).then(|| frame.stream().clone());
        stream_frames::apply(streamer, frame).await?;
        if let Some(stream) = begins {
            self.watch(stream);
        }
        Ok(())
    }
}

impl From<ConsentError> for RelayClientError {
    fn from(error: ConsentError) -> Self {
        match error.details.retry_after() {
            Some(seconds) => Self::TooMany { seconds, message: error.message },
            None => EngineError::new(error.code, error.message).into(),
        }
    }
}

impl From<EngineError> for RelayClientError {
    fn from(error: EngineError) -> Self {
        match error.code {
            ErrorCode::Internal | ErrorCode::ShuttingDown | ErrorCode::StoreUnavailable => {
                Self::Unreachable(error.message)
            }
            code => Self::Refused { code, message: error.message },
        }
    }
}

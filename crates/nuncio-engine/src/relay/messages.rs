//! Encrypted messages: accepted once, numbered, stored before they are acknowledged, and announced to all members.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::conversation::{
    ContentType, ConversationMessage, ConversationType, MessageRef, MsgSubtype, SubmittedMessage, ToolCallClaim,
};
use nuncio_core::ids::{ClientMessageId, ConversationId, MessageId};
use nuncio_core::notification::{Notification, RelayParty};
use nuncio_core::rate_window::WindowLimit;
use nuncio_core::time::Timestamp;

use super::conversations::{agent, member, person, relation_required};
use crate::access::{AuthenticationMethod, Caller};
use crate::consent_error::ConsentError;
use crate::error::EngineError;
use crate::not_found;
use crate::ports::store::relay::MemberConversation;
use crate::ports::store::{Conflict, RelayChange, StoreError};
use crate::relay::RelayService;

const MAX_PAGE_SIZE: usize = 100;

const DELETIONS_PER_COMMIT: usize = 500;

/// Length of the window in which tool calls are counted.
const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageToPost {
    /// Id chosen by the sender, for deduplication.
    pub client_id: ClientMessageId,
    pub content_type: ContentType,
    pub subtype: Option<MsgSubtype>,
    /// Encrypted message, which is passed on unchanged.
    pub envelope: Arc<[u8]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostedMessage {
    pub posted: ConversationMessage,
    /// Whether the message was already stored by an earlier request.
    pub again: bool,
}

impl RelayService {
    /// Accepts a message. It is stored when this returns, and all members are notified. A repetition with the same
    /// client id and content returns the stored message, with other content it is an error.
    pub async fn post_message(
        &self,
        by: &Caller,
        id: &ConversationId,
        new: MessageToPost,
    ) -> Result<PostedMessage, ConsentError> {
        let sender = member(by)?;
        let device = match &by.authentication {
            AuthenticationMethod::Device(device) => Some(device.clone()),
            _ => None,
        };
        let MessageToPost { client_id, content_type, subtype, envelope } = new;
        let post = SubmittedMessage { client_id, sender, device, content_type, subtype, envelope };
        post.check().map_err(|why| ConsentError::new(why.code(), format!("the message is not accepted: {why}")))?;
        self.context.check_quota(by).await?;
        loop {
            let held =
                self.store.member_view(id, &post.sender).await?.ok_or_else(|| not_found::conversation(id.as_str()))?;
            let taken = self.take_call(&post);
            let done = match &taken {
                Ok(at) => self.commit_post(&held, &post, *at).await,
                // A repeated message gets its receipt even when the rate limit is reached.
                Err(_) => Ok(Some(Conflict::Exists)),
            };
            if let (Ok(at), false) = (&taken, matches!(done, Ok(None))) {
                self.return_call(&post, *at);
            }
            let again = match done? {
                Some(Conflict::Moved) => continue,
                conflict => conflict.is_some(),
            };
            let stored = self.store.relayed_by_client_id(id, &post.sender, &post.client_id).await?;
            return match (stored, taken) {
                (Some(posted), _) if !again || posted.post.has_same_content(&post) => {
                    Ok(PostedMessage { posted, again })
                }
                (Some(_), _) => {
                    let message =
                        format!("{} is already the id of another message in this conversation", post.client_id);
                    Err(ConsentError::new(ErrorCode::MessageClash, message))
                }
                (None, Err(too_many)) => Err(too_many),
                (None, Ok(_)) => Err(ConsentError::new(ErrorCode::Internal, "the message was deleted immediately")),
            };
        }
    }

    /// Stores a message; `None` if it was stored now, `Exists` if it was stored before, `Moved` if the members changed
    /// since they were read.
    async fn commit_post(
        &self,
        held: &MemberConversation,
        post: &SubmittedMessage,
        at: Timestamp,
    ) -> Result<Option<Conflict>, ConsentError> {
        let conversation = &held.conversation;
        if conversation.kind == ConversationType::H2a {
            let (person, agent) =
                (conversation.members.iter().find_map(person), conversation.members.iter().find_map(agent));
            if let (Some(person), Some(agent)) = (person, agent)
                && self.relation_store.relation_between(person, agent).await?.is_none()
            {
                return Err(relation_required(agent));
            }
        }
        // Notifies the sender's other devices too if the sender is a person.
        let is_notified = |one: &&RelayParty| **one != post.sender || person(one).is_some();
        let change = RelayChange::PostMessage {
            conversation: conversation.id.clone(),
            revision: conversation.revision,
            at,
            post: post.clone(),
            to: conversation.members.iter().filter(is_notified).cloned().collect(),
        };
        match self.mailbox.commit_and_notify(vec![change.into()]).await {
            Err(StoreError::Conflict(conflict @ (Conflict::Exists | Conflict::Moved))) => Ok(Some(conflict)),
            other => Ok(other.map(|()| None)?),
        }
    }

    /// Counts a tool call. The result is the time of the message, which is stored with it, so that the window is the
    /// same after a restart.
    fn take_call(&self, post: &SubmittedMessage) -> Result<Timestamp, ConsentError> {
        let now = self.context.now();
        let (true, Some(agent)) = (post.is_tool_call(), agent(&post.sender)) else { return Ok(now) };
        let per_minute = self.context.limits.relay.tool_calls_per_minute.max(1);
        let limit = WindowLimit { count: usize::try_from(per_minute).unwrap_or(usize::MAX), span: MINUTE };
        self.tool_calls.take(limit, agent, now).map_err(|wait| {
            ConsentError::rate_limited(wait, |seconds| {
                format!("an agent may call at most {per_minute} tools in any 60 s; try again in {seconds} s")
            })
        })
    }

    fn return_call(&self, post: &SubmittedMessage, at: Timestamp) {
        if let (true, Some(agent)) = (post.is_tool_call(), agent(&post.sender)) {
            self.tool_calls.give_back(agent, at);
        }
    }

    /// Counts the tool calls of the last minute that a previous process accepted.
    pub(crate) async fn load_recent_calls(&self) -> Result<(), EngineError> {
        let now = self.context.now();
        let mut calls = self.store.tool_calls_since(now.before(MINUTE)).await?;
        // After the clock was set back, later times must not refuse calls for longer than a minute.
        calls.retain(|(_, at)| *at <= now);
        self.tool_calls.load(calls);
        Ok(())
    }

    /// Messages of a conversation with a number above `after`, in order; at most `limit`, and never more than 100.
    pub async fn messages_after(
        &self,
        by: &Caller,
        id: &ConversationId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<ConversationMessage>, ConsentError> {
        self.conversation_for(by, id).await?;
        Ok(self.store.relayed_after(id, after, limit.min(MAX_PAGE_SIZE)).await?)
    }

    /// The message of a notification; `None` once it was deleted.
    pub async fn relayed(&self, place: &MessageRef) -> Result<Option<ConversationMessage>, EngineError> {
        Ok(self.store.relayed(place).await?)
    }

    /// Claims a tool call for the caller's device, so that no other device runs it, and notifies the person's devices.
    /// Fails if another device claimed it; the same device may repeat the claim.
    pub async fn claim_message(&self, by: &Caller, id: &MessageId) -> Result<ToolCallClaim, ConsentError> {
        let missing = || ConsentError::from(not_found::tool_call(id.as_str()));
        let AuthenticationMethod::Device(device) = &by.authentication else {
            return Err(ConsentError::new(
                ErrorCode::Unauthorized,
                "only a person's device can claim calls: send its access token",
            ));
        };
        let me = member(by)?;
        let place = MessageRef::of(id).ok_or_else(missing)?;
        self.store.member_view(&place.conversation, &me).await?.ok_or_else(missing)?;
        let posted = self.store.relayed(&place).await?.ok_or_else(missing)?;
        if !posted.post.is_tool_call() {
            return Err(missing());
        }
        let claimed = |claim: ToolCallClaim| match claim.device == *device {
            true => Ok(claim),
            false => {
                let message = format!("device {} has claimed this call; discard it", claim.device);
                Err(ConsentError::new(ErrorCode::MessageClaimed, message))
            }
        };
        if let Some(claim) = self.store.claim(&place).await? {
            return claimed(claim);
        }
        let claim = ToolCallClaim { device: device.clone(), at: self.context.now() };
        let notification =
            Notification::Claimed { conversation: place.conversation.clone(), seq: place.seq, device: device.clone() };
        let changes = vec![
            RelayChange::ClaimMessage { place: place.clone(), claim: claim.clone() }.into(),
            self.mailbox.mail_change(&me, notification),
        ];
        match self.mailbox.commit_and_notify(changes).await {
            Err(StoreError::Conflict(Conflict::Exists)) => {
                self.store.claim(&place).await?.ok_or_else(missing).and_then(claimed)
            }
            Err(StoreError::Conflict(Conflict::Missing)) => Err(missing()),
            other => {
                other?;
                Ok(claim)
            }
        }
    }

    /// Deletes old messages and delivery log entries.
    pub async fn forget_old_messages(&self) -> Result<(), EngineError> {
        let before = self.context.now().before(self.context.limits.relay.messages_kept);
        while self.store.is_any_relayed_before(before).await? {
            self.context.commit_one(RelayChange::ForgetMessages { before, limit: DELETIONS_PER_COMMIT }).await?;
        }
        let before = self.context.now().before(self.context.limits.relay.delivery_log_kept);
        while self.webhook_store.is_any_delivery_logged_before(before).await? {
            self.context.commit_one(RelayChange::ForgetDeliveryLog { before, limit: DELETIONS_PER_COMMIT }).await?;
        }
        Ok(())
    }
}

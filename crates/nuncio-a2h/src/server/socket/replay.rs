//! Replays messages of conversations for devices that lost them.

use std::collections::{BTreeMap, VecDeque};

use nuncio_core::Code;
use nuncio_core::conversation::ConversationMessage;
use nuncio_core::ids::ConversationId;
use nuncio_core::notification::Recipient;
use nuncio_engine::Caller;
use nuncio_engine::consent::ConsentError;

use super::A2h;

/// Number of messages per read during a replay.
const MESSAGES_PER_READ: usize = 16;

/// Conversations still to replay, each with the message number after which it continues.
#[derive(Debug, Default)]
pub(super) struct ReplayQueue(VecDeque<(ConversationId, u64)>);

/// Next part of a replay.
#[derive(Debug)]
pub(super) enum ReplayPart {
    /// Messages, and whether there are more.
    Messages(Vec<ConversationMessage>, bool),
    /// The reader is no member of the conversation.
    NotMember(ConsentError),
}

impl ReplayQueue {
    pub(super) fn of(conversations: BTreeMap<ConversationId, u64>) -> Self {
        Self(conversations.into_iter().collect())
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn first(&self) -> Option<(ConversationId, u64)> {
        self.0.front().cloned()
    }

    pub(super) fn sent_up_to(&mut self, seq: u64) {
        if let Some((_, after)) = self.0.front_mut() {
            *after = seq;
        }
    }

    /// Ends the replay of the first conversation.
    pub(super) fn drop_first(&mut self) {
        self.0.pop_front();
    }
}

pub(super) async fn read(
    a2h: &A2h,
    reader: Recipient,
    (conversation, after): (ConversationId, u64),
) -> Result<ReplayPart, ConsentError> {
    match a2h.messages_within(&Caller::new(reader.into()), &conversation, after, MESSAGES_PER_READ).await {
        Ok((messages, more)) => Ok(ReplayPart::Messages(messages, more)),
        Err(why) if why.code == Code::ConversationNotFound => Ok(ReplayPart::NotMember(why)),
        Err(why) => Err(why),
    }
}

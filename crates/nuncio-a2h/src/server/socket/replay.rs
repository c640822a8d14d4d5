//! Messages that are asked for again by their conversations: for devices that lost what they had.

use std::collections::{BTreeMap, VecDeque};

use nuncio_core::Code;
use nuncio_core::conversation::Posted;
use nuncio_core::happening::Recipient;
use nuncio_core::ids::ConversationId;
use nuncio_engine::Caller;
use nuncio_engine::consent::ConsentError;

use super::A2h;

/// How many are read at once.
const BATCH: usize = 16;

/// The conversations that are left, each with the message after which it goes on.
#[derive(Debug, Default)]
pub(super) struct Replay(VecDeque<(ConversationId, u64)>);

/// What comes next of a conversation.
#[derive(Debug)]
pub(super) enum Next {
    /// These messages, and whether there are more.
    Messages(Vec<Posted>, bool),
    /// The reader takes part in no such conversation.
    NotTheirs(ConsentError),
}

impl Replay {
    pub(super) fn of(conversations: BTreeMap<ConversationId, u64>) -> Self {
        Self(conversations.into_iter().collect())
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// Where it goes on.
    pub(super) fn first(&self) -> Option<(ConversationId, u64)> {
        self.0.front().cloned()
    }

    /// These were sent.
    pub(super) fn sent_up_to(&mut self, seq: u64) {
        if let Some((_, after)) = self.0.front_mut() {
            *after = seq;
        }
    }

    /// Nothing more comes of the first.
    pub(super) fn drop_first(&mut self) {
        self.0.pop_front();
    }
}

/// Reads on.
pub(super) async fn read(
    a2h: &A2h,
    reader: Recipient,
    (conversation, after): (ConversationId, u64),
) -> Result<Next, ConsentError> {
    match a2h.messages_within(&Caller::new(reader.into()), &conversation, after, BATCH).await {
        Ok((messages, more)) => Ok(Next::Messages(messages, more)),
        Err(why) if why.code == Code::ConversationNotFound => Ok(Next::NotTheirs(why)),
        Err(why) => Err(why),
    }
}

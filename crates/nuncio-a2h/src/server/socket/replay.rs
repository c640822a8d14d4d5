//! Sends stored messages of conversations again to a client that asks for them with `resume`.

use std::collections::BTreeMap;

use nuncio_core::ErrorCode;
use nuncio_core::conversation::ConversationMessage;
use nuncio_core::ids::ConversationId;
use nuncio_core::notification::RelayParty;
use nuncio_engine::Caller;
use nuncio_engine::consent::ConsentError;

use super::A2hServerState;

const MESSAGES_PER_READ: usize = 16;

/// Conversations still to replay, each with the message number after which the replay continues.
pub(super) type ReplayQueue = BTreeMap<ConversationId, u64>;

/// Next part of a replay.
#[derive(Debug)]
pub(super) enum ConversationReplayBatch {
    /// Messages of a conversation, and whether there are more.
    Messages(Vec<ConversationMessage>, bool),
    /// The client is not a member of the conversation.
    NotMember(ConsentError),
}

pub(super) async fn read(
    a2h: &A2hServerState,
    reader: RelayParty,
    (conversation, after): (ConversationId, u64),
) -> Result<ConversationReplayBatch, ConsentError> {
    match a2h.messages_within(&Caller::new(reader.into()), &conversation, after, MESSAGES_PER_READ).await {
        Ok((messages, more)) => Ok(ConversationReplayBatch::Messages(messages, more)),
        Err(why) if why.code == ErrorCode::ConversationNotFound => Ok(ConversationReplayBatch::NotMember(why)),
        Err(why) => Err(why),
    }
}

//! Conversations, members, read positions and encrypted messages.

use std::sync::Arc;

use async_trait::async_trait;
use nuncio_core::conversation::{
    Conversation, ConversationMessage, MessageRef, MsgSubtype, SubmittedMessage, ToolCallClaim,
};
use nuncio_core::ids::{AgentId, ClientMessageId, ConversationId, DeviceId};
use nuncio_core::notification::RelayParty;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::relay::MemberConversation;
use nuncio_engine::ports::store::{Conflict, RelayStore, StoreError};
use tokio_postgres::Row;

use super::problem::SqlError;
use super::rows::{self, clamped, text_or_empty, to_integer, to_json, to_limit};
use super::writes::{CounterRow, Refusal, SqlWrite, Translated, Writes, params};
use super::{PostgresStore, mail};

const CONVERSATION_EXISTS: &str = "SELECT 1 FROM relay_conversations WHERE id = $1";

pub(super) fn create(conversation: &Conversation, out: &mut Writes) -> Translated {
    out.push(SqlWrite::one_or(
        Conflict::Exists,
        "INSERT INTO relay_conversations (id, pair, revision, last_seq, content) VALUES ($1, $2, $3, 0, $4)
         ON CONFLICT DO NOTHING",
        params![
            conversation.id.as_str(),
            conversation.pair(),
            to_integer(conversation.revision)?,
            to_json(conversation)?
        ],
    ));
    take_part(conversation, out);
    Ok(())
}

pub(super) fn update(conversation: &Conversation, out: &mut Writes) -> Translated {
    let id = conversation.id.as_str();
    let update = SqlWrite::found_or(
        Conflict::Moved,
        Conflict::Missing,
        CONVERSATION_EXISTS,
        "UPDATE relay_conversations SET revision = $2::BIGINT, content = $3
         WHERE id = $1 AND revision = $2::BIGINT - 1",
        params![id, clamped(conversation.revision), to_json(conversation)?],
    );
    out.push(update.counting(CounterRow::Conversation(id.to_owned())));
    let members: Vec<_> = conversation.members.iter().map(ToString::to_string).collect();
    let sql = "DELETE FROM relay_members WHERE conversation = $1 AND member <> ALL($2)";
    out.push(SqlWrite::any(sql, params![id, members]));
    take_part(conversation, out);
    Ok(())
}

/// Adds the members of a conversation; existing ones keep their read position.
fn take_part(conversation: &Conversation, out: &mut Writes) {
    let members: Vec<_> = conversation.members.iter().map(ToString::to_string).collect();
    out.push(SqlWrite::any(
        "INSERT INTO relay_members (member, conversation, read_seq)
         SELECT member, $1::TEXT, 0 FROM unnest($2::TEXT[]) AS member ON CONFLICT DO NOTHING",
        params![conversation.id.as_str(), members],
    ));
}

pub(super) fn post(
    conversation: &ConversationId,
    revision: u64,
    at: Timestamp,
    post: &SubmittedMessage,
    to: &[RelayParty],
    out: &mut Writes,
) -> Translated {
    let (id, sender) = (conversation.as_str(), post.sender.to_string());
    let refusal = Refusal::Queries(
        vec![
            (
                "SELECT 1 FROM relay_conversations WHERE id = $1 AND revision = $2",
                params![id, clamped(revision)],
                Conflict::Exists,
            ),
            (CONVERSATION_EXISTS, params![id], Conflict::Moved),
        ],
        Conflict::Missing,
    );
    let insert = SqlWrite::one_or_refused(
        refusal,
        "WITH numbered AS (
             UPDATE relay_conversations SET last_seq = last_seq + 1 WHERE id = $1 AND revision = $2
             RETURNING number, last_seq)
         INSERT INTO relay_messages (conversation, seq, sender, client_id, device, content_type, subtype, at, envelope)
         SELECT number, last_seq, $3::TEXT, $4::TEXT, $5::TEXT, $6::TEXT, $7::TEXT, $8::BIGINT, $9::BYTEA FROM numbered
         ON CONFLICT DO NOTHING",
        params![
            id,
            clamped(revision),
            &sender,
            post.client_id.as_str(),
            post.device.as_ref().map(DeviceId::as_str),
            to_json(&post.content_type)?,
            post.subtype.as_ref().map(to_json).transpose()?,
            at,
            &*post.envelope
        ],
    );
    out.push(insert.counting(CounterRow::Conversation(id.to_owned())));
    out.push(SqlWrite::any(
        "UPDATE relay_members SET read_seq = (SELECT last_seq FROM relay_conversations WHERE id = $2)
         WHERE member = $1 AND conversation = $2",
        params![sender, id],
    ));
    mail::put_of_message(to, at, conversation, out)
}

/// Tells the recipients of the last message of a conversation, whose number only the database knows.
pub(super) fn read_up_to(conversation: &ConversationId, reader: &RelayParty, seq: u64, out: &mut Writes) -> Translated {
    out.push(SqlWrite::one_or(
        Conflict::Missing,
        "UPDATE relay_members
         SET read_seq = GREATEST(read_seq, LEAST($3, (SELECT last_seq FROM relay_conversations WHERE id = $2)))
         WHERE member = $1 AND conversation = $2",
        params![reader.to_string(), conversation.as_str(), clamped(seq)],
    ));
    Ok(())
}

pub(super) fn claim(place: &MessageRef, claim: &ToolCallClaim, out: &mut Writes) -> Translated {
    let (conversation, seq) = (place.conversation.as_str(), clamped(place.seq));
    let refusal = Refusal::Queries(vec![(CLAIM, params![conversation, seq], Conflict::Exists)], Conflict::Missing);
    out.push(SqlWrite::one_or_refused(
        refusal,
        "INSERT INTO relay_claims (conversation, seq, device, at)
         SELECT conversation, seq, $3::TEXT, $4::BIGINT FROM relay_messages
         WHERE conversation = (SELECT number FROM relay_conversations WHERE id = $1) AND seq = $2
         ON CONFLICT (conversation, seq) DO UPDATE SET device = relay_claims.device
         WHERE relay_claims.device = excluded.device",
        params![conversation, seq, claim.device.as_str(), claim.at],
    ));
    Ok(())
}

/// Deletes messages older than `before` among the `limit` messages stored first. If the clock was set back, newer
/// messages among these delay the deletion of older ones stored later.
pub(super) fn forget(before: Timestamp, limit: usize, out: &mut Writes) -> Translated {
    out.push(SqlWrite::any(
        "DELETE FROM relay_messages
         WHERE at < $1 AND place IN (SELECT place FROM relay_messages ORDER BY place LIMIT $2)",
        params![before, to_limit(limit)],
    ));
    Ok(())
}

const HELD: &str = "SELECT content, last_seq, read_seq
    FROM relay_members JOIN relay_conversations ON relay_conversations.id = relay_members.conversation";

const CLAIM: &str = "SELECT device, at FROM relay_claims
    WHERE conversation = (SELECT number FROM relay_conversations WHERE id = $1) AND seq = $2";

#[async_trait]
impl RelayStore for PostgresStore {
    async fn member_view(
        &self,
        id: &ConversationId,
        member: &RelayParty,
    ) -> Result<Option<MemberConversation>, StoreError> {
        let sql = format!("{HELD} WHERE member = $1 AND conversation = $2");
        self.readers.first(&sql, params![member.to_string(), id.as_str()], read_member_conversation).await
    }

    async fn conversation_of_pair(&self, pair: &str) -> Result<Option<Conversation>, StoreError> {
        let sql = "SELECT content FROM relay_conversations WHERE pair = $1";
        self.readers.first(sql, params![pair], rows::json_row).await
    }

    async fn conversations_of(
        &self,
        member: &RelayParty,
        after: Option<&ConversationId>,
        limit: usize,
    ) -> Result<Vec<MemberConversation>, StoreError> {
        let sql = format!("{HELD} WHERE member = $1 AND conversation > $2 ORDER BY conversation LIMIT $3");
        let params = params![member.to_string(), text_or_empty(after), to_limit(limit)];
        self.readers.all(&sql, params, read_member_conversation).await
    }

    async fn relayed(&self, place: &MessageRef) -> Result<Option<ConversationMessage>, StoreError> {
        let id = &place.conversation;
        let params = params![id.as_str(), clamped(place.seq)];
        self.readers.first(&selecting("seq = $2"), params, |row| read(row, id)).await
    }

    async fn relayed_by_client_id(
        &self,
        id: &ConversationId,
        sender: &RelayParty,
        client_id: &ClientMessageId,
    ) -> Result<Option<ConversationMessage>, StoreError> {
        let params = params![id.as_str(), sender.to_string(), client_id.as_str()];
        self.readers.first(&selecting("sender = $2 AND client_id = $3"), params, |row| read(row, id)).await
    }

    async fn relayed_after(
        &self,
        id: &ConversationId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<ConversationMessage>, StoreError> {
        let params = params![id.as_str(), clamped(after), to_limit(limit)];
        self.readers.all(&selecting("seq > $2 ORDER BY seq LIMIT $3"), params, |row| read(row, id)).await
    }

    async fn claim(&self, place: &MessageRef) -> Result<Option<ToolCallClaim>, StoreError> {
        let read = |row: &Row| Ok(ToolCallClaim { device: rows::text_form(row, 0)?, at: rows::moment(row, 1)? });
        self.readers.first(CLAIM, params![place.conversation.as_str(), clamped(place.seq)], read).await
    }

    async fn tool_calls_since(&self, time: Timestamp) -> Result<Vec<(AgentId, Timestamp)>, StoreError> {
        // Walks back from the last message to the first older one, so that no index of times is needed.
        let sql = "SELECT sender, at FROM relay_messages
             WHERE place > coalesce(
                 (SELECT place FROM relay_messages WHERE at < $1 ORDER BY place DESC LIMIT 1), 0)
               AND subtype = $2
             ORDER BY place";
        let params = params![time, to_json(&MsgSubtype::ArtifactToolCall)?];
        let read = |row: &Row| Ok((rows::text_form(row, 0)?, rows::moment(row, 1)?));
        let calls = self.readers.all(sql, params, read).await?;
        Ok(calls.into_iter().filter_map(|(sender, at)| Some((agent_of(sender)?, at))).collect())
    }

    async fn is_any_relayed_before(&self, time: Timestamp) -> Result<bool, StoreError> {
        let sql = "SELECT at FROM relay_messages ORDER BY place LIMIT 1";
        let oldest = self.readers.first(sql, Vec::new(), |row| rows::moment(row, 0)).await?;
        Ok(oldest.is_some_and(|oldest| oldest < time))
    }
}

fn agent_of(sender: RelayParty) -> Option<AgentId> {
    match sender {
        RelayParty::Agent(id) => Some(id),
        RelayParty::Person(_) => None,
    }
}

fn read_member_conversation(row: &Row) -> Result<MemberConversation, SqlError> {
    Ok(MemberConversation {
        conversation: rows::json(row, 0)?,
        last_seq: rows::number(row, 1)?,
        read_seq: rows::number(row, 2)?,
    })
}

/// SQL that selects messages of the conversation `$1`.
fn selecting(which: &str) -> String {
    format!(
        "SELECT seq, sender, client_id, device, content_type, subtype, at, envelope FROM relay_messages
         WHERE conversation = (SELECT number FROM relay_conversations WHERE id = $1) AND {which}"
    )
}

fn read(row: &Row, conversation: &ConversationId) -> Result<ConversationMessage, SqlError> {
    Ok(ConversationMessage {
        conversation: conversation.clone(),
        seq: rows::number(row, 0)?,
        at: rows::moment(row, 6)?,
        post: SubmittedMessage {
            client_id: rows::text_form(row, 2)?,
            sender: rows::text_form(row, 1)?,
            device: rows::optional(row, 3, rows::text_form)?,
            content_type: rows::json(row, 4)?,
            subtype: rows::optional(row, 5, rows::json)?,
            envelope: Arc::from(rows::get::<&[u8]>(row, 7)?),
        },
    })
}

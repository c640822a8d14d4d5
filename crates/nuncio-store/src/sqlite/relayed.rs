//! Conversations, members, read positions and encrypted messages.

use std::sync::Arc;

use async_trait::async_trait;
use nuncio_core::conversation::{
    Conversation, ConversationMessage, MessageRef, MsgSubtype, SubmittedMessage, ToolCallClaim,
};
use nuncio_core::ids::{AgentId, ClientMessageId, ConversationId, DeviceId};
use nuncio_core::notification::{Notification, RelayParty};
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::relay::MemberConversation;
use nuncio_engine::ports::store::{Conflict, RelayStore, StoreError};
use rusqlite::{Connection, Params, Row, params};

use super::problem::SqlError;
use super::rows::{
    self, all, clamped, execute, execute_or, exists, first, run, text_or_empty, to_integer, to_json, to_limit,
};
use super::{SqliteStore, mail};

/// Number of messages and bytes up to which a page is read on the calling thread.
const SHORT_PAGE: (usize, usize) = (32, 64 * 1024);

pub(super) fn create(connection: &Connection, conversation: &Conversation) -> Result<(), SqlError> {
    execute_or(
        Conflict::Exists,
        connection,
        "INSERT INTO relay_conversations (id, pair, revision, last_seq, content) VALUES (?1, ?2, ?3, 0, ?4)
         ON CONFLICT DO NOTHING",
        params![
            conversation.id.as_str(),
            conversation.pair(),
            to_integer(conversation.revision)?,
            to_json(conversation)?
        ],
    )?;
    take_part(connection, conversation)
}

pub(super) fn update(connection: &Connection, conversation: &Conversation) -> Result<(), SqlError> {
    let id = conversation.id.as_str();
    let sql = "SELECT content FROM relay_conversations WHERE id = ?1";
    let before: Conversation = first(connection, sql, [id], |row| rows::json(row, 0))?.ok_or(Conflict::Missing)?;
    if conversation.revision.checked_sub(1) != Some(before.revision) {
        return Err(Conflict::Moved.into());
    }
    execute(
        connection,
        "UPDATE relay_conversations SET revision = ?2, content = ?3 WHERE id = ?1",
        params![id, to_integer(conversation.revision)?, to_json(conversation)?],
    )?;
    for gone in before.members.iter().filter(|member| !conversation.has(member)) {
        let sql = "DELETE FROM relay_members WHERE member = ?1 AND conversation = ?2";
        execute(connection, sql, params![gone.to_string(), id])?;
    }
    take_part(connection, conversation)
}

/// Adds the members of a conversation; existing ones keep their read position.
fn take_part(connection: &Connection, conversation: &Conversation) -> Result<(), SqlError> {
    for member in &conversation.members {
        execute(
            connection,
            "INSERT INTO relay_members (member, conversation, read_seq) VALUES (?1, ?2, 0) ON CONFLICT DO NOTHING",
            params![member.to_string(), conversation.id.as_str()],
        )?;
    }
    Ok(())
}

pub(super) fn post(
    connection: &Connection,
    conversation: &ConversationId,
    revision: u64,
    at: Timestamp,
    post: &SubmittedMessage,
    to: &[RelayParty],
) -> Result<(), SqlError> {
    let (number, seq) = next(connection, conversation, revision)?;
    let sender = post.sender.to_string();
    execute_or(
        Conflict::Exists,
        connection,
        "INSERT INTO relay_messages (conversation, seq, sender, client_id, device, content_type, subtype, at, envelope)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT DO NOTHING",
        params![
            number,
            to_integer(seq)?,
            sender,
            post.client_id.as_str(),
            post.device.as_ref().map(DeviceId::as_str),
            to_json(&post.content_type)?,
            post.subtype.as_ref().map(to_json).transpose()?,
            at.as_millis(),
            &*post.envelope
        ],
    )?;
    let sql = "UPDATE relay_members SET read_seq = ?3 WHERE member = ?1 AND conversation = ?2";
    execute(connection, sql, params![sender, conversation.as_str(), to_integer(seq)?])?;
    mail::put(connection, to, at, &Notification::Message { conversation: conversation.clone(), seq })
}

/// Row id of the conversation, and its next message number.
fn next(connection: &Connection, conversation: &ConversationId, revision: u64) -> Result<(i64, u64), SqlError> {
    let sql = "UPDATE relay_conversations SET last_seq = last_seq + 1 WHERE id = ?1 AND revision = ?2
         RETURNING number, last_seq";
    let params = params![conversation.as_str(), clamped(revision)];
    if let Some(next) = first(connection, sql, params, |row| Ok((row.get(0)?, rows::number(row, 1)?)))? {
        return Ok(next);
    }
    let is_there = exists(connection, "SELECT 1 FROM relay_conversations WHERE id = ?1", [conversation.as_str()])?;
    Err(if is_there { Conflict::Moved } else { Conflict::Missing }.into())
}

pub(super) fn read_up_to(
    connection: &Connection,
    conversation: &ConversationId,
    reader: &RelayParty,
    seq: u64,
) -> Result<(), SqlError> {
    execute_or(
        Conflict::Missing,
        connection,
        "UPDATE relay_members
         SET read_seq = max(read_seq, min(?3, (SELECT last_seq FROM relay_conversations WHERE id = ?2)))
         WHERE member = ?1 AND conversation = ?2",
        params![reader.to_string(), conversation.as_str(), clamped(seq)],
    )
}

pub(super) fn claim(connection: &Connection, place: &MessageRef, claim: &ToolCallClaim) -> Result<(), SqlError> {
    let claimed = execute(
        connection,
        "INSERT INTO relay_claims (conversation, seq, device, at)
         SELECT conversation, seq, ?3, ?4 FROM relay_messages
         WHERE conversation = (SELECT number FROM relay_conversations WHERE id = ?1) AND seq = ?2
         ON CONFLICT (conversation, seq) DO UPDATE SET device = device WHERE device = excluded.device",
        params![place.conversation.as_str(), clamped(place.seq), claim.device.as_str(), claim.at.as_millis()],
    )?;
    if claimed > 0 {
        return Ok(());
    }
    let other = claim_of(connection, place)?;
    Err(other.map_or(Conflict::Missing, |_| Conflict::Exists).into())
}

/// Deletes messages older than `before` among the `limit` messages stored first. If the clock was set back, newer
/// messages among these delay the deletion of older ones stored later.
pub(super) fn forget(connection: &Connection, before: Timestamp, limit: usize) -> Result<(), SqlError> {
    run(
        connection,
        "DELETE FROM relay_messages
         WHERE at < ?1 AND place IN (SELECT place FROM relay_messages ORDER BY place LIMIT ?2)",
        params![before.as_millis(), to_limit(limit)],
    )
}

const HELD: &str = "SELECT content, last_seq, read_seq
    FROM relay_members JOIN relay_conversations ON relay_conversations.id = relay_members.conversation";

#[async_trait]
impl RelayStore for SqliteStore {
    async fn member_view(
        &self,
        id: &ConversationId,
        member: &RelayParty,
    ) -> Result<Option<MemberConversation>, StoreError> {
        let sql = format!("{HELD} WHERE member = ?1 AND conversation = ?2");
        self.readers.first(&sql, params![member.to_string(), id.as_str()], read_member_conversation)
    }

    async fn conversation_of_pair(&self, pair: &str) -> Result<Option<Conversation>, StoreError> {
        self.readers.first("SELECT content FROM relay_conversations WHERE pair = ?1", [pair], rows::json_row)
    }

    async fn conversations_of(
        &self,
        member: &RelayParty,
        after: Option<&ConversationId>,
        limit: usize,
    ) -> Result<Vec<MemberConversation>, StoreError> {
        let sql = format!("{HELD} WHERE member = ?1 AND conversation > ?2 ORDER BY conversation LIMIT ?3");
        self.readers
            .all(sql, (member.to_string(), text_or_empty(after), to_limit(limit)), read_member_conversation)
            .await
    }

    async fn relayed(&self, place: &MessageRef) -> Result<Option<ConversationMessage>, StoreError> {
        let id = &place.conversation;
        let params = params![id.as_str(), clamped(place.seq)];
        self.readers.first(&selecting("seq = ?2"), params, |row| read(row, id))
    }

    async fn relayed_by_client_id(
        &self,
        id: &ConversationId,
        sender: &RelayParty,
        client_id: &ClientMessageId,
    ) -> Result<Option<ConversationMessage>, StoreError> {
        let params = params![id.as_str(), sender.to_string(), client_id.as_str()];
        self.readers.first(&selecting("sender = ?2 AND client_id = ?3"), params, |row| read(row, id))
    }

    async fn relayed_after(
        &self,
        id: &ConversationId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<ConversationMessage>, StoreError> {
        let sql = selecting("seq > ?2 ORDER BY seq LIMIT ?3");
        let params = (id.to_string(), clamped(after), to_limit(limit));
        if let Some(messages) = self.readers.point(|connection| short_page(connection, &sql, params.clone(), id))? {
            return Ok(messages);
        }
        let id = id.clone();
        self.readers.list(move |connection| all(connection, &sql, params, |row| read(row, &id))).await
    }

    async fn claim(&self, place: &MessageRef) -> Result<Option<ToolCallClaim>, StoreError> {
        self.readers.point(|connection| claim_of(connection, place))
    }

    async fn tool_calls_since(&self, time: Timestamp) -> Result<Vec<(AgentId, Timestamp)>, StoreError> {
        // Walks back from the last message to the first older one, so that no index of times is needed.
        let sql = "SELECT sender, at FROM relay_messages
             WHERE place > coalesce(
                 (SELECT place FROM relay_messages WHERE at < ?1 ORDER BY place DESC LIMIT 1), 0)
               AND subtype = ?2
             ORDER BY place";
        let params = (time.as_millis(), to_json(&MsgSubtype::ArtifactToolCall)?);
        let calls = self.readers.all(sql, params, |row| Ok((rows::text_form(row, 0)?, rows::moment(row, 1)?))).await?;
        Ok(calls.into_iter().filter_map(|(sender, at)| Some((agent_of(sender)?, at))).collect())
    }

    async fn is_any_relayed_before(&self, time: Timestamp) -> Result<bool, StoreError> {
        let sql = "SELECT at FROM relay_messages ORDER BY place LIMIT 1";
        let oldest = self.readers.first(sql, [], |row| rows::moment(row, 0))?;
        Ok(oldest.is_some_and(|oldest| oldest < time))
    }
}

fn agent_of(sender: RelayParty) -> Option<AgentId> {
    match sender {
        RelayParty::Agent(id) => Some(id),
        RelayParty::Person(_) => None,
    }
}

fn read_member_conversation(row: &Row<'_>) -> Result<MemberConversation, SqlError> {
    Ok(MemberConversation {
        conversation: rows::json(row, 0)?,
        last_seq: rows::number(row, 1)?,
        read_seq: rows::number(row, 2)?,
    })
}

/// Reads messages of a conversation; `None` if they exceed [`SHORT_PAGE`].
fn short_page(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    conversation: &ConversationId,
) -> Result<Option<Vec<ConversationMessage>>, SqlError> {
    let (most_messages, most_bytes) = SHORT_PAGE;
    let mut statement = rows::prepared(connection, sql)?;
    let mut found = statement.query(params)?;
    let (mut short, mut length) = (Vec::new(), 0);
    while let Some(row) = found.next()? {
        let posted = read(row, conversation)?;
        length += posted.post.envelope.len();
        short.push(posted);
        if short.len() > most_messages || length > most_bytes {
            return Ok(None);
        }
    }
    Ok(Some(short))
}

fn claim_of(connection: &Connection, place: &MessageRef) -> Result<Option<ToolCallClaim>, SqlError> {
    let sql = "SELECT device, at FROM relay_claims
         WHERE conversation = (SELECT number FROM relay_conversations WHERE id = ?1) AND seq = ?2";
    first(connection, sql, params![place.conversation.as_str(), clamped(place.seq)], |row| {
        Ok(ToolCallClaim { device: rows::text_form(row, 0)?, at: rows::moment(row, 1)? })
    })
}

/// SQL that selects messages of the conversation `?1`.
fn selecting(which: &str) -> String {
    format!(
        "SELECT seq, sender, client_id, device, content_type, subtype, at, envelope FROM relay_messages
         WHERE conversation = (SELECT number FROM relay_conversations WHERE id = ?1) AND {which}"
    )
}

fn read(row: &Row<'_>, conversation: &ConversationId) -> Result<ConversationMessage, SqlError> {
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
            envelope: Arc::from(rows::bytes(row, 7)?),
        },
    })
}

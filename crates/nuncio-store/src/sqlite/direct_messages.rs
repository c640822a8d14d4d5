//! Pending replies and sent direct messages.

use async_trait::async_trait;
use nuncio_core::ids::AgentName;
use nuncio_engine::ports::store::{
    Conflict, DirectMessageChange, DirectMessageReply, DirectMessageStore, PendingReply, SentDirectMessage, StoreError,
};
use rusqlite::{Connection, params};

use super::SqliteStore;
use super::problem::SqlError;
use super::rows::{self, execute_or, run, to_json};

pub(super) fn apply(connection: &Connection, change: &DirectMessageChange) -> Result<(), SqlError> {
    match change {
        DirectMessageChange::PutPendingReply(reply) => run(
            connection,
            "INSERT INTO owed_answers (id, session, content) VALUES (?1, ?2, ?3)
             ON CONFLICT (id) DO UPDATE SET session = excluded.session, content = excluded.content",
            params![reply.id, reply.session.as_str(), to_json(reply)?],
        )
        .map_err(SqlError::of_no_session),
        DirectMessageChange::RemovePendingReply(id) => run(connection, "DELETE FROM owed_answers WHERE id = ?1", [id]),
        DirectMessageChange::Create(message) => {
            let answer = message.answer.as_ref();
            let sql = "INSERT INTO letters (agent, id, recipient, sent_at, answered_at, answer)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (agent, id) DO NOTHING";
            let row = params![
                message.agent.as_str(),
                message.id,
                message.to,
                message.sent_at.as_millis(),
                answer.map(|answer| answer.at.as_millis()),
                answer.map(|answer| &answer.text),
            ];
            execute_or(Conflict::Exists, connection, sql, row)
        }
        DirectMessageChange::Answer { agent, id, from, answer } => {
            // A second answer does not replace the first.
            let sql = "UPDATE letters SET answered_at = COALESCE(answered_at, ?4), answer = COALESCE(answer, ?5)
                 WHERE agent = ?1 AND id = ?2 AND recipient = ?3";
            let params = params![agent.as_str(), id, from, answer.at.as_millis(), answer.text];
            execute_or(Conflict::Missing, connection, sql, params)
        }
        DirectMessageChange::Forget(before) => {
            run(connection, "DELETE FROM letters WHERE sent_at < ?1", [before.as_millis()])
        }
    }
}

#[async_trait]
impl DirectMessageStore for SqliteStore {
    async fn pending_reply(&self, id: &str) -> Result<Option<PendingReply>, StoreError> {
        self.readers.first("SELECT content FROM owed_answers WHERE id = ?1", [id], rows::json_row)
    }

    async fn direct_message(&self, agent: &AgentName, id: &str) -> Result<Option<SentDirectMessage>, StoreError> {
        let sql = "SELECT recipient, sent_at, answered_at, answer FROM letters WHERE agent = ?1 AND id = ?2";
        self.readers.first(sql, params![agent.as_str(), id], |row| {
            let at = rows::optional(row, 2, rows::moment)?;
            let text: Option<String> = row.get(3)?;
            Ok(SentDirectMessage {
                id: id.to_owned(),
                agent: agent.clone(),
                to: row.get(0)?,
                sent_at: rows::moment(row, 1)?,
                answer: text.zip(at).map(|(text, at)| DirectMessageReply { text, at }),
            })
        })
    }
}

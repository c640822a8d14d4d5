//! Pending replies and sent direct messages.

use async_trait::async_trait;
use nuncio_core::ids::AgentName;
use nuncio_engine::ports::store::{
    Conflict, DirectMessageChange, DirectMessageReply, DirectMessageStore, PendingReply, SentDirectMessage, StoreError,
};
use tokio_postgres::Row;

use super::PostgresStore;
use super::rows::{self, to_json};
use super::writes::{SqlWrite, Translated, Writes, params};

pub(super) fn translate(change: &DirectMessageChange, out: &mut Writes) -> Translated {
    out.push(match change {
        DirectMessageChange::PutPendingReply(reply) => SqlWrite::any(
            "INSERT INTO owed_answers (id, session, content) VALUES ($1, $2, $3)
             ON CONFLICT (id) DO UPDATE SET session = excluded.session, content = excluded.content",
            params![&reply.id, reply.session.as_str(), to_json(reply)?],
        )
        .of_no_owner(Conflict::NoSession),
        DirectMessageChange::RemovePendingReply(id) => {
            SqlWrite::any("DELETE FROM owed_answers WHERE id = $1", params![id])
        }
        DirectMessageChange::Create(message) => {
            let answer = message.answer.as_ref();
            let sql = "INSERT INTO letters (agent, id, recipient, sent_at, answered_at, answer)
                 VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (agent, id) DO NOTHING";
            let params = params![
                message.agent.as_str(),
                &message.id,
                &message.to,
                message.sent_at,
                answer.map(|answer| answer.at),
                answer.map(|answer| &answer.text),
            ];
            SqlWrite::one_or(Conflict::Exists, sql, params)
        }
        DirectMessageChange::Answer { agent, id, from, answer } => {
            // A second answer does not replace the first.
            let sql = "UPDATE letters SET answered_at = COALESCE(answered_at, $4), answer = COALESCE(answer, $5)
                 WHERE agent = $1 AND id = $2 AND recipient = $3";
            SqlWrite::one_or(Conflict::Missing, sql, params![agent.as_str(), id, from, answer.at, &answer.text])
        }
        DirectMessageChange::Forget(before) => {
            SqlWrite::any("DELETE FROM letters WHERE sent_at < $1", params![*before])
        }
    });
    Ok(())
}

#[async_trait]
impl DirectMessageStore for PostgresStore {
    async fn pending_reply(&self, id: &str) -> Result<Option<PendingReply>, StoreError> {
        self.readers.first("SELECT content FROM owed_answers WHERE id = $1", params![id], rows::json_row).await
    }

    async fn direct_message(&self, agent: &AgentName, id: &str) -> Result<Option<SentDirectMessage>, StoreError> {
        let sql = "SELECT recipient, sent_at, answered_at, answer FROM letters WHERE agent = $1 AND id = $2";
        let read = |row: &Row| {
            let at = rows::optional(row, 2, rows::moment)?;
            let text: Option<String> = rows::get(row, 3)?;
            Ok(SentDirectMessage {
                id: id.to_owned(),
                agent: agent.clone(),
                to: rows::get(row, 0)?,
                sent_at: rows::moment(row, 1)?,
                answer: text.zip(at).map(|(text, at)| DirectMessageReply { text, at }),
            })
        };
        self.readers.first(sql, params![agent.as_str(), id], read).await
    }
}

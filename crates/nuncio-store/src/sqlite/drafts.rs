//! Drafted protocols.

use async_trait::async_trait;
use nuncio_core::ids::{AgentName, DraftId};
use nuncio_core::principal::Principal;
use nuncio_engine::drafting::ProtocolDraft;
use nuncio_engine::ports::store::{Conflict, ProtocolDraftChange, ProtocolDraftStore, StoreError};
use rusqlite::{Connection, params};

use super::SqliteStore;
use super::problem::SqlError;
use super::rows::{self, execute_or, run, to_json, to_limit, update_or};

pub(super) fn apply(connection: &Connection, change: &ProtocolDraftChange) -> Result<(), SqlError> {
    match change {
        ProtocolDraftChange::Create(draft) => execute_or(
            Conflict::Exists,
            connection,
            "INSERT INTO protocol_drafts (id, counterpart, agent, key, state, created_at, expires_at, content)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING",
            params![
                draft.id.as_str(),
                draft.with.to_string(),
                draft.agent.as_str(),
                draft.key,
                draft.state.word(),
                draft.created_at.as_millis(),
                draft.expires_at.as_millis(),
                to_json(draft)?
            ],
        ),
        ProtocolDraftChange::Move { draft, from } => update_or(
            Conflict::DraftMoved,
            connection,
            ("protocol_drafts", draft.id.as_str()),
            "UPDATE protocol_drafts SET state = ?3, content = ?4 WHERE id = ?1 AND state = ?2",
            params![draft.id.as_str(), from, draft.state.word(), to_json(draft)?],
        ),
        ProtocolDraftChange::Forget(before) => {
            let sql = "DELETE FROM protocol_drafts WHERE state <> 'accepted' AND expires_at < ?1";
            run(connection, sql, [before.as_millis()])
        }
    }
}

#[async_trait]
impl ProtocolDraftStore for SqliteStore {
    async fn draft(&self, id: &DraftId) -> Result<Option<ProtocolDraft>, StoreError> {
        self.readers.first("SELECT content FROM protocol_drafts WHERE id = ?1", [id.as_str()], rows::json_row)
    }

    async fn draft_by_key(
        &self,
        with: &Principal,
        agent: &AgentName,
        key: &str,
    ) -> Result<Option<ProtocolDraft>, StoreError> {
        let sql = "SELECT content FROM protocol_drafts WHERE counterpart = ?1 AND agent = ?2 AND key = ?3";
        self.readers.first(sql, params![with.to_string(), agent.as_str(), key], rows::json_row)
    }

    async fn open_drafts(&self, limit: usize) -> Result<Vec<ProtocolDraft>, StoreError> {
        let sql = "SELECT content FROM protocol_drafts WHERE state IN ('draft', 'accepted_by_us', 'accepted_by_them')
             ORDER BY created_at, id LIMIT ?1";
        self.readers.all(sql, [to_limit(limit)], rows::json_row).await
    }
}

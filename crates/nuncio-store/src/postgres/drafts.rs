//! Drafted protocols.

use async_trait::async_trait;
use nuncio_core::ids::{AgentName, DraftId};
use nuncio_core::principal::Principal;
use nuncio_engine::drafting::ProtocolDraft;
use nuncio_engine::ports::store::{Conflict, ProtocolDraftChange, ProtocolDraftStore, StoreError};

use super::PostgresStore;
use super::rows::{self, to_json, to_limit};
use super::writes::{SqlWrite, Translated, Writes, params};

pub(super) fn translate(change: &ProtocolDraftChange, out: &mut Writes) -> Translated {
    out.push(match change {
        ProtocolDraftChange::Create(draft) => SqlWrite::one_or(
            Conflict::Exists,
            "INSERT INTO protocol_drafts (id, counterpart, agent, key, state, created_at, expires_at, content)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING",
            params![
                draft.id.as_str(),
                draft.with.to_string(),
                draft.agent.as_str(),
                &draft.key,
                draft.state.word(),
                draft.created_at,
                draft.expires_at,
                to_json(draft)?
            ],
        ),
        ProtocolDraftChange::Move { draft, from } => SqlWrite::found_or(
            Conflict::DraftMoved,
            Conflict::Missing,
            "SELECT 1 FROM protocol_drafts WHERE id = $1",
            "UPDATE protocol_drafts SET state = $3, content = $4 WHERE id = $1 AND state = $2",
            params![draft.id.as_str(), *from, draft.state.word(), to_json(draft)?],
        ),
        ProtocolDraftChange::Forget(before) => {
            let sql = "DELETE FROM protocol_drafts WHERE state <> 'accepted' AND expires_at < $1";
            SqlWrite::any(sql, params![*before])
        }
    });
    Ok(())
}

#[async_trait]
impl ProtocolDraftStore for PostgresStore {
    async fn draft(&self, id: &DraftId) -> Result<Option<ProtocolDraft>, StoreError> {
        let sql = "SELECT content FROM protocol_drafts WHERE id = $1";
        self.readers.first(sql, params![id.as_str()], rows::json_row).await
    }

    async fn draft_by_key(
        &self,
        with: &Principal,
        agent: &AgentName,
        key: &str,
    ) -> Result<Option<ProtocolDraft>, StoreError> {
        let sql = "SELECT content FROM protocol_drafts WHERE counterpart = $1 AND agent = $2 AND key = $3";
        self.readers.first(sql, params![with.to_string(), agent.as_str(), key], rows::json_row).await
    }

    async fn open_drafts(&self, limit: usize) -> Result<Vec<ProtocolDraft>, StoreError> {
        let sql = "SELECT content FROM protocol_drafts WHERE state IN ('draft', 'accepted_by_us', 'accepted_by_them')
             ORDER BY created_at, id LIMIT $1";
        self.readers.all(sql, params![to_limit(limit)], rows::json_row).await
    }
}

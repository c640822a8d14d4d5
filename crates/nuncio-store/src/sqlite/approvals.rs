use async_trait::async_trait;
use nuncio_core::approval::Approval;
use nuncio_core::ids::{ApprovalId, Incarnation};
use nuncio_engine::ports::store::{ApprovalChange, ApprovalStore, Conflict, StoreError};
use rusqlite::{Connection, params};

use super::SqliteStore;
use super::problem::SqlError;
use super::rows::{self, execute_or, to_json, update_or};

pub(super) fn apply(connection: &Connection, change: &ApprovalChange) -> Result<(), SqlError> {
    match change {
        ApprovalChange::Create { approval, node } => execute_or(
            Conflict::Exists,
            connection,
            "INSERT INTO approvals (id, state, asked_at, content, node) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (id) DO NOTHING",
            params![
                approval.id.as_str(),
                approval.state.as_str(),
                approval.asked_at.as_millis(),
                to_json(approval)?,
                node.as_ref().map(Incarnation::as_str)
            ],
        ),
        ApprovalChange::Move { approval, from } => update_or(
            Conflict::ApprovalMoved,
            connection,
            ("approvals", approval.id.as_str()),
            "UPDATE approvals SET state = ?3, asked_at = ?4, content = ?5 WHERE id = ?1 AND state = ?2",
            params![
                approval.id.as_str(),
                from,
                approval.state.as_str(),
                approval.asked_at.as_millis(),
                to_json(approval)?
            ],
        ),
    }
}

#[async_trait]
impl ApprovalStore for SqliteStore {
    async fn approval(&self, id: &ApprovalId) -> Result<Option<Approval>, StoreError> {
        self.readers.first("SELECT content FROM approvals WHERE id = ?1", [id.as_str()], rows::json_row)
    }

    async fn pending_approvals_of(&self, node: &Incarnation) -> Result<Vec<Approval>, StoreError> {
        let sql = "SELECT content FROM approvals WHERE state = 'pending' AND node = ?1 ORDER BY asked_at, id";
        self.readers.all(sql, [node.to_string()], rows::json_row).await
    }

    async fn pending_approvals(&self) -> Result<Vec<Approval>, StoreError> {
        let sql = "SELECT content FROM approvals WHERE state = 'pending' ORDER BY asked_at, id";
        self.readers.all(sql, [], rows::json_row).await
    }
}

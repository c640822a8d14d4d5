use async_trait::async_trait;
use nuncio_core::approval::Approval;
use nuncio_core::ids::{ApprovalId, Incarnation};
use nuncio_engine::ports::store::{ApprovalChange, ApprovalStore, Conflict, StoreError};

use super::PostgresStore;
use super::rows::{self, to_json};
use super::writes::{SqlWrite, Translated, Writes, params};

pub(super) fn translate(change: &ApprovalChange, out: &mut Writes) -> Translated {
    out.push(match change {
        ApprovalChange::Create { approval, node } => SqlWrite::one_or(
            Conflict::Exists,
            "INSERT INTO approvals (id, state, asked_at, content, node) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (id) DO NOTHING",
            params![
                approval.id.as_str(),
                approval.state.as_str(),
                approval.asked_at,
                to_json(approval)?,
                node.as_ref().map(Incarnation::as_str)
            ],
        ),
        ApprovalChange::Move { approval, from } => SqlWrite::found_or(
            Conflict::ApprovalMoved,
            Conflict::Missing,
            "SELECT 1 FROM approvals WHERE id = $1",
            "UPDATE approvals SET state = $3, asked_at = $4, content = $5 WHERE id = $1 AND state = $2",
            params![approval.id.as_str(), *from, approval.state.as_str(), approval.asked_at, to_json(approval)?],
        ),
    });
    Ok(())
}

#[async_trait]
impl ApprovalStore for PostgresStore {
    async fn approval(&self, id: &ApprovalId) -> Result<Option<Approval>, StoreError> {
        let sql = "SELECT content FROM approvals WHERE id = $1";
        self.readers.first(sql, params![id.as_str()], rows::json_row).await
    }

    async fn pending_approvals_of(&self, node: &Incarnation) -> Result<Vec<Approval>, StoreError> {
        let sql = "SELECT content FROM approvals WHERE state = 'pending' AND node = $1 ORDER BY asked_at, id";
        self.readers.all(sql, params![node.as_str()], rows::json_row).await
    }

    async fn pending_approvals(&self) -> Result<Vec<Approval>, StoreError> {
        let sql = "SELECT content FROM approvals WHERE state = 'pending' ORDER BY asked_at, id";
        self.readers.all(sql, Vec::new(), rows::json_row).await
    }
}

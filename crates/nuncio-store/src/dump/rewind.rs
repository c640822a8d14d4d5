//! What must not come back from an older state of a store.
//!
//! After a backup was written, its one-time permissions may have been used, its keys handed out and its signatures seen.
//! A restored store would accept them a second time, so they are left out.

use nuncio_core::approval::{Approval, ApprovalState};
use nuncio_core::grant::{Grant, GrantTerm};
use nuncio_core::time::Timestamp;

use super::{Row, TableShape, Value};

/// Adapts the rows of a backup that is restored at a time.
#[derive(Debug, Clone, Copy)]
pub struct RewoundRows {
    pub at: Timestamp,
}

impl RewoundRows {
    /// The row as it is restored; `None` if it is left out.
    #[must_use]
    pub fn adapt(&self, table: &TableShape, row: Row) -> Option<Row> {
        let text = |column: &str| row.get(table.column(column)?)?.as_text();
        let is = |column: &str, number: i64| {
            table.column(column).and_then(|place| row.get(place)) == Some(&Value::Integer(number))
        };
        let is_of_agent = || text("owner").is_some_and(|owner| owner.starts_with("agent:"));
        let is_left_out = match table.name.as_str() {
            // No node of the backup is alive, so the work that they ran is ended or continued.
            "nodes" => true,
            // Agents make new keys for their sessions with devices: an older state would use ratchet keys twice.
            "key_bundles" => is_of_agent(),
            // One-time keys may have been handed out since. A fallback key may be used more than once.
            "one_time_keys" => is_of_agent() || !is("fallback", 1),
            "grants" => text("content").is_some_and(is_once),
            "consents" => is("once", 1),
            "invites" => text("used_by").is_none(),
            // Where the store was copied to or from no longer holds.
            "store_info" => true,
            _ => false,
        };
        match table.name.as_str() {
            _ if is_left_out => None,
            "approvals" => Some(self.close_approval(table, row)),
            _ => Some(row),
        }
    }

    /// Expires an approval that a call could still use.
    fn close_approval(&self, table: &TableShape, mut row: Row) -> Row {
        let (Some(content), Some(state)) = (table.column("content"), table.column("state")) else { return row };
        let approval = row[content].as_text().and_then(|text| serde_json::from_str::<Approval>(text).ok());
        let Some(mut approval) = approval else { return row };
        if matches!(approval.state, ApprovalState::Pending | ApprovalState::Allowed { .. }) {
            approval.state = ApprovalState::Expired { at: self.at };
            row[state] = Value::Text(approval.state.as_str().to_owned());
            row[content] = Value::Text(serde_json::to_string(&approval).expect("an approval is JSON"));
        }
        row
    }
}

fn is_once(content: &str) -> bool {
    serde_json::from_str::<Grant>(content).is_ok_and(|grant| grant.term == GrantTerm::Once)
}

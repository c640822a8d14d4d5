//! Nodes, and the unfinished work of those that are dead.

use async_trait::async_trait;
use nuncio_core::ids::Incarnation;
use nuncio_engine::ports::store::{Conflict, NodeChange, NodeRecord, NodeState, NodeStore, StoreError};
use tokio_postgres::Row;

use super::PostgresStore;
use super::problem::SqlError;
use super::rows;
use super::writes::{Refusal, SqlWrite, Translated, Writes, params};

/// SQL that selects the owners of unfinished work.
const OWNERS: &str = "SELECT node FROM turns WHERE ended_at IS NULL
    UNION SELECT node FROM started_calls
    UNION SELECT owner FROM executions WHERE owner IS NOT NULL
    UNION SELECT node FROM approvals WHERE state = 'pending' AND node IS NOT NULL
    UNION SELECT node FROM tasks WHERE open = 1 AND node IS NOT NULL";

pub(super) fn translate(change: &NodeChange, out: &mut Writes) -> Translated {
    let write = match change {
        NodeChange::Join(node) => SqlWrite::one_or(
            Conflict::Exists,
            "INSERT INTO nodes (incarnation, host, version, started_at, state) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (incarnation) DO NOTHING",
            params![node.incarnation.as_str(), &node.host, &node.version, node.started_at, node.state.as_str()],
        ),
        NodeChange::DeclareAllDead => {
            let sql = "SELECT pg_advisory_xact_lock(1852141673, hashtext(incarnation)) FROM nodes
                 WHERE state <> 'dead' ORDER BY incarnation";
            out.push(SqlWrite::any(sql, Vec::new()));
            SqlWrite::any("UPDATE nodes SET state = 'dead' WHERE state <> 'dead'", Vec::new())
        }
        // The lock waits for the open transactions of the node.
        NodeChange::DeclareDead(incarnation) => {
            let sql = "SELECT pg_advisory_xact_lock(1852141673, hashtext($1))";
            out.push(SqlWrite::any(sql, params![incarnation.as_str()]));
            SqlWrite::any("UPDATE nodes SET state = 'dead' WHERE incarnation = $1", params![incarnation.as_str()])
        }
        NodeChange::Forget(before) => {
            SqlWrite::any("DELETE FROM nodes WHERE state = 'dead' AND started_at < $1", params![*before])
        }
    };
    out.push(write);
    Ok(())
}

/// Statements that fail unless the incarnation is alive. It cannot be declared dead until the transaction is over.
pub(super) fn check_alive(incarnation: &Incarnation) -> [SqlWrite; 2] {
    let lock = "SELECT pg_advisory_xact_lock_shared(1852141673, hashtext($1))";
    // A statement of its own, whose snapshot is taken when the lock is held.
    let alive = "SELECT 1 FROM nodes WHERE incarnation = $1 AND state = 'alive'";
    [
        SqlWrite::any(lock, params![incarnation.as_str()]),
        SqlWrite::one_or_refused(Refusal::Fenced, alive, params![incarnation.as_str()]),
    ]
}

#[async_trait]
impl NodeStore for PostgresStore {
    async fn nodes(&self) -> Result<Vec<NodeRecord>, StoreError> {
        let sql = "SELECT incarnation, host, version, started_at, state FROM nodes ORDER BY started_at, incarnation";
        self.readers.all(sql, Vec::new(), read).await
    }

    async fn orphaned_owners(&self) -> Result<Vec<Incarnation>, StoreError> {
        let sql = format!("({OWNERS}) EXCEPT SELECT incarnation FROM nodes WHERE state = 'alive' ORDER BY 1");
        self.readers.all(&sql, Vec::new(), |row| rows::text_form(row, 0)).await
    }
}

fn read(row: &Row) -> Result<NodeRecord, SqlError> {
    Ok(NodeRecord {
        incarnation: rows::text_form(row, 0)?,
        host: rows::get(row, 1)?,
        version: rows::get(row, 2)?,
        started_at: rows::moment(row, 3)?,
        state: rows::parsed(row, 4, |word| match word {
            "alive" => Some(NodeState::Alive),
            "dead" => Some(NodeState::Dead),
            _ => None,
        })?,
    })
}

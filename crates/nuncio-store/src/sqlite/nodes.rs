//! Nodes, and the unfinished work of those that are dead.

use async_trait::async_trait;
use nuncio_core::ids::Incarnation;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::{Conflict, NodeChange, NodeRecord, NodeState, NodeStore, StoreError};
use rusqlite::{Connection, Row, params};

use super::SqliteStore;
use super::problem::SqlError;
use super::rows::{self, execute_or, exists, run};
use crate::common::OWNERS;

pub(super) fn apply(connection: &Connection, change: &NodeChange) -> Result<(), SqlError> {
    match change {
        NodeChange::Join(node) => join(connection, node),
        NodeChange::JoinAlone(node) => {
            let sql = "SELECT 1 FROM nodes WHERE state = 'alive' AND incarnation <> ?1";
            if exists(connection, sql, [node.incarnation.as_str()])? {
                return Err(Conflict::OtherNodeAlive.into());
            }
            join(connection, node)
        }
        // The lock of the data directory takes the place of leases.
        NodeChange::RenewLease(_) => Ok(()),
        NodeChange::DeclareAllDead => run(connection, "UPDATE nodes SET state = 'dead' WHERE state <> 'dead'", []),
        NodeChange::DeclareDead(incarnation) => {
            run(connection, "UPDATE nodes SET state = 'dead' WHERE incarnation = ?1", [incarnation.as_str()])
        }
        NodeChange::Forget(before) => {
            let sql = "DELETE FROM nodes WHERE state = 'dead' AND started_at < ?1";
            run(connection, sql, [before.as_millis()])
        }
    }
}

fn join(connection: &Connection, node: &NodeRecord) -> Result<(), SqlError> {
    execute_or(
        Conflict::Exists,
        connection,
        "INSERT INTO nodes (incarnation, host, version, started_at, state) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (incarnation) DO NOTHING",
        params![node.incarnation.as_str(), node.host, node.version, node.started_at.as_millis(), node.state.as_str()],
    )
}

/// Fails unless the incarnation is alive.
pub(super) fn check_alive(connection: &Connection, incarnation: &Incarnation) -> Result<(), SqlError> {
    let sql = "SELECT 1 FROM nodes WHERE incarnation = ?1 AND state = 'alive'";
    if exists(connection, sql, [incarnation.as_str()])? { Ok(()) } else { Err(SqlError::Fenced) }
}

#[async_trait]
impl NodeStore for SqliteStore {
    async fn nodes(&self) -> Result<Vec<NodeRecord>, StoreError> {
        let sql = "SELECT incarnation, host, version, started_at, state FROM nodes ORDER BY started_at, incarnation";
        self.readers.all(sql, [], read).await
    }

    async fn lease_end(&self, _: &Incarnation) -> Result<Option<Timestamp>, StoreError> {
        Ok(None)
    }

    async fn orphaned_owners(&self) -> Result<Vec<Incarnation>, StoreError> {
        let sql = format!("{OWNERS} EXCEPT SELECT incarnation FROM nodes WHERE state = 'alive' ORDER BY 1");
        self.readers.all(sql, [], |row| rows::text_form(row, 0)).await
    }
}

fn read(row: &Row<'_>) -> Result<NodeRecord, SqlError> {
    Ok(NodeRecord {
        incarnation: rows::text_form(row, 0)?,
        host: row.get(1)?,
        version: row.get(2)?,
        started_at: rows::moment(row, 3)?,
        state: rows::parsed(row, 4, |word| match word {
            "alive" => Some(NodeState::Alive),
            "dead" => Some(NodeState::Dead),
            _ => None,
        })?,
    })
}

//! Nodes, and the unfinished work of those that are dead.

use async_trait::async_trait;
use nuncio_core::ids::Incarnation;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::{Conflict, NodeChange, NodeRecord, NodeState, NodeStore, StoreError};
use tokio_postgres::Row;

use super::PostgresStore;
use super::problem::SqlError;
use super::rows;
use super::writes::{Refusal, SqlValue, SqlWrite, Translated, Writes, database_now, params};
use crate::common::OWNERS;

/// Time for which an incarnation may own work after it renewed its lease, in milliseconds.
const LEASE_MILLIS: i64 = 15_000;

pub(super) fn translate(change: &NodeChange, out: &mut Writes) -> Translated {
    let write = match change {
        NodeChange::Join(node) => {
            out.push(SqlWrite::one_or(
                Conflict::Exists,
                "INSERT INTO nodes (incarnation, host, version, started_at, state) VALUES ($1, $2, $3, $4, $5)
                 ON CONFLICT (incarnation) DO NOTHING",
                columns(node),
            ));
            begin_lease(&node.incarnation)
        }
        NodeChange::JoinAlone(node) => {
            join_alone(node, out);
            begin_lease(&node.incarnation)
        }
        NodeChange::RenewLease(incarnation) => SqlWrite::any(
            concat!("UPDATE leases SET until = ", database_now!(), " + $2 WHERE incarnation = $1"),
            params![incarnation.as_str(), LEASE_MILLIS],
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

fn columns(node: &NodeRecord) -> Vec<SqlValue> {
    params![node.incarnation.as_str(), &node.host, &node.version, node.started_at, node.state.as_str()]
}

fn begin_lease(incarnation: &Incarnation) -> SqlWrite {
    SqlWrite::any(
        concat!("INSERT INTO leases (incarnation, until) VALUES ($1, ", database_now!(), " + $2)"),
        params![incarnation.as_str(), LEASE_MILLIS],
    )
}

/// SQL condition for a row of `nodes` that it is alive but its lease has ended.
macro_rules! has_no_lease {
    () => {
        concat!(
            "state = 'alive' AND NOT EXISTS
                 (SELECT 1 FROM leases WHERE leases.incarnation = nodes.incarnation AND until >= ",
            database_now!(),
            ")"
        )
    };
}

/// Declares nodes without a lease dead, and registers a node if no other is alive. One process at a time does this.
fn join_alone(node: &NodeRecord, out: &mut Writes) {
    out.push(SqlWrite::any("SELECT pg_advisory_xact_lock(1852141673, 0)", Vec::new()));
    let lock = concat!(
        "SELECT pg_advisory_xact_lock(1852141673, hashtext(incarnation)) FROM nodes WHERE ",
        has_no_lease!(),
        " ORDER BY incarnation"
    );
    out.push(SqlWrite::any(lock, Vec::new()));
    let declare = concat!("UPDATE nodes SET state = 'dead' WHERE ", has_no_lease!());
    out.push(SqlWrite::any(declare, Vec::new()));
    let refusal = Refusal::Queries(
        vec![(
            "SELECT 1 FROM nodes WHERE state = 'alive' AND incarnation <> $1",
            params![node.incarnation.as_str()],
            Conflict::OtherNodeAlive,
        )],
        Conflict::Exists,
    );
    let insert = "INSERT INTO nodes (incarnation, host, version, started_at, state)
         SELECT $1::TEXT, $2::TEXT, $3::TEXT, $4::BIGINT, $5::TEXT
         WHERE NOT EXISTS (SELECT 1 FROM nodes WHERE state = 'alive') ON CONFLICT (incarnation) DO NOTHING";
    out.push(SqlWrite::one_or_refused(refusal, insert, columns(node)));
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

    async fn lease_end(&self, incarnation: &Incarnation) -> Result<Option<Timestamp>, StoreError> {
        let sql = "SELECT until FROM leases WHERE incarnation = $1";
        self.readers.first(sql, params![incarnation.as_str()], |row| rows::moment(row, 0)).await
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

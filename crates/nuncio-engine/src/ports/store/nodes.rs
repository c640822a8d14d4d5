//! Store of nodes, the processes that use the store. Unfinished work names the incarnation that runs it.

use async_trait::async_trait;
use nuncio_core::ids::Incarnation;
use nuncio_core::time::Timestamp;

use super::StoreError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeChange {
    /// Registers an incarnation as alive. `Exists` if it was registered before.
    Join(NodeRecord),
    /// Registers an incarnation as alive, after declaring dead those whose lease has ended. `OtherNodeAlive` if another one
    /// is alive then; `Exists` if it was registered before.
    JoinAlone(NodeRecord),
    /// Renews the lease of an incarnation on the clock of the store; ignored if it is unknown.
    RenewLease(Incarnation),
    /// Declares all incarnations dead, because the process that commits this holds the lock of the data directory.
    DeclareAllDead,
    /// Declares an incarnation dead; no conflict if it is dead or unknown.
    DeclareDead(Incarnation),
    /// Deletes dead incarnations that started before the given time.
    Forget(Timestamp),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    pub incarnation: Incarnation,
    /// Name of the machine.
    pub host: String,
    /// Version of Nuncio.
    pub version: String,
    pub started_at: Timestamp,
    pub state: NodeState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    Alive,
    /// Commits nothing any more; other nodes end or continue its work.
    Dead,
}

impl NodeState {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Dead => "dead",
        }
    }
}

#[async_trait]
pub trait NodeStore: Send + Sync {
    /// All nodes that are not forgotten, in the order of their start.
    async fn nodes(&self) -> Result<Vec<NodeRecord>, StoreError>;
    /// End of an incarnation's lease on the clock of the store. `None` if it is unknown, or if the store knows no leases,
    /// because only one process at a time can open it.
    async fn lease_end(&self, incarnation: &Incarnation) -> Result<Option<Timestamp>, StoreError>;
    /// Incarnations that own unfinished work and are not alive: running turns and calls, unfinished executions, and the
    /// approvals and tasks of calls.
    async fn orphaned_owners(&self) -> Result<Vec<Incarnation>, StoreError>;
}

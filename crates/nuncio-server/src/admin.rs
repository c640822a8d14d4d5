//! The operator's desk: what commands ask of a server that runs, over a socket only its owner may
//! open, or do themselves when none runs. Both ways go through one function.

use std::sync::Arc;

use nuncio_core::Code;
use nuncio_core::approval::Answer;
use nuncio_core::audit::AuditRecord;
use nuncio_core::grant::{KeyScopes, Term};
use nuncio_core::ids::{AgentName, ApprovalId, GrantId, PersonName, ScopeId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::access::NewKey;
use nuncio_engine::{Engine, EngineError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::checkpoints::Checkpoints;
use crate::data::DataDir;
use crate::error::StartError;

mod socket;

pub use socket::ask;
pub(crate) use socket::listen;

/// Something an operator asks for. One JSON line on the socket.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Order {
    /// Make an API key.
    KeyCreate {
        /// What to call it.
        name: Option<String>,
        /// Whose it is.
        person: Option<PersonName>,
        /// What it may do; all when empty.
        scopes: Vec<ScopeId>,
    },
    /// List the keys.
    KeyList,
    /// Take a key back.
    KeyRevoke {
        /// Its id or name.
        which: String,
    },
    /// Give scopes.
    GrantCreate {
        /// To whom.
        principal: Principal,
        /// For which agent.
        agent: AgentName,
        /// What.
        scopes: Vec<ScopeId>,
        /// Until when; until revoked when absent.
        until: Option<Timestamp>,
        /// For one call only.
        once: bool,
    },
    /// List what was given.
    GrantList,
    /// Take it back.
    GrantRevoke {
        /// Which.
        id: GrantId,
    },
    /// List the questions that wait.
    ApproveList,
    /// Say yes.
    ApproveAllow {
        /// To which.
        id: ApprovalId,
    },
    /// Say no.
    ApproveDeny {
        /// To which.
        id: ApprovalId,
        /// Why.
        reason: Option<String>,
    },
    /// List audit records.
    AuditList {
        /// Those behind this number.
        after: u64,
        /// At most so many.
        limit: usize,
    },
    /// Prove the audit chain.
    AuditVerify,
}

/// Where orders are carried out.
#[derive(Debug, Clone)]
pub struct Desk {
    engine: Engine,
    checkpoints: Arc<Checkpoints>,
    _data: Option<Arc<DataDir>>,
}

impl Desk {
    pub(crate) fn new(engine: Engine, checkpoints: Checkpoints, data: Option<DataDir>) -> Self {
        Self { engine, checkpoints: Arc::new(checkpoints), _data: data.map(Arc::new) }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// Carries out an order.
    ///
    /// # Errors
    /// It cannot be carried out; nothing has changed.
    pub async fn carry_out(&self, order: Order) -> Result<Value, StartError> {
        let engine = &self.engine;
        Ok(match order {
            Order::KeyCreate { name, person, scopes } => {
                let scopes = if scopes.is_empty() { KeyScopes::All } else { KeyScopes::Only(scopes) };
                let (key, secret) = engine.create_key(NewKey { name, person, scopes }).await?;
                json!({"key": secret, "id": key.id, "name": key.name, "person": key.person, "scopes": key.scopes})
            }
            Order::KeyList => json!({"keys": engine.keys().await?}),
            Order::KeyRevoke { which } => json!({"revoked": engine.revoke_key(&which).await?}),
            Order::GrantCreate { principal, agent, scopes, until, once } => {
                let term = match (until, once) {
                    (Some(_), true) => {
                        return Err(EngineError::new(
                            Code::BadRequest,
                            "a grant is for once or until a time, not both",
                        )
                        .into());
                    }
                    (None, true) => Term::Once,
                    (Some(end), false) => Term::Until(end),
                    (None, false) => Term::UntilRevoked,
                };
                json!({"grant": engine.create_grant(principal, agent, scopes, term, Principal::Operator).await?})
            }
            Order::GrantList => json!({"grants": engine.grants().await?}),
            Order::GrantRevoke { id } => {
                engine.revoke_grant(&id).await?;
                json!({"revoked": id})
            }
            Order::ApproveList => json!({"approvals": engine.pending_approvals().await?}),
            Order::ApproveAllow { id } => {
                json!({"approval": engine.decide_approval(&id, Answer::Allow, Principal::Operator).await?})
            }
            Order::ApproveDeny { id, reason } => {
                json!({"approval": engine.decide_approval(&id, Answer::Deny { reason }, Principal::Operator).await?})
            }
            Order::AuditList { after, limit } => {
                let links = engine.audit_links(after, limit).await?;
                let records = links.iter().map(|link| {
                    let record: Option<AuditRecord> = serde_json::from_str(&link.record).ok();
                    json!({"seq": link.seq, "hash": link.hash, "record": record})
                });
                json!({"records": records.collect::<Vec<_>>()})
            }
            Order::AuditVerify => self.verify().await?,
        })
    }

    async fn verify(&self) -> Result<Value, StartError> {
        let checkpoints = self.checkpoints.read()?;
        match self.engine.verify_audit(&checkpoints, self.checkpoints.public_key()).await? {
            Ok(proof) => Ok(
                json!({"records": proof.head.seq, "hash": proof.head.hash, "checkpoints": proof.checkpoints, "intact": true}),
            ),
            Err(broken) => Err(StartError::new(Code::AuditBroken, format!("the audit chain is broken: {broken}"))),
        }
    }
}

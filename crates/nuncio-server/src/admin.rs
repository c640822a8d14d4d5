//! The operator's desk: what commands ask of a server that runs, over a socket only its owner may
//! open, or do themselves when none runs. Both ways go through one function.

use std::sync::Arc;
use std::time::Duration;

use nuncio_anp::directory::{Herald, Keeper};
use nuncio_core::Code;
use nuncio_core::approval::ApprovalAnswer;
use nuncio_core::grant::{GrantTerm, KeyScopes};
use nuncio_core::ids::{AgentName, ApprovalId, CallId, DeviceId, GrantId, PersonName, ScopeId, TaskId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::access::NewKey;
use nuncio_engine::ports::store::{ApiKey, KeyRole, KeyTerm};
use nuncio_engine::record::AuditProof;
use nuncio_engine::tasks::TaskStep;
use nuncio_engine::{Engine, EngineError};
use nuncio_identity::Did;
use nuncio_skill::crawl::Crawler;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::checkpoints::Checkpoints;
use crate::data::DataDir;
use crate::devices::Devices;
use crate::dids::{Dids, Subject};
use crate::error::StartError;
use crate::messages::Messages;
use crate::registry;

mod ordered;
mod socket;
mod users;

pub use nuncio_engine::follow::Domain;
pub(crate) use ordered::account;
pub use ordered::{OrderedBy, this_account};
pub use socket::ask;
pub(crate) use socket::listen;
pub(crate) use users::Host;

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
        /// Whether it signs requests rather than being sent with them.
        #[serde(default)]
        signing: bool,
        /// Whether it opens the metrics and the operators' routes.
        #[serde(default)]
        operator: bool,
        /// When it expires; never when absent.
        #[serde(default)]
        term: Option<KeyTerm>,
    },
    /// List the keys.
    KeyList,
    /// Take a key back.
    KeyRevoke {
        /// Its id or name.
        which: String,
    },
    /// Give a key a new secret.
    KeyRotate {
        /// Its id or name.
        which: String,
        /// When the new secret expires; as the key says when absent.
        #[serde(default)]
        term: Option<KeyTerm>,
        /// For how many seconds the old secret counts beside it.
        #[serde(default)]
        overlap_seconds: u64,
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
    /// Invite a person, or a further device of theirs.
    UserInvite {
        /// Who.
        name: PersonName,
        /// For how many seconds the code is good; a week when absent.
        #[serde(default)]
        seconds: Option<u64>,
    },
    /// List the people with an account.
    UserList,
    /// List a person's devices.
    UserDevices {
        /// Whose.
        name: PersonName,
    },
    /// Take a device away.
    UserRevoke {
        /// Whose.
        name: PersonName,
        /// Which; all of them when absent.
        device: Option<DeviceId>,
    },
    /// Erase a person's data.
    UserForget {
        /// Who.
        name: PersonName,
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
    /// List the work that waits for people.
    TaskList,
    /// Show one piece of it.
    TaskShow {
        /// Which.
        id: TaskId,
    },
    /// Somebody takes it.
    TaskTake {
        /// Which.
        id: TaskId,
        /// Who.
        by: String,
        /// Also from somebody else.
        over: bool,
    },
    /// Somebody gives it back.
    TaskGiveBack {
        /// Which.
        id: TaskId,
        /// Who.
        by: String,
    },
    /// Somebody has done it.
    TaskFinish {
        /// Which.
        id: TaskId,
        /// Who.
        by: String,
        /// The result.
        output: Value,
    },
    /// Somebody will not do it.
    TaskRefuse {
        /// Which.
        id: TaskId,
        /// Who.
        by: String,
        /// Why; may be empty.
        reason: String,
    },
    /// List the skills of a domain beside our own.
    RegistryFollow {
        /// Which.
        domain: Domain,
    },
    /// List them no more.
    RegistryUnfollow {
        /// Which.
        domain: Domain,
    },
    /// List the domains that are followed.
    RegistryList,
    /// List an agent of another host in the directory.
    RegistryAdd {
        /// The address of its description, or its DID.
        target: String,
    },
    /// List it no more.
    RegistryRemove {
        /// Its id, its DID, or the address of its description.
        which: String,
    },
    /// List the agents of other hosts in the directory, and where ours are registered.
    RegistryAgents,
    /// Have an agent send a message to another.
    MessageSend {
        /// Who sends it.
        agent: AgentName,
        /// To whom: a DID, or what leads to one.
        to: String,
        /// What it says.
        text: String,
    },
    /// Show a message that was sent, and its answer once it came.
    MessageShow {
        /// Who sent it.
        agent: AgentName,
        /// Which.
        id: String,
    },
    /// Say that a DID belongs to a person.
    DidLink {
        /// The DID.
        did: String,
        /// The person.
        person: PersonName,
    },
    /// Say that a DID belongs to nobody.
    DidUnlink {
        /// The DID.
        did: String,
    },
    /// List the DIDs that belong to people.
    DidLinks,
    /// Show DIDs.
    DidShow {
        /// Of this agent; of the service and all agents when absent.
        agent: Option<AgentName>,
    },
    /// Give a new key.
    DidRotate {
        /// To whom.
        subject: Subject,
    },
    /// Move all DIDs to another address.
    DidMove {
        /// What every address begins with from then on.
        to: String,
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
    /// Delete old audit records.
    AuditPrune {
        /// Those that ended before then.
        before: Timestamp,
    },
    /// Show what all records say about a call.
    AuditExplain {
        /// The call.
        call: CallId,
    },
    /// Look for damage in the store.
    StoreCheck,
}

/// Where orders are carried out.
#[derive(Debug, Clone)]
pub struct Desk {
    engine: Engine,
    checkpoints: Arc<Checkpoints>,
    /// Who reads followed domains; none while no server runs.
    crawler: Option<Crawler>,
    /// Who lists agents of other hosts.
    keeper: Option<Keeper>,
    /// Who registers ours elsewhere; none while no server runs.
    herald: Option<Herald>,
    /// Who sends messages; none while no server runs.
    messages: Option<Messages>,
    /// What people are told of this server.
    people: Option<Host>,
    dids: Dids,
    /// The keys and sessions that agents have with people's devices.
    devices: Option<Arc<Devices>>,
    /// The directory, where no server runs in it.
    data: Option<Arc<DataDir>>,
}

impl Desk {
    pub(crate) fn new(engine: Engine, checkpoints: Checkpoints, dids: Dids, data: Option<DataDir>) -> Self {
        Self {
            engine,
            checkpoints: Arc::new(checkpoints),
            crawler: None,
            keeper: None,
            herald: None,
            messages: None,
            people: None,
            dids,
            devices: None,
            data: data.map(Arc::new),
        }
    }

    pub(crate) fn with_devices(mut self, devices: Arc<Devices>) -> Self {
        self.devices = Some(devices);
        self
    }

    pub(crate) fn with_people(mut self, people: Host) -> Self {
        self.people = Some(people);
        self
    }

    fn people(&self) -> Result<&Host, EngineError> {
        self.people.as_ref().ok_or_else(|| EngineError::new(Code::NotFound, "there are no people here"))
    }

    pub(crate) fn with_crawler(mut self, crawler: Crawler) -> Self {
        self.crawler = Some(crawler);
        self
    }

    pub(crate) fn with_keeper(mut self, keeper: Keeper, herald: Option<Herald>) -> Self {
        (self.keeper, self.herald) = (Some(keeper), herald);
        self
    }

    pub(crate) fn with_messages(mut self, messages: Messages) -> Self {
        self.messages = Some(messages);
        self
    }

    fn messages(&self) -> Result<&Messages, EngineError> {
        let message = "no server runs in this data directory to take the answer; start it, and send the message again";
        self.messages.as_ref().ok_or_else(|| EngineError::new(Code::NoMessageService, message))
    }

    fn keeper(&self) -> Result<&Keeper, EngineError> {
        self.keeper.as_ref().ok_or_else(|| EngineError::new(Code::NotFound, "there is no directory here"))
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn checkpoints(&self) -> Arc<Checkpoints> {
        Arc::clone(&self.checkpoints)
    }

    /// Carries out an order, and records one that changes something.
    ///
    /// # Errors
    /// It cannot be carried out or recorded; nothing has changed.
    pub async fn carry_out(&self, order: Order, by: &OrderedBy) -> Result<Value, StartError> {
        match order.record(&self.engine, by) {
            Some(record) => self.engine.run_order(record, self.perform(order), ordered::made).await,
            None => self.perform(order).await,
        }
    }

    async fn perform(&self, order: Order) -> Result<Value, StartError> {
        let engine = &self.engine;
        Ok(match order {
            Order::KeyCreate { name, person, scopes, signing, operator, term } => {
                let scopes = if scopes.is_empty() { KeyScopes::All } else { KeyScopes::Only(scopes) };
                let role = if operator { KeyRole::Operator } else { KeyRole::App };
                let new = NewKey { name, person, scopes, role, term };
                with_secret(if signing {
                    engine.create_signing_key(new).await?
                } else {
                    engine.create_key(new).await?
                })
            }
            Order::KeyList => json!({"keys": engine.keys().await?}),
            Order::KeyRevoke { which } => json!({"revoked": engine.revoke_key(&which).await?}),
            Order::KeyRotate { which, term, overlap_seconds } => {
                with_secret(engine.rotate_key(&which, term, Duration::from_secs(overlap_seconds)).await?)
            }
            Order::GrantCreate { principal, agent, scopes, until, once } => {
                let term = match (until, once) {
                    (Some(_), true) => {
                        return Err(EngineError::new(
                            Code::BadRequest,
                            "a grant is for once or until a time, not both",
                        )
                        .into());
                    }
                    (None, true) => GrantTerm::Once,
                    (Some(end), false) => GrantTerm::Until(end),
                    (None, false) => GrantTerm::UntilRevoked,
                };
                json!({"grant": engine.create_grant(principal, agent, scopes, term, Principal::Operator).await?})
            }
            Order::GrantList => json!({"grants": engine.grants().await?}),
            Order::GrantRevoke { id } => {
                engine.revoke_grant(&id).await?;
                json!({"revoked": id})
            }
            Order::UserInvite { name, seconds } => users::invite(engine, self.people()?, name, seconds).await?,
            Order::UserList => users::list(engine).await?,
            Order::UserDevices { name } => users::devices(engine, &name).await?,
            Order::UserRevoke { name, device } => users::revoke(engine, &name, device.as_ref()).await?,
            Order::UserForget { name } => {
                let forgotten = engine.forget_person(&name, self.checkpoints.key(), Principal::Operator).await?;
                if let Some(devices) = &self.devices {
                    devices.forget_person(&name, &forgotten.devices)?;
                }
                json!({"forgotten": forgotten.pseudonym, "redacted": forgotten.redacted})
            }
            Order::ApproveList => json!({"approvals": engine.pending_approvals().await?}),
            Order::ApproveAllow { id } => {
                json!({"approval": engine.decide_approval(&id, ApprovalAnswer::Allow, Principal::Operator).await?})
            }
            Order::ApproveDeny { id, reason } => {
                json!({"approval": engine.decide_approval(&id, ApprovalAnswer::Deny { reason }, Principal::Operator).await?})
            }
            Order::TaskList => json!({"now": engine.now(), "tasks": engine.inbox().await?}),
            Order::TaskShow { id } => json!({"now": engine.now(), "task": engine.task(&id).await?}),
            Order::TaskTake { id, by, over } => self.step(&id, TaskStep::Take { over }, &by).await?,
            Order::TaskGiveBack { id, by } => self.step(&id, TaskStep::GiveBack, &by).await?,
            Order::TaskFinish { id, by, output } => self.step(&id, TaskStep::Finish(output), &by).await?,
            Order::TaskRefuse { id, by, reason } => self.step(&id, TaskStep::Refuse(reason), &by).await?,
            Order::RegistryFollow { domain } => registry::follow(engine, self.crawler.as_ref(), domain).await?,
            Order::RegistryUnfollow { domain } => registry::unfollow(engine, self.crawler.as_ref(), &domain).await?,
            Order::RegistryList => registry::list(engine, self.crawler.as_ref()).await?,
            Order::RegistryAdd { target } => registry::agents::add(engine, self.keeper()?, &target).await?,
            Order::RegistryRemove { which } => registry::agents::remove(self.keeper()?, &which).await?,
            Order::RegistryAgents => registry::agents::list(engine, self.keeper()?, self.herald.as_ref()),
            Order::MessageSend { agent, to, text } => self.messages()?.say(&agent, &to, text).await?,
            Order::MessageShow { agent, id } => self.messages()?.letter(&agent, &id).await?,
            Order::DidLink { did, person } => {
                let did = Did::parse(&did).map_err(|error| EngineError::new(Code::BadRequest, error.to_string()))?;
                json!({"link": engine.link_did(did.as_str(), person).await?})
            }
            Order::DidUnlink { did } => {
                engine.unlink_did(&did).await?;
                json!({"unlinked": did})
            }
            Order::DidLinks => json!({"links": engine.did_links().await?}),
            Order::DidShow { agent } => self.dids.show(agent.as_ref())?,
            Order::DidRotate { subject } => self.dids.rotate(&subject)?,
            Order::DidMove { .. } if self.data.is_none() => {
                let message = "the server runs under its old address: stop it, move the DIDs, and start it with the new --public-url";
                return Err(StartError::new(Code::DataDirInUse, message));
            }
            Order::DidMove { to } => self.dids.move_to(&to)?,
            Order::AuditList { after, limit } => {
                let links = engine.audit_links(after, limit).await?;
                let records = links.iter().map(|link| {
                    let record: Option<Value> = serde_json::from_str(&link.record).ok();
                    json!({"seq": link.seq, "hash": link.hash, "record": record})
                });
                json!({"records": records.collect::<Vec<_>>()})
            }
            Order::AuditVerify => self.verify().await?,
            Order::AuditPrune { before } => {
                let pruned = self.checkpoints.prune(engine, before, Principal::Operator).await?;
                json!({"pruned": pruned, "before": before})
            }
            Order::AuditExplain { call } => {
                let explained =
                    engine.explain_call(&call, &self.checkpoints.read()?, self.checkpoints.public_key()).await?;
                json!(explained)
            }
            Order::StoreCheck => json!(engine.check_store().await?),
        })
    }

    async fn step(&self, id: &TaskId, step: TaskStep, by: &str) -> Result<Value, StartError> {
        Ok(json!({"task": self.engine.step_task(id, step, by).await?}))
    }

    async fn verify(&self) -> Result<Value, StartError> {
        let checkpoints = self.checkpoints.read()?;
        match self.engine.verify_audit(&checkpoints, self.checkpoints.public_key()).await? {
            Ok(proof) => {
                let AuditProof { head, pruned, checkpoints } = proof;
                let records = head.seq - pruned;
                let mut answer =
                    json!({"records": records, "hash": head.hash, "checkpoints": checkpoints, "intact": true});
                if pruned > 0 {
                    answer["pruned"] = pruned.into();
                }
                if checkpoints == 0 && head.seq > 0 {
                    answer["warning"] = "there is no signed checkpoint, so records cut off the end cannot be noticed; the server writes one when it starts".into();
                }
                Ok(answer)
            }
            Err(broken) => Err(StartError::new(Code::AuditBroken, format!("the audit chain is broken: {broken}"))),
        }
    }
}

/// A key that was made or rotated, with its secret as `key`.
fn with_secret((key, secret): (ApiKey, String)) -> Value {
    let mut answer = json!(key);
    answer["key"] = secret.into();
    answer
}

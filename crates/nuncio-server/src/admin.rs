//! The admin API: commands to a running server, over a socket only its owner may
//! open, or do themselves when none runs. Both ways go through one function.

use std::sync::Arc;
use std::time::Duration;

use nuncio_anp::directory::{DirectoryIndex, DirectoryPublisher};
use nuncio_core::Code;
use nuncio_core::approval::ApprovalAnswer;
use nuncio_core::grant::{GrantTerm, KeyScopes};
use nuncio_core::ids::{AgentName, ApprovalId, CallId, DeviceId, GrantId, PersonName, ScopeId, TaskId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::access::NewKey;
use nuncio_engine::ports::store::{ApiKey, KeyRole, KeyTerm};
use nuncio_engine::record::AuditProof;
use nuncio_engine::tasks::TaskCommand;
use nuncio_engine::{Engine, EngineError};
use nuncio_identity::Did;
use nuncio_skill::crawl::SkillCrawler;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::agent_peers::AgentPeers;
use crate::checkpoints::Checkpoints;
use crate::data::DataDir;
use crate::dids::{DidSubject, Dids};
use crate::error::StartError;
use crate::messages::Messages;
use crate::registry;

mod ordered;
mod socket;
mod users;

pub use nuncio_engine::follow::Domain;
pub(crate) use ordered::account;
pub use ordered::{OrderIssuer, this_account};
pub use socket::ask;
pub(crate) use socket::listen;
pub(crate) use users::InviteOrigin;

/// A command of the operator: one JSON line on the admin socket.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum AdminCommand {
    /// Make an API key.
    KeyCreate {
        name: Option<String>,
        person: Option<PersonName>,
        /// Scopes of the key; all when empty.
        scopes: Vec<ScopeId>,
        /// Whether it signs requests rather than being sent with them.
        #[serde(default)]
        signing: bool,
        /// Whether it opens the metrics and the operators' routes.
        #[serde(default)]
        operator: bool,
        /// Expiry of the key; never when absent.
        #[serde(default)]
        term: Option<KeyTerm>,
    },
    KeyList,
    KeyRevoke {
        /// Id or name of the key.
        which: String,
    },
    KeyRotate {
        /// Id or name of the key.
        which: String,
        /// Expiry of the new secret; by the rule of the key when absent.
        #[serde(default)]
        term: Option<KeyTerm>,
        /// For how many seconds the old secret counts beside it.
        #[serde(default)]
        overlap_seconds: u64,
    },
    GrantCreate {
        principal: Principal,
        agent: AgentName,
        scopes: Vec<ScopeId>,
        /// Until when; until revoked when absent.
        until: Option<Timestamp>,
        once: bool,
    },
    GrantList,
    GrantRevoke {
        id: GrantId,
    },
    /// Invite a person, or a further device of theirs.
    UserInvite {
        name: PersonName,
        /// For how many seconds the code is good; a week when absent.
        #[serde(default)]
        seconds: Option<u64>,
    },
    /// List the people with an account.
    UserList,
    /// List a person's devices.
    UserDevices {
        name: PersonName,
    },
    UserRevoke {
        name: PersonName,
        /// The device; all of the person's when absent.
        device: Option<DeviceId>,
    },
    /// Erase a person's data.
    UserForget {
        name: PersonName,
    },
    /// List the approvals that wait.
    ApproveList,
    ApproveAllow {
        id: ApprovalId,
    },
    ApproveDeny {
        id: ApprovalId,
        reason: Option<String>,
    },
    /// List the tasks that wait for people.
    TaskList,
    TaskShow {
        id: TaskId,
    },
    TaskTake {
        id: TaskId,
        by: String,
        /// Takes the task over from the person who holds it.
        over: bool,
    },
    TaskGiveBack {
        id: TaskId,
        by: String,
    },
    TaskFinish {
        id: TaskId,
        by: String,
        output: Value,
    },
    TaskRefuse {
        id: TaskId,
        by: String,
        reason: String,
    },
    /// List the skills of a domain beside our own.
    RegistryFollow {
        domain: Domain,
    },
    /// List them no more.
    RegistryUnfollow {
        domain: Domain,
    },
    /// List the domains that are followed.
    RegistryList,
    /// List an agent of another host in the directory.
    RegistryAdd {
        /// The address of its description, or its DID.
        target: String,
    },
    RegistryRemove {
        /// Id or DID of the agent, or the URL of its description.
        /// Id or name of the key.
        which: String,
    },
    /// List the agents of other hosts in the directory, and where ours are registered.
    RegistryAgents,
    /// Have an agent send a message to another.
    MessageSend {
        agent: AgentName,
        to: String,
        text: String,
    },
    /// Show a message that was sent, and its answer once it came.
    MessageShow {
        agent: AgentName,
        id: String,
    },
    DidLink {
        did: String,
        person: PersonName,
    },
    DidUnlink {
        did: String,
    },
    /// List the DIDs that belong to people.
    DidLinks,
    DidShow {
        /// The agent; the service and all agents when absent.
        agent: Option<AgentName>,
    },
    DidRotate {
        subject: DidSubject,
    },
    /// Move all DIDs to another address.
    DidMove {
        /// The new public URL.
        to: String,
    },
    /// List audit records.
    AuditList {
        after: u64,
        /// At most so many.
        limit: usize,
    },
    /// Prove the audit chain.
    AuditVerify,
    /// Delete old audit records.
    AuditPrune {
        before: Timestamp,
    },
    /// Show what all records say about a call.
    AuditExplain {
        call: CallId,
    },
    /// Look for damage in the store.
    StoreCheck,
}

#[derive(Debug, Clone)]
pub struct AdminApi {
    engine: Engine,
    checkpoints: Arc<Checkpoints>,
    /// Reads followed domains; none while no server runs.
    crawler: Option<SkillCrawler>,
    keeper: Option<DirectoryIndex>,
    /// Registers own agents at other directories; none while no server runs.
    herald: Option<DirectoryPublisher>,
    /// Sends messages; none while no server runs.
    messages: Option<Messages>,
    people: Option<InviteOrigin>,
    dids: Dids,
    /// The keys and sessions that agents have with people's devices.
    peers: Option<Arc<AgentPeers>>,
    /// The directory, where no server runs in it.
    data: Option<Arc<DataDir>>,
}

impl AdminApi {
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
            peers: None,
            data: data.map(Arc::new),
        }
    }

    pub(crate) fn with_peers(mut self, peers: Arc<AgentPeers>) -> Self {
        self.peers = Some(peers);
        self
    }

    pub(crate) fn with_people(mut self, people: InviteOrigin) -> Self {
        self.people = Some(people);
        self
    }

    fn people(&self) -> Result<&InviteOrigin, EngineError> {
        self.people.as_ref().ok_or_else(|| EngineError::new(Code::NotFound, "there are no people here"))
    }

    pub(crate) fn with_crawler(mut self, crawler: SkillCrawler) -> Self {
        self.crawler = Some(crawler);
        self
    }

    pub(crate) fn with_keeper(mut self, keeper: DirectoryIndex, herald: Option<DirectoryPublisher>) -> Self {
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

    fn keeper(&self) -> Result<&DirectoryIndex, EngineError> {
        self.keeper.as_ref().ok_or_else(|| EngineError::new(Code::NotFound, "there is no directory here"))
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn checkpoints(&self) -> Arc<Checkpoints> {
        Arc::clone(&self.checkpoints)
    }

    /// Carries out an order, and records one that changes something.
    pub async fn carry_out(&self, order: AdminCommand, by: &OrderIssuer) -> Result<Value, StartError> {
        match order.record(&self.engine, by) {
            Some(record) => self.engine.records().run_order(record, self.perform(order), ordered::made).await,
            None => self.perform(order).await,
        }
    }

    async fn perform(&self, order: AdminCommand) -> Result<Value, StartError> {
        let engine = &self.engine;
        Ok(match order {
            AdminCommand::KeyCreate { name, person, scopes, signing, operator, term } => {
                let scopes = if scopes.is_empty() { KeyScopes::All } else { KeyScopes::Only(scopes) };
                let role = if operator { KeyRole::Operator } else { KeyRole::App };
                let new = NewKey { name, person, scopes, role, term };
                with_secret(if signing {
                    engine.access().create_signing_key(new).await?
                } else {
                    engine.access().create_key(new).await?
                })
            }
            AdminCommand::KeyList => json!({"keys": engine.access().keys().await?}),
            AdminCommand::KeyRevoke { which } => json!({"revoked": engine.access().revoke_key(&which).await?}),
            AdminCommand::KeyRotate { which, term, overlap_seconds } => {
                with_secret(engine.access().rotate_key(&which, term, Duration::from_secs(overlap_seconds)).await?)
            }
            AdminCommand::GrantCreate { principal, agent, scopes, until, once } => {
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
                json!({"grant": engine.access().create_grant(principal, agent, scopes, term, Principal::Operator).await?})
            }
            AdminCommand::GrantList => json!({"grants": engine.access().grants().await?}),
            AdminCommand::GrantRevoke { id } => {
                engine.access().revoke_grant(&id).await?;
                json!({"revoked": id})
            }
            AdminCommand::UserInvite { name, seconds } => users::invite(engine, self.people()?, name, seconds).await?,
            AdminCommand::UserList => users::list(engine).await?,
            AdminCommand::UserDevices { name } => users::devices(engine, &name).await?,
            AdminCommand::UserRevoke { name, device } => users::revoke(engine, &name, device.as_ref()).await?,
            AdminCommand::UserForget { name } => {
                let forgotten =
                    engine.records().forget_person(&name, self.checkpoints.key(), Principal::Operator).await?;
                if let Some(peers) = &self.peers {
                    peers.forget_person(&name, &forgotten.devices)?;
                }
                json!({"forgotten": forgotten.pseudonym, "redacted": forgotten.redacted})
            }
            AdminCommand::ApproveList => json!({"approvals": engine.approvals().pending_approvals().await?}),
            AdminCommand::ApproveAllow { id } => {
                json!({"approval": engine.approvals().decide_approval(&id, ApprovalAnswer::Allow, Principal::Operator).await?})
            }
            AdminCommand::ApproveDeny { id, reason } => {
                json!({"approval": engine.approvals().decide_approval(&id, ApprovalAnswer::Deny { reason }, Principal::Operator).await?})
            }
            AdminCommand::TaskList => json!({"now": engine.now(), "tasks": engine.inbox().open_tasks().await?}),
            AdminCommand::TaskShow { id } => json!({"now": engine.now(), "task": engine.inbox().task(&id).await?}),
            AdminCommand::TaskTake { id, by, over } => self.step(&id, TaskCommand::Take { over }, &by).await?,
            AdminCommand::TaskGiveBack { id, by } => self.step(&id, TaskCommand::GiveBack, &by).await?,
            AdminCommand::TaskFinish { id, by, output } => self.step(&id, TaskCommand::Finish(output), &by).await?,
            AdminCommand::TaskRefuse { id, by, reason } => self.step(&id, TaskCommand::Refuse(reason), &by).await?,
            AdminCommand::RegistryFollow { domain } => registry::follow(engine, self.crawler.as_ref(), domain).await?,
            AdminCommand::RegistryUnfollow { domain } => {
                registry::unfollow(engine, self.crawler.as_ref(), &domain).await?
            }
            AdminCommand::RegistryList => registry::list(engine, self.crawler.as_ref()).await?,
            AdminCommand::RegistryAdd { target } => registry::agents::add(engine, self.keeper()?, &target).await?,
            AdminCommand::RegistryRemove { which } => registry::agents::remove(self.keeper()?, &which).await?,
            AdminCommand::RegistryAgents => registry::agents::list(engine, self.keeper()?, self.herald.as_ref()),
            AdminCommand::MessageSend { agent, to, text } => self.messages()?.send(&agent, &to, text).await?,
            AdminCommand::MessageShow { agent, id } => self.messages()?.letter(&agent, &id).await?,
            AdminCommand::DidLink { did, person } => {
                let did = Did::parse(&did).map_err(|error| EngineError::new(Code::BadRequest, error.to_string()))?;
                json!({"link": engine.access().link_did(did.as_str(), person).await?})
            }
            AdminCommand::DidUnlink { did } => {
                engine.access().unlink_did(&did).await?;
                json!({"unlinked": did})
            }
            AdminCommand::DidLinks => json!({"links": engine.access().did_links().await?}),
            AdminCommand::DidShow { agent } => self.dids.show(agent.as_ref())?,
            AdminCommand::DidRotate { subject } => self.dids.rotate(&subject)?,
            AdminCommand::DidMove { .. } if self.data.is_none() => {
                let message = "the server runs under its old address: stop it, move the DIDs, and start it with the new --public-url";
                return Err(StartError::new(Code::DataDirInUse, message));
            }
            AdminCommand::DidMove { to } => self.dids.move_to(&to)?,
            AdminCommand::AuditList { after, limit } => {
                let links = engine.records().audit_links(after, limit).await?;
                let records = links.iter().map(|link| {
                    let record: Option<Value> = serde_json::from_str(&link.record).ok();
                    json!({"seq": link.seq, "hash": link.hash, "record": record})
                });
                json!({"records": records.collect::<Vec<_>>()})
            }
            AdminCommand::AuditVerify => self.verify().await?,
            AdminCommand::AuditPrune { before } => {
                let pruned = self.checkpoints.prune(engine, before, Principal::Operator).await?;
                json!({"pruned": pruned, "before": before})
            }
            AdminCommand::AuditExplain { call } => {
                let _unpruned = self.checkpoints.hold().await;
                let explained = engine
                    .records()
                    .explain_call(&call, &self.checkpoints.read()?, self.checkpoints.public_key())
                    .await?;
                json!(explained)
            }
            AdminCommand::StoreCheck => json!(engine.check_store().await?),
        })
    }

    async fn step(&self, id: &TaskId, step: TaskCommand, by: &str) -> Result<Value, StartError> {
        Ok(json!({"task": self.engine.inbox().step_task(id, step, by).await?}))
    }

    async fn verify(&self) -> Result<Value, StartError> {
        let _unpruned = self.checkpoints.hold().await;
        let checkpoints = self.checkpoints.read()?;
        match self.engine.records().verify_audit(&checkpoints, self.checkpoints.public_key()).await? {
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

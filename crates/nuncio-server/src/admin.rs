//! The admin API: the operator's commands. A running server executes them, sent over a socket that only its owner may
//! open; while no server runs, the command line executes them itself. Both use [`AdminApi::carry_out`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use nuncio_anp::directory::{DirectoryIndex, RemoteDirectoryRegistrar};
use nuncio_auth::NetworkExposure;
use nuncio_core::ErrorCode;
use nuncio_core::approval::ApprovalAnswer;
use nuncio_core::grant::{GrantTerm, KeyScopes};
use nuncio_core::ids::{AgentName, ApprovalId, CallId, DeviceId, GrantId, PersonName, ScopeId, TaskId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::access::NewApiKeyRequest;
use nuncio_engine::ports::store::{KeyExpiry, KeyRole};
use nuncio_engine::record::{AuditFilter, AuditVerificationResult};
use nuncio_engine::tasks::TaskCommand;
use nuncio_engine::{Engine, EngineError};
use nuncio_identity::Did;
use nuncio_skill::crawl::SkillCrawler;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::access_state::KeylessAccess;
use crate::agent_peers::AgentPeers;
use crate::checkpoints::AuditCheckpoints;
use crate::data::DataDir;
use crate::dids::{DidSubject, Dids};
use crate::error::OperatorError;
use crate::messages::DirectMessageSender;
use crate::registry;
use crate::rekey::{SecretKeyFile, rekey};
use crate::settings::LoopbackAccess;

mod command_record;
pub mod replies;
mod socket;
mod users;

pub(crate) use command_record::account;
pub use command_record::{OperatorCommandIssuer, this_account};
pub use nuncio_engine::follow::ServerOrigin;
use replies::{
    AgentSafetyNumber, ApprovalList, AuditRecordList, AuditVerification, ChangedTask, CreatedGrant, DecidedApproval,
    DidLinkList, ForgottenUser, GrantList, KeyInfo, KeyList, KeyWithSecret, LinkedDid, NumberedAuditRecord,
    PrunedRecords, RevokedDevices, RevokedGrant, RevokedKey, SentMessage, TaskDetails, TaskList, UnfollowedDomain,
    UnlinkedDid, UserDevices,
};
pub use socket::{ServerReplyOrDataDir, ask, ask_or_lock};
pub(crate) use socket::{is_served, listen};
pub(crate) use users::InviteServerIdentity;

/// Largest number of characters in the name of a key.
const MAX_KEY_NAME: usize = 64;

/// Largest number of audit records in one reply.
const MAX_LISTED_RECORDS: usize = 1000;

/// A command of the operator: one JSON line on the admin socket. A key is named by its id or its name.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum AdminCommand {
    KeyCreate(KeyCreationCommand),
    KeyList,
    KeyRevoke { which: String },
    KeyRotate(KeyRotationCommand),
    // Without `until` and `once`, the grant is valid until it is revoked.
    GrantCreate { principal: Principal, agent: AgentName, scopes: Vec<ScopeId>, until: Option<Timestamp>, once: bool },
    GrantList,
    GrantRevoke { id: GrantId },
    // The invite code is valid for `seconds`, by default for a week.
    UserInvite { name: PersonName, seconds: Option<u64> },
    UserList,
    UserDevices { name: PersonName },
    // Revokes all devices of the person if `device` is absent.
    UserRevoke { name: PersonName, device: Option<DeviceId> },
    // Erases the data of the person.
    UserForget { name: PersonName },
    ApproveList,
    ApproveAllow { id: ApprovalId },
    ApproveDeny { id: ApprovalId, reason: Option<String> },
    TaskList,
    TaskShow { id: TaskId },
    // `over` takes the task even if another person has it.
    TaskTake { id: TaskId, by: String, over: bool },
    TaskGiveBack { id: TaskId, by: String },
    TaskFinish { id: TaskId, by: String, output: Value },
    TaskRefuse { id: TaskId, by: String, reason: String },
    // The skills of a followed domain are listed in the registry.
    RegistryFollow { domain: ServerOrigin },
    RegistryUnfollow { domain: ServerOrigin },
    RegistryList,
    // Lists an agent of another host in the directory, by the URL of its description or its DID.
    RegistryAdd { target: String },
    // `which` is the id or DID of the agent, or the URL of its description.
    RegistryRemove { which: String },
    // Lists the agents of other hosts in the directory, and the registrations of this server's agents elsewhere.
    RegistryAgents,
    MessageSend { agent: AgentName, to: String, text: String },
    // Shows a sent message, with its answer if one has arrived.
    MessageShow { agent: AgentName, id: String },
    // The number that the owner of an agent compares with a person.
    AgentSafetyNumber { agent: AgentName, person: PersonName },
    DidLink { did: String, person: PersonName },
    DidUnlink { did: String },
    DidLinks,
    // Shows the DIDs of the service and all agents if `agent` is absent.
    DidShow { agent: Option<AgentName> },
    DidRotate { subject: DidSubject },
    // Moves all DIDs to another public URL.
    DidMove { to: String },
    // Newest first; with `after`, the records above that number, oldest first.
    AuditList { after: Option<u64>, limit: usize, filter: AuditFilter },
    AuditVerify,
    AuditPrune { before: Timestamp },
    AuditExplain { call: CallId },
    StoreCheck,
    StoreStatus,
    // Replaces the secret key.
    StoreRekey,
}

/// An API key to create.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KeyCreationCommand {
    pub name: Option<String>,
    pub person: Option<PersonName>,
    /// Scopes of the key; all when empty.
    pub scopes: Vec<ScopeId>,
    /// Whether the key signs requests and is never sent.
    #[serde(default)]
    pub signing: bool,
    /// Whether the key may read the metrics and use the operator API.
    #[serde(default)]
    pub operator: bool,
    /// Expiry of the key; never when absent.
    pub term: Option<KeyExpiry>,
}

/// A new secret for an API key.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KeyRotationCommand {
    /// Id or name of the key.
    pub which: String,
    /// Expiry of the new secret; the key's own expiry rule when absent.
    pub term: Option<KeyExpiry>,
    /// Time in seconds for which the old secret stays valid.
    #[serde(default)]
    pub overlap_seconds: u64,
}

/// Executes admin commands.
#[derive(Debug, Clone)]
pub struct AdminApi {
    pub(crate) engine: Engine,
    pub(crate) checkpoints: Arc<AuditCheckpoints>,
    pub(crate) dids: Dids,
    pub(crate) directory: DirectoryIndex,
    pub(crate) invites: InviteServerIdentity,
    /// The keys and sessions that agents have with people's devices.
    pub(crate) peers: Arc<AgentPeers>,
    pub(crate) secret_key_file: Option<SecretKeyFile>,
    pub(crate) host: AdminCommandProcess,
}

/// The process that executes admin commands.
#[derive(Debug, Clone)]
pub(crate) enum AdminCommandProcess {
    Server(Box<AdminServerParts>),
    /// The command line, which holds the lock of the data directory so that no server starts.
    CommandLine {
        _lock: Arc<DataDir>,
        /// The setting for the next server, if the settings file can be read.
        loopback: Option<LoopbackAccess>,
    },
}

/// Parts of a running server that admin commands use.
#[derive(Debug, Clone)]
pub(crate) struct AdminServerParts {
    pub(crate) crawler: SkillCrawler,
    pub(crate) publisher: RemoteDirectoryRegistrar,
    pub(crate) messages: DirectMessageSender,
    pub(crate) exposure: NetworkExposure,
}

impl AdminApi {
    fn server(&self) -> Option<&AdminServerParts> {
        match &self.host {
            AdminCommandProcess::Server(parts) => Some(parts),
            AdminCommandProcess::CommandLine { .. } => None,
        }
    }

    fn access_state(&self) -> KeylessAccess {
        let has_keys = self.engine.access().has_keys();
        match &self.host {
            AdminCommandProcess::Server(server) => KeylessAccess::of_server(server.exposure, has_keys),
            AdminCommandProcess::CommandLine { loopback, .. } => KeylessAccess::of_stopped(has_keys, *loopback),
        }
    }

    fn crawler(&self) -> Option<&SkillCrawler> {
        self.server().map(|server| &server.crawler)
    }

    fn messages(&self) -> Result<&DirectMessageSender, OperatorError> {
        let message =
            "no server runs with this data directory to receive the answer; start it, and send the message again";
        let server = self.server().ok_or_else(|| OperatorError::new(ErrorCode::NoMessageService, message))?;
        Ok(&server.messages)
    }

    /// Executes a command. A command that changes something is recorded in the audit chain.
    pub async fn carry_out(&self, command: AdminCommand, by: &OperatorCommandIssuer) -> Result<Value, OperatorError> {
        match command.record(&self.engine, by) {
            Some(record) => {
                self.engine.records().run_recorded(record, self.execute(command), command_record::created_id).await
            }
            None => self.execute(command).await,
        }
    }

    async fn execute(&self, command: AdminCommand) -> Result<Value, OperatorError> {
        let engine = &self.engine;
        match command {
            AdminCommand::KeyCreate(KeyCreationCommand { name, person, scopes, signing, operator, term }) => {
                self.check_new_key(name.as_deref(), &scopes).await?;
                let scopes = if scopes.is_empty() { KeyScopes::All } else { KeyScopes::Only(scopes) };
                let role = if operator { KeyRole::Operator } else { KeyRole::App };
                let new = NewApiKeyRequest { name, person, scopes, role, term };
                let (key, secret) = if signing {
                    engine.access().create_signing_key(new).await?
                } else {
                    engine.access().create_key(new).await?
                };
                reply(KeyWithSecret { info: key.into(), secret })
            }
            AdminCommand::KeyList => {
                let keys = engine.access().keys().await?;
                reply(KeyList {
                    keys: keys.into_iter().map(KeyInfo::from).collect(),
                    access: Some(self.access_state()),
                })
            }
            AdminCommand::KeyRevoke { which } => {
                reply(RevokedKey { revoked: engine.access().revoke_key(&which).await?.into() })
            }
            AdminCommand::KeyRotate(KeyRotationCommand { which, term, overlap_seconds }) => {
                let overlap = Duration::from_secs(overlap_seconds);
                let (key, secret) = engine.access().rotate_key(&which, term, overlap).await?;
                reply(KeyWithSecret { info: key.into(), secret })
            }
            AdminCommand::GrantCreate { principal, agent, scopes, until, once } => {
                let term = match (until, once) {
                    (Some(_), true) => {
                        let message = "a grant is for once or until a time, not both";
                        return Err(OperatorError::new(ErrorCode::BadRequest, message));
                    }
                    (None, true) => GrantTerm::Once,
                    (Some(end), false) => GrantTerm::Until(end),
                    (None, false) => GrantTerm::UntilRevoked,
                };
                self.check_new_grant(&principal, &term).await?;
                // Without a server, no agent is loaded, so there is nothing to compare with.
                let checked = self.server().is_some();
                if checked {
                    engine.access().check_grantable(&agent, &scopes)?;
                }
                let grant = engine.access().create_grant(principal, agent, scopes, term, Principal::Operator).await?;
                reply(CreatedGrant { grant, checked })
            }
            AdminCommand::GrantList => reply(GrantList { grants: engine.access().grants().await? }),
            AdminCommand::GrantRevoke { id } => {
                engine.access().revoke_grant(&id).await?;
                reply(RevokedGrant { revoked: id })
            }
            AdminCommand::UserInvite { name, seconds } => {
                reply(users::invite(engine, &self.invites, name, seconds).await?)
            }
            AdminCommand::UserList => reply(users::list(engine).await?),
            AdminCommand::UserDevices { name } => reply(UserDevices { devices: engine.people().devices(&name).await? }),
            AdminCommand::UserRevoke { name, device } => {
                reply(RevokedDevices { revoked: users::revoke(engine, &name, device.as_ref()).await? })
            }
            AdminCommand::AgentSafetyNumber { agent, person } => {
                let number = self.peers.safety_number(&agent, &person).await?;
                reply(AgentSafetyNumber { agent, person, safety_number: number })
            }
            AdminCommand::UserForget { name } => {
                let report = engine.records().forget_person(&name, self.checkpoints.key(), Principal::Operator).await?;
                self.peers.forget_person(&name, &report.devices)?;
                reply(ForgottenUser { forgotten: report.pseudonym, redacted: report.redacted })
            }
            AdminCommand::ApproveList => {
                reply(ApprovalList { approvals: engine.approvals().pending_approvals().await? })
            }
            AdminCommand::ApproveAllow { id } => self.decide_approval(&id, ApprovalAnswer::Allow).await,
            AdminCommand::ApproveDeny { id, reason } => {
                self.decide_approval(&id, ApprovalAnswer::Deny { reason }).await
            }
            AdminCommand::TaskList => reply(TaskList { now: engine.now(), tasks: engine.inbox().open_tasks().await? }),
            AdminCommand::TaskShow { id } => {
                reply(TaskDetails { now: engine.now(), task: engine.inbox().task(&id).await? })
            }
            AdminCommand::TaskTake { id, by, over } => self.step_task(&id, TaskCommand::Take { over }, &by).await,
            AdminCommand::TaskGiveBack { id, by } => self.step_task(&id, TaskCommand::GiveBack, &by).await,
            AdminCommand::TaskFinish { id, by, output } => self.step_task(&id, TaskCommand::Finish(output), &by).await,
            AdminCommand::TaskRefuse { id, by, reason } => self.step_task(&id, TaskCommand::Refuse(reason), &by).await,
            AdminCommand::RegistryFollow { domain } => reply(registry::follow(engine, self.crawler(), domain).await?),
            AdminCommand::RegistryUnfollow { domain } => {
                registry::unfollow(engine, self.crawler(), &domain).await?;
                reply(UnfollowedDomain { unfollowed: domain })
            }
            AdminCommand::RegistryList => reply(registry::list(engine, self.crawler()).await?),
            AdminCommand::RegistryAdd { target } => {
                reply(registry::agents::add(engine, &self.directory, &target).await?)
            }
            AdminCommand::RegistryRemove { which } => reply(registry::agents::remove(&self.directory, &which).await?),
            AdminCommand::RegistryAgents => {
                let publisher = self.server().map(|server| &server.publisher);
                reply(registry::agents::list(engine, &self.directory, publisher))
            }
            AdminCommand::MessageSend { agent, to, text } => {
                reply(SentMessage { letter: self.messages()?.send(&agent, &to, text).await? })
            }
            AdminCommand::MessageShow { agent, id } => {
                self.messages()?;
                reply(SentMessage { letter: engine.direct_messages().direct_message(&agent, &id).await? })
            }
            AdminCommand::DidLink { did, person } => {
                let did =
                    Did::parse(&did).map_err(|error| EngineError::new(ErrorCode::BadRequest, error.to_string()))?;
                reply(LinkedDid { link: engine.access().link_did(did.as_str(), person).await? })
            }
            AdminCommand::DidUnlink { did } => {
                engine.access().unlink_did(&did).await?;
                reply(UnlinkedDid { unlinked: did })
            }
            AdminCommand::DidLinks => reply(DidLinkList { links: engine.access().did_links().await? }),
            AdminCommand::DidShow { agent } => reply(self.dids.show(agent.as_ref())?),
            AdminCommand::DidRotate { subject } => {
                let rotated = self.dids.rotate(&subject).await?;
                if let Some(server) = self.server() {
                    server.publisher.schedule_changed().await;
                }
                reply(rotated)
            }
            AdminCommand::DidMove { .. } if self.server().is_some() => {
                let message = "the server runs under its old address: stop it, move the DIDs, and start it with the new --public-url";
                Err(OperatorError::new(ErrorCode::DataDirInUse, message))
            }
            AdminCommand::DidMove { to } => reply(self.dids.move_to(&to).await?),
            AdminCommand::AuditList { after, limit, filter } => {
                let limit = limit.min(MAX_LISTED_RECORDS);
                let listed = match after {
                    Some(after) => engine.records().list_after(after, &filter, limit).await?,
                    None => engine.records().list_newest(&filter, limit).await?,
                };
                reply(AuditRecordList { records: listed.into_iter().map(NumberedAuditRecord::from).collect() })
            }
            AdminCommand::AuditVerify => reply(self.verify_audit().await?),
            AdminCommand::AuditPrune { before } => {
                let pruned = self.checkpoints.prune(engine, before, Principal::Operator).await?;
                reply(PrunedRecords { pruned, before })
            }
            AdminCommand::AuditExplain { call } => {
                let _unpruned = self.checkpoints.hold().await;
                let checkpoints = self.checkpoints.read()?;
                reply(engine.records().explain_call(&call, &checkpoints, &self.checkpoints.public_keys().await?).await?)
            }
            AdminCommand::StoreRekey => reply(rekey(engine, &self.peers, self.secret_key_file.as_ref()).await?),
            AdminCommand::StoreStatus => reply(engine.store_status().await?),
            AdminCommand::StoreCheck => reply(engine.check_store().await?),
        }
    }

    /// Refuses a name by which a key could not be found again, and a scope that no served agent has.
    async fn check_new_key(&self, name: Option<&str>, scopes: &[ScopeId]) -> Result<(), OperatorError> {
        let refused = |message: String| Err(OperatorError::new(ErrorCode::BadRequest, message));
        if let Some(name) = name {
            let length = name.chars().count();
            if length == 0 || length > MAX_KEY_NAME || name.trim() != name || name.chars().any(char::is_control) {
                return refused(format!(
                    "the name of a key must have 1 to {MAX_KEY_NAME} characters, no control characters, and no space \
                     at its start or end"
                ));
            }
            let keys = self.engine.access().keys().await?;
            if let Some(key) = keys.iter().find(|key| key.revoked_at.is_none() && key.name.as_deref() == Some(name)) {
                return refused(format!(
                    "the key {} is already named {name:?}; choose another name, or replace its secret with `nuncio key \
                     rotate {}`",
                    key.id, key.id
                ));
            }
        }
        // Without a server, no agent is loaded, so there is nothing to compare with.
        if self.server().is_none() {
            return Ok(());
        }
        let agents = self.engine.agents().list();
        let exists = |scope: &ScopeId| {
            let scope = std::slice::from_ref(scope);
            agents.iter().any(|agent| self.engine.access().check_grantable(&agent.name, scope).is_ok())
        };
        let Some(unknown) = scopes.iter().find(|scope| !exists(scope)) else { return Ok(()) };
        let known: BTreeSet<_> = agents.iter().flat_map(|agent| &agent.scopes).map(|scope| scope.id.as_str()).collect();
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        let message = match known.as_str() {
            "" => format!("no agent of this server has the scope {unknown}; none has any scope"),
            known => format!("no agent of this server has the scope {unknown}; their scopes: {known}"),
        };
        Err(OperatorError::new(ErrorCode::ScopeUnknown, message))
    }

    /// Refuses a grant that would never apply: to a key that does not exist, or until a past time.
    async fn check_new_grant(&self, principal: &Principal, term: &GrantTerm) -> Result<(), OperatorError> {
        if let Principal::Key(id) = principal {
            let keys = self.engine.access().keys().await?;
            if !keys.iter().any(|key| key.id == *id && key.revoked_at.is_none()) {
                let message = format!("there is no valid key {id}; `nuncio key list` shows the ids of all keys");
                return Err(OperatorError::new(ErrorCode::KeyNotFound, message));
            }
        }
        if let Principal::Person(name) = principal {
            let people = self.engine.people().list().await?;
            if !people.iter().any(|person| person.name == *name) {
                let message = format!(
                    "there is no person {name} on this server; `nuncio user invite {name}` prints the link with which \
                     {name} enrols a device, and `nuncio user list` shows all people"
                );
                return Err(OperatorError::new(ErrorCode::PersonNotFound, message));
            }
        }
        match term {
            GrantTerm::Until(end) if *end <= self.engine.now() => {
                let message = format!("{end} is in the past, so the grant would never apply; give a later time");
                Err(OperatorError::new(ErrorCode::BadRequest, message))
            }
            _ => Ok(()),
        }
    }

    async fn decide_approval(&self, id: &ApprovalId, answer: ApprovalAnswer) -> Result<Value, OperatorError> {
        let approval = self.engine.approvals().decide_approval(id, answer, Principal::Operator).await?;
        reply(DecidedApproval { approval })
    }

    async fn step_task(&self, id: &TaskId, step: TaskCommand, by: &str) -> Result<Value, OperatorError> {
        reply(ChangedTask { task: self.engine.inbox().step_task(id, step, by).await? })
    }

    async fn verify_audit(&self) -> Result<AuditVerification, OperatorError> {
        let _unpruned = self.checkpoints.hold().await;
        let checkpoints = self.checkpoints.read()?;
        let keys = self.checkpoints.public_keys().await?;
        let proof = self.engine.records().verify_audit(&checkpoints, &keys).await?;
        let AuditVerificationResult { head, records, pruned, chains, checkpoints, rounds } =
            proof.map_err(|broken| {
                OperatorError::new(ErrorCode::AuditBroken, format!("the audit chain is broken: {broken}"))
            })?;
        let warning = "there is no signed checkpoint, so records removed from the end cannot be detected; the server \
                       writes one when it starts";
        Ok(AuditVerification {
            records,
            hash: head.hash,
            checkpoints,
            chains: (chains > 1).then_some(chains),
            rounds: (rounds > 0).then_some(rounds),
            intact: true,
            pruned: (pruned > 0).then_some(pruned),
            warning: (checkpoints == 0 && records > 0).then(|| warning.to_owned()),
        })
    }
}

/// Serialises a reply.
fn reply(reply: impl Serialize) -> Result<Value, OperatorError> {
    serde_json::to_value(reply).map_err(|error| OperatorError::new(ErrorCode::Internal, error.to_string()))
}

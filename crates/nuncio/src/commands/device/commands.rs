//! Commands to a device. The process that runs the device executes them, sent over a socket in the device folder, its
//! home; while no such process runs, the command line executes them itself. Both use [`DeviceCommandExecutor::carry_out`].

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nuncio_core::ErrorCode;
use nuncio_core::agent::Sensitivity;
use nuncio_core::digest::Digest;
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::{AgentId, DeviceId, ScopeId};
use nuncio_core::notification::RelayParty;
use nuncio_core::opaque_debug;
use nuncio_device::audit::ChainedAuditEntry;
use nuncio_device::prompt::{DenyAllPrompts, PermissionPrompt};
use nuncio_device::tools::LocalTools;
use nuncio_device::{Device, DeviceDependencies, GrantedScopes};
use nuncio_engine::ports::Clock as _;
use nuncio_server::{OperatorError, SystemClock};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::home::{config, folder_of, opened, require_device};
use super::pages::OneTimePageLinks;
use super::{device_error, socket};
use crate::cli::DeviceHomeOptions;
use crate::output::{fault, show, wrong_usage};

/// How long a command waits for another process that has locked the device folder.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which a waiting command tries to lock the device folder.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// A command to the device: one JSON line on its socket.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum DeviceCommand {
    Ping,
    Agents,
    // Shows the scopes that an agent requests, and grants the given ones.
    Allow { agent: AgentId, scopes: Vec<ScopeId>, all_low: bool, term: GrantTerm },
    Revoke { agent: AgentId },
    Audit,
    Verify { agent: AgentId },
    // Shows the changed keys of an agent.
    Changed { agent: AgentId },
    Accept { agent: AgentId, device: DeviceId, fingerprint: Digest },
    Devices,
    Invite,
    // `fingerprint` is the one that the person compared.
    Trust { device: DeviceId, fingerprint: Option<Digest> },
    Remove { device: DeviceId },
    Backup { passphrase: Passphrase },
    Recover { passphrase: Passphrase },
    Status,
    Open,
}

/// A passphrase, redacted in debug output.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Passphrase(pub(super) String);

opaque_debug!(Passphrase);

/// Runs a command in the process that runs the device, or in this process if none does.
pub(super) async fn carry_out(home: &DeviceHomeOptions, command: DeviceCommand) -> anyhow::Result<Value> {
    let ask = async || socket::ask(&folder_of(home)?, &command).await;
    if let Some(reply) = ask().await? {
        return Ok(reply);
    }
    require_device(home)?;
    match lock_home(home, LocalTools::default(), Arc::new(DenyAllPrompts), ask).await? {
        DeviceLockResult::Replied(reply) => Ok(reply),
        DeviceLockResult::Locked(config) => {
            DeviceCommandExecutor { device: opened(home, *config)?, links: None }.carry_out(command).await
        }
    }
}

/// Runs a command and prints its reply.
pub(super) async fn run_command(
    home: &DeviceHomeOptions,
    command: DeviceCommand,
    json: bool,
    print: impl FnOnce(&Value),
) -> anyhow::Result<()> {
    show(json, &carry_out(home, command).await?, print);
    Ok(())
}

enum DeviceLockResult {
    Locked(Box<DeviceDependencies>),
    /// The process that has locked the device folder replied to the command.
    Replied(Value),
}

/// Locks a device folder. While another process has locked it, `ask` sends the command to that process.
async fn lock_home<F: Future<Output = anyhow::Result<Option<Value>>>>(
    home: &DeviceHomeOptions,
    tools: LocalTools,
    prompt: Arc<dyn PermissionPrompt>,
    ask: impl Fn() -> F,
) -> anyhow::Result<DeviceLockResult> {
    let began = Instant::now();
    loop {
        let in_use = |error: &anyhow::Error| {
            error.downcast_ref::<OperatorError>().is_some_and(|error| error.code == ErrorCode::DataDirInUse)
        };
        match config(home, tools.clone(), Arc::clone(&prompt)).await {
            Err(error) if in_use(&error) => {
                if let Some(reply) = ask().await? {
                    return Ok(DeviceLockResult::Replied(reply));
                }
                if began.elapsed() > LOCK_TIMEOUT {
                    return Err(error);
                }
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
            other => return other.map(|config| DeviceLockResult::Locked(Box::new(config))),
        }
    }
}

/// Locks a device folder; fails if a device runs in it.
pub(super) async fn lock_idle_home(
    home: &DeviceHomeOptions,
    tools: LocalTools,
    prompt: Arc<dyn PermissionPrompt>,
) -> anyhow::Result<DeviceDependencies> {
    let folder = folder_of(home)?;
    match lock_home(home, tools, prompt, async || socket::ask(&folder, &DeviceCommand::Ping).await).await? {
        DeviceLockResult::Locked(config) => Ok(*config),
        DeviceLockResult::Replied(_) => {
            let message = format!("{}: `nuncio device run` runs here already; stop it first", folder.display());
            Err(fault(ErrorCode::DataDirInUse, message))
        }
    }
}

/// Executes commands on an opened device.
#[derive(Debug, Clone)]
pub(super) struct DeviceCommandExecutor {
    pub(super) device: Device,
    /// Makes links to the device pages; `None` if no pages are served.
    pub(super) links: Option<OneTimePageLinks>,
}

impl DeviceCommandExecutor {
    pub(super) async fn carry_out(&self, command: DeviceCommand) -> anyhow::Result<Value> {
        let device = &self.device;
        Ok(match command {
            DeviceCommand::Ping => json!({}),
            DeviceCommand::Agents => agents(device)?,
            DeviceCommand::Allow { agent, scopes, all_low, term } => {
                allow(device, &agent, &scopes, all_low, term).await?
            }
            DeviceCommand::Revoke { agent } => {
                device.consents().revoke(&agent).await.map_err(device_error)?;
                json!({"revoked": agent})
            }
            DeviceCommand::Audit => {
                let count = device.audit().verify().map_err(|why| fault(ErrorCode::AuditBroken, why.to_string()))?;
                let entries = device.audit().entries().map_err(device_error)?;
                json!({"verified": count, "entries": entries.iter().map(ChainedAuditEntry::with_hash).collect::<Vec<_>>()})
            }
            DeviceCommand::Verify { agent } => verify(device, agent).await?,
            DeviceCommand::Changed { agent } => changed(device, agent).await?,
            DeviceCommand::Accept { agent, device: other, fingerprint } => {
                let owner = RelayParty::Agent(agent.clone());
                let accepted = device.peer().keys().accept_key(&owner, &other, &fingerprint).await;
                accepted.map_err(|error| device_error(error.into()))?;
                verify(device, agent).await?
            }
            DeviceCommand::Devices => json!({"devices": device.own_devices().list().await.map_err(device_error)?}),
            DeviceCommand::Invite => json!(device.own_devices().invite().await.map_err(device_error)?),
            DeviceCommand::Trust { device: other, fingerprint } => {
                device.own_devices().trust(&other, fingerprint.as_ref()).await.map_err(device_error)?;
                json!({"trusted": other})
            }
            DeviceCommand::Remove { device: other } => {
                device.own_devices().remove(&other).await.map_err(device_error)?;
                json!({"removed": other})
            }
            DeviceCommand::Backup { passphrase } => {
                json!(device.backups().create(&passphrase.0).await.map_err(device_error)?)
            }
            DeviceCommand::Recover { passphrase } => {
                json!({"recovered": device.backups().recover(&passphrase.0).await.map_err(device_error)?})
            }
            DeviceCommand::Status => status(device).await?,
            DeviceCommand::Open => match &self.links {
                Some(links) => json!({"url": links.link()}),
                None => {
                    let message = "no pages are served here: run `nuncio device run` without --no-pages";
                    return Err(fault(ErrorCode::NotFound, message));
                }
            },
        })
    }
}

fn agents(device: &Device) -> anyhow::Result<Value> {
    let (person, now) = (&device.identity().person, SystemClock.now());
    let known = device.consents().agents().map_err(device_error)?;
    let shown = known.iter().map(|known| {
        let standing = known.standing(person);
        let granted: Vec<_> = standing
            .iter()
            .flat_map(|standing| standing.granted.keys().filter(|scope| known.allows(standing, scope, now)))
            .collect();
        let suspended = standing.as_ref().map(|standing| &standing.suspended);
        json!({"agent": known.agent, "name": known.name, "allowed": granted, "suspended": suspended})
    });
    Ok(json!({"agents": shown.collect::<Vec<_>>()}))
}

async fn allow(
    device: &Device,
    agent: &AgentId,
    scopes: &[ScopeId],
    all_low: bool,
    term: GrantTerm,
) -> anyhow::Result<Value> {
    let request = device.consents().access_request(agent).await.map_err(device_error)?;
    let mut granted = GrantedScopes::new();
    for scope in scopes {
        if !request.scopes.iter().any(|requested| requested.id == *scope) {
            return Err(wrong_usage(format!("{agent} does not ask for {scope}")));
        }
        granted.insert(scope.clone(), term);
    }
    let low = request.scopes.iter().filter(|requested| all_low && requested.sensitivity == Sensitivity::Low);
    granted.extend(low.map(|requested| (requested.id.clone(), term)));
    if granted.is_empty() {
        return Ok(json!({"ask": request}));
    }
    device.consents().allow(&request, &granted).await.map_err(device_error)?;
    Ok(json!({"agent": agent, "name": request.name, "allowed": granted.keys().collect::<Vec<_>>()}))
}

async fn verify(device: &Device, agent: AgentId) -> anyhow::Result<Value> {
    let number = device.peer().keys().safety_number(&RelayParty::Agent(agent.clone())).await;
    let number = number.map_err(|error| device_error(error.into()))?;
    let none = || fault(ErrorCode::KeysNotFound, format!("{agent} has no keys yet that could be compared"));
    Ok(json!({"agent": agent, "safety_number": number.ok_or_else(none)?}))
}

async fn changed(device: &Device, agent: AgentId) -> anyhow::Result<Value> {
    let owner = RelayParty::Agent(agent.clone());
    let waiting = device.peer().keys().waiting(&owner).await.map_err(|error| device_error(error.into()))?;
    let Some(new) = waiting.first() else {
        let message = format!("the keys of {agent} did not change; there is nothing to accept");
        return Err(fault(ErrorCode::BadRequest, message));
    };
    let was = device.peer().keys().safety_number(&owner).await.map_err(|error| device_error(error.into()))?;
    Ok(json!({
        "agent": agent, "person": device.identity().person, "device": new.bundle.keys.device_id, "why": new.why.to_string(),
        "fingerprint": new.bundle.keys.signing_key.fingerprint(), "was": was, "is": new.safety_number,
    }))
}

async fn status(device: &Device) -> anyhow::Result<Value> {
    let server = device.check_connection().await;
    let identity = device.identity();
    let audit = device.audit().verify();
    Ok(json!({
        "person": identity.person, "device": identity.device, "url": identity.url, "server": server,
        "agents": device.consents().agents().map_err(device_error)?.len(),
        "audit": audit.as_ref().map_or_else(|why| json!(why.to_string()), |count| json!(count)),
    }))
}

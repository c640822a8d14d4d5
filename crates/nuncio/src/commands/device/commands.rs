//! Commands to a device: of the process that runs it, over a socket in its home, or of the device itself when
//! none does. Both ways go through one function.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nuncio_core::Code;
use nuncio_core::agent::Sensitivity;
use nuncio_core::digest::Digest;
use nuncio_core::grant::GrantTerm;
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{AgentId, DeviceId, ScopeId};
use nuncio_core::opaque_debug;
use nuncio_device::audit::ChainedEntry;
use nuncio_device::prompt::{DenyAll, Prompt};
use nuncio_device::tools::Tools;
use nuncio_device::{Device, DeviceConfig, GrantedScopes};
use nuncio_engine::ports::Clock as _;
use nuncio_server::{StartError, SystemClock};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::home::{config, folder_of, opened};
use super::pages::Opener;
use super::{device_error, socket};
use crate::cli::DeviceHome;
use crate::output::{WrongUsage, fault};

/// How long a command waits for another one that has the home.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(50);

/// A command to the device: one JSON line on its socket.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum DeviceCommand {
    Ping,
    /// List the agents it deals with.
    Agents,
    /// Show the scopes an agent asks for, and grant those named.
    Allow {
        agent: AgentId,
        scopes: Vec<ScopeId>,
        all_low: bool,
        term: GrantTerm,
    },
    Revoke {
        agent: AgentId,
    },
    /// Prove what happened, and list it.
    Audit,
    /// The number to compare with an agent's owner.
    Verify {
        agent: AgentId,
    },
    /// An agent's keys that are not those it had.
    Changed {
        agent: AgentId,
    },
    Accept {
        agent: AgentId,
        device: DeviceId,
        fingerprint: Digest,
    },
    /// List the person's devices.
    Devices,
    /// Invite a further one.
    Invite,
    /// Trust a device of the person, with the fingerprint they compared.
    Trust {
        device: DeviceId,
        fingerprint: Option<Digest>,
    },
    Remove {
        device: DeviceId,
    },
    /// Back up its keys.
    Backup {
        passphrase: Passphrase,
    },
    /// Let a device that was backed up vouch for this one.
    Recover {
        passphrase: Passphrase,
    },
    Status,
    Open,
}

/// A passphrase, redacted in debug output.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Passphrase(pub(super) String);

opaque_debug!(Passphrase);

/// Runs a command: in the process that runs the device, or here.
pub(super) async fn carry_out(home: &DeviceHome, order: DeviceCommand) -> anyhow::Result<Value> {
    let asked = async || socket::ask(&folder_of(home)?, &order).await;
    if let Some(answer) = asked().await? {
        return Ok(answer);
    }
    let took =
        take(home, Tools::default(), Arc::new(DenyAll), async || Ok(asked().await?.map(HomeLock::Answered))).await?;
    match took {
        HomeLock::Answered(answer) => Ok(answer),
        HomeLock::Ours(config) => {
            DeviceCommands { device: opened(home, *config)?, opener: None }.carry_out(order).await
        }
    }
}

pub(super) enum HomeLock {
    Ours(Box<DeviceConfig>),
    Answered(Value),
}

/// Takes a home, which another command may have for a moment. A process that keeps it is asked by `or` meanwhile.
pub(super) async fn take<F: Future<Output = anyhow::Result<Option<HomeLock>>>>(
    home: &DeviceHome,
    tools: Tools,
    prompt: Arc<dyn Prompt>,
    or: impl Fn() -> F,
) -> anyhow::Result<HomeLock> {
    let began = Instant::now();
    loop {
        let in_use = |error: &anyhow::Error| {
            error.downcast_ref::<StartError>().is_some_and(|error| error.code == Code::DataDirInUse)
        };
        match config(home, tools.clone(), Arc::clone(&prompt)).await {
            Err(error) if in_use(&error) => {
                if let Some(taken) = or().await? {
                    return Ok(taken);
                }
                if began.elapsed() > PATIENCE {
                    return Err(error);
                }
                tokio::time::sleep(LOOK).await;
            }
            other => return other.map(|config| HomeLock::Ours(Box::new(config))),
        }
    }
}

/// Takes a home for oneself, while no device runs there.
pub(super) async fn take_alone(
    home: &DeviceHome,
    tools: Tools,
    prompt: Arc<dyn Prompt>,
) -> anyhow::Result<DeviceConfig> {
    let folder = folder_of(home)?;
    let busy = || {
        let message = format!("{}: `nuncio device run` runs here already; stop it first", folder.display());
        fault(Code::DataDirInUse, message)
    };
    let runs = async || match socket::ask(&folder, &DeviceCommand::Ping).await? {
        Some(_) => Err(busy()),
        None => Ok(None),
    };
    match take(home, tools, prompt, runs).await? {
        HomeLock::Ours(config) => Ok(*config),
        HomeLock::Answered(_) => Err(busy()),
    }
}

#[derive(Debug, Clone)]
pub(super) struct DeviceCommands {
    pub(super) device: Device,
    /// Opens its pages, where there are any.
    pub(super) opener: Option<Opener>,
}

impl DeviceCommands {
    /// Carries out an order.
    pub(super) async fn carry_out(&self, order: DeviceCommand) -> anyhow::Result<Value> {
        let device = &self.device;
        Ok(match order {
            DeviceCommand::Ping => json!({}),
            DeviceCommand::Agents => agents(device)?,
            DeviceCommand::Allow { agent, scopes, all_low, term } => {
                allow(device, &agent, &scopes, all_low, term).await?
            }
            DeviceCommand::Revoke { agent } => {
                device.revoke(&agent).await.map_err(device_error)?;
                json!({"revoked": agent})
            }
            DeviceCommand::Audit => {
                let count = device.verify_audit().map_err(|why| fault(Code::AuditBroken, why.to_string()))?;
                let entries = device.audit().map_err(device_error)?;
                json!({"verified": count, "entries": entries.iter().map(ChainedEntry::with_hash).collect::<Vec<_>>()})
            }
            DeviceCommand::Verify { agent } => verify(device, agent).await?,
            DeviceCommand::Changed { agent } => changed(device, agent).await?,
            DeviceCommand::Accept { agent, device: other, fingerprint } => {
                let owner = Recipient::Agent(agent.clone());
                let accepted = device.peer().accept_key(&owner, &other, &fingerprint).await;
                accepted.map_err(|error| device_error(error.into()))?;
                verify(device, agent).await?
            }
            DeviceCommand::Devices => json!({"devices": device.devices().await.map_err(device_error)?}),
            DeviceCommand::Invite => json!(device.invite().await.map_err(device_error)?),
            DeviceCommand::Trust { device: other, fingerprint } => {
                match fingerprint {
                    Some(seen) => device.trust_key(&other, &seen).await,
                    None => device.trust(&other).await,
                }
                .map_err(device_error)?;
                json!({"trusted": other})
            }
            DeviceCommand::Remove { device: other } => {
                device.remove(&other).await.map_err(device_error)?;
                json!({"removed": other})
            }
            DeviceCommand::Backup { passphrase } => json!(device.back_up(&passphrase.0).await.map_err(device_error)?),
            DeviceCommand::Recover { passphrase } => {
                json!({"recovered": device.recover(&passphrase.0).await.map_err(device_error)?})
            }
            DeviceCommand::Status => status(device)?,
            DeviceCommand::Open => match &self.opener {
                Some(opener) => json!({"url": opener.link()}),
                None => {
                    let message = "no pages are served here: run `nuncio device run` without --no-pages";
                    return Err(fault(Code::NotFound, message));
                }
            },
        })
    }
}

fn agents(device: &Device) -> anyhow::Result<Value> {
    let (person, now) = (&device.identity().person, SystemClock.now());
    let known = device.agents().map_err(device_error)?;
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
    let ask = device.access_request(agent).await.map_err(device_error)?;
    let mut given = GrantedScopes::new();
    for scope in scopes {
        if !ask.scopes.iter().any(|asked| asked.id == *scope) {
            return Err(WrongUsage(format!("{agent} does not ask for {scope}")).into());
        }
        given.insert(scope.clone(), term);
    }
    let low = ask.scopes.iter().filter(|asked| all_low && asked.sensitivity == Sensitivity::Low);
    given.extend(low.map(|asked| (asked.id.clone(), term)));
    if given.is_empty() {
        return Ok(json!({"ask": ask}));
    }
    device.allow(&ask, &given).await.map_err(device_error)?;
    Ok(json!({"agent": agent, "name": ask.name, "allowed": given.keys().collect::<Vec<_>>()}))
}

async fn verify(device: &Device, agent: AgentId) -> anyhow::Result<Value> {
    let number = device.peer().safety_number(&Recipient::Agent(agent.clone())).await;
    let number = number.map_err(|error| device_error(error.into()))?;
    let none = || fault(Code::KeysNotFound, format!("{agent} has no keys yet that could be compared"));
    Ok(json!({"agent": agent, "safety_number": number.ok_or_else(none)?}))
}

async fn changed(device: &Device, agent: AgentId) -> anyhow::Result<Value> {
    let owner = Recipient::Agent(agent.clone());
    let waiting = device.peer().waiting(&owner).await.map_err(|error| device_error(error.into()))?;
    let Some(new) = waiting.first() else {
        let message = format!("the keys of {agent} did not change; there is nothing to accept");
        return Err(fault(Code::BadRequest, message));
    };
    let was = device.peer().safety_number(&owner).await.map_err(|error| device_error(error.into()))?;
    Ok(json!({
        "agent": agent, "device": new.bundle.keys.device_id, "why": new.why.to_string(),
        "fingerprint": new.bundle.keys.signing_key.fingerprint(), "was": was, "is": new.safety_number,
    }))
}

fn status(device: &Device) -> anyhow::Result<Value> {
    let identity = device.identity();
    let audit = device.verify_audit();
    Ok(json!({
        "person": identity.person, "device": identity.device, "url": identity.url,
        "agents": device.agents().map_err(device_error)?.len(),
        "audit": audit.as_ref().map_or_else(|why| json!(why.to_string()), |count| json!(count)),
    }))
}

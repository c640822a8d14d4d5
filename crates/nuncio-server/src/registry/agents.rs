//! Admin commands of the directory: agents of other hosts that are listed here, and ours that are listed
//! elsewhere.

use std::sync::Arc;

use nuncio_anp::client::{AgentTarget, AnpClient, AnpClientOptions, LocalDids};
use nuncio_anp::directory::{DirectoryIndex, DirectoryOptions, DirectoryPublisher, shown};
use nuncio_anp::project::Host;
use nuncio_core::Code;
use nuncio_core::principal::Principal;
use nuncio_engine::directory::{ListingId, not_registered};
use nuncio_engine::ports::{Entropy, Fetch};
use nuncio_engine::{Engine, EngineError};
use serde_json::{Value, json};

use crate::dids::Dids;
use crate::error::StartError;
use crate::settings::RegistrySettings;
use crate::system::SystemEntropy;

/// The directory with what was kept of it. `here` is the base URL of this server, while there is a
/// server.
pub(crate) async fn open(
    engine: &Engine,
    fetch: Arc<dyn Fetch>,
    settings: &RegistrySettings,
    local: LocalDids,
    here: Option<&str>,
) -> Result<DirectoryIndex, StartError> {
    let options = DirectoryOptions {
        accept: settings.accept,
        interval: settings.check_interval(),
        limits: settings.limits(),
        local,
        here: here.map(str::to_owned),
    };
    let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
    let keeper = DirectoryIndex::new(engine.clone(), fetch, &entropy, options);
    keeper.load().await?;
    Ok(keeper)
}

/// Registers the agents of this server with the directories in the settings.
pub(crate) fn herald(
    engine: &Engine,
    fetch: Arc<dyn Fetch>,
    settings: &RegistrySettings,
    local: LocalDids,
    dids: &Dids,
    base: &str,
) -> DirectoryPublisher {
    let options = AnpClientOptions { local, ..AnpClientOptions::default() };
    let client = AnpClient::new(fetch, Arc::clone(engine.clock()), Arc::new(SystemEntropy), options);
    DirectoryPublisher::new(engine.clone(), client, Arc::new(dids.clone()), Host::new(base), settings.register.clone())
}

/// Adds an agent on the operator's command.
pub(crate) async fn add(engine: &Engine, keeper: &DirectoryIndex, target: &str) -> Result<Value, StartError> {
    let target =
        AgentTarget::parse(target).map_err(|error| EngineError::new(error.reason.code(), error.to_string()))?;
    let registered = keeper.register(&target, &Principal::Operator).await?;
    let agent = shown(&registered.entry, Some(&registered.listed), engine.now());
    Ok(json!({"agent": agent, "new": registered.is_new}))
}

/// Removes an agent, by its id or the address of its description.
pub(crate) async fn remove(keeper: &DirectoryIndex, which: &str) -> Result<Value, StartError> {
    let id = match ListingId::parse(which) {
        Ok(id) => id,
        Err(_) => match AgentTarget::parse(which) {
            Ok(AgentTarget::Description(url)) => ListingId::of(&url),
            Ok(AgentTarget::Did(did)) => {
                let entries = keeper.entries();
                let found = entries.iter().find(|(entry, _)| entry.did == did.as_str());
                found.map(|(entry, _)| entry.id()).ok_or_else(|| not_registered(which))?
            }
            _ => {
                let message = "name an entry by its id, its DID or the address of its description";
                return Err(StartError::new(Code::NotRegistered, message));
            }
        },
    };
    let entry = keeper.remove(&id, &Principal::Operator).await?;
    Ok(json!({"removed": entry.id(), "url": entry.url}))
}

/// Every listed agent of other hosts, and the directories that list ours.
pub(crate) fn list(engine: &Engine, keeper: &DirectoryIndex, herald: Option<&DirectoryPublisher>) -> Value {
    let now = engine.now();
    let agents: Vec<_> = keeper.entries().iter().map(|(entry, listed)| shown(entry, Some(listed), now)).collect();
    json!({"agents": agents, "elsewhere": herald.map(DirectoryPublisher::statuses).unwrap_or_default()})
}

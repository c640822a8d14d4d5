//! Admin commands of the directory: agents of other hosts that are listed here, and directories of other hosts that
//! list agents of this server.

use std::sync::Arc;
use std::time::Duration;

use nuncio_anp::client::{AgentTarget, LocalDidUrlScheme};
use nuncio_anp::directory::{DirectoryEntry, DirectoryIndex, DirectoryOptions, RemoteDirectoryRegistrar};
use nuncio_core::ErrorCode;
use nuncio_core::principal::Principal;
use nuncio_engine::directory::{ListingId, not_registered};
use nuncio_engine::ports::{Entropy, Fetch};
use nuncio_engine::{Engine, EngineError};

use crate::admin::replies::{AddedAgent, AgentDirectory, RemovedAgent};
use crate::error::OperatorError;
use crate::settings::RegistrySettings;
use crate::system::SystemEntropy;

/// Opens the directory with its stored listings. `here` is the base URL of this server, if one runs.
pub(crate) async fn open(
    engine: &Engine,
    fetch: Arc<dyn Fetch>,
    settings: &RegistrySettings,
    local: LocalDidUrlScheme,
    here: Option<&str>,
) -> Result<DirectoryIndex, OperatorError> {
    let options = DirectoryOptions {
        accept: settings.accept,
        interval: Duration::from_secs(settings.check_seconds),
        limits: settings.limits(),
        local,
        here: here.map(str::to_owned),
    };
    let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
    let directory = DirectoryIndex::new(engine.clone(), fetch, &entropy, options);
    directory.load().await?;
    Ok(directory)
}

/// Adds an agent on the operator's command, after verifying its description.
pub(crate) async fn add(
    engine: &Engine,
    directory: &DirectoryIndex,
    target: &str,
) -> Result<AddedAgent, OperatorError> {
    let target =
        AgentTarget::parse(target).map_err(|error| EngineError::new(error.reason.code(), error.to_string()))?;
    let registered = directory.register(&target, &Principal::Operator).await?;
    let agent = DirectoryEntry::new(&registered.entry, &registered.listed, engine.now());
    Ok(AddedAgent { agent, new: registered.is_new })
}

/// Removes an agent by its id, its DID or the URL of its description.
pub(crate) async fn remove(directory: &DirectoryIndex, which: &str) -> Result<RemovedAgent, OperatorError> {
    let id = match ListingId::parse(which) {
        Ok(id) => id,
        Err(_) => match AgentTarget::parse(which) {
            Ok(AgentTarget::Description(url)) => ListingId::of(&url),
            Ok(AgentTarget::Did(did)) => {
                let entries = directory.entries();
                let found = entries.iter().find(|(entry, _)| entry.did == did.as_str());
                found.map(|(entry, _)| entry.id()).ok_or_else(|| not_registered(which))?
            }
            _ => {
                let message = "identify an entry by its id, its DID or the address of its description";
                return Err(OperatorError::new(ErrorCode::NotRegistered, message));
            }
        },
    };
    let entry = directory.remove(&id, &Principal::Operator).await?;
    Ok(RemovedAgent { removed: entry.id(), url: entry.url })
}

/// Every listed agent of other hosts, and the directories that list agents of this server.
pub(crate) fn list(
    engine: &Engine,
    directory: &DirectoryIndex,
    publisher: Option<&RemoteDirectoryRegistrar>,
) -> AgentDirectory {
    let now = engine.now();
    let entries = directory.entries();
    let agents = entries.iter().map(|(entry, listed)| DirectoryEntry::new(entry, listed, now));
    let elsewhere = publisher.map(RemoteDirectoryRegistrar::statuses).unwrap_or_default();
    AgentDirectory { agents: agents.collect(), elsewhere }
}

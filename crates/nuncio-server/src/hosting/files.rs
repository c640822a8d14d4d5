//! Information files that agents publish: read and validated with the agent file, and kept in memory as they are
//! served.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::Path;
use std::sync::{PoisonError, RwLock};

use nuncio_anp::project::HostDocumentSettings;
use nuncio_core::agent::{Agent, InformationDocument, InformationLocation};
use nuncio_core::ids::{AgentName, InformationPath};
use serde_json::Value;

/// Published information files by agent and file name.
#[derive(Debug, Default)]
pub(crate) struct AgentInformationFiles(RwLock<HashMap<AgentName, HashMap<String, Value>>>);

impl AgentInformationFiles {
    /// Reads the published files of an agent from the folder of its agent file, and keeps them in memory.
    pub(super) fn read(&self, base: &str, agent: &Agent, folder: Option<&Path>) -> Result<(), String> {
        let host = HostDocumentSettings::new(base);
        let mut files = HashMap::new();
        for information in &agent.information {
            let InformationLocation::File(path) = &information.source else { continue };
            let folder = folder.ok_or("it publishes files, but has no folder that contains them")?;
            files.insert(path.stem().to_owned(), published_document(&host, agent, information, path, folder)?);
        }
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(agent.name.clone(), files);
        Ok(())
    }

    pub(crate) fn find(&self, agent: &AgentName, stem: &str) -> Option<Value> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(agent)?.get(stem).cloned()
    }
}

/// Reads one published file from `folder` and validates it; the error names the file.
pub(crate) fn published_document(
    host: &HostDocumentSettings,
    agent: &Agent,
    information: &InformationDocument,
    path: &InformationPath,
    folder: &Path,
) -> Result<Value, String> {
    let bytes = read(&folder.join(path.as_str())).map_err(|why| format!("{}: {why}", path.as_str()))?;
    let document = host.published_file(agent, information, &bytes);
    document.map_err(|report| format!("{}: {report}", path.as_str()))
}

/// Reads a file up to one byte more than allowed, so that an oversized file is recognised.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let most = u64::try_from(InformationDocument::MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    file.take(most).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

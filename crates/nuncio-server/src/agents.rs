//! Reads agent files and publishes their agents. While the server runs, publishes changed agents and withdraws removed
//! ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nuncio_agent_file::ParsedAgentFile;
use nuncio_anp::directory::RemoteDirectoryRegistrar;
use nuncio_backend::runners::ToolRunner;
use nuncio_core::ErrorCode;
use nuncio_core::digest::Digest;
use nuncio_core::ids::AgentName;
use nuncio_engine::Engine;
use tokio_util::sync::CancellationToken;

use crate::agent_peers::AgentPeers;
use crate::data::move_hotel;
use crate::error::OperatorError;
use crate::hosting::HostDescription;
use crate::programs::ProgramRules;

const FILE: &str = "agent.toml";
const POLL_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentFilesSource {
    /// A file, or a folder with one agent file, or with one in each subfolder.
    Path(PathBuf),
    Embedded {
        name: &'static str,
        text: &'static str,
    },
}

#[derive(Debug, Clone)]
pub struct AgentFileText {
    pub path: PathBuf,
    pub text: String,
}

impl AgentFilesSource {
    /// Reads the agent files that exist now, sorted by path; fails if there is none.
    pub fn files(&self) -> Result<Vec<AgentFileText>, OperatorError> {
        match self {
            Self::Embedded { name, text } => {
                Ok(vec![AgentFileText { path: PathBuf::from(name), text: (*text).to_owned() }])
            }
            Self::Path(path) => paths(path)?.into_iter().map(read).collect(),
        }
    }
}

/// The agent files of a path: `FILE`, `DIR/agent.toml`, or every `DIR/*/agent.toml`.
fn paths(path: &Path) -> Result<Vec<PathBuf>, OperatorError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let single = path.join(FILE);
    if single.exists() {
        return Ok(vec![single]);
    }
    let unreadable = |error: std::io::Error| invalid(format!("{} cannot be read: {error}", path.display()));
    let mut found = Vec::new();
    for entry in path.read_dir().map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path().join(FILE);
        if file.is_file() {
            found.push(file);
        }
    }
    found.sort();
    if found.is_empty() {
        let message =
            format!("{0} contains no {FILE} and no folder with one; `nuncio init {0}` creates one", path.display());
        return Err(invalid(message));
    }
    Ok(found)
}

fn read(path: PathBuf) -> Result<AgentFileText, OperatorError> {
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(AgentFileText { path, text }),
        Err(error) => Err(invalid(format!("{} cannot be read: {error}", path.display()))),
    }
}

fn invalid(message: String) -> OperatorError {
    OperatorError::new(ErrorCode::AgentFileInvalid, message)
}

/// Reads every agent of a source. An error lists the faults of all files.
pub fn load(source: &AgentFilesSource) -> Result<Vec<(AgentFileText, ParsedAgentFile)>, OperatorError> {
    parse(source.files()?)
}

fn parse(files: Vec<AgentFileText>) -> Result<Vec<(AgentFileText, ParsedAgentFile)>, OperatorError> {
    let mut declared: Vec<(AgentFileText, ParsedAgentFile)> = Vec::new();
    let mut faults = Vec::new();
    for file in files {
        match nuncio_agent_file::parse(&file.path.display().to_string(), &file.text) {
            Ok(agent) => declared.push((file, agent)),
            Err(wrong) => faults.push(wrong.to_string()),
        }
    }
    if !faults.is_empty() {
        return Err(invalid(faults.join("\n")));
    }
    let mut names: BTreeMap<AgentName, PathBuf> = BTreeMap::new();
    for (file, agent) in &declared {
        let name = agent.agent.name.clone();
        if let Some(other) = names.insert(name.clone(), file.path.clone()) {
            let message = format!(
                "{} and {} both declare the agent {name}; names are unique here",
                other.display(),
                file.path.display()
            );
            return Err(OperatorError::new(ErrorCode::AgentNameTaken, message));
        }
    }
    Ok(declared)
}

/// Publishes the agents of a source, and again when their files change.
pub(crate) struct AgentPublisher {
    pub(crate) engine: Engine,
    pub(crate) runners: Arc<ToolRunner>,
    pub(crate) peers: Arc<AgentPeers>,
    pub(crate) source: AgentFilesSource,
    /// Checks that an agent can be described in every protocol.
    pub(crate) hosting: HostDescription,
    pub(crate) programs: ProgramRules,
    pub(crate) registrar: RemoteDirectoryRegistrar,
    pub(crate) served: ServedAgentFiles,
}

/// The agent files that are served, and the state of the last poll.
#[derive(Default)]
pub(crate) struct ServedAgentFiles {
    /// The served agents with the digest of each file.
    agents: BTreeMap<PathBuf, (AgentName, Digest)>,
    /// Digests of the files at the last poll, so that each state is checked once.
    seen: Option<Digest>,
    /// The error of the last poll.
    last_error: Option<OperatorError>,
}

impl AgentPublisher {
    /// Publishes the agents of changed files and withdraws those whose file is gone; returns the number of both. If any
    /// file is invalid, the agents served before stay. Does nothing if the files are as at the last call.
    pub(crate) async fn refresh(&mut self) -> Result<usize, OperatorError> {
        let files = self.source.files()?;
        let state = Digest::of_bytes(format!("{files:?}").as_bytes());
        if self.served.seen.replace(state) == Some(state) {
            return Ok(0);
        }
        let declared = parse(files)?;
        self.programs.check(declared.iter().map(|(_, declared)| &declared.agent))?;
        let mut next = BTreeMap::new();
        let mut changed = 0;
        for (file, declared) in declared {
            let digest = Digest::of_bytes(file.text.as_bytes());
            let name = declared.agent.name.clone();
            if self.served.agents.get(&file.path) != Some(&(name.clone(), digest)) {
                // The path is absolute, since programs are started in its folder. An embedded file has no folder.
                let path = std::path::absolute(&file.path).ok().filter(|path| path.is_file());
                if let Some(folder) = path.as_deref().and_then(Path::parent) {
                    self.programs.check_secret_key(&declared.agent, folder)?;
                    self.runners.set_base_dir(name.clone(), folder.to_owned());
                    if let Some(note) = self.programs.note_on_folders(&declared.agent, folder) {
                        tracing::warn!("{note}");
                    }
                }
                for note in &declared.notes {
                    tracing::info!("{note}");
                }
                let state = self.runners.state_folder(&name);
                move_hotel(&self.programs.data, &state, &declared.agent)?;
                self.hosting.admit(&declared.agent, path.as_deref().and_then(Path::parent)).await?;
                let manifest = nuncio_a2h::project::manifest(&declared.agent);
                self.engine.manifests().announce(&declared.agent, manifest).await?;
                self.peers.connect(&self.hosting.dids, &declared.agent)?;
                self.engine.agents().publish(declared.agent).await?;
                self.served.agents.insert(file.path.clone(), (name.clone(), digest));
                changed += 1;
            }
            next.insert(file.path, (name, digest));
        }
        let names: Vec<_> = next.values().map(|(name, _)| name).collect();
        for agent in self.engine.agents().list() {
            if !names.contains(&&agent.name) {
                self.engine.agents().withdraw(&agent.name);
                changed += 1;
            }
        }
        self.served.agents = next;
        if changed > 0 {
            self.registrar.schedule_changed().await;
        }
        Ok(changed)
    }

    /// Polls the files twice a second until `stop`.
    pub(crate) async fn follow(mut self, stop: CancellationToken) {
        if matches!(self.source, AgentFilesSource::Embedded { .. }) {
            return;
        }
        loop {
            tokio::select! {
                () = self.engine.clock().sleep_until(self.engine.now().after(POLL_INTERVAL)) => {}
                () = stop.cancelled() => return,
            }
            match self.refresh().await {
                Ok(0) => {}
                Ok(changed) => tracing::info!(changed, "published changed agent files"),
                // The same error at the next poll is not logged again.
                Err(error) if self.served.last_error.as_ref() == Some(&error) => continue,
                Err(error) => {
                    tracing::error!("a changed agent file is invalid; the agents served before stay:\n{error}");
                    self.served.last_error = Some(error);
                    continue;
                }
            }
            self.served.last_error = None;
        }
    }
}

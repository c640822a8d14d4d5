//! Permissions and folders of the programs that agents start.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use nuncio_confine::{ConfinementRules, confinement, contains, installation, server_folders};
use nuncio_core::agent::Agent;
use nuncio_core::ids::AgentName;

mod denial;

/// Folder in the data directory with a subfolder per agent that its programs may write to.
const PROGRAMS: &str = "programs";
/// Folder in the data directory with a subfolder per running program, removed when the program ends. No program may
/// write to the parent of its own folder; otherwise it could replace its folder by a link and make the server delete
/// a folder elsewhere.
const TEMPORARY: &str = "tmp";

/// Cache settings of package managers, so that downloads are kept per agent.
const CACHES: [(&str, &str); 5] = [
    ("XDG_CACHE_HOME", "cache"),
    ("npm_config_cache", "npm"),
    ("UV_CACHE_DIR", "uv"),
    ("UV_TOOL_DIR", "uv-tools"),
    ("UV_PYTHON_INSTALL_DIR", "uv-python"),
];

/// Folders in the data directory that programs may use.
#[derive(Debug)]
pub(crate) struct ProgramStateFolders {
    data: PathBuf,
    next: AtomicU64,
}

impl ProgramStateFolders {
    /// Removes existing temporary folders: only this process uses `data`, so a crash must have left them.
    pub(crate) fn new(data: PathBuf) -> Self {
        let data = data.canonicalize().unwrap_or(data);
        remove(&data.join(TEMPORARY));
        Self { data, next: AtomicU64::new(0) }
    }

    /// State folder of an agent, which its programs know as `NUNCIO_STATE`.
    pub(crate) fn of(&self, agent: &AgentName) -> PathBuf {
        self.data.join(PROGRAMS).join(agent.as_str())
    }

    /// Creates the folders of a program and returns its permissions.
    pub(crate) fn profile(&self, agent: &Agent, base_dir: &Path, program: &Path) -> io::Result<ProgramPermissions> {
        let state = self.of(&agent.name);
        let temporary = self.data.join(TEMPORARY).join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        for folder in [&state, &temporary] {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let home = home();
        let allowed = |paths: &[String]| {
            let paths = paths.iter().filter_map(|path| resolve_allowed(path, base_dir, home.as_deref()));
            paths.filter(|path| !contains(&self.data, path)).collect::<Vec<_>>()
        };
        let mut read: Vec<_> = server_folders().collect();
        let installed = installation(program, std::env::var_os("PATH").as_deref(), home.as_deref());
        read.extend(installed.into_iter().filter(|folder| !contains(&self.data, folder)));
        read.push(base_dir.to_owned());
        read.extend(allowed(&agent.allow.read));
        let mut write = allowed(&agent.allow.write);
        write.extend([state.clone(), temporary.clone()]);
        let reach =
            ConfinementRules { read, write, network: true, unix: agent.allow.unix, hidden: Some(self.data.clone()) };
        Ok(ProgramPermissions { reach, state, temporary: TemporaryFolder(temporary) })
    }

    /// Checks the `allow` section of an agent file.
    ///
    /// # Errors
    /// A path does not exist or is inside the data directory.
    pub(crate) fn check(&self, agent: &Agent, base_dir: &Path) -> Result<(), String> {
        let home = home();
        for (key, paths) in [("read", &agent.allow.read), ("write", &agent.allow.write)] {
            for path in paths {
                match resolve_allowed(path, base_dir, home.as_deref()) {
                    None => return Err(format!("`allow.{key}`: {path:?} does not exist; create it or leave it out")),
                    Some(found) if contains(&self.data, &found) => {
                        return Err(format!(
                            "`allow.{key}`: {path:?} is in the data directory, which programs can never access"
                        ));
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(())
    }
}

/// Permissions and folders of one program.
#[derive(Debug)]
pub(crate) struct ProgramPermissions {
    reach: ConfinementRules,
    state: PathBuf,
    temporary: TemporaryFolder,
}

impl ProgramPermissions {
    pub(crate) fn reach(&self) -> ConfinementRules {
        self.reach.clone()
    }

    /// Environment variables with the program's folders.
    pub(crate) fn environment(&self) -> impl Iterator<Item = (&'static str, OsString)> + '_ {
        let own = [("NUNCIO_STATE", self.state.clone()), ("TMPDIR", self.temporary.0.clone())];
        let caches = CACHES.map(|(name, folder)| (name, self.state.join(folder)));
        own.into_iter().chain(caches).map(|(name, path)| (name, path.into_os_string()))
    }
}

/// Adds to the failure text of a program the missing permission that the text indicates.
pub(crate) fn explain(profile: Option<&ProgramPermissions>, failure: String) -> String {
    let confined = profile.filter(|_| confinement().files);
    match confined.and_then(|profile| denial::find(&failure, &profile.reach)) {
        Some(denial) => format!("{failure}\n{denial}"),
        None => failure,
    }
}

/// Folder that is removed with its contents when dropped.
#[derive(Debug)]
struct TemporaryFolder(PathBuf);

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

fn remove(folder: &Path) {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            tracing::warn!(%error, "{} cannot be removed", folder.display());
        }
        _ => {}
    }
}

fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}

/// Resolves a path of the `allow` section relative to the agent's folder; `None` if it does not exist.
#[must_use]
pub fn resolve_allowed(path: &str, base_dir: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let path = match path.strip_prefix('~') {
        Some(rest) => home?.join(rest.trim_start_matches('/')),
        None => base_dir.join(path),
    };
    path.canonicalize().ok()
}

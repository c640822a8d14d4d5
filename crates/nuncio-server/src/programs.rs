//! Rules and warnings about the programs that agents run.

use std::path::{Path, PathBuf};

use nuncio_backend::runners::resolve_allowed;
use nuncio_confine::{ConfinementSupport, confinement};
use nuncio_core::ErrorCode;
use nuncio_core::agent::Agent;

use crate::error::OperatorError;

#[derive(Debug, Clone)]
pub(crate) struct ProgramRules {
    pub(crate) data: PathBuf,
    /// The file of the secret key, if it is outside the data directory.
    pub(crate) secret_key_file: Option<PathBuf>,
    /// Whether the operator accepts programs that cannot be confined.
    pub(crate) unconfined: bool,
}

impl ProgramRules {
    /// Refuses tools that need another person's approval beside programs that this system cannot confine: such a
    /// program could approve its own calls.
    pub(crate) fn check<'a>(&self, agents: impl Iterator<Item = &'a Agent> + Clone) -> Result<(), OperatorError> {
        if self.unconfined || confinement().is_enough() {
            return Ok(());
        }
        refuse_approvers(agents, confinement())
    }

    /// Refuses an agent whose programs could read the file of the secret key: it is in their folder or in one that they
    /// may use. The data directory, where the key is otherwise, is out of their reach.
    pub(crate) fn check_secret_key(&self, agent: &Agent, folder: &Path) -> Result<(), OperatorError> {
        let Some(file) = self.secret_key_file.as_ref().and_then(|file| file.canonicalize().ok()) else { return Ok(()) };
        if agent.programs().next().is_none() {
            return Ok(());
        }
        match reachable_folders(agent, folder).find(|folder| file.starts_with(folder)) {
            None => Ok(()),
            Some(around) => {
                let message = format!(
                    "the secret key {} is in {}, where programs of agent {} could read it; move the file out of the \
                     folders of agents",
                    file.display(),
                    around.display(),
                    agent.name
                );
                Err(OperatorError::new(ErrorCode::SecretKeyInvalid, message))
            }
        }
    }

    /// Warning for an agent whose own folder, or a folder that it allows, contains the data directory: programs get
    /// access to the other entries one by one, so they cannot list the folder itself.
    pub(crate) fn note_on_folders(&self, agent: &Agent, folder: &Path) -> Option<String> {
        let data = self.data.canonicalize().ok()?;
        if agent.programs().next().is_none() || !confinement().files {
            return None;
        }
        let mut around: Vec<_> = reachable_folders(agent, folder).filter(|folder| data.starts_with(folder)).collect();
        around.sort();
        around.dedup();
        let folders: Vec<_> = around.iter().map(|folder| folder.display().to_string()).collect();
        let folders = folders.join(" and ");
        (!folders.is_empty()).then(|| {
            format!(
                "the data directory {} is in {folders}: programs of agent {} reach the other entries there, but cannot \
                 list the folder itself, and new entries are out of reach until a program starts again; choose a data \
                 directory elsewhere with --data",
                data.display(),
                agent.name
            )
        })
    }
}

/// The agent's folder and what its file allows, as far as they exist.
fn reachable_folders<'a>(agent: &'a Agent, folder: &'a Path) -> impl Iterator<Item = PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let allowed = agent.allow.read.iter().chain(&agent.allow.write);
    let allowed = allowed.filter_map(move |path| resolve_allowed(path, folder, home.as_deref()));
    folder.canonicalize().into_iter().chain(allowed)
}

fn refuse_approvers<'a>(
    mut agents: impl Iterator<Item = &'a Agent> + Clone,
    confinement: ConfinementSupport,
) -> Result<(), OperatorError> {
    let approved = agents.clone().find(|agent| agent.needs_approvers());
    let running = agents.find_map(|agent| Some((agent, &agent.programs().next()?.program)));
    let (Some(approved), Some((agent, program))) = (approved, running) else { return Ok(()) };
    let message = format!(
        "agent {} has a tool with `human_authorization`, and this system does not confine `{program}` of agent {}: {}. \
         The program could approve calls by itself; serve the two apart, or accept that with --unconfined",
        approved.name,
        agent.name,
        describe_confinement(confinement)
    );
    Err(OperatorError::new(ErrorCode::ProgramsUnconfined, message))
}

/// Text for the operator about the confinement that this system supports.
#[must_use]
pub fn describe_confinement(confinement: ConfinementSupport) -> &'static str {
    match (confinement.files, confinement.network, confinement.signals) {
        (true, true, true) => {
            "programs reach the files their agents allow, no Unix sockets and no other process; the network is open"
        }
        (true, true, false) => {
            "programs reach the files their agents allow and no Unix sockets, but can signal other processes, since \
             this kernel is older than Linux 6.12; the network is open"
        }
        (true, false, _) => {
            "programs reach the files their agents allow, but also Unix sockets, since this system has no filter for \
             system calls"
        }
        (false, _, _) => "programs are not confined, since this system has no Landlock",
    }
}

/// Warnings for the author about access that an agent file gives to programs.
#[must_use]
pub fn program_notes(agent: &Agent, file: &Path) -> Vec<String> {
    let mut notes = Vec::new();
    if agent.programs().next().is_none() {
        return notes;
    }
    if agent.allow.unix {
        notes.push("unconfined: `allow.unix` opens Unix sockets, and services behind them act for programs".to_owned());
    }
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let home = std::env::var_os("HOME").map(PathBuf::from);
    for path in &agent.allow.write {
        let found = resolve_allowed(path, file.parent().unwrap_or(&file), home.as_deref());
        if found.is_some_and(|found| file.canonicalize().is_ok_and(|file| file.starts_with(found))) {
            notes.push(format!(
                "unconfined: `allow.write` {path:?} contains the agent file, so programs can change their own \
                 permissions"
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_LANDLOCK: ConfinementSupport = ConfinementSupport { files: false, network: true, signals: false };

    fn agent(name: &str, rest: &str) -> Agent {
        let text = format!("[agent]\nname = {name:?}\nversion = \"1.0.0\"\n{rest}");
        nuncio_agent_file::parse("agent.toml", &text).unwrap().agent
    }

    #[test]
    fn agent_file_keys_that_weaken_the_confinement_of_programs_get_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("agent.toml");
        std::fs::write(&file, "").unwrap();
        let program = "[[mcp]]\nname = \"m\"\ncommand = [\"server\"]\n";
        let allow = |allow: &str| program_notes(&agent("a", &format!("[allow]\n{allow}\n{program}")), &file).join("\n");
        assert_eq!(allow("read = [\".\"]"), "");
        assert!(allow("unix = true").starts_with("unconfined: `allow.unix`"));
        assert!(allow("write = [\"..\"]").contains("contains the agent file"));
    }

    #[test]
    fn data_directory_inside_the_folder_of_an_agent_with_programs_gets_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("agent/data");
        std::fs::create_dir_all(&data).unwrap();
        let rules = ProgramRules { data, secret_key_file: None, unconfined: false };
        let program = agent("runs", "[[mcp]]\nname = \"m\"\ncommand = [\"server\"]\n");
        let note = |agent: &Agent, subfolder: &str| rules.note_on_folders(agent, &folder.path().join(subfolder));
        let text = note(&program, "agent").unwrap();
        assert!(text.contains("agent runs") && text.contains("--data"), "{text}");
        assert_eq!(note(&program, "absent"), None);
        assert_eq!(note(&agent("talks", ""), "agent"), None);
        std::fs::create_dir(folder.path().join("other")).unwrap();
        assert_eq!(note(&program, "other"), None);
        let shared = folder.path().canonicalize().unwrap().display().to_string();
        for key in ["read", "write"] {
            let allow = format!("[allow]\n{key} = [\"..\"]\n[[mcp]]\nname = \"m\"\ncommand = [\"server\"]\n");
            let text = note(&agent("shares", &allow), "other").unwrap();
            assert!(text.contains(&format!("is in {shared}: ")) && text.contains("--data"), "{text}");
        }
        assert_eq!(note(&agent("talks", "[allow]\nread = [\"..\"]\n"), "other"), None);
    }

    #[test]
    fn tools_that_need_approval_are_refused_beside_unconfined_programs() {
        let program = agent("runs", "[[mcp]]\nname = \"m\"\ncommand = [\"server\"]\n");
        let import = "import = true\nhuman_authorization = true\n";
        let asks = agent("asks", &format!("[[mcp]]\nname = \"m\"\nurl = \"https://a.example/mcp\"\n{import}"));
        let refused = refuse_approvers([&program, &asks].into_iter(), NO_LANDLOCK).unwrap_err();
        assert_eq!(refused.code, ErrorCode::ProgramsUnconfined);
        for expected in ["agent asks", "`server` of agent runs", "no Landlock", "--unconfined"] {
            assert!(refused.message.contains(expected), "{}", refused.message);
        }
        for alone in [&program, &asks] {
            refuse_approvers([alone].into_iter(), NO_LANDLOCK).unwrap();
        }
    }

    #[test]
    fn secret_key_that_programs_of_an_agent_could_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("agent")).unwrap();
        let file = folder.path().join("agent/secret.key");
        std::fs::write(&file, "").unwrap();
        let rules = |file| ProgramRules { data: PathBuf::new(), secret_key_file: file, unconfined: false };
        let program = "[[mcp]]\nname = \"m\"\ncommand = [\"server\"]\n";
        let runs = agent("runs", program);
        let inside = rules(Some(file));
        let error = inside.check_secret_key(&runs, &folder.path().join("agent")).unwrap_err();
        assert_eq!(error.code, ErrorCode::SecretKeyInvalid);
        assert!(error.message.contains("agent runs"), "{error}");
        assert_eq!(inside.check_secret_key(&agent("plain", ""), &folder.path().join("agent")), Ok(()));
        assert_eq!(inside.check_secret_key(&runs, &folder.path().join("elsewhere")), Ok(()));
        let allowed = agent("allowed", &format!("[allow]\nread = [{:?}]\n{program}", folder.path()));
        assert!(inside.check_secret_key(&allowed, &folder.path().join("elsewhere")).is_err());
        assert_eq!(rules(None).check_secret_key(&runs, &folder.path().join("agent")), Ok(()));
    }
}

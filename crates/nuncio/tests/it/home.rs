//! A test's own folder with an agent and a data directory, and the commands run on it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{NuncioCommand, ProcessOutput, Server, nuncio};

/// Folder of the script example in the repository.
pub(crate) const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/script");

/// Start of an agent file with the script brain, whose tools may write to its folder; tests append tools.
pub(crate) const SCRIPTED: &str = "[agent]\nname = \"script\"\nversion = \"1.0.0\"\ndescription = \"Plays scripts.\"\n\n[allow]\nwrite = [\".\"]\n\n[brain]\nkind = \"script\"\n";

/// `[[tool]]` table of an agent file that runs a shell line in the agent's folder.
pub(crate) fn shell_tool(name: &str, line: &str) -> String {
    format!(
        "\n[[tool]]\nname = {name:?}\ndescription = \"Runs a line.\"\ninput = {{ type = \"object\" }}\ntimeout_ms = 600000\nrun = {{ command = [\"sh\", \"-c\", {line:?}] }}\n"
    )
}

pub(crate) struct TestAgentFolder {
    folder: TempDir,
    agents: Option<String>,
}

impl TestAgentFolder {
    /// A home that serves the Grand Hotel, the default without a named agent.
    pub(crate) fn hotel() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("here")).unwrap();
        Self { folder, agents: None }
    }

    pub(crate) fn script() -> Self {
        Self { agents: Some(SCRIPT.to_owned()), ..Self::hotel() }
    }

    pub(crate) fn with_agent(text: &str) -> Self {
        let mut home = Self::hotel();
        home.write_agent(text);
        home.agents = Some(home.path("agent.toml").display().to_string());
        home
    }

    pub(crate) fn write_agent(&self, text: &str) {
        fs::write(self.path("agent.toml.new"), text).unwrap();
        fs::rename(self.path("agent.toml.new"), self.path("agent.toml")).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("here").join(name)
    }

    /// The data directory, beside the agent's folder, so that programs which write to that folder cannot reach it.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("nuncio-data")
    }

    /// The folder for the user's state, beside the agent's folder.
    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// The command `nuncio ARGUMENTS` in the folder.
    pub(crate) fn nuncio(&self, arguments: &[&str]) -> NuncioCommand {
        let command = nuncio(arguments).in_folder(&self.path(".")).env("NUNCIO_DATA", self.data().to_str().unwrap());
        command.env("XDG_STATE_HOME", self.state().to_str().unwrap())
    }

    /// The command `nuncio --json serve` on a free port.
    pub(crate) fn serve(&self) -> NuncioCommand {
        let serve = self.nuncio(&["--json", "serve", "--listen", "localhost:0"]);
        match &self.agents {
            Some(agents) => serve.arg(agents),
            None => serve,
        }
    }

    pub(crate) fn start(&self) -> Server {
        self.serve().start()
    }

    /// Runs `nuncio --json ARGUMENTS` to its end.
    pub(crate) fn json_command(&self, arguments: &[&str]) -> ProcessOutput {
        self.nuncio(&[&["--json"], arguments].concat()).run()
    }

    /// Creates an API key and returns its secret.
    pub(crate) fn key(&self, arguments: &[&str]) -> String {
        let made = self.json_command(&[&["key", "create"], arguments].concat()).json();
        made["key"].as_str().unwrap().to_owned()
    }

    /// The audit records except those of operators' commands, oldest first, after the chain was verified.
    pub(crate) fn audit(&self) -> Vec<Value> {
        let proof = self.json_command(&["audit", "verify"]).json();
        let mut records: Vec<Value> = Vec::new();
        loop {
            let after = records.len().to_string();
            let page = self.json_command(&["audit", "list", "--after", &after, "--limit", "1000"]).json();
            match page["records"].as_array().unwrap().as_slice() {
                [] => break,
                page => records.extend(page.iter().map(|link| link["record"].clone())),
            }
        }
        assert_eq!(proof["records"], records.len(), "{proof}");
        records.retain(|record| record["action"].is_null());
        records
    }
}

pub(crate) fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

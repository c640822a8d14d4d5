//! Tools defined by the person, one TOML file each: name, scope, program, and files that the program may access.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nuncio_core::ids::{ScopeId, ToolName};
use nuncio_core::schema::Schema;
use serde::Deserialize;
use serde_json::Value;

use super::{ConfinementRules, ProgramTool};

/// Largest permitted `timeout_ms` in a tool file.
const MAX_TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Debug, Clone)]
pub struct CustomTool {
    pub name: ToolName,
    pub scope: ScopeId,
    pub description: Option<String>,
    pub program: ProgramTool,
}

/// The folder of the person's tool files, and two folders against which paths in the files are resolved and checked.
#[derive(Debug, Clone)]
pub struct ToolsFolder {
    /// Folder of the tool files, and working directory of their programs.
    pub folder: PathBuf,
    /// Data directory of the device with its keys; only the tools folder inside may be accessed.
    pub home: PathBuf,
    /// Home directory that `~` in a path stands for.
    pub user: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CustomToolFile {
    name: ToolName,
    scope: ScopeId,
    command: Vec<String>,
    description: Option<String>,
    input: Option<Value>,
    timeout_ms: Option<u64>,
    #[serde(default)]
    read: Vec<String>,
    #[serde(default)]
    write: Vec<String>,
    #[serde(default)]
    network: bool,
}

impl ToolsFolder {
    /// Parses one tool file; the error names the key and what to do.
    pub fn read(&self, text: &str) -> Result<CustomTool, String> {
        let file: CustomToolFile = toml::from_str(text).map_err(|why| why.to_string())?;
        if file.command.first().is_none_or(String::is_empty) {
            return Err("`command` names no program: write the program and its arguments".to_owned());
        }
        let input = file.input.map(Schema::compile_arguments).transpose().map_err(|why| format!("`input`: {why}"))?;
        let time = file.timeout_ms.map(Duration::from_millis);
        if time.is_some_and(|time| time.is_zero() || time > MAX_TIMEOUT) {
            return Err(format!("`timeout_ms` is a number from 1 to {}", MAX_TIMEOUT.as_millis()));
        }
        let reach = ConfinementRules {
            read: self.paths("read", &file.read)?,
            write: self.paths("write", &file.write)?,
            network: file.network,
            ..ConfinementRules::default()
        };
        let program = ProgramTool { command: file.command, folder: self.folder.clone(), input, time, reach };
        Ok(CustomTool { name: file.name, scope: file.scope, description: file.description, program })
    }

    fn paths(&self, key: &str, file: &[String]) -> Result<Vec<PathBuf>, String> {
        file.iter().map(|text| self.path(text).map_err(|why| format!("`{key}`: {text:?} {why}"))).collect()
    }

    /// Resolves a path in a tool file; refuses a path that would give access to the device's keys.
    fn path(&self, text: &str) -> Result<PathBuf, String> {
        let path = match (text.strip_prefix("~/").or((text == "~").then_some("")), &self.user) {
            (Some(inner), Some(user)) => user.join(inner),
            (Some(_), None) => return Err("has an unknown start: write an absolute path".to_owned()),
            (None, _) => self.folder.join(text),
        };
        let real = path.canonicalize().map_err(|why| format!("cannot be allowed: {why}"))?;
        match holds_keys(&real, &self.home, &self.folder) {
            true => Err("would include the device's own folder, where its keys are: allow less".to_owned()),
            false => Ok(real),
        }
    }
}

/// Whether a path contains the device's data directory, or lies in it but not in its tools folder.
fn holds_keys(path: &Path, home: &Path, tools: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (home, tools) = (real(home), real(tools));
    home.starts_with(path) || (path.starts_with(&home) && !path.starts_with(tools))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn valid_tool_file_is_parsed_and_invalid_file_is_refused_with_the_faulty_key() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let home = root.join("device");
        fs::create_dir_all(home.join("tools/data")).unwrap();
        fs::create_dir_all(root.join("notes")).unwrap();
        fs::write(home.join("keys.db"), "keys").unwrap();
        std::os::unix::fs::symlink(&home, root.join("notes/home")).unwrap();
        let tools_folder = ToolsFolder { folder: home.join("tools"), home: home.clone(), user: Some(root.clone()) };
        let head = "name = \"search\"\nscope = \"notes:read\"\ncommand = [\"sh\"]\n";

        let least = tools_folder.read(head).unwrap();
        assert_eq!((least.name.as_str(), least.scope.as_str()), ("search", "notes:read"));
        assert_eq!((least.program.reach, least.program.time), (ConfinementRules::default(), None));
        let most = "description = \"Searches\"\ntimeout_ms = 1500\nread = [\"~/notes\", \"data\"]\nnetwork = true\n\
                    [input]\ntype = \"object\"\nrequired = [\"for\"]\n";
        let most = tools_folder.read(&format!("{head}{most}")).unwrap();
        let read = vec![root.join("notes"), home.join("tools/data")];
        assert_eq!(most.program.reach, ConfinementRules { read, network: true, ..ConfinementRules::default() });
        assert_eq!(most.program.time, Some(Duration::from_millis(1500)));
        assert!(most.program.input.unwrap().check(&serde_json::json!({})).is_err());

        let wrong = [
            ("colour = 1\n", "colour"),
            ("timeout_ms = 0\n", "timeout_ms"),
            ("timeout_ms = 600001\n", "timeout_ms"),
            ("input = { type = \"string\" }\n", "`input`"),
            ("input = { type = \"object\", properties = 3 }\n", "`input`"),
            ("read = [\"~/none\"]\n", "`read`: \"~/none\""),
            ("read = [\"~\"]\n", "where its keys are"),
            ("read = [\"/\"]\n", "where its keys are"),
            ("read = [\"..\"]\n", "where its keys are"),
            ("read = [\"../keys.db\"]\n", "where its keys are"),
            ("write = [\"~/notes/home\"]\n", "`write`: \"~/notes/home\" would include"),
            ("network = 1\n", "network"),
        ];
        for (line, expected) in wrong {
            let why = tools_folder.read(&format!("{head}{line}")).unwrap_err();
            assert!(why.contains(expected), "{line}: {why}");
        }
        for (text, expected) in [
            (head.replace("[\"sh\"]", "[]"), "`command`"),
            (head.replace("search", "no name"), "name"),
            (head.replace("notes:read", "no scope"), "scope"),
            (head.replace("command", "# command"), "command"),
        ] {
            let why = tools_folder.read(&text).unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
        }
        let homeless = ToolsFolder { user: None, ..tools_folder };
        assert!(homeless.read(&format!("{head}read = [\"~/notes\"]\n")).unwrap_err().contains("absolute path"));
    }
}

//! Checks for `nuncio lint` whether the programs, variables and files that an agent needs exist on this machine.
//!
//! Nothing is started. `serve` uses only the check of published files: the rest it finds out when it needs something.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use nuncio_agent_file::{AgentFileFault, ExternalReference, ExternalTarget, ParsedAgentFile};
use nuncio_anp::project::HostDocumentSettings;
use nuncio_backend::runners::{OWN_COMMAND_NAME, resolve_allowed};
use nuncio_core::agent::{Agent, InformationDocument, InformationLocation};
use nuncio_core::ids::InformationPath;

use crate::hosting::published_document;

/// What an agent needs and this machine does not have.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct MissingEnvironmentFindings {
    /// What makes every call or the agent itself fail, wherever it is served from: programs, their scripts and published
    /// files that do not exist.
    pub faults: Vec<AgentFileFault>,
    /// What may exist only where the server runs: secrets, allowed paths and trusted issuers.
    pub notes: Vec<AgentFileFault>,
}

/// Looks for everything that an agent needs. `file` is the agent file.
#[must_use]
pub fn check_environment(declared: &ParsedAgentFile, file: &Path) -> MissingEnvironmentFindings {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let folder = file.parent().unwrap_or(&file);
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let has_programs = declared.agent.programs().next().is_some();
    let mut findings = MissingEnvironmentFindings::default();
    for ExternalReference { position, target } in &declared.references {
        match target {
            ExternalTarget::Program(program) => {
                if let Err(why) = find_program(folder, program) {
                    let help =
                        "install it, or correct the name; a program in the agent's folder is written with \"./\"";
                    findings.faults.push(position.fault(why, help));
                }
            }
            ExternalTarget::Script(script) => {
                let path = folder.join(script);
                if !path.exists() {
                    let found = format!("there is no file {}", path.display());
                    let help = "correct its name; it is looked for in the folder of the agent file";
                    findings.faults.push(position.fault(found, help));
                }
            }
            ExternalTarget::InformationFile(path) => {
                if let Err(why) = check_information(&declared.agent, path, folder) {
                    let help =
                        "the agent cannot be served without it; it is looked for in the folder of the agent file";
                    findings.faults.push(position.fault(why, help));
                }
            }
            ExternalTarget::Issuer(issuer) => {
                let found = match issuer {
                    Some(issuer) => format!("the agent can only be served where {issuer} is trusted"),
                    None => "the agent can only be served where one OAuth issuer is trusted".to_owned(),
                };
                findings.notes.push(position.fault(found, "declare it as [[issuer]] in the server's nuncio.toml"));
            }
            ExternalTarget::SecretVariable(variable) => {
                if std::env::var_os(variable).is_none_or(|value| value.is_empty()) {
                    let found = format!("the environment variable {variable} is not set here");
                    let help = "the agent cannot be served without it; set it where the server runs";
                    findings.notes.push(position.fault(found, help));
                }
            }
            ExternalTarget::SecretFile(path) => {
                if let Err(why) = check_secret_file(&folder.join(path)) {
                    let help = "the agent cannot be served without it; create it where the server runs";
                    findings.notes.push(position.fault(why, help));
                }
            }
            ExternalTarget::AllowedPath(path) => {
                if has_programs && resolve_allowed(path, folder, home.as_deref()).is_none() {
                    let found = format!("{path:?} does not exist here; the agent cannot be served");
                    findings.notes.push(position.fault(found, "create it, or remove it from [allow]"));
                }
            }
        }
    }
    for found in [&mut findings.faults, &mut findings.notes] {
        found.sort_by_key(|fault| (fault.line, fault.column));
    }
    findings
}

/// Checks a published file as `serve` does.
fn check_information(agent: &Agent, path: &InformationPath, folder: &Path) -> Result<(), String> {
    let is_this = |information: &&InformationDocument| matches!(&information.source, InformationLocation::File(file) if file == path);
    let Some(information) = agent.information.iter().find(is_this) else { return Ok(()) };
    let host = HostDocumentSettings::new("http://localhost");
    published_document(&host, agent, information, path, folder).map(drop)
}

/// Finds a program as it would be started: by its path from the agent's folder, or in `PATH`.
fn find_program(folder: &Path, program: &str) -> Result<(), String> {
    if program == OWN_COMMAND_NAME {
        return Ok(());
    }
    if program.contains('/') {
        let path = folder.join(program);
        return match path.metadata() {
            Ok(file) if file.is_file() && file.permissions().mode() & 0o111 != 0 => Ok(()),
            Ok(file) if file.is_file() => Err(format!("{} is not executable", path.display())),
            Ok(_) => Err(format!("{} is not a program", path.display())),
            Err(error) => Err(format!("{} cannot be started: {error}", path.display())),
        };
    }
    let is_program = |folder: PathBuf| {
        let file = folder.join(program).metadata();
        file.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(is_program) {
        return Ok(());
    }
    Err(format!("there is no program {program:?} in PATH"))
}

fn check_secret_file(path: &Path) -> Result<(), String> {
    let unreadable = |error: std::io::Error| format!("the secret cannot be read from {}: {error}", path.display());
    let file = File::open(path).and_then(|file| file.metadata()).map_err(unreadable)?;
    match file.len() {
        _ if !file.is_file() => Err(format!("{} is not a file", path.display())),
        0 => Err(format!("{} is empty", path.display())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(folder: &Path, rest: &str) -> (String, String) {
        let text = format!("[agent]\nname = \"a\"\nversion = \"1.0.0\"\n{rest}");
        let declared = nuncio_agent_file::parse("agent.toml", &text).unwrap();
        let MissingEnvironmentFindings { faults, notes } = check_environment(&declared, &folder.join("agent.toml"));
        let lines = |found: Vec<AgentFileFault>| {
            let lines = found.iter().map(|one| one.to_string().lines().next().unwrap_or_default().to_owned());
            lines.collect::<Vec<_>>().join("\n").replace(&folder.display().to_string(), "FOLDER")
        };
        (lines(faults), lines(notes))
    }

    #[test]
    fn missing_programs_are_faults_at_their_position() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("plain.sh"), "#!/bin/sh\n").unwrap();
        let tool = |name: &str, program: &str| {
            format!(
                "[[tool]]\nname = {name:?}\ndescription = \"d\"\ninput = {{ type = \"object\" }}\nrun = {{ command = [{program:?}] }}\n"
            )
        };
        let text = [
            tool("here", "sh"),
            tool("own", "nuncio"),
            tool("gone", "no-such-program"),
            tool("plain", "./plain.sh"),
            "[[mcp]]\nname = \"m\"\ncommand = [\"./server\"]\nimport = true\n".to_owned(),
            "[brain]\nkind = \"process\"\ncommand = [\"no-brain\"]\n".to_owned(),
        ];
        let (faults, notes) = findings(folder.path(), &text.concat());
        let expected = [
            "agent.toml:18:20: tool \"gone\".run.command[0]: there is no program \"no-such-program\" in PATH",
            "agent.toml:23:20: tool \"plain\".run.command[0]: FOLDER/./plain.sh is not executable",
            "agent.toml:26:12: mcp \"m\".command[0]: FOLDER/./server cannot be started: No such file or directory (os error 2)",
            "agent.toml:30:12: brain.command[0]: there is no program \"no-brain\" in PATH",
        ];
        assert_eq!((faults, notes), (expected.join("\n"), String::new()));
    }

    #[test]
    fn missing_scripts_and_published_files_are_faults_and_issuers_are_notes() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("here.sh"), "").unwrap();
        std::fs::write(folder.path().join("broken.json"), "{").unwrap();
        let text = "[brain]\nkind = \"process\"\ncommand = [\"sh\", \"brain.sh\"]\n\
                    [[mcp]]\nname = \"m\"\ncommand = [\"sh\", \"here.sh\"]\nimport = true\n\
                    [[information]]\ntype = \"Text\"\ndescription = \"d\"\nfile = \"nope.json\"\n\
                    [[information]]\ntype = \"Text\"\ndescription = \"d\"\nfile = \"broken.json\"\n\
                    [[tool]]\nname = \"t\"\ndescription = \"d\"\ninput = { type = \"object\" }\nrun = { answer = \"x\" }\n\
                    skill = { type = \"task\", auth = { oauth2 = \"https://login.example\" } }\n";
        let (faults, notes) = findings(folder.path(), text);
        let faults: Vec<_> = faults.lines().collect();
        assert_eq!(faults[0], "agent.toml:6:18: brain.command[1]: there is no file FOLDER/brain.sh");
        assert_eq!(
            faults[1],
            "agent.toml:14:8: information \"d\".file: nope.json: No such file or directory (os error 2)"
        );
        assert!(faults[2].starts_with("agent.toml:18:8: information \"d\".file: broken.json: "), "{faults:?}");
        assert_eq!(faults.len(), 3);
        assert!(notes.contains("the agent can only be served where https://login.example/ is trusted"), "{notes}");
    }

    #[test]
    fn missing_secrets_and_allowed_paths_are_notes_at_their_position() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("empty.key"), "").unwrap();
        let text = "[secrets]\nA = { env = \"NUNCIO_TEST_NEVER_SET\" }\nB = { file = \"b.key\" }\nC = { file = \"empty.key\" }\nD = { env = \"PATH\" }\n\
                    [allow]\nread = [\".\", \"absent\"]\n[[mcp]]\nname = \"m\"\ncommand = [\"sh\"]\n";
        let (faults, notes) = findings(folder.path(), text);
        let expected = [
            "agent.toml:5:13: secrets.A.env: the environment variable NUNCIO_TEST_NEVER_SET is not set here",
            "agent.toml:6:14: secrets.B.file: the secret cannot be read from FOLDER/b.key: No such file or directory (os error 2)",
            "agent.toml:7:14: secrets.C.file: FOLDER/empty.key is empty",
            "agent.toml:10:14: allow.read[1]: \"absent\" does not exist here; the agent cannot be served",
        ];
        assert_eq!((faults, notes), (String::new(), expected.join("\n")));
    }
}

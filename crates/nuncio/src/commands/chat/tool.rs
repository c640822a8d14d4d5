//! Local tools of a chat, each declared in a small file that names a program. The program gets the arguments as JSON on
//! its standard input, and its output is the result.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use nuncio_aap::client::ToolSpec;
use nuncio_core::ids::ToolName;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use crate::output::wrong_usage;

/// Maximum number of bytes of a program's output that are passed on.
const MAX_OUTPUT: u64 = 256 * 1024;
/// Default time limit of a local tool, in seconds.
const DEFAULT_TIMEOUT: u64 = 60;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChatLocalTool {
    pub(super) name: ToolName,
    #[serde(default)]
    title: Option<String>,
    description: String,
    #[serde(default = "any_object")]
    parameters: Value,
    command: Vec<String>,
    #[serde(default = "default_timeout")]
    timeout_seconds: u64,
}

fn any_object() -> Value {
    json!({"type": "object"})
}

fn default_timeout() -> u64 {
    DEFAULT_TIMEOUT
}

impl ChatLocalTool {
    /// Reads a tool's file.
    pub(super) fn read(file: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
        Self::parse(&text).map_err(|why| wrong_usage(format!("{} is not a valid tool file: {why}", file.display())))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let tool: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        if !tool.parameters.is_object() {
            return Err("`parameters` must be a table, a JSON Schema".to_owned());
        }
        match tool.command.first() {
            Some(program) if !program.is_empty() => Ok(tool),
            _ => Err("`command` names no program".to_owned()),
        }
    }

    /// The declaration of the tool that the agent gets.
    pub(super) fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.to_string(),
            title: self.title.clone(),
            description: self.description.clone(),
            parameters: self.parameters.clone(),
            ..ToolSpec::default()
        }
    }

    /// Runs the program and returns its output, or an error text for the agent. Dropping the future kills the program.
    pub(super) async fn run(&self, arguments: &Map<String, Value>) -> String {
        match tokio::time::timeout(Duration::from_secs(self.timeout_seconds), self.output(arguments)).await {
            Ok(Ok(output)) => output,
            Ok(Err(why)) => format!("Tool execution failed: {why}"),
            Err(_) => format!("Tool execution failed: it took longer than {} seconds", self.timeout_seconds),
        }
    }

    async fn output(&self, arguments: &Map<String, Value>) -> Result<String, String> {
        let (program, rest) = self.command.split_first().ok_or("it names no program")?;
        let mut child = Command::new(program)
            .args(rest)
            .env_remove("NUNCIO_KEY")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{program} cannot be started: {error}"))?;
        let input = serde_json::to_vec(arguments).map_err(|error| error.to_string())?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let write = async {
            if let Some(mut stdin) = stdin {
                // A program that does not read its input is not an error.
                let _ = stdin.write_all(&input).await;
            }
        };
        let ((), out, err, status) = tokio::join!(write, read(stdout), read(stderr), child.wait());
        let status = status.map_err(|error| error.to_string())?;
        let out = String::from_utf8_lossy(&out).trim_end().to_owned();
        if status.success() {
            return Ok(out);
        }
        let err = String::from_utf8_lossy(&err).trim().to_owned();
        Err(format!("{status}: {}", if err.is_empty() { out } else { err }))
    }
}

async fn read(pipe: Option<impl tokio::io::AsyncRead + Unpin>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        // After a read error the bytes read so far are used.
        let _ = (&mut pipe).take(MAX_OUTPUT).read_to_end(&mut bytes).await;
        // The rest is discarded, so that the program does not block on a full pipe.
        let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(command: &str) -> ChatLocalTool {
        ChatLocalTool::parse(&format!("name = \"t\"\ndescription = \"\"\ncommand = {command}\ntimeout_seconds = 20"))
            .unwrap()
    }

    #[tokio::test]
    async fn local_tool_program_gets_json_arguments_and_its_output_or_failure_is_the_result() {
        let arguments = json!({"a": 1}).as_object().unwrap().clone();
        assert_eq!(tool(r#"["cat"]"#).run(&arguments).await, r#"{"a":1}"#);
        assert_eq!(
            tool(r#"["sh", "-c", "echo no >&2; exit 3"]"#).run(&arguments).await,
            "Tool execution failed: exit status: 3: no"
        );
        assert!(tool(r#"["/nowhere"]"#).run(&arguments).await.contains("cannot be started"));
        let long = tool(r#"["sh", "-c", "yes | head -c 1000000"]"#).run(&arguments).await;
        assert!(long.len() <= 256 * 1024);
    }

    #[test]
    fn invalid_tool_file_is_refused_with_the_reason() {
        for (bad, why) in [
            ("name = \"t\"", "description"),
            ("name = \"a b\"\ndescription = \"\"\ncommand = [\"x\"]", "tool name"),
            ("name = \"t\"\ndescription = \"\"\ncommand = []", "program"),
            ("name = \"t\"\ndescription = \"\"\ncommand = [\"x\"]\ncolour = 1", "colour"),
            ("name = \"t\"\ndescription = \"\"\ncommand = [\"x\"]\nparameters = 1", "JSON Schema"),
        ] {
            let error = ChatLocalTool::parse(bad).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}

//! `nuncio serve` as a child process with its own home folder and data directory.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::Value;
use tempfile::TempDir;

/// Tools of the default agent, which answer at once; one of them needs a scope of `high` sensitivity.
const DEFAULT_TOOLS: &str = r#"
[[scope]]
id = "rooms:read"
label = { en = "See rooms" }
description = { en = "See which rooms are free" }
sensitivity = "low"

[[scope]]
id = "booking:write"
label = { en = "Book" }
description = { en = "Book rooms" }
sensitivity = "high"

[[tool]]
name = "search"
description = "Finds rooms."
scope = "rooms:read"
input = { type = "object" }
run = { answer = "room 1" }
skill = { type = "task", access = "public", auth = "none" }

[[tool]]
name = "book"
description = "Books a room."
scope = "booking:write"
input = { type = "object" }
run = { answer = "booked" }
skill = { type = "task", access = "restricted", auth = "api_key" }
"#;

/// Agent file of `desk` with the script brain. `tools` is TOML with its scopes and tools.
#[must_use]
pub fn scripted_agent(tools: &str) -> String {
    format!(
        r#"
[agent]
name = "desk"
version = "1.0.0"
description = "Does what a script says."

[brain]
kind = "script"
{tools}"#
    )
}

/// Agent file with the tool `search` under a `low` scope and the tool `book` under a `high` scope.
#[must_use]
pub fn default_agent() -> String {
    scripted_agent(DEFAULT_TOOLS)
}

/// A server that was not started yet.
#[derive(Debug)]
pub struct ServerBuilder {
    binary: Arc<PathBuf>,
    agent: String,
    settings: String,
    flags: Vec<String>,
    environment: Vec<(String, String)>,
    account: Option<u32>,
}

impl ServerBuilder {
    pub(crate) fn new(binary: Arc<PathBuf>) -> Self {
        Self {
            binary,
            agent: default_agent(),
            settings: String::new(),
            flags: Vec::new(),
            environment: Vec::new(),
            account: None,
        }
    }

    /// Serves this `agent.toml` instead of [`default_agent`].
    #[must_use]
    pub fn agent(mut self, toml: impl Into<String>) -> Self {
        self.agent = toml.into();
        self
    }

    /// Uses this `nuncio.toml` as settings file.
    #[must_use]
    pub fn settings(mut self, toml: impl Into<String>) -> Self {
        self.settings = toml.into();
        self
    }

    /// Adds a flag of `nuncio serve`.
    #[must_use]
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Runs the server and its commands under the account with this user id, which needs root.
    #[must_use]
    pub fn account(mut self, uid: u32) -> Self {
        self.account = Some(uid);
        self
    }

    /// Writes the files and starts no server yet, for attacks that prepare the data directory.
    pub fn prepare(mut self) -> anyhow::Result<Server> {
        let home = tempfile::tempdir()?;
        let (agents, data) = (home.path().join("agent"), home.path().join("data"));
        std::fs::create_dir_all(&agents)?;
        std::fs::create_dir_all(&data)?;
        std::fs::write(agents.join("agent.toml"), &self.agent)?;
        std::fs::write(data.join("nuncio.toml"), &self.settings)?;
        if self.account.is_some() {
            for path in [home.path(), &agents, &data] {
                std::os::unix::fs::chown(path, self.account, self.account)?;
            }
            // The account may have no access to the folder of the binary, so it gets a copy.
            let binary = home.path().join("nuncio");
            std::fs::copy(&*self.binary, &binary)?;
            self.binary = Arc::new(binary);
        }
        Ok(Server { options: self, home, process: None })
    }

    /// Starts the server on a free port.
    pub fn start(self) -> anyhow::Result<Server> {
        let mut server = self.prepare()?;
        server.start()?;
        Ok(server)
    }
}

/// A server process and its folders; killed on drop.
#[derive(Debug)]
pub struct Server {
    options: ServerBuilder,
    home: TempDir,
    process: Option<ServerProcess>,
}

#[derive(Debug)]
struct ServerProcess {
    child: Child,
    stderr: Arc<Mutex<String>>,
    url: String,
}

#[derive(Debug, Clone)]
pub struct CommandOutput {
    /// The exit status; `None` if a signal ended the process.
    pub status: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl CommandOutput {
    /// Standard output as JSON.
    pub fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_str(&self.stdout).with_context(|| format!("{self:?}"))
    }
}

impl Server {
    /// Starts the prepared or killed server, on a free port.
    pub fn start(&mut self) -> anyhow::Result<()> {
        let mut command = self.command(&["--json", "serve"]);
        command.arg(self.home.path().join("agent")).arg("--data").arg(self.data());
        if !self.options.flags.iter().any(|flag| flag == "--listen") {
            command.args(["--listen", "localhost:0"]);
        }
        command.args(&self.options.flags);
        let mut child = command.spawn().context("the binary does not start")?;
        let stderr = collect(child.stderr.take());
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().context("no standard output")?);
        stdout.read_line(&mut line)?;
        let Some(url) =
            serde_json::from_str::<Value>(&line).ok().and_then(|line| Some(line["url"].as_str()?.to_owned()))
        else {
            let status = child.wait()?;
            // The reader thread may not have received the last lines yet.
            std::thread::sleep(Duration::from_millis(50));
            bail!("it did not start ({status}): {line}{}", text(&stderr));
        };
        std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        self.process = Some(ServerProcess { child, stderr, url });
        Ok(())
    }

    /// Base URL of the server: `http://localhost:PORT`.
    #[must_use]
    pub fn url(&self) -> &str {
        self.process.as_ref().map_or("", |process| &process.url)
    }

    /// The IPv4 address on which the server listens.
    #[must_use]
    pub fn address(&self) -> String {
        self.url().replace("http://localhost", "127.0.0.1")
    }

    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// The folder that holds `agent.toml`.
    #[must_use]
    pub fn agent_folder(&self) -> PathBuf {
        self.home.path().join("agent")
    }

    /// The process id while the server runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.child.id())
    }

    /// Standard error of the server since its last start.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.process.as_ref().map(|process| text(&process.stderr)).unwrap_or_default()
    }

    /// Resident memory of the server in bytes.
    pub fn resident_bytes(&self) -> anyhow::Result<u64> {
        let pid = self.pid().context("it does not run")?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kibibytes * 1024)
    }

    /// Runs `nuncio ARGUMENTS` on this server's data directory.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> anyhow::Result<CommandOutput> {
        let mut command = self.command(arguments);
        command.arg("--data").arg(self.data());
        output(&mut command)
    }

    /// Runs `nuncio ARGUMENTS` without `--data`.
    pub fn run_plain<S: AsRef<OsStr>>(&self, arguments: &[S]) -> anyhow::Result<CommandOutput> {
        output(&mut self.command(arguments))
    }

    /// Creates an API key and returns it.
    pub fn create_key(&self, flags: &[&str]) -> anyhow::Result<String> {
        let made = self.run(&[&["key", "create"], flags].concat())?;
        if made.status != Some(0) {
            bail!("nuncio key create failed: {made:?}");
        }
        Ok(made.stdout.trim().to_owned())
    }

    /// Kills the server with `kill -9`.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Errors are ignored, because the process may have ended already.
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }

    /// Asks the server to stop, and waits for its end. After a minute it kills the server and returns an error.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        let pid = rustix::process::Pid::from_raw(i32::try_from(process.child.id())?).context("pid 0")?;
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let began = Instant::now();
        while process.child.try_wait()?.is_none() {
            if began.elapsed() > Duration::from_secs(60) {
                let _ = process.child.kill();
                bail!("it does not stop: {}", text(&process.stderr));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(&*self.options.binary);
        command.args(arguments).env_clear().current_dir(self.home.path()).env("HOME", self.home.path());
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.envs(self.options.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(uid) = self.options.account {
            command.uid(uid).gid(uid);
        }
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn output(command: &mut Command) -> anyhow::Result<CommandOutput> {
    let output = command.output().context("the binary does not start")?;
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Ok(CommandOutput { status: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) })
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> Arc<Mutex<String>> {
    let collected = Arc::new(Mutex::new(String::new()));
    let shared = Arc::clone(&collected);
    if let Some(pipe) = pipe {
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                let mut text = shared.lock().unwrap_or_else(PoisonError::into_inner);
                text.push_str(&line);
                text.push('\n');
            }
        });
    }
    collected
}

fn text(collected: &Mutex<String>) -> String {
    collected.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Copies a folder, for attacks that need the state before and after.
pub fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_folder(&entry.path(), &to.join(entry.file_name()))?;
        } else if kind.is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

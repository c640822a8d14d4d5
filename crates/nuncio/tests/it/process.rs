//! Runs `nuncio` as a child process with a clean environment. Every wait has a time limit, so that no test hangs.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nuncio_testkit::{DescendantProcess, descendants, is_alive};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::client::Client;

/// Time limit of every wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Interval between two checks of a condition.
const LOOK: Duration = Duration::from_millis(10);

/// Calls `look` until it returns a value; panics after `PATIENCE`.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain: {what}");
        tokio::time::sleep(LOOK).await;
    }
}

/// A `nuncio` command that was not started yet.
pub(crate) struct NuncioCommand(Command);

/// The command `nuncio ARGUMENTS`, with an environment that contains only `PATH` and `HOME`.
pub(crate) fn nuncio(arguments: &[&str]) -> NuncioCommand {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nuncio"));
    command.args(arguments).env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.envs(["PATH", "HOME"].iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    NuncioCommand(command)
}

impl NuncioCommand {
    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.0.arg(argument);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.0.env(name, value);
        self
    }

    pub(crate) fn in_folder(mut self, folder: &Path) -> Self {
        self.0.current_dir(folder);
        self
    }

    /// Runs the command with a closed pipe as its standard output.
    pub(crate) fn run_with_closed_stdout(mut self) -> ProcessOutput {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut child = self.0.stdout(writer).spawn().unwrap();
        let err = collect(child.stderr.take().unwrap());
        let status = end_of(&mut child).unwrap_or_else(|| {
            child.kill().unwrap();
            panic!("it does not end: {:?}", self.0)
        });
        ProcessOutput { status: status.code(), stdout: String::new(), stderr: err.whole() }
    }

    pub(crate) fn run(mut self) -> ProcessOutput {
        let mut child = self.0.spawn().unwrap();
        let out = collect(child.stdout.take().unwrap());
        let err = collect(child.stderr.take().unwrap());
        let status = end_of(&mut child).unwrap_or_else(|| {
            child.kill().unwrap();
            panic!("it does not end: {:?}", self.0)
        });
        ProcessOutput { status: status.code(), stdout: out.whole(), stderr: err.whole() }
    }

    /// Runs the command in a terminal of 80 columns with the program `script`; `None` if `script` is not installed.
    pub(crate) fn in_terminal(self) -> Option<Self> {
        let quoted = |part: &OsStr| format!("'{}'", part.to_str().unwrap().replace('\'', "'\\''"));
        let parts: Vec<_> = std::iter::once(self.0.get_program()).chain(self.0.get_args()).map(quoted).collect();
        let mut command = Command::new("script");
        command.args(["-qfec", &format!("stty cols 80; exec {}", parts.join(" ")), "/dev/null"]);
        command.env_clear().stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(self.0.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("TERM", "xterm");
        if let Some(folder) = self.0.get_current_dir() {
            command.current_dir(folder);
        }
        let installed = Command::new("script").arg("--version").stdout(Stdio::null()).status().is_ok();
        installed.then_some(Self(command))
    }

    pub(crate) fn start_interactive(mut self) -> RunningProgram {
        let mut child = self.0.stdin(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = collect(child.stdout.take().unwrap());
        let stderr = collect(child.stderr.take().unwrap());
        RunningProgram { child, stdin, stdout, stderr }
    }

    pub(crate) fn start(mut self) -> Server {
        let mut child = self.0.spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let stderr = collect(child.stderr.take().unwrap());
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let Ok(line) = receiver.recv_timeout(PATIENCE) else {
            child.kill().unwrap();
            panic!("it does not start: {}", stderr.whole());
        };
        let greeting: Value = serde_json::from_str(&line).unwrap();
        assert!(greeting["url"].is_string() || greeting["pages"].is_string(), "{line}\n{}", stderr.text());
        Server { child, stderr, greeting, started: Mutex::default() }
    }
}

#[derive(Debug)]
pub(crate) struct ProcessOutput {
    /// The exit status; `None` if a signal ended the process.
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl ProcessOutput {
    /// The JSON on standard output of a command that must have succeeded.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.status, Some(0), "{self:?}");
        self.printed()
    }

    /// The code and the message in the JSON of a command that must have failed.
    pub(crate) fn failure(&self) -> (String, String) {
        assert_eq!(self.status, Some(1), "{self:?}");
        let printed = self.printed();
        let text = |key: &str| printed[key].as_str().unwrap_or_else(|| panic!("no {key}: {self:?}")).to_owned();
        (text("code"), text("error"))
    }

    fn printed(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A running program with an open standard input, killed when dropped.
pub(crate) struct RunningProgram {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: CollectedOutput,
    stderr: CollectedOutput,
}

impl RunningProgram {
    pub(crate) fn line(&mut self, line: &str) {
        // An error is ignored, because the program may have ended already.
        let _ = writeln!(self.stdin.as_ref().unwrap(), "{line}");
    }

    /// Types keys without a line break.
    pub(crate) fn keys(&mut self, keys: &str) {
        self.stdin.as_ref().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Sends SIGINT, as Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        let process = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(process, Signal::INT).unwrap();
    }

    pub(crate) fn stdout(&self) -> String {
        self.stdout.text()
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.text()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Kills the process with `kill -9`, and returns its standard error.
    pub(crate) fn kill9(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.stderr.whole()
    }

    /// Closes standard input and waits for the end of the process.
    pub(crate) fn wait_for_end(mut self) -> ProcessOutput {
        drop(self.stdin.take());
        let status = end_of(&mut self.child).expect("it ends");
        ProcessOutput { status: status.code(), stdout: self.stdout.whole(), stderr: self.stderr.whole() }
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        kill_tree(&mut self.child);
    }
}

/// A running server, killed when dropped.
pub(crate) struct Server {
    child: Child,
    stderr: CollectedOutput,
    pub(crate) greeting: Value,
    /// Descendants of the server when it was signalled; none may outlive it.
    started: Mutex<Vec<DescendantProcess>>,
}

impl Server {
    pub(crate) fn url(&self) -> &str {
        self.greeting["url"].as_str().unwrap()
    }

    pub(crate) fn aap_url(&self) -> &str {
        self.greeting["aap"].as_str().unwrap()
    }

    pub(crate) fn aap(&self) -> Client {
        Client::new(self.aap_url(), None)
    }

    pub(crate) fn aap_with_key(&self, key: &str) -> Client {
        Client::new(self.aap_url(), Some(key))
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Kills the process with `kill -9`, and returns its standard error.
    pub(crate) fn kill9(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.stderr.whole()
    }

    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.started.lock().unwrap().extend(descendants(self.child.id()));
        let process = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(process, signal).unwrap();
    }

    /// Waits for the end of the server and of its child processes; returns its exit status and standard error.
    pub(crate) fn wait_for_end(mut self) -> (Option<i32>, String) {
        let status = end_of(&mut self.child).expect("it ends");
        let stderr = self.stderr.whole();
        assert_ended(&self.started.lock().unwrap(), &stderr);
        (status.code(), stderr)
    }

    pub(crate) fn stop(self) {
        self.terminate();
        let (status, stderr) = self.wait_for_end();
        assert_eq!(status, Some(0), "{stderr}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The next server would end the programs of a killed one; a test may start no next server, so they are killed here.
        kill_tree(&mut self.child);
    }
}

/// Kills a process that has not ended yet, and all its descendants.
pub(crate) fn kill_tree(root: &mut Child) {
    if !matches!(root.try_wait(), Ok(None)) {
        return;
    }
    let started = descendants(root.id());
    let _ = root.kill();
    let _ = root.wait();
    for DescendantProcess { pid, .. } in started {
        let _ = kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL);
    }
}

/// Panics if one of these processes still runs after `PATIENCE`.
fn assert_ended(started: &[DescendantProcess], stderr: &str) {
    let began = Instant::now();
    while let Some(left) = started.iter().find(|process| is_alive(process.pid)) {
        assert!(began.elapsed() < PATIENCE, "left after its server has ended: {left:?}\n{stderr}");
        std::thread::sleep(LOOK);
    }
}

fn end_of(child: &mut Child) -> Option<ExitStatus> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(LOOK);
    }
    None
}

/// Output of a process, read on its own thread so that the pipe never fills up.
struct CollectedOutput {
    text: Arc<Mutex<Vec<u8>>>,
    reader: Mutex<Option<JoinHandle<()>>>,
}

fn collect(mut pipe: impl Read + Send + 'static) -> CollectedOutput {
    let text = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::clone(&text);
    let reader = std::thread::spawn(move || {
        let mut piece = [0; 8192];
        while let Ok(count @ 1..) = pipe.read(&mut piece) {
            shared.lock().unwrap().extend_from_slice(&piece[..count]);
        }
    });
    CollectedOutput { text, reader: Mutex::new(Some(reader)) }
}

impl CollectedOutput {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap()).into_owned()
    }

    /// The whole output of an ended process.
    fn whole(&self) -> String {
        if let Some(reader) = self.reader.lock().unwrap().take() {
            reader.join().unwrap();
        }
        self.text()
    }
}

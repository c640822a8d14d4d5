//! A bash session with its own home, in which the commands of a document run one after another.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::process::{PATIENCE, ProcessOutput, kill_tree};

/// Interval between two checks of a condition.
const LOOK: Duration = Duration::from_millis(20);

/// `cargo` as the documents use it, without building: `cargo run -- ARGUMENTS` is the program under test.
const CARGO: &str = r#"#!/bin/sh
[ "$1" = run ] && shift || { echo "cargo $1 is not for tests" >&2; exit 1; }
[ "$1" = -q ] && shift
[ "$1" = -- ] && shift || { echo "expected cargo run -- ARGUMENTS" >&2; exit 1; }
exec nuncio "$@"
"#;

/// `npx` without a network: every package is an MCP server with one tool.
const NPX: &str = r#"#!/bin/sh
while IFS= read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case $line in
  *'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"files","version":"1"}}' ;;
  *'"tools/list"'*) result='{"tools":[{"name":"read_file","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}' ;;
  *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

/// Calls `look` until it returns a value; panics after `PATIENCE`.
pub(super) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(LOOK);
    }
}

pub(super) struct ShellSession {
    bash: Child,
    stdin: ChildStdin,
    answers: Receiver<String>,
    folder: TempDir,
    /// Number of commands so far; each has its files in the folder `commands`.
    count: usize,
}

/// A command in the background.
#[derive(Debug, Clone)]
pub(super) struct BackgroundCommand {
    group: String,
    files: PathBuf,
}

impl ShellSession {
    pub(super) fn new(language: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["bin", "commands", "home", "work"] {
            fs::create_dir(at(name)).unwrap();
        }
        symlink(env!("CARGO_BIN_EXE_nuncio"), at("bin/nuncio")).unwrap();
        for (name, script) in [("cargo", CARGO), ("npx", NPX)] {
            let file = at("bin").join(name);
            fs::write(&file, script).unwrap();
            fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path = format!("{}:{}", at("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc"]).current_dir(at("work")).env_clear();
        command.env("PATH", path).env("HOME", at("home")).env("LANG", language);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut bash = command.spawn().unwrap();
        let (sender, answers) = channel();
        let stdout = bash.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let stdin = bash.stdin.take().unwrap();
        let mut session = Self { bash, stdin, answers, folder, count: 0 };
        // Each command in the background gets its own process group, by which it is stopped.
        session.tell("set -m");
        session
    }

    /// A path in the folder in which the session starts.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("work").join(name)
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").unwrap();
    }

    fn answer(&self, command: &str) -> String {
        self.answers.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("it does not end: {command}"))
    }

    /// Writes the command to a file; returns the start of the file names and the shell line that runs it.
    fn prepare(&mut self, command: &str, typed: &str) -> (PathBuf, String) {
        self.count += 1;
        let files = self.folder.path().join("commands").join(self.count.to_string());
        fs::write(files.with_extension("sh"), format!("{command}\n")).unwrap();
        fs::write(files.with_extension("in"), typed).unwrap();
        let name = files.display();
        (files.clone(), format!(". {name}.sh >{name}.out 2>{name}.err <{name}.in"))
    }

    /// Runs a command in this shell, so that its variables and its folder stay, with `typed` on standard input.
    pub(super) fn run(&mut self, command: &str, typed: &str) -> ProcessOutput {
        let (files, line) = self.prepare(command, typed);
        self.tell(&format!("{line}; echo $?"));
        let status = self.answer(command).parse().unwrap();
        let (stdout, stderr) = printed(&files);
        ProcessOutput { status: Some(status), stdout, stderr }
    }

    pub(super) fn start(&mut self, command: &str, typed: &str) -> BackgroundCommand {
        let (files, line) = self.prepare(command, typed);
        self.tell(&format!("{{ {line}; }} & echo $!"));
        BackgroundCommand { group: self.answer(command), files }
    }

    /// Waits until the server of this command accepts connections.
    pub(super) fn wait_for_port(&mut self, server: &BackgroundCommand, port: u16) {
        until("a listening server", || {
            let ended = self.has_ended(server);
            assert!(!ended, "the server has ended: {:?}", printed(&server.files));
            TcpStream::connect(("localhost", port)).ok().map(drop)
        });
    }

    fn has_ended(&mut self, command: &BackgroundCommand) -> bool {
        let group = &command.group;
        self.tell(&format!("kill -0 -- -{group} 2>/dev/null; echo $?"));
        self.answer("kill -0") != "0"
    }

    /// What a command in the background has printed so far.
    pub(super) fn output(command: &BackgroundCommand) -> String {
        let (stdout, stderr) = printed(&command.files);
        stdout + &stderr
    }

    /// Waits for the end of a command in the background.
    pub(super) fn wait_for_end(&mut self, command: &BackgroundCommand) -> ProcessOutput {
        self.tell(&format!("wait {} 2>/dev/null; echo $?", command.group));
        let status = self.answer("wait").parse().unwrap();
        let (stdout, stderr) = printed(&command.files);
        ProcessOutput { status: Some(status), stdout, stderr }
    }

    /// Interrupts a command in the background, as Ctrl-C does, and waits for its end.
    pub(super) fn stop(&mut self, command: &BackgroundCommand) {
        self.tell(&format!("kill -INT -- -{}", command.group));
        self.wait_for_end(command);
    }
}

impl Drop for ShellSession {
    fn drop(&mut self) {
        kill_tree(&mut self.bash);
    }
}

fn printed(files: &Path) -> (String, String) {
    let text = |extension| {
        let bytes = fs::read(files.with_extension(extension)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    (text("out"), text("err"))
}

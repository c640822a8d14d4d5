//! A document whose commands run in order, each exactly once.

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::commands::{DocumentedCommand, blocks, commands, read};
use super::shell::{BackgroundCommand, ShellSession, until};
use crate::process::ProcessOutput;

pub(super) struct DocumentRun {
    document: &'static str,
    text: String,
    left: VecDeque<DocumentedCommand>,
    pub(super) shell: ShellSession,
    /// What stands in the document, and what a reader puts in its place.
    filled: Vec<(String, String)>,
    port: u16,
}

impl DocumentRun {
    pub(super) fn of(document: &'static str) -> Self {
        let text = read(document);
        let left = commands(&text).into();
        let language = if document.contains("zh-CN") { "zh_CN.UTF-8" } else { "C.UTF-8" };
        let port = free_port();
        let mut run = Self { document, text, left, shell: ShellSession::new(language), filled: Vec::new(), port };
        run.fill(":7400", &format!(":{port}"));
        run.prepare(&format!("export NUNCIO_LISTEN=localhost:{port}"));
        run
    }

    pub(super) fn url(&self) -> String {
        format!("http://localhost:{}", self.port)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// From here on, `value` is put in place of `placeholder`.
    pub(super) fn fill(&mut self, placeholder: &str, value: &str) {
        self.filled.retain(|(earlier, _)| earlier != placeholder);
        self.filled.push((placeholder.to_owned(), value.to_owned()));
    }

    fn next(&mut self, start: &str) -> DocumentedCommand {
        let document = self.document;
        let mut next = self.left.pop_front().unwrap_or_else(|| panic!("{document} has no further command: {start}"));
        assert!(next.text.starts_with(start), "{document}: expected {start}, found {}", next.text);
        for (placeholder, value) in &self.filled {
            next.text = next.text.replace(placeholder, value);
        }
        next
    }

    /// Runs the next command, which starts with `start` and ends with exit status 0.
    pub(super) fn run(&mut self, start: &str) -> String {
        self.run_with(start, 0, "")
    }

    /// Runs the next command with `typed` on standard input.
    pub(super) fn run_with(&mut self, start: &str, status: i32, typed: &str) -> String {
        let command = self.next(start);
        let ran = self.shell.run(&command.text, typed);
        assert_eq!(ran.status, Some(status), "{}: {}: {ran:?}", self.document, command.text);
        ran.stdout
    }

    /// Starts the next command, a server, and waits until it listens on this page's port.
    pub(super) fn serve(&mut self, start: &str) -> BackgroundCommand {
        self.serve_at(start, self.port)
    }

    pub(super) fn serve_at(&mut self, start: &str, port: u16) -> BackgroundCommand {
        let server = self.start(start, "");
        self.shell.wait_for_port(&server, port);
        server
    }

    pub(super) fn start(&mut self, start: &str, typed: &str) -> BackgroundCommand {
        let command = self.next(start);
        self.shell.start(&command.text, typed)
    }

    /// Holds the conversation that the document shows below the next command.
    pub(super) fn chat(&mut self, start: &str) -> String {
        let command = self.next(start);
        let ran = self.shell.run(&in_terminal(&command.text), &typed(&command.shown));
        let shown = format!("{}: {}: {ran:?}", self.document, command.text);
        assert_eq!(ran.status, Some(0), "{shown}");
        for call in command.shown.iter().filter(|line| line.starts_with('→')) {
            // Values such as the time zone are those of the document, since the same was said.
            assert!(ran.stdout.contains(call.as_str()), "no {call} in {shown}");
        }
        ran.stdout
    }

    /// Starts the next command and waits until it has printed `text`.
    pub(super) fn start_until(&mut self, start: &str, text: &str) -> BackgroundCommand {
        let command = self.start(start, "");
        until(text, || ShellSession::output(&command).contains(text).then_some(()));
        command
    }

    /// Puts the next command that starts with `start` before the others, which need what it makes.
    pub(super) fn move_up(&mut self, start: &str) {
        let at = self.left.iter().position(|command| command.text.starts_with(start));
        let command = self.left.remove(at.unwrap_or_else(|| panic!("{}: no command {start}", self.document)));
        self.left.extend(command);
        self.left.rotate_right(1);
    }

    /// Does not run the next command; `_reason` says why no test can.
    pub(super) fn leave_out(&mut self, start: &str, _reason: &str) {
        self.next(start);
    }

    /// Runs a command that is not in the document, which its reader must have run.
    pub(super) fn prepare(&mut self, command: &str) -> String {
        let ran: ProcessOutput = self.shell.run(command, "");
        assert_eq!(ran.status, Some(0), "{}: {command}: {ran:?}", self.document);
        ran.stdout
    }

    /// Starts a server that is not in the document, and returns its port.
    pub(super) fn other_server(&mut self, arguments: &str) -> (BackgroundCommand, u16) {
        self.server_at(free_port(), arguments)
    }

    pub(super) fn server_at(&mut self, port: u16, arguments: &str) -> (BackgroundCommand, u16) {
        let command = format!("nuncio serve --listen localhost:{port} {arguments}");
        let server = self.shell.start(&command, "");
        self.shell.wait_for_port(&server, port);
        (server, port)
    }

    /// What a command that is not in the document prints as JSON.
    pub(super) fn json(&mut self, command: &str) -> Value {
        serde_json::from_str(&self.prepare(command)).unwrap()
    }

    /// Repeats a command that is not in the document until `look` finds something in its JSON.
    pub(super) fn until(&mut self, command: &str, look: impl Fn(&Value) -> Option<String>) -> String {
        until(command, || look(&self.json(command)))
    }

    /// The first block of this language in the document that contains `part`.
    pub(super) fn block(&self, language: &str, part: &str) -> String {
        let found = blocks(&self.text, &[language]).into_iter().map(|(_, lines)| lines.join("\n"));
        let mut found = found.filter(|block| block.contains(part));
        found.next().unwrap_or_else(|| panic!("{}: no {language} block with {part}", self.document))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.shell.path(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Panics if a command of the document has not run.
    pub(super) fn finish(self) {
        assert!(self.left.is_empty(), "{}: no test runs {:#?}", self.document, self.left);
    }
}

pub(super) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The command in a terminal, where `nuncio chat` asks questions.
pub(super) fn in_terminal(command: &str) -> String {
    let command = format!("stty cols 160; NO_COLOR=1 {command}").replace('\'', "'\\''");
    format!("script -qfec '{command}' /dev/null")
}

/// The lines that a reader types: what follows the prompts of `nuncio chat`, in English or Chinese.
fn typed(shown: &[String]) -> String {
    let line = |line: &String| {
        let said = ["you> ", "你> "].iter().find_map(|prompt| line.strip_prefix(prompt));
        let answered = || ["(reason): ", "（理由）: "].iter().find_map(|prompt| Some(line.split_once(prompt)?.1));
        Some(format!("{}\n", said.or_else(answered)?))
    };
    shown.iter().filter_map(line).collect()
}

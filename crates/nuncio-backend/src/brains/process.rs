//! Brain that is a program of the agent's author, started for each step. The program receives the prompt as one line
//! of JSON and answers line by line, see `docs/process-brain.md`.

use std::convert::Infallible;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nuncio_confine::RunningProgram;
use nuncio_core::agent::{CommandRunSpec, OptionValueType};
use nuncio_core::turn::{StopReason, TokenUsage};
use nuncio_engine::ports::brain::{Brain, BrainError, BrainStepInput, BrainStepStop, BrainWriter};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::ChildStdout;

use crate::runners::RunnerAndBrainServices;
use crate::runners::process::{StartedProgram, StderrTail, feed};
use crate::runners::secrets::SecretValues;
use output_line::{OutputLineToolCall, ProcessOutputLine};

mod output_line;

/// Length limit of an output line, in bytes.
const MAX_LINE: u64 = 1024 * 1024;
/// Limit of the program's output in one step, in bytes.
const MAX_OUTPUT: u64 = 16 * 1024 * 1024;
/// Maximum number of tool calls in one step.
const MAX_CALLS: usize = 256;
/// Time limit for reading remaining output after the program ended.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Brain of agents with `kind = "process"`.
#[derive(Debug)]
pub struct ProcessBrain {
    program: CommandRunSpec,
    services: Arc<RunnerAndBrainServices>,
}

impl ProcessBrain {
    pub(super) fn new(program: &CommandRunSpec, services: Arc<RunnerAndBrainServices>) -> Self {
        Self { program: program.clone(), services }
    }

    /// Brain error whose details quote the end of the program's standard error, with secrets redacted.
    fn failed(
        &self,
        started: &StartedProgram,
        why: &str,
        stderr_tail: &StderrTail,
        secrets: &SecretValues,
    ) -> BrainError {
        let program = &self.program.command.program;
        let stderr_text = stderr_tail.text();
        let stderr_text =
            if stderr_text.is_empty() { String::new() } else { format!("; its standard error: {stderr_text}") };
        program_failed(started.explain(secrets.redact(&format!("`{program}` {why}{stderr_text}"))))
    }
}

#[async_trait]
impl Brain for ProcessBrain {
    async fn think(&self, prompt: BrainStepInput, writer: &mut BrainWriter) -> Result<BrainStepStop, BrainError> {
        let base_dir = self.services.programs.base_dir(&prompt.agent.name);
        let templates = self.program.templates();
        let mut secrets = SecretValues::read(&prompt.agent, &base_dir, templates).await.map_err(program_failed)?;
        let env = secrets.lines(&self.program.env).map_err(program_failed)?;
        let argv = secrets.command(&self.program.command).map_err(program_failed)?;
        for option in prompt.agent.options.iter().filter(|option| option.kind == OptionValueType::Secret) {
            let value = prompt.options.get(&option.name).map(String::as_str).unwrap_or_default();
            secrets.add(&format!("option {}", option.name), value);
        }
        let started = self.services.programs.start(&prompt.agent, &base_dir, &argv, env).await;
        let mut started = started.map_err(program_failed)?;
        let mut stderr_tail = StderrTail::default();
        let (Some(stdin), Some(stdout), Some(mut stderr)) = started.running.pipes() else {
            return Err(self.failed(&started, "was started without its pipes", &stderr_tail, &secrets));
        };
        let mut reader = ProcessOutputReader::new(stdout, writer);
        let input = input_line(&prompt);
        let outcome = tokio::select! {
            outcome = follow(&mut started.running, &mut reader) => outcome,
            never = feed(stdin, &input) => match never {},
            never = async {
                stderr_tail.read(&mut stderr).await;
                std::future::pending::<Infallible>().await
            } => match never {},
        };
        if !matches!(outcome, Ok(None)) {
            // Remaining standard error may still arrive.
            let _ = tokio::time::timeout(DRAIN_TIMEOUT, stderr_tail.read(&mut stderr)).await;
        }
        match outcome {
            Ok(Some(status)) if !status.success() => {
                Err(self.failed(&started, &format!("ended with {status}"), &stderr_tail, &secrets))
            }
            Ok(_) => Ok(reader.thought()),
            Err(ProcessStepFailure::Said(why)) => Err(self.failed(&started, &why, &stderr_tail, &secrets)),
            Err(ProcessStepFailure::Worded(message)) => Err(BrainError::Failed(secrets.redact(&message))),
            Err(ProcessStepFailure::Brain(error)) => Err(error),
        }
    }
}

fn program_failed(details: String) -> BrainError {
    BrainError::ProgramFailed { details }
}

/// Input of the program: one line of JSON.
fn input_line(prompt: &BrainStepInput) -> Vec<u8> {
    let tool = |tool: &nuncio_engine::ports::brain::OfferedTool| json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
    let input_line = json!({
        "agent": prompt.agent.name,
        "history": prompt.history,
        "options": prompt.options,
        "tools": prompt.tools.iter().map(tool).collect::<Vec<Value>>(),
    });
    let mut line = input_line.to_string().into_bytes();
    line.push(b'\n');
    line
}

enum ProcessStepFailure {
    /// Failure of the program, worded to follow the program's name in a sentence.
    Said(String),
    /// The message of the program's `error` line, which people get.
    Worded(String),
    Brain(BrainError),
}

impl From<BrainError> for ProcessStepFailure {
    fn from(error: BrainError) -> Self {
        Self::Brain(error)
    }
}

/// Reads the program's output until it ends. Returns the exit status, or `None` if the program sent `stop` first.
async fn follow(
    running: &mut RunningProgram,
    reader: &mut ProcessOutputReader<'_>,
) -> Result<Option<ExitStatus>, ProcessStepFailure> {
    let unreadable = |error: std::io::Error| ProcessStepFailure::Said(format!("cannot be read from: {error}"));
    let status = {
        let mut lines = std::pin::pin!(reader.lines());
        tokio::select! {
            // Output that is available is read before the exit status is checked.
            biased;
            read = &mut lines => {
                read?;
                None
            }
            status = running.child.wait() => {
                let status = status.map_err(unreadable)?;
                // A background process of the program may hold the pipe open.
                running.group.kill();
                if let Ok(read) = tokio::time::timeout(DRAIN_TIMEOUT, &mut lines).await {
                    read?;
                }
                Some(status)
            }
        }
    };
    match status {
        Some(status) => Ok(Some(status)),
        None if reader.stop.is_some() => Ok(None),
        None => running.child.wait().await.map(Some).map_err(unreadable),
    }
}

struct ProcessOutputReader<'a> {
    stdout: BufReader<ChildStdout>,
    writer: &'a mut BrainWriter,
    number: usize,
    written: u64,
    calls: usize,
    usage: Option<TokenUsage>,
    stop: Option<StopReason>,
}

impl<'a> ProcessOutputReader<'a> {
    fn new(stdout: ChildStdout, writer: &'a mut BrainWriter) -> Self {
        Self { stdout: BufReader::new(stdout), writer, number: 0, written: 0, calls: 0, usage: None, stop: None }
    }

    /// Reads lines until the end of output or a `stop` line.
    async fn lines(&mut self) -> Result<(), ProcessStepFailure> {
        let mut line = Vec::new();
        while self.stop.is_none() {
            line.clear();
            let read = (&mut self.stdout).take(MAX_LINE + 1).read_until(b'\n', &mut line).await;
            let read = read.map_err(|error| ProcessStepFailure::Said(format!("cannot be read from: {error}")))? as u64;
            if read == 0 {
                return Ok(());
            }
            self.number += 1;
            self.written += read;
            if read > MAX_LINE {
                return Err(ProcessStepFailure::Said(format!(
                    "wrote more than {MAX_LINE} bytes in line {}",
                    self.number
                )));
            }
            if self.written > MAX_OUTPUT {
                return Err(ProcessStepFailure::Said(format!("wrote more than {MAX_OUTPUT} bytes")));
            }
            if !line.trim_ascii().is_empty() {
                self.line(&line).await?;
            }
        }
        Ok(())
    }

    async fn line(&mut self, line: &[u8]) -> Result<(), ProcessStepFailure> {
        let read = output_line::read(line).map_err(|why| {
            ProcessStepFailure::Said(format!("wrote line {}, which is not valid: {why}", self.number))
        })?;
        match read {
            ProcessOutputLine::Text(text) => self.writer.text(&text).await?,
            ProcessOutputLine::Thinking(text) => self.writer.thinking(&text).await?,
            ProcessOutputLine::Tool(OutputLineToolCall { id, name, input }) => {
                self.calls += 1;
                if self.calls > MAX_CALLS {
                    return Err(ProcessStepFailure::Said(format!("called more than {MAX_CALLS} tools at once")));
                }
                self.writer.call(id, name, input);
            }
            ProcessOutputLine::Usage(usage) => self.usage = Some(usage),
            ProcessOutputLine::Stop(reason) => self.stop = Some(reason),
            ProcessOutputLine::Error(message) => return Err(ProcessStepFailure::Worded(message)),
        }
        Ok(())
    }

    fn thought(&self) -> BrainStepStop {
        let natural = if self.calls > 0 { StopReason::ToolUse } else { StopReason::EndTurn };
        BrainStepStop { stop: self.stop.unwrap_or(natural), usage: self.usage }
    }
}

//! Tools that are programs, started for each call.

use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::time::Duration;

use nuncio_confine::RunningProgram;
use nuncio_core::agent::CommandRun;
use nuncio_engine::ports::runner::{RunCall, RunError, ToolOutput};
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::process::{ChildStderr, ChildStdout};

use super::process::{Programs, StderrTail, feed};
use super::secrets::SecretValues;

/// Size limit of the output, in bytes.
const MAX_OUTPUT: usize = 1024 * 1024;
/// Time limit for reading remaining output after the program ended.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs a program with the arguments as JSON on its standard input and the result on its standard output. All its
/// processes end with the program or when this future is dropped.
pub(super) async fn run(programs: &Programs, run: &CommandRun, call: &RunCall) -> Result<ToolOutput, RunError> {
    let RunCall { agent, arguments, .. } = call;
    let base_dir = programs.base_dir(&agent.name);
    let templates = run.env.iter().map(|(_, template)| template);
    let secrets = SecretValues::read(agent, &base_dir, templates).await.map_err(RunError::Unavailable)?;
    // Variables of the agent file come last, so that they take precedence.
    let mut env: Vec<_> = identifier_variables(&call.trace).collect();
    env.extend(secrets.lines_of_call(&run.env, arguments).map_err(RunError::Failed)?);
    let input = Value::Object(arguments.clone()).to_string();

    let program = run.argv.first().map_or("", String::as_str);
    let mut started = programs.start(agent, &base_dir, &run.argv, env).await.map_err(RunError::Unavailable)?;
    call.program_start.report();
    let (Some(stdin), Some(stdout), Some(stderr)) = started.running.pipes() else {
        return Err(RunError::Unavailable(format!("`{program}` was started without its pipes")));
    };
    let mut streams = ProgramOutput {
        stdout: Some(stdout),
        stderr: Some(stderr),
        answer: Vec::new(),
        complaint: StderrTail::default(),
    };
    let status = tokio::select! {
        status = finish(&mut started.running, &mut streams) => status,
        never = feed(stdin, input.as_bytes()) => match never {},
    };
    match status {
        Ok(status) if status.success() => Ok(output(&streams.answer)),
        Ok(status) => {
            let stderr = secrets.redact(&streams.complaint.text());
            let stderr = if stderr.is_empty() { String::new() } else { format!(": {stderr}") };
            Err(RunError::Failed(started.explain(format!("`{program}` ended with {status}{stderr}"))))
        }
        Err(RunFailure::TooMuch) => {
            Err(RunError::Failed(format!("`{program}` answered with more than {MAX_OUTPUT} bytes")))
        }
        Err(RunFailure::Io(error)) => Err(RunError::Unavailable(format!("`{program}` cannot be listened to: {error}"))),
    }
}

/// Environment variables with the identifiers of a call.
fn identifier_variables(trace: &BTreeMap<&'static str, String>) -> impl Iterator<Item = (String, String)> {
    let usable = trace.iter().filter(|(_, value)| !value.contains('\0'));
    usable.map(|(name, value)| {
        let name = match *name {
            "traceparent" => "TRACEPARENT".to_owned(),
            other => format!("NUNCIO_{}", other.to_uppercase()),
        };
        (name, value.clone())
    })
}

/// Failure before an output is available.
enum RunFailure {
    TooMuch,
    Io(std::io::Error),
}

/// Waits for the end of the program while reading its output, so that it never blocks.
async fn finish(running: &mut RunningProgram, streams: &mut ProgramOutput) -> Result<ExitStatus, RunFailure> {
    let status = loop {
        tokio::select! {
            status = running.child.wait() => break status.map_err(RunFailure::Io)?,
            read = streams.read(), if streams.open() => read?,
        }
    };
    // A background process of the program may hold the pipes open.
    running.group.kill();
    if let Ok(read) = tokio::time::timeout(DRAIN_TIMEOUT, streams.read()).await {
        read?;
    }
    Ok(status)
}

/// Output of a program, kept when reading is interrupted.
struct ProgramOutput {
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    answer: Vec<u8>,
    complaint: StderrTail,
}

impl ProgramOutput {
    fn open(&self) -> bool {
        self.stdout.is_some() || self.stderr.is_some()
    }

    /// Reads both output streams of the program to their end. Cancel safe.
    async fn read(&mut self) -> Result<(), RunFailure> {
        let mut complaint = [0; 1024];
        while self.open() {
            tokio::select! {
                read = read_open(&mut self.stdout, |stream| stream.read_buf(&mut self.answer)) => {
                    if self.answer.len() > MAX_OUTPUT {
                        return Err(RunFailure::TooMuch);
                    }
                    if matches!(read, Ok(0) | Err(_)) {
                        self.stdout = None;
                    }
                }
                read = read_open(&mut self.stderr, |stream| stream.read(&mut complaint)) => match read {
                    Ok(count) if count > 0 => self.complaint.push(&complaint[..count]),
                    _ => self.stderr = None,
                },
            }
        }
        Ok(())
    }
}

/// Reads from an open stream; never returns for a closed one.
async fn read_open<'a, S, F: Future<Output = std::io::Result<usize>>>(
    stream: &'a mut Option<S>,
    read: impl FnOnce(&'a mut S) -> F,
) -> std::io::Result<usize> {
    match stream {
        Some(stream) => read(stream).await,
        None => std::future::pending().await,
    }
}

/// Parses JSON; any other text becomes a string.
fn output(answer: &[u8]) -> ToolOutput {
    if let Ok(value) = serde_json::from_slice(answer) {
        return ToolOutput::json(value);
    }
    let text = String::from_utf8_lossy(answer);
    ToolOutput::text(text.strip_suffix('\n').unwrap_or(&text))
}

//! Tools that are programs, started for each call.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::process::ExitStatus;
use std::time::Duration;

use nuncio_confine::Running;
use nuncio_core::agent::CommandRun;
use nuncio_engine::ports::runner::{RunCall, RunError, ToolOutput};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use super::process::{Programs, Tail};
use super::secrets::Secrets;

/// How much a program may answer.
const MAX_OUTPUT: usize = 1024 * 1024;
/// How long what a program had already written may take to arrive once it has ended.
const DRAIN: Duration = Duration::from_secs(1);

/// Runs a program: the arguments as one JSON object on its standard input, the answer on its
/// standard output. When the program ends, or when this future is dropped, everything it started
/// ends with it.
pub(super) async fn run(programs: &Programs, run: &CommandRun, call: &RunCall) -> Result<ToolOutput, RunError> {
    let RunCall { agent, arguments, .. } = call;
    let base_dir = programs.base_dir(&agent.name);
    let templates = run.env.iter().map(|(_, template)| template);
    let secrets = Secrets::read(agent, &base_dir, templates).await.map_err(RunError::Unavailable)?;
    // What the file says comes last, so that it is what counts.
    let mut env: Vec<_> = passed_on(&call.trace).collect();
    env.extend(secrets.lines_of_call(&run.env, arguments).map_err(RunError::Failed)?);
    let input = Value::Object(arguments.clone()).to_string();

    let program = run.argv.first().map_or("", String::as_str);
    let mut started = programs.start(agent, &base_dir, &run.argv, env).await.map_err(RunError::Unavailable)?;
    call.program_start.report();
    let (Some(stdin), Some(stdout), Some(stderr)) = started.running.pipes() else {
        return Err(RunError::Unavailable(format!("`{program}` was started without its pipes")));
    };
    let mut streams =
        Streams { stdout: Some(stdout), stderr: Some(stderr), answer: Vec::new(), complaint: Tail::default() };
    let status = tokio::select! {
        status = finish(&mut started.running, &mut streams) => status,
        never = feed(stdin, input.as_bytes()) => match never {},
    };
    match status {
        Ok(status) if status.success() => Ok(output(&streams.answer)),
        Ok(status) => {
            let said = secrets.redact(&streams.complaint.text());
            let said = if said.is_empty() { String::new() } else { format!(": {said}") };
            Err(RunError::Failed(started.explain(format!("`{program}` ended with {status}{said}"))))
        }
        Err(Trouble::TooMuch) => {
            Err(RunError::Failed(format!("`{program}` answered with more than {MAX_OUTPUT} bytes")))
        }
        Err(Trouble::Io(error)) => Err(RunError::Unavailable(format!("`{program}` cannot be listened to: {error}"))),
    }
}

/// The identifiers of a call, as a program finds them in its environment.
fn passed_on(trace: &BTreeMap<&'static str, String>) -> impl Iterator<Item = (String, String)> {
    let usable = trace.iter().filter(|(_, value)| !value.contains('\0'));
    usable.map(|(name, value)| {
        let name = match *name {
            "traceparent" => "TRACEPARENT".to_owned(),
            other => format!("NUNCIO_{}", other.to_uppercase()),
        };
        (name, value.clone())
    })
}

/// Why there is no answer to look at.
enum Trouble {
    TooMuch,
    Io(std::io::Error),
}

/// Waits for the program's end, reading what it says so that it is never held up.
async fn finish(running: &mut Running, streams: &mut Streams) -> Result<ExitStatus, Trouble> {
    let status = loop {
        tokio::select! {
            status = running.child.wait() => break status.map_err(Trouble::Io)?,
            read = streams.read(), if streams.open() => read?,
        }
    };
    // What it left running may hold our pipes open for ever.
    running.group.kill();
    if let Ok(read) = tokio::time::timeout(DRAIN, streams.read()).await {
        read?;
    }
    Ok(status)
}

/// Writes the arguments and closes the pipe. A program that does not care for them is fine.
async fn feed(mut stdin: ChildStdin, input: &[u8]) -> Infallible {
    let _ = stdin.write_all(input).await;
    drop(stdin);
    std::future::pending().await
}

/// What comes from a program, kept across interruptions of the reading.
struct Streams {
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    answer: Vec<u8>,
    complaint: Tail,
}

impl Streams {
    fn open(&self) -> bool {
        self.stdout.is_some() || self.stderr.is_some()
    }

    /// Reads both to their end. May be dropped and called again.
    async fn read(&mut self) -> Result<(), Trouble> {
        let mut complaint = [0; 1024];
        while self.open() {
            tokio::select! {
                read = some(&mut self.stdout, |stream| stream.read_buf(&mut self.answer)) => {
                    if self.answer.len() > MAX_OUTPUT {
                        return Err(Trouble::TooMuch);
                    }
                    if matches!(read, Ok(0) | Err(_)) {
                        self.stdout = None;
                    }
                }
                read = some(&mut self.stderr, |stream| stream.read(&mut complaint)) => match read {
                    Ok(count) if count > 0 => self.complaint.push(&complaint[..count]),
                    _ => self.stderr = None,
                },
            }
        }
        Ok(())
    }
}

/// Reads from a stream that is still open; waits for ever on one that is not.
async fn some<'a, S, F: Future<Output = std::io::Result<usize>>>(
    stream: &'a mut Option<S>,
    read: impl FnOnce(&'a mut S) -> F,
) -> std::io::Result<usize> {
    match stream {
        Some(stream) => read(stream).await,
        None => std::future::pending().await,
    }
}

/// A JSON value as itself, anything else as text.
fn output(answer: &[u8]) -> ToolOutput {
    if let Ok(value) = serde_json::from_slice(answer) {
        return ToolOutput::json(value);
    }
    let text = String::from_utf8_lossy(answer);
    ToolOutput::text(text.strip_suffix('\n').unwrap_or(&text))
}

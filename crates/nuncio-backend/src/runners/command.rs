//! Tools that are programs, started for each call.

use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::time::Duration;

use nuncio_confine::RunningProgram;
use nuncio_core::agent::CommandRunSpec;
use nuncio_engine::ports::runner::{AuthorizedToolCall, ToolOutput, ToolRunError};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::process::ChildStdout;

use super::process::{ProgramStarter, StderrTail, feed};
use super::secrets::{SecretValues, render_lines};

/// Size limit of a program's output, in bytes.
const MAX_OUTPUT: usize = 1024 * 1024;
/// Time limit for reading remaining output after the program ended.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs a program with the call's arguments as JSON on its standard input and the result on its standard output. All its
/// processes end with the program or when this future is dropped.
pub(super) async fn run(
    programs: &ProgramStarter,
    run: &CommandRunSpec,
    call: &AuthorizedToolCall,
) -> Result<ToolOutput, ToolRunError> {
    let AuthorizedToolCall { agent, arguments, .. } = call;
    let base_dir = programs.base_dir(&agent.name);
    let secrets = SecretValues::read(agent, &base_dir, run.templates()).await.map_err(ToolRunError::Unavailable)?;
    let context = json!({"secrets": secrets, "args": arguments});
    let failed = |why: String| ToolRunError::Failed(secrets.redact(&why));
    let argv = run.command.render(&context).map_err(failed)?;
    // Variables of the agent file come last, so that they take precedence.
    let mut env: Vec<_> = identifier_variables(&call.trace).collect();
    env.extend(render_lines(&run.env, &context).map_err(failed)?);
    let input = Value::Object(arguments.clone()).to_string();

    let program = &run.command.program;
    let mut started = programs.start(agent, &base_dir, &argv, env).await.map_err(ToolRunError::Unavailable)?;
    call.program_start.report();
    let (Some(stdin), Some(stdout), Some(mut stderr)) = started.running.pipes() else {
        return Err(ToolRunError::Unavailable(format!("`{program}` was started without its pipes")));
    };
    let (mut answer, mut stderr_tail) = (Vec::new(), StderrTail::default());
    let reading = async {
        let reading_stderr = async {
            stderr_tail.read(&mut stderr).await;
            Ok(())
        };
        tokio::try_join!(read_answer(stdout, &mut answer), reading_stderr).map(drop)
    };
    let status = tokio::select! {
        status = finish(&mut started.running, reading) => status,
        never = feed(stdin, input.as_bytes()) => match never {},
    };
    match status {
        Ok(status) if status.success() => Ok(output(&answer)),
        Ok(status) => {
            let stderr = secrets.redact(&stderr_tail.text());
            let stderr = if stderr.is_empty() { String::new() } else { format!(": {stderr}") };
            Err(ToolRunError::Failed(started.explain(format!("`{program}` ended with {status}{stderr}"))))
        }
        Err(ProgramRunFailure::TooMuch) => {
            Err(ToolRunError::Failed(format!("`{program}` answered with more than {MAX_OUTPUT} bytes")))
        }
        Err(ProgramRunFailure::Io(error)) => {
            Err(ToolRunError::Unavailable(format!("the output of `{program}` cannot be read: {error}")))
        }
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

/// Failure while the program runs, before its output is available.
enum ProgramRunFailure {
    TooMuch,
    Io(std::io::Error),
}

/// Waits for the end of the program while reading its output, so that the program never blocks on writing.
async fn finish(
    running: &mut RunningProgram,
    reading: impl Future<Output = Result<(), ProgramRunFailure>>,
) -> Result<ExitStatus, ProgramRunFailure> {
    let mut reading = std::pin::pin!(reading);
    let mut is_open = true;
    let status = loop {
        tokio::select! {
            status = running.child.wait() => break status.map_err(ProgramRunFailure::Io)?,
            read = &mut reading, if is_open => {
                read?;
                is_open = false;
            }
        }
    };
    // A background process of the program may hold the pipes open.
    running.group.kill();
    if is_open && let Ok(read) = tokio::time::timeout(DRAIN_TIMEOUT, reading).await {
        read?;
    }
    Ok(status)
}

/// Reads standard output to its end; fails above [`MAX_OUTPUT`] bytes.
async fn read_answer(mut stdout: ChildStdout, answer: &mut Vec<u8>) -> Result<(), ProgramRunFailure> {
    while let Ok(1..) = stdout.read_buf(answer).await {
        if answer.len() > MAX_OUTPUT {
            return Err(ProgramRunFailure::TooMuch);
        }
    }
    Ok(())
}

/// Parses the program's output as JSON; any other output becomes text.
fn output(answer: &[u8]) -> ToolOutput {
    if let Ok(value) = serde_json::from_slice(answer) {
        return ToolOutput::json(value);
    }
    let text = String::from_utf8_lossy(answer);
    ToolOutput::text(text.strip_suffix('\n').unwrap_or(&text))
}

//! A program of the author's that thinks: started for each step, told everything in one line of
//! JSON, heard line by line. The lines are described in `docs/process-brain.md`.

use std::convert::Infallible;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nuncio_confine::Running;
use nuncio_core::agent::{CommandRun, OptionKind};
use nuncio_core::turn::{StopReason, Usage};
use nuncio_engine::ports::brain::{Brain, BrainError, Prompt, Speaker, Thought};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use super::Means;
use crate::runners::process::{Program, Tail};
use crate::runners::secrets::Secrets;
use line::{Call, Line};

mod line;

/// How long one line may be.
const MAX_LINE: u64 = 1024 * 1024;
/// How much a program may write in one step.
const MAX_OUTPUT: u64 = 16 * 1024 * 1024;
/// How many tools it may call in one step.
const MAX_CALLS: usize = 256;
/// How long what a program had already written may take to arrive once it has ended.
const DRAIN: Duration = Duration::from_secs(1);

/// The brain of agents whose file says `kind = "process"`.
#[derive(Debug)]
pub struct ProcessBrain {
    program: CommandRun,
    means: Arc<Means>,
}

impl ProcessBrain {
    pub(super) fn new(program: &CommandRun, means: Arc<Means>) -> Self {
        Self { program: program.clone(), means }
    }

    /// A failure with what the program said about it, without secrets.
    fn failed(&self, started: &Program, why: &str, complaint: &Tail, secrets: &Secrets) -> BrainError {
        let program = self.program.argv.first().map_or("", String::as_str);
        let said = complaint.text();
        let said = if said.is_empty() { String::new() } else { format!("; it said: {said}") };
        BrainError::Failed(started.explain(secrets.redact(&format!("`{program}` {why}{said}"))))
    }
}

#[async_trait]
impl Brain for ProcessBrain {
    async fn think(&self, prompt: Prompt, voice: &mut Speaker) -> Result<Thought, BrainError> {
        let base_dir = self.means.programs.base_dir(&prompt.agent.name);
        let templates = self.program.env.iter().map(|(_, template)| template);
        let mut secrets = Secrets::read(&prompt.agent, &base_dir, templates).await.map_err(BrainError::Failed)?;
        let env = secrets.lines(&self.program.env).map_err(BrainError::Failed)?;
        for option in prompt.agent.options.iter().filter(|option| option.kind == OptionKind::Secret) {
            let value = prompt.options.get(&option.name).map(String::as_str).unwrap_or_default();
            secrets.add(&format!("option {}", option.name), value);
        }
        let started = self.means.programs.start(&prompt.agent, &base_dir, &self.program.argv, env).await;
        let mut started = started.map_err(BrainError::Failed)?;
        let mut complaint = Tail::default();
        let (Some(stdin), Some(stdout), Some(mut stderr)) = started.running.pipes() else {
            return Err(self.failed(&started, "was started without its pipes", &complaint, &secrets));
        };
        let mut hearing = Hearing::new(stdout, voice);
        let outcome = tokio::select! {
            outcome = follow(&mut started.running, &mut hearing) => outcome,
            never = feed(stdin, question(&prompt)) => match never {},
            never = async {
                listen(&mut stderr, &mut complaint).await;
                std::future::pending::<Infallible>().await
            } => match never {},
        };
        if !matches!(outcome, Ok(None)) {
            // What it complained about may still be on its way.
            let _ = tokio::time::timeout(DRAIN, listen(&mut stderr, &mut complaint)).await;
        }
        match outcome {
            Ok(Some(status)) if !status.success() => {
                Err(self.failed(&started, &format!("ended with {status}"), &complaint, &secrets))
            }
            Ok(_) => Ok(hearing.thought()),
            Err(Trouble::Said(why)) => Err(self.failed(&started, &why, &complaint, &secrets)),
            Err(Trouble::Brain(error)) => Err(error),
        }
    }
}

/// What the program is told, in one line.
fn question(prompt: &Prompt) -> Vec<u8> {
    let tool = |tool: &nuncio_engine::ports::brain::OfferedTool| json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
    let question = json!({
        "agent": prompt.agent.name,
        "history": prompt.history,
        "tools": prompt.tools.iter().map(tool).collect::<Vec<Value>>(),
        "options": prompt.options,
    });
    let mut line = question.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// Why a step has come to nothing.
enum Trouble {
    /// The program's fault; the end of a sentence about it.
    Said(String),
    Brain(BrainError),
}

impl From<BrainError> for Trouble {
    fn from(error: BrainError) -> Self {
        Self::Brain(error)
    }
}

/// Hears a program to its end. Its status, unless it said that it was done before it ended.
async fn follow(running: &mut Running, hearing: &mut Hearing<'_>) -> Result<Option<ExitStatus>, Trouble> {
    let unheard = |error: std::io::Error| Trouble::Said(format!("cannot be listened to: {error}"));
    let status = {
        let mut lines = std::pin::pin!(hearing.lines());
        tokio::select! {
            // What it has written comes before how it ended.
            biased;
            heard = &mut lines => {
                heard?;
                None
            }
            status = running.child.wait() => {
                let status = status.map_err(unheard)?;
                // What it left running may hold our pipe open for ever.
                running.group.kill();
                if let Ok(heard) = tokio::time::timeout(DRAIN, &mut lines).await {
                    heard?;
                }
                Some(status)
            }
        }
    };
    match status {
        Some(status) => Ok(Some(status)),
        None if hearing.stop.is_some() => Ok(None),
        None => running.child.wait().await.map(Some).map_err(unheard),
    }
}

/// Writes the question and closes the pipe. A program that does not care for it is fine.
async fn feed(mut stdin: ChildStdin, question: Vec<u8>) -> Infallible {
    let _ = stdin.write_all(&question).await;
    drop(stdin);
    std::future::pending().await
}

/// Keeps the end of what a program complains about, until it has nothing more to say.
async fn listen(stderr: &mut ChildStderr, complaint: &mut Tail) {
    let mut bytes = [0; 1024];
    while let Ok(count @ 1..) = stderr.read(&mut bytes).await {
        complaint.push(&bytes[..count]);
    }
}

/// What a program says, line by line.
struct Hearing<'a> {
    stdout: BufReader<ChildStdout>,
    voice: &'a mut Speaker,
    number: usize,
    written: u64,
    calls: usize,
    usage: Option<Usage>,
    stop: Option<StopReason>,
}

impl<'a> Hearing<'a> {
    fn new(stdout: ChildStdout, voice: &'a mut Speaker) -> Self {
        Self { stdout: BufReader::new(stdout), voice, number: 0, written: 0, calls: 0, usage: None, stop: None }
    }

    /// Hears lines until there are no more, or one says that it is done.
    async fn lines(&mut self) -> Result<(), Trouble> {
        let mut line = Vec::new();
        while self.stop.is_none() {
            line.clear();
            let read = (&mut self.stdout).take(MAX_LINE + 1).read_until(b'\n', &mut line).await;
            let read = read.map_err(|error| Trouble::Said(format!("cannot be listened to: {error}")))? as u64;
            if read == 0 {
                return Ok(());
            }
            self.number += 1;
            self.written += read;
            if read > MAX_LINE {
                return Err(Trouble::Said(format!("wrote more than {MAX_LINE} bytes in line {}", self.number)));
            }
            if self.written > MAX_OUTPUT {
                return Err(Trouble::Said(format!("wrote more than {MAX_OUTPUT} bytes")));
            }
            if !line.trim_ascii().is_empty() {
                self.line(&line).await?;
            }
        }
        Ok(())
    }

    async fn line(&mut self, line: &[u8]) -> Result<(), Trouble> {
        let read = line::read(line).map_err(|why| Trouble::Said(format!("wrote in line {} {why}", self.number)))?;
        match read {
            Line::Text(text) => self.voice.text(&text).await?,
            Line::Thinking(text) => self.voice.thinking(&text).await?,
            Line::Tool(Call { id, name, input }) => {
                self.calls += 1;
                if self.calls > MAX_CALLS {
                    return Err(Trouble::Said(format!("called more than {MAX_CALLS} tools at once")));
                }
                self.voice.call(id, name, input);
            }
            Line::Usage(usage) => self.usage = Some(usage),
            Line::Stop(reason) => self.stop = Some(reason),
            Line::Error(why) => return Err(Trouble::Said(format!("failed: {why}"))),
        }
        Ok(())
    }

    fn thought(&self) -> Thought {
        let natural = if self.calls > 0 { StopReason::ToolUse } else { StopReason::EndTurn };
        Thought { stop: self.stop.unwrap_or(natural), usage: self.usage }
    }
}

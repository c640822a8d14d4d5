//! Asking the person in the terminal: one question at a time, and no is the default.

use std::io::BufRead as _;
use std::time::Duration;

use anstream::eprintln;
use async_trait::async_trait;
use nuncio_core::agent::Sensitivity;
use nuncio_device::prompt::{AgentVerification, Prompt, PromptAnswer, Question};
use nuncio_engine::ports::Clock as _;
use nuncio_server::SystemClock;
use owo_colors::OwoColorize as _;
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;

use crate::commands::chat::clean::clean;

/// Input this soon after a prompt is not taken as its answer.
const TOO_SOON: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Terminal {
    /// Whether the terminal is the only prompt: then end of input means no.
    alone: bool,
    /// Typed lines with their time. Locked while a question is open, so that the next one waits.
    lines: Mutex<mpsc::UnboundedReceiver<(Instant, String)>>,
}

impl Terminal {
    pub(super) fn new(alone: bool) -> Self {
        let (tell, lines) = mpsc::unbounded_channel();
        // A thread of its own: a line that is being waited for must not keep the program from ending.
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                if tell.send((Instant::now(), line)).is_err() {
                    return;
                }
            }
        });
        Self { alone, lines: Mutex::new(lines) }
    }
}

/// Prints that a question is closed, unless it was answered here.
struct OpenQuestion<'a>(Option<&'a Question>);

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        if let Some(question) = self.0 {
            eprintln!("{} {}: too late, or answered elsewhere.", question.agent_name, question.tool);
        }
    }
}

#[async_trait]
impl Prompt for Terminal {
    async fn ask(&self, question: &Question) -> PromptAnswer {
        let mut lines = self.lines.lock().await;
        show(question);
        let shown = Instant::now();
        let mut open = OpenQuestion(Some(question));
        let said = loop {
            match lines.recv().await {
                Some((typed, _)) if typed < shown + TOO_SOON => {
                    eprintln!("Ignored: the answer came too soon after the question.");
                }
                Some((_, line)) => {
                    let yes = matches!(line.trim().to_lowercase().as_str(), "y" | "yes");
                    break if yes { PromptAnswer::Yes } else { PromptAnswer::No };
                }
                // Nobody sits there any more.
                None if self.alone => break PromptAnswer::No,
                None => std::future::pending().await,
            }
        };
        open.0 = None;
        said
    }
}

fn show(question: &Question) {
    let verified = match &question.verified {
        AgentVerification::FirstContact => "known by its keys since first contact".to_owned(),
        AgentVerification::Did { did } => format!("its keys are confirmed by {did}"),
    };
    eprintln!();
    eprintln!("{} ({}) wants to run {}", question.agent_name.bold(), question.agent, question.tool.bold());
    eprintln!("  {}  {verified}", "verified".dimmed());
    if let Some(description) = question.description.in_language("en") {
        eprintln!("  {}  {}", "it says ".dimmed(), clean(description));
    }
    eprintln!("  {}  {} ({} sensitivity)", "under   ".dimmed(), question.scope, question.sensitivity);
    eprintln!("  {}", "with".dimmed());
    for line in question.arguments.lines() {
        eprintln!("    {line}");
    }
    let allow = match question.sensitivity {
        Sensitivity::Low | Sensitivity::High => "Allow this once?",
        Sensitivity::Medium => "Allow it, and more of it here within 24 hours of the last?",
    };
    let left = SystemClock.now().until(question.until).as_secs();
    eprintln!("{allow} {} ", format!("[y/N, {left} seconds]").dimmed());
}

#[cfg(test)]
mod tests {
    use nuncio_core::ids::{AgentId, CallId, ConversationId, ScopeId, ToolName};
    use nuncio_core::time::Timestamp;

    use super::*;

    /// What is said when these lines were typed, each so many milliseconds from now, and nothing more.
    async fn said(typed: &[(u64, &str)]) -> PromptAnswer {
        let (tell, lines) = mpsc::unbounded_channel();
        for (millis, line) in typed {
            tell.send((Instant::now() + Duration::from_millis(*millis), (*line).to_owned())).unwrap();
        }
        drop(tell);
        let question = Question {
            id: "1".to_owned(),
            agent: AgentId::parse("agt_1").unwrap(),
            agent_name: "Notes".to_owned(),
            verified: AgentVerification::FirstContact,
            call: CallId::parse("call_1").unwrap(),
            conversation: ConversationId::parse("cnv_1").unwrap(),
            tool: ToolName::parse("read_file").unwrap(),
            description: nuncio_device::LocalizedText::default(),
            arguments: "{}".to_owned(),
            scope: ScopeId::parse("filesystem:read").unwrap(),
            scope_words: nuncio_device::ScopeTexts::default(),
            sensitivity: Sensitivity::Medium,
            until: Timestamp::from_millis(0),
        };
        Terminal { alone: true, lines: Mutex::new(lines) }.ask(&question).await
    }

    #[tokio::test]
    async fn only_an_explicit_yes_after_the_delay_allows_a_call() {
        const LATER: u64 = 600_000;
        for (typed, expected) in [
            (&[(LATER, "y")][..], PromptAnswer::Yes),
            (&[(LATER, " YES ")], PromptAnswer::Yes),
            (&[(LATER, "")], PromptAnswer::No),
            (&[(LATER, "sure")], PromptAnswer::No),
            // Typed before anyone can have read it: neither counts.
            (&[(0, "y"), (LATER, "")], PromptAnswer::No),
            (&[(0, "n"), (LATER, "y")], PromptAnswer::Yes),
            // Nobody sits there any more.
            (&[(0, "y")], PromptAnswer::No),
            (&[], PromptAnswer::No),
        ] {
            assert_eq!(said(typed).await, expected, "{typed:?}");
        }
    }
}

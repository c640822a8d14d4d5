//! Permission prompts in the terminal: one question at a time, and no is the default.

use std::fmt::Display;
use std::io::BufRead as _;
use std::time::Duration;

use anstream::eprintln;
use async_trait::async_trait;
use nuncio_core::agent::Sensitivity;
use nuncio_core::call_source::CallSource;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_device::prompt::{AgentVerification, PermissionPrompt, PromptAnswer, PromptQuestion};
use nuncio_engine::ports::Clock as _;
use nuncio_server::SystemClock;
use owo_colors::OwoColorize as _;
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;

use super::texts::{DeviceTexts, fill};
use crate::commands::chat::clean::clean;
use crate::commands::language::user_language;

/// Input within this time after a prompt is ignored.
const TOO_SOON: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct TerminalPrompt {
    /// Whether this terminal is the only place for prompts: then the end of input means no.
    alone: bool,
    /// Typed lines with their time. Locked while a question is open, so that the next question waits.
    lines: Mutex<mpsc::UnboundedReceiver<(Instant, String)>>,
}

impl TerminalPrompt {
    pub(super) fn new(alone: bool) -> Self {
        let (sender, lines) = mpsc::unbounded_channel();
        // A read from a terminal cannot be cancelled; on its own thread it does not delay the end of the program.
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                if sender.send((Instant::now(), line)).is_err() {
                    return;
                }
            }
        });
        Self { alone, lines: Mutex::new(lines) }
    }
}

/// Prints on drop that a question is closed, unless it was answered in this terminal.
struct OpenQuestionGuard<'a>(Option<&'a PromptQuestion>);

impl Drop for OpenQuestionGuard<'_> {
    fn drop(&mut self) {
        if let Some(question) = self.0 {
            let values: [(&str, &dyn Display); 2] = [("agent", &question.agent_name), ("tool", &question.tool)];
            eprintln!("{}", fill(closing_text(&DeviceTexts::of_environment(), question, SystemClock.now()), &values));
        }
    }
}

/// Why a question closed without an answer in this terminal: its time ended, or it was answered elsewhere.
fn closing_text(texts: &DeviceTexts, question: &PromptQuestion, now: Timestamp) -> &'static str {
    if now < question.until { texts.answered_elsewhere } else { texts.timed_out }
}

#[async_trait]
impl PermissionPrompt for TerminalPrompt {
    async fn ask(&self, question: &PromptQuestion) -> PromptAnswer {
        let mut lines = self.lines.lock().await;
        show(question);
        let shown = Instant::now();
        let mut open = OpenQuestionGuard(Some(question));
        let answer = loop {
            match lines.recv().await {
                Some((typed, _)) if typed < shown + TOO_SOON => {
                    eprintln!("{}", DeviceTexts::of_environment().too_soon);
                }
                Some((_, line)) => break parse_answer(&line, question.sensitivity),
                // The input ended, so no answer can come.
                None if self.alone => break PromptAnswer::No,
                None => std::future::pending().await,
            }
        };
        open.0 = None;
        answer
    }
}

/// A typed answer; `y` allows one call, as in `nuncio chat`. The 24 hours count only where they are offered.
fn parse_answer(line: &str, sensitivity: Sensitivity) -> PromptAnswer {
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" | "o" | "once" | "是" | "允许" => PromptAnswer::Once,
        "d" | "day" | "24" | "24h" if sensitivity == Sensitivity::Medium => PromptAnswer::Yes,
        _ => PromptAnswer::No,
    }
}

fn show(question: &PromptQuestion) {
    let language = user_language();
    let texts = DeviceTexts::of(language);
    let verified = match &question.verified {
        AgentVerification::FirstContact => texts.first_contact.to_owned(),
        AgentVerification::Did { did } => fill(texts.by_did, &[("did", did)]),
    };
    let line = |label: &str, value: &dyn Display| eprintln!("  {}  {value}", label.dimmed());
    eprintln!();
    let (name, tool) = (question.agent_name.bold(), question.tool.bold());
    eprintln!("{}", fill(texts.wants, &[("agent", &name), ("id", &question.agent), ("tool", &tool)]));
    line(texts.verified, &verified);
    if let Some(source) = &question.source {
        line(texts.for_app, &app(&texts, source));
        line(texts.talk, &conversation(&texts, source, &question.agent_name));
    }
    if let Some(description) = question.description.in_language(language.tag()) {
        line(texts.it_says, &clean(description));
    }
    let level = texts.value(question.sensitivity.as_str());
    line(texts.under, &fill(texts.sensitivity, &[("scope", &question.scope), ("level", &level)]));
    eprintln!("  {}", texts.with.dimmed());
    for line in question.arguments.lines() {
        eprintln!("    {line}");
    }
    let (allow, answers) = choices(&texts, question.sensitivity, question.source.as_ref());
    let left = SystemClock.now().until(question.until).as_secs();
    let left = fill(texts.seconds_left, &[("answers", &answers), ("seconds", &left)]);
    eprintln!("{allow} {} ", left.dimmed());
}

/// The app behind a call, without the id of its key.
fn app(texts: &DeviceTexts, source: &CallSource) -> String {
    match (&source.app, Principal::parse(&source.caller), source.key_created_at) {
        (Some(app), ..) => app.clone(),
        (None, Some(Principal::Key(_)), Some(created_at)) => {
            let date: String = created_at.to_string().chars().take(10).collect();
            fill(texts.unnamed_key_of, &[("date", &date)])
        }
        (None, Some(Principal::Key(_)), None) => texts.unnamed_key.to_owned(),
        (None, Some(Principal::Local), _) => texts.own_server.to_owned(),
        (None, Some(Principal::Person(name)), _) => fill(texts.person_directly, &[("person", &name)]),
        (None, ..) => source.caller.clone(),
    }
}

fn conversation(texts: &DeviceTexts, source: &CallSource, agent_name: &str) -> String {
    match source.conversation {
        Some(_) => fill(texts.conversation_with, &[("agent", &agent_name)]),
        None => texts.single_call.to_owned(),
    }
}

/// The question, and the answers that it takes.
fn choices(texts: &DeviceTexts, sensitivity: Sensitivity, source: Option<&CallSource>) -> (&'static str, &'static str) {
    match (sensitivity, source) {
        (Sensitivity::Low | Sensitivity::High, _) => (texts.allow_once, "y/N"),
        (Sensitivity::Medium, Some(CallSource { conversation: Some(_), .. })) => (texts.allow_day_app, "y/d/N"),
        (Sensitivity::Medium, Some(CallSource { conversation: None, .. })) => (texts.allow_day_single, "y/d/N"),
        (Sensitivity::Medium, None) => (texts.allow_day, "y/d/N"),
    }
}

#[cfg(test)]
mod tests {
    use nuncio_core::ids::{AgentId, CallId, ConversationId, ScopeId, ToolName};

    use super::*;

    fn question() -> PromptQuestion {
        PromptQuestion {
            id: "1".to_owned(),
            agent: AgentId::parse("agt_1").unwrap(),
            agent_name: "Notes".to_owned(),
            verified: AgentVerification::FirstContact,
            call: CallId::parse("call_1").unwrap(),
            conversation: ConversationId::parse("cnv_1").unwrap(),
            tool: ToolName::parse("read_file").unwrap(),
            description: nuncio_device::SanitisedTextByLanguage::default(),
            arguments: "{}".to_owned(),
            scope: ScopeId::parse("filesystem:read").unwrap(),
            scope_words: nuncio_device::ScopeTexts::default(),
            sensitivity: Sensitivity::Medium,
            source: None,
            until: Timestamp::from_millis(1000),
        }
    }

    /// Answer to a question of medium sensitivity if these lines are typed, each after so many milliseconds, and the input then ends.
    async fn answer_to(typed: &[(u64, &str)]) -> PromptAnswer {
        let (sender, lines) = mpsc::unbounded_channel();
        for (millis, line) in typed {
            sender.send((Instant::now() + Duration::from_millis(*millis), (*line).to_owned())).unwrap();
        }
        drop(sender);
        TerminalPrompt { alone: true, lines: Mutex::new(lines) }.ask(&question()).await
    }

    #[test]
    fn question_closed_before_its_end_is_not_reported_as_timed_out() {
        let texts = &DeviceTexts::of(nuncio_device::pages::Language::English);
        let text_at = |millis| closing_text(texts, &question(), Timestamp::from_millis(millis));
        assert_eq!(text_at(999), texts.answered_elsewhere);
        assert_eq!(text_at(1000), texts.timed_out);
    }

    #[test]
    fn question_names_no_ids_and_offers_24_hours_only_where_they_apply() {
        let source = |conversation: Option<&str>| CallSource {
            caller: "key:key_1".to_owned(),
            app: None,
            key_created_at: Some(Timestamp::from_millis(0)),
            conversation: conversation.map(str::to_owned),
        };
        let texts = &DeviceTexts::of(nuncio_device::pages::Language::English);
        assert_eq!(app(texts, &source(None)), "an app with a key created on 1970-01-01, which has no name");
        assert_eq!(conversation(texts, &source(Some("ses_1")), "Notes"), "a conversation with Notes");
        let offered = |sensitivity, source: Option<&CallSource>| choices(texts, sensitivity, source).0;
        assert!(offered(Sensitivity::Medium, Some(&source(Some("ses_1")))).contains("app and conversation"));
        assert!(offered(Sensitivity::Medium, Some(&source(None))).contains("single calls"));
        for once in [Sensitivity::Low, Sensitivity::High] {
            assert_eq!(offered(once, Some(&source(Some("ses_1")))), "Allow this once?");
        }
    }

    #[test]
    fn answer_for_24_hours_is_a_denial_where_it_is_not_offered() {
        for sensitivity in [Sensitivity::Low, Sensitivity::High] {
            assert_eq!(parse_answer("d", sensitivity), PromptAnswer::No);
            assert_eq!(parse_answer("y", sensitivity), PromptAnswer::Once);
        }
    }

    #[tokio::test]
    async fn only_an_explicit_yes_after_the_delay_allows_a_call() {
        const LATE_MS: u64 = 600_000;
        for (typed, expected) in [
            (&[(LATE_MS, "y")][..], PromptAnswer::Once),
            (&[(LATE_MS, " YES ")], PromptAnswer::Once),
            (&[(LATE_MS, "允许")], PromptAnswer::Once),
            (&[(LATE_MS, "o")], PromptAnswer::Once),
            (&[(LATE_MS, "d")], PromptAnswer::Yes),
            (&[(LATE_MS, "")], PromptAnswer::No),
            (&[(LATE_MS, "sure")], PromptAnswer::No),
            // A line typed right after the question appears does not count.
            (&[(0, "y"), (LATE_MS, "")], PromptAnswer::No),
            (&[(0, "n"), (LATE_MS, "y")], PromptAnswer::Once),
            // The input ends without an answer.
            (&[(0, "y")], PromptAnswer::No),
            (&[], PromptAnswer::No),
        ] {
            assert_eq!(answer_to(typed).await, expected, "{typed:?}");
        }
    }
}

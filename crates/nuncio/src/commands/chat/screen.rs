//! Output of a chat: streamed text, or one JSON event per line.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};

use anstream::{print, println};
use nuncio_aap::client::{AapConversation, TurnCompleteness, TurnEnd, TurnUpdate};
use nuncio_core::event::ModelOutputKind;
use nuncio_core::message::{Block, Content, Message, ToolCall};
use nuncio_core::turn::StopReason;
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::clean::{LineBreakNormalizer, clean};
use super::markdown::MarkdownPrinter;
use super::options;
use super::texts::ChatTexts;
use super::wrap::WordWrapper;
use crate::output::shell_quote;

/// Number of characters that are shown of a tool's result.
const MAX_RESULT: usize = 1000;

#[derive(Debug)]
pub(super) struct ChatScreen {
    pub(super) texts: ChatTexts,
    json: bool,
    wrap: WordWrapper,
    /// The line breaks of the text block that is being printed.
    breaks: LineBreakNormalizer,
    /// Prints the agent's Markdown; none without a terminal, where programs read the text as it is.
    markdown: Option<MarkdownPrinter>,
    /// The kind of the text block that is being printed.
    open_block: Option<ModelOutputKind>,
    /// Whether a turn ended with an error or could not be read to its end.
    pub(super) turn_failed: bool,
}

impl ChatScreen {
    pub(super) fn new(texts: ChatTexts, json: bool) -> Self {
        let markdown = std::io::stdout().is_terminal().then(|| MarkdownPrinter::new(width()));
        let (wrap, breaks) = (WordWrapper::new(width()), LineBreakNormalizer::default());
        Self { texts, json, wrap, breaks, markdown, open_block: None, turn_failed: false }
    }

    pub(super) fn update(&mut self, update: &TurnUpdate) {
        if self.json {
            return println!("{}", event(update));
        }
        match update {
            TurnUpdate::Text(piece) => self.print_piece(ModelOutputKind::Text, piece),
            TurnUpdate::Thinking(piece) => self.print_piece(ModelOutputKind::Thinking, piece),
            TurnUpdate::Call(call) => self.call(call),
            TurnUpdate::Result { content, .. } => self.result(content),
            TurnUpdate::Interrupted => self.note(self.texts.interrupted),
            TurnUpdate::Started | TurnUpdate::Unknown { .. } => {}
            TurnUpdate::Ended(ended) => self.ended(ended),
        }
    }

    pub(super) fn call(&mut self, call: &ToolCall) {
        if !self.json {
            self.end_block();
            let arguments = Value::Object(call.input.clone()).to_string();
            self.styled(&format!("→ {} {arguments}", call.name), |text| text.cyan().to_string());
        }
    }

    pub(super) fn result(&mut self, content: &Content) {
        if !self.json {
            self.end_block();
            let text = content.text();
            let shown: String = text.chars().take(MAX_RESULT).collect();
            let more = if shown.len() < text.len() { " …" } else { "" };
            let shown = if text.trim().is_empty() { self.texts.no_content } else { &shown };
            self.styled(&format!("← {shown}{more}"), |text| text.dimmed().to_string());
        }
    }

    fn ended(&mut self, ended: &TurnEnd) {
        self.end_block();
        if ended.received == TurnCompleteness::Incomplete && ended.stop.error.is_none() {
            self.note(self.texts.incomplete);
        }
        match ended.stop.reason {
            _ if ended.stop.cancelled => self.note(self.texts.stopped),
            StopReason::MaxTokens => self.note(self.texts.max_tokens),
            StopReason::Refusal => self.note(self.texts.refusal),
            StopReason::Error => {
                let why = ended.stop.error.as_ref().map(|error| error.message.clone()).unwrap_or_default();
                self.failed(&format!("{} {why}", self.texts.failed));
            }
            StopReason::EndTurn | StopReason::ToolUse => {}
        }
    }

    /// Prints an error; the chat continues.
    pub(super) fn failed(&mut self, why: &str) {
        if self.json {
            return println!("{}", json!({"event": "error", "error": why}));
        }
        self.end_block();
        self.styled(why, |text| text.red().to_string());
    }

    pub(super) fn note(&mut self, text: &str) {
        if !self.json {
            self.end_block();
            self.styled(text, |text| text.dimmed().to_string());
        }
    }

    pub(super) fn welcome(&mut self, conversation: &AapConversation) {
        let agent = conversation.agent();
        if self.json {
            let session = json!({"event": "session", "sessionId": conversation.session(), "agent": agent.name});
            return println!("{session}");
        }
        let title = clean(agent.title.as_deref().unwrap_or(&agent.name)).into_owned();
        println!("{} {}", self.texts.talking_to, title.bold());
        if let Some(description) = &agent.description {
            self.styled(description, |text| text.dimmed().to_string());
        }
        self.note(self.texts.help_hint);
    }

    /// Prints how to resume the chat; `again` is the command without the session id.
    pub(super) fn farewell(&mut self, again: &str, session: &str) {
        if !self.json {
            self.end_block();
            let line = format!("{} {again} --session {}", self.texts.go_on_with, shell_quote(session));
            println!("{}", clean(&line).dimmed());
        }
    }

    pub(super) fn help(&mut self) {
        if !self.json {
            println!("{}", self.texts.help);
        }
    }

    pub(super) fn session(&mut self, session: &str) {
        if self.json {
            return println!("{}", json!({"event": "session", "sessionId": session}));
        }
        println!("{} {}", self.texts.session, clean(session));
    }

    pub(super) fn unknown_command(&mut self, command: &str) {
        self.failed(&format!("{} {}", clean(command), self.texts.unknown_command));
    }

    pub(super) fn tools(&mut self, conversation: &AapConversation) {
        if self.json {
            let (theirs, own) = (conversation.enabled_tools(), conversation.own_tools());
            return println!("{}", json!({"event": "tools", "agent": theirs, "client": own}));
        }
        let described = |name: &str| {
            let tool = conversation.agent().tools.iter().find(|tool| tool.name == name);
            tool.map(|tool| tool.description.clone()).unwrap_or_default()
        };
        let (theirs, own) = (conversation.enabled_tools(), conversation.own_tools());
        if theirs.is_empty() && own.is_empty() {
            return self.note(self.texts.no_tools);
        }
        if !theirs.is_empty() {
            println!("{}", self.texts.their_tools.bold());
        }
        for tool in theirs {
            let how = if tool.trust == Some(true) { self.texts.trusted } else { self.texts.asked };
            self.plain(&format!("  {} ({how}): {}", tool.name, described(tool.name.as_str())));
        }
        if !own.is_empty() {
            println!("{}", self.texts.your_tools.bold());
        }
        for tool in own {
            self.plain(&format!("  {}: {}", tool.name, tool.description));
        }
    }

    pub(super) fn options(&mut self, conversation: &AapConversation) {
        let (offered, set) = (&conversation.agent().options, conversation.options());
        if self.json {
            let values: BTreeMap<_, _> =
                offered.iter().map(|option| (&option.name, options::value(option, set))).collect();
            return println!("{}", json!({"event": "options", "offered": offered, "values": values}));
        }
        if offered.is_empty() {
            return self.note(self.texts.no_options);
        }
        println!("{}", self.texts.their_options.bold());
        offered.iter().for_each(|option| self.plain(&options::line(option, set)));
    }

    /// Confirms that an option was set.
    pub(super) fn option_set(&mut self, conversation: &AapConversation, name: &str) {
        let offered = &conversation.agent().options;
        if let Some(option) = offered.iter().find(|option| option.name == name) {
            let value = options::value(option, conversation.options());
            if self.json {
                return println!("{}", json!({"event": "option", "name": name, "value": value}));
            }
            self.note(&format!("{} {name} = {value}", self.texts.option_set));
        }
    }

    pub(super) fn history(&mut self, messages: &[Message]) {
        if self.json {
            return println!("{}", json!({"event": "history", "messages": messages}));
        }
        if messages.is_empty() {
            return self.note(self.texts.nothing_said);
        }
        for message in messages {
            match message {
                Message::System { content, .. } => self.note(content),
                Message::User { .. } => {
                    print!("{}", self.texts.you.bold());
                    self.plain(&message.text());
                }
                Message::Assistant { content: Content::Text(text), .. } => {
                    self.said(text);
                }
                Message::Assistant { content: Content::Blocks(blocks), .. } => {
                    blocks.iter().for_each(|block| self.block(block));
                }
                Message::Tool { content, .. } => self.result(content),
            }
        }
        self.end_block();
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Text { text, .. } => self.said(text),
            Block::Thinking { thinking, .. } => self.note(thinking),
            Block::ToolUse { call, .. } => self.call(call),
            Block::Image { .. } => {}
        }
    }

    pub(super) fn prompt(&mut self, prompt: &str) {
        self.end_block();
        print!("{}", prompt.bold());
        flush();
    }

    /// Prints an earlier answer of the agent.
    fn said(&mut self, text: &str) {
        if self.markdown.is_none() {
            return self.plain(&format!("{} {text}", self.texts.agent));
        }
        println!("{}", self.texts.agent.bold());
        self.print_piece(ModelOutputKind::Text, text);
        self.end_block();
    }

    fn print_piece(&mut self, kind: ModelOutputKind, piece: &str) {
        if self.open_block != Some(kind) {
            self.end_block();
            self.open_block = Some(kind);
            self.breaks = LineBreakNormalizer::default();
        }
        let piece = self.breaks.normalized(piece);
        let out = match (kind, &mut self.markdown) {
            (ModelOutputKind::Text, Some(markdown)) => markdown.push(&clean(&piece)),
            _ => self.wrap.push(&clean(&piece)),
        };
        self.put(kind, &out);
    }

    fn end_block(&mut self) {
        if let Some(kind) = self.open_block.take() {
            let out = match (kind, &mut self.markdown) {
                (ModelOutputKind::Text, Some(markdown)) => markdown.end(),
                _ => self.wrap.end(),
            };
            self.put(kind, &out);
        }
    }

    fn put(&self, kind: ModelOutputKind, text: &str) {
        if text.is_empty() {
            return;
        }
        match kind {
            ModelOutputKind::Text => print!("{text}"),
            ModelOutputKind::Thinking => print!("{}", text.dimmed()),
        }
        flush();
    }

    fn plain(&mut self, text: &str) {
        self.styled(text, str::to_owned);
    }

    fn styled(&mut self, text: &str, style: impl Fn(&str) -> String) {
        let mut wrap = WordWrapper::new(width());
        let whole = wrap.push(&clean(text)) + &wrap.end();
        for line in whole.lines() {
            println!("{}", style(line));
        }
    }
}

/// A turn update as one line of JSON, with the field names of AAP where AAP has them.
fn event(update: &TurnUpdate) -> Value {
    match update {
        TurnUpdate::Started => json!({"event": "turn_start"}),
        TurnUpdate::Text(delta) => json!({"event": "text_delta", "delta": delta}),
        TurnUpdate::Thinking(delta) => json!({"event": "thinking_delta", "delta": delta}),
        TurnUpdate::Call(call) => {
            json!({"event": "tool_call", "toolCallId": call.id, "name": call.name, "input": call.input})
        }
        TurnUpdate::Result { call, content } => json!({"event": "tool_result", "toolCallId": call, "content": content}),
        TurnUpdate::Interrupted => json!({"event": "interrupted"}),
        TurnUpdate::Unknown { event, data } => json!({"event": "unknown", "name": event, "data": data}),
        TurnUpdate::Ended(TurnEnd { stop, received, .. }) => {
            let received = match received {
                TurnCompleteness::Whole => "whole",
                TurnCompleteness::Continued => "continued",
                TurnCompleteness::FromHistory => "from_history",
                TurnCompleteness::Incomplete => "incomplete",
            };
            let error = stop.error.as_ref().map(|error| json!({"code": error.code, "message": error.message}));
            let mut event = json!({"event": "turn_stop", "stopReason": stop.reason, "received": received});
            for (name, value) in [("usage", json!(stop.usage)), ("error", json!(error))] {
                if !value.is_null() {
                    event[name] = value;
                }
            }
            if stop.cancelled {
                event["cancelled"] = true.into();
            }
            event
        }
    }
}

/// Width of the output in columns: of the terminal, else the variable `COLUMNS`, else 80. If the output is not a
/// terminal, only the variable counts; `None` without it.
fn width() -> Option<usize> {
    let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    if std::io::stdout().is_terminal() {
        let measured = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
        return measured.or(columns).or(Some(80));
    }
    columns
}

fn flush() {
    // An error is ignored here: a closed terminal is noticed when the next line is written.
    let _ = anstream::stdout().flush();
}

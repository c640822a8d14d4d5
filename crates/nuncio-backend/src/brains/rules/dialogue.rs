//! The conversation, replayed: what is wanted, what is known, what comes next.

use jiff::civil::Date;
use nuncio_core::ids::CallId;
use nuncio_core::message::{Content, Message};
use serde_json::{Map, Value};

use super::fill::{Search, Values, fill};
use super::language::Language;
use super::lexicon::{Form, Gap, Lexicon, Wish};
use super::matching::best;
use super::reading::{self, Reading};

/// How many messages back a conversation is remembered.
const MAX_MESSAGES: usize = 200;
/// How many bytes of what the user said are remembered.
const MAX_HEARD: usize = 64 * 1024;
/// How large a result may be for its ids to be remembered.
const MAX_RESULT: usize = 64 * 1024;

/// Where a conversation stands.
#[derive(Debug)]
pub(super) struct Dialogue<'a> {
    lexicon: &'a Lexicon,
    today: Date,
    pub(super) stage: Stage<'a>,
    pub(super) language: Language,
    /// What intents were about, whether they came to an end or not.
    memory: Values,
    /// What was put aside for another wish, and what was being asked.
    aside: Option<(&'a Wish, &'a Gap)>,
}

/// What is going on.
#[derive(Debug)]
pub(super) enum Stage<'a> {
    /// The message meant nothing, or there was none.
    Lost,
    /// The user does not want it after all.
    Dropped,
    /// Something must be asked.
    Asking { wish: &'a Wish, known: Values, gap: &'a Gap },
    /// Everything is known.
    Ready { wish: &'a Wish, known: Values },
    /// The tool is called and has not answered.
    Called { wish: &'a Wish, known: Values, call: &'a CallId },
    /// The tool has answered.
    Answered { wish: &'a Wish, known: Values, content: &'a Content },
}

impl<'a> Dialogue<'a> {
    /// Replays a history. What the agent said does not count, only what it did.
    pub(super) fn replay(lexicon: &'a Lexicon, history: &'a [Message], today: Date) -> Self {
        let mut dialogue = Self {
            lexicon,
            today,
            stage: Stage::Lost,
            language: Language::English,
            memory: Values::new(),
            aside: None,
        };
        for message in recent(history) {
            match message {
                Message::System { .. } => {}
                Message::User { content, .. } => dialogue.hear(&Reading::of(&content.text())),
                Message::Assistant { .. } => dialogue.note_call(message),
                Message::Tool { tool_call_id, content, .. } => dialogue.note_result(tool_call_id, content),
            }
        }
        dialogue
    }

    fn hear(&mut self, reading: &Reading) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Lost) {
            Stage::Asking { wish, known, gap } => self.hear_reply(wish, known, gap, reading),
            _ => self.hear_wish(reading),
        };
        if let Stage::Asking { known, .. } | Stage::Ready { known, .. } = &self.stage {
            self.memory.extend(known.clone());
        }
    }

    fn hear_wish(&mut self, reading: &Reading) -> Stage<'a> {
        self.language = self.language.heard(&reading.text);
        if let Some((number, _)) = best(self.lexicon, reading) {
            return self.begin(&self.lexicon.intents[number], reading);
        }
        // Nothing of its own, but perhaps the answer to what was put aside.
        let Some((wish, gap)) = self.aside.take() else { return Stage::Lost };
        let mut known = Values::new();
        fill(&self.search(wish, Some(gap), None), reading, &mut known);
        if matches!(gap.form, Form::Text) || !known.contains_key(gap.name()) {
            return Stage::Lost;
        }
        self.begin(wish, reading)
    }

    fn begin(&mut self, wish: &'a Wish, reading: &Reading) -> Stage<'a> {
        self.aside = self.aside.filter(|(aside, _)| aside.intent.name != wish.intent.name);
        let mut known = Values::new();
        fill(&self.search(wish, None, Some(&self.memory)), reading, &mut known);
        settle(wish, known)
    }

    fn hear_reply(&mut self, wish: &'a Wish, mut known: Values, gap: &'a Gap, reading: &Reading) -> Stage<'a> {
        if is_dropped(reading) {
            self.aside = None;
            return Stage::Dropped;
        }
        let meant = best(self.lexicon, reading);
        let other = meant.map(|(number, strength)| (&self.lexicon.intents[number], strength));
        if let (Form::Text, Some((other, strength))) = (&gap.form, other) {
            // Any text would do as an answer, so only what is clearly something else is not one.
            let is_question = reading.text.ends_with(['?', '\u{FF1F}']);
            if other.intent.name != wish.intent.name && (strength.is_by_pattern() || is_question) {
                return self.turn_to(other, (wish, gap), reading);
            }
        }
        fill(&self.search(wish, Some(gap), None), reading, &mut known);
        match other {
            Some((other, _)) if !known.contains_key(gap.name()) => self.turn_to(other, (wish, gap), reading),
            _ => settle(wish, known),
        }
    }

    /// Turns to another wish, or to the same one said again.
    fn turn_to(&mut self, other: &'a Wish, from: (&'a Wish, &'a Gap), reading: &Reading) -> Stage<'a> {
        self.language = self.language.heard(&reading.text);
        self.aside = Some(from);
        self.begin(other, reading)
    }

    fn search<'s>(&'s self, wish: &'s Wish, asked: Option<&'s Gap>, memory: Option<&'s Values>) -> Search<'s> {
        Search { lexicon: self.lexicon, wish, asked, memory, today: self.today }
    }

    fn note_call(&mut self, message: &'a Message) {
        let Stage::Ready { wish, known } = &mut self.stage else { return };
        let tool = wish.intent.tool.as_ref();
        let Some(call) = message.tool_calls().find(|call| Some(&call.name) == tool) else { return };
        let (wish, mut known) = (*wish, std::mem::take(known));
        // What was really sent: `tomorrow` may have been another day then.
        known.extend(mentioned(wish, &call.input));
        self.memory.extend(known.clone());
        self.stage = Stage::Called { wish, known, call: &call.id };
    }

    fn note_result(&mut self, id: &CallId, content: &'a Content) {
        let Stage::Called { wish, known, call } = &mut self.stage else { return };
        if *call != id {
            return;
        }
        let (wish, known) = (*wish, std::mem::take(known));
        self.learn(&content.text());
        self.stage = Stage::Answered { wish, known, content };
    }

    /// Remembers what a result names, such as the id of a new reservation.
    fn learn(&mut self, result: &str) {
        if result.len() > MAX_RESULT {
            return;
        }
        let Ok(Value::Object(fields)) = serde_json::from_str(result) else { return };
        for wish in &self.lexicon.intents {
            self.memory.extend(mentioned(wish, &fields));
            for inner in fields.values().filter_map(Value::as_object) {
                self.memory.extend(mentioned(wish, inner));
            }
        }
    }
}

/// The end of a history that is still remembered.
fn recent(history: &[Message]) -> &[Message] {
    let heard = history.iter().rev().take(MAX_MESSAGES).scan(MAX_HEARD, |left, message| {
        let cost =
            if matches!(message, Message::User { .. }) { message.text().len().min(reading::MAX_BYTES) } else { 0 };
        *left = left.checked_sub(cost)?;
        Some(())
    });
    &history[history.len() - heard.count()..]
}

/// The next thing to do about a wish.
fn settle(wish: &Wish, known: Values) -> Stage<'_> {
    match wish.slots.iter().find(|gap| gap.is_required() && !known.contains_key(gap.name())) {
        Some(gap) => Stage::Asking { wish, known, gap },
        None => Stage::Ready { wish, known },
    }
}

/// The fields that are named as the intent's slots are.
fn mentioned(wish: &Wish, fields: &Map<String, Value>) -> Values {
    let named = wish.slots.iter().filter_map(|gap| Some((gap.name(), fields.get(gap.name())?)));
    named
        .filter_map(|(name, value)| match value {
            Value::String(text) => Some((name.to_owned(), text.clone())),
            Value::Number(_) | Value::Bool(_) => Some((name.to_owned(), value.to_string())),
            _ => None,
        })
        .collect()
}

/// Whether a reply means that the whole matter is off.
fn is_dropped(reading: &Reading) -> bool {
    const ANYWHERE: [&str; 6] = ["never mind", "nevermind", "forget it", "算了", "不用了", "不要了"];
    const ALONE: [&str; 8] = ["cancel", "stop", "abort", "quit", "exit", "取消", "停止", "退出"];
    const EMPTY: [&str; 11] = ["please", "no", "ok", "okay", "oh", "that", "it", "this", "thanks", "吧", "请"];
    if ANYWHERE.iter().any(|phrase| reading.lower.contains(phrase)) {
        return true;
    }
    let words = reading.lower.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut meant =
        words.map(|word| word.trim_end_matches('吧').trim_start_matches('请')).filter(|word| !EMPTY.contains(word));
    meant.next().is_some_and(|word| ALONE.contains(&word)) && meant.next().is_none()
}

//! Replays the conversation to find the current intent, the known slot values and the next step.

use jiff::civil::Date;
use nuncio_core::ids::CallId;
use nuncio_core::message::{Content, Message};
use serde_json::{Map, Value};

use super::compiled::{CompiledIntent, CompiledRules, CompiledSlot, SlotMatcher};
use super::fill::{SlotFillContext, SlotValues, fill};
use super::language::DialogueLanguage;
use super::matching::best;
use super::normalize::{self, NormalizedMessage};

/// Maximum number of the last messages that are replayed.
const MAX_MESSAGES: usize = 200;
/// Maximum number of bytes of the last user texts that are replayed.
const MAX_USER_BYTES: usize = 64 * 1024;
/// Size limit in bytes of a tool result whose values are remembered.
const MAX_RESULT: usize = 64 * 1024;

/// State of a conversation with the rules brain.
#[derive(Debug)]
pub(super) struct DialogueState<'a> {
    rules: &'a CompiledRules,
    today: Date,
    pub(super) stage: IntentStage<'a>,
    pub(super) language: DialogueLanguage,
    /// Slot values from messages, tool calls and tool results so far, which a new intent may use.
    memory: SlotValues,
    /// Suspended intent and the slot that was being asked for.
    aside: Option<(&'a CompiledIntent, &'a CompiledSlot)>,
}

/// Stage of the current intent in the dialogue.
#[derive(Debug)]
pub(super) enum IntentStage<'a> {
    /// No intent matched the message, or the history has no user message.
    Lost,
    /// The user abandoned the intent.
    Dropped,
    /// A slot value must be asked for.
    Asking { intent: &'a CompiledIntent, known: SlotValues, slot: &'a CompiledSlot },
    /// All required slots are known.
    Ready { intent: &'a CompiledIntent, known: SlotValues },
    /// The intent's tool was called and has not returned a result.
    Called { intent: &'a CompiledIntent, known: SlotValues, call: &'a CallId },
    /// The intent's tool returned a result.
    Answered { intent: &'a CompiledIntent, known: SlotValues, content: &'a Content },
}

impl<'a> DialogueState<'a> {
    /// Replays a history to find the dialogue's state. The agent's texts are ignored; its tool calls count.
    pub(super) fn replay(rules: &'a CompiledRules, history: &'a [Message], today: Date) -> Self {
        let mut dialogue = Self {
            rules,
            today,
            stage: IntentStage::Lost,
            language: DialogueLanguage::English,
            memory: SlotValues::new(),
            aside: None,
        };
        for message in recent(history) {
            match message {
                Message::System { .. } => {}
                Message::User { content, .. } => dialogue.apply_message(&NormalizedMessage::of(&content.text())),
                Message::Assistant { .. } => dialogue.note_call(message),
                Message::Tool { tool_call_id, content, .. } => dialogue.note_result(tool_call_id, content),
            }
        }
        dialogue
    }

    fn apply_message(&mut self, reading: &NormalizedMessage) {
        self.stage = match std::mem::replace(&mut self.stage, IntentStage::Lost) {
            IntentStage::Asking { intent, known, slot } => self.read_slot_reply(intent, known, slot, reading),
            _ => self.match_intent(reading),
        };
        if let IntentStage::Asking { known, .. } | IntentStage::Ready { known, .. } = &self.stage {
            self.memory.extend(known.clone());
        }
    }

    fn match_intent(&mut self, reading: &NormalizedMessage) -> IntentStage<'a> {
        self.language = self.language.after_message(&reading.text);
        if let Some((intent, _)) = best(self.rules, reading) {
            return self.begin(intent, reading);
        }
        // The message matches no intent, but it may answer the suspended question.
        let Some((intent, slot)) = self.aside.take() else { return IntentStage::Lost };
        let mut known = SlotValues::new();
        fill(&self.search(intent, Some(slot), None), reading, &mut known);
        if matches!(slot.matcher, SlotMatcher::Text) || !known.contains_key(slot.name()) {
            return IntentStage::Lost;
        }
        self.begin(intent, reading)
    }

    fn begin(&mut self, intent: &'a CompiledIntent, reading: &NormalizedMessage) -> IntentStage<'a> {
        self.aside = self.aside.filter(|(aside, _)| aside.spec.name != intent.spec.name);
        let mut known = SlotValues::new();
        fill(&self.search(intent, None, Some(&self.memory)), reading, &mut known);
        next_stage(intent, known)
    }

    fn read_slot_reply(
        &mut self,
        intent: &'a CompiledIntent,
        mut known: SlotValues,
        slot: &'a CompiledSlot,
        reading: &NormalizedMessage,
    ) -> IntentStage<'a> {
        if is_dropped(reading) {
            self.aside = None;
            return IntentStage::Dropped;
        }
        let other = best(self.rules, reading);
        if let (SlotMatcher::Text, Some((other, strength))) = (&slot.matcher, other) {
            // Any text is a valid answer, so only a clear match of another intent counts as a change of subject.
            let is_question = reading.text.ends_with(['?', '\u{FF1F}']);
            if other.spec.name != intent.spec.name && (strength.is_by_pattern() || is_question) {
                return self.switch_intent(other, (intent, slot), reading);
            }
        }
        fill(&self.search(intent, Some(slot), None), reading, &mut known);
        match other {
            Some((other, _)) if !known.contains_key(slot.name()) => self.switch_intent(other, (intent, slot), reading),
            _ => next_stage(intent, known),
        }
    }

    /// Switches to another intent or restarts the same one, and suspends the slot that was being asked for.
    fn switch_intent(
        &mut self,
        other: &'a CompiledIntent,
        from: (&'a CompiledIntent, &'a CompiledSlot),
        reading: &NormalizedMessage,
    ) -> IntentStage<'a> {
        self.language = self.language.after_message(&reading.text);
        self.aside = Some(from);
        self.begin(other, reading)
    }

    fn search<'s>(
        &'s self,
        intent: &'s CompiledIntent,
        asked: Option<&'s CompiledSlot>,
        memory: Option<&'s SlotValues>,
    ) -> SlotFillContext<'s> {
        SlotFillContext { rules: self.rules, intent, asked, memory, today: self.today }
    }

    fn note_call(&mut self, message: &'a Message) {
        let IntentStage::Ready { intent, known } = &mut self.stage else { return };
        let tool = intent.spec.tool.as_ref();
        let Some(call) = message.tool_calls().find(|call| Some(&call.name) == tool) else { return };
        let (intent, mut known) = (*intent, std::mem::take(known));
        // Takes the values from the call's arguments, because `tomorrow` may have meant another day then.
        known.extend(mentioned(intent, &call.input));
        self.memory.extend(known.clone());
        self.stage = IntentStage::Called { intent, known, call: &call.id };
    }

    fn note_result(&mut self, id: &CallId, content: &'a Content) {
        let IntentStage::Called { intent, known, call } = &mut self.stage else { return };
        if *call != id {
            return;
        }
        let (intent, known) = (*intent, std::mem::take(known));
        self.remember_result(&content.text());
        self.stage = IntentStage::Answered { intent, known, content };
    }

    /// Remembers values in a tool result, such as the id of a new reservation.
    fn remember_result(&mut self, result: &str) {
        if result.len() > MAX_RESULT {
            return;
        }
        let Ok(Value::Object(fields)) = serde_json::from_str(result) else { return };
        for intent in &self.rules.intents {
            self.memory.extend(mentioned(intent, &fields));
            for inner in fields.values().filter_map(Value::as_object) {
                self.memory.extend(mentioned(intent, inner));
            }
        }
    }
}

/// The last messages of a history, within the replay limits.
fn recent(history: &[Message]) -> &[Message] {
    let replayed = history.iter().rev().take(MAX_MESSAGES).scan(MAX_USER_BYTES, |left, message| {
        let cost =
            if matches!(message, Message::User { .. }) { message.text().len().min(normalize::MAX_BYTES) } else { 0 };
        *left = left.checked_sub(cost)?;
        Some(())
    });
    &history[history.len() - replayed.count()..]
}

fn next_stage(intent: &CompiledIntent, known: SlotValues) -> IntentStage<'_> {
    match intent.slots.iter().find(|slot| slot.spec.is_required && !known.contains_key(slot.name())) {
        Some(slot) => IntentStage::Asking { intent, known, slot },
        None => IntentStage::Ready { intent, known },
    }
}

/// Slot values from the JSON fields that have the names of the intent's slots.
fn mentioned(intent: &CompiledIntent, fields: &Map<String, Value>) -> SlotValues {
    let named = intent.slots.iter().filter_map(|slot| Some((slot.name(), fields.get(slot.name())?)));
    named
        .filter_map(|(name, value)| match value {
            Value::String(text) => Some((name.to_owned(), text.clone())),
            Value::Number(_) | Value::Bool(_) => Some((name.to_owned(), value.to_string())),
            _ => None,
        })
        .collect()
}

/// Whether the user's reply, such as `never mind`, abandons the intent.
fn is_dropped(reading: &NormalizedMessage) -> bool {
    const CANCEL_PHRASES: [&str; 6] = ["never mind", "nevermind", "forget it", "算了", "不用了", "不要了"];
    const CANCEL_WORDS: [&str; 8] = ["cancel", "stop", "abort", "quit", "exit", "取消", "停止", "退出"];
    const FILLER_WORDS: [&str; 11] = ["please", "no", "ok", "okay", "oh", "that", "it", "this", "thanks", "吧", "请"];
    if CANCEL_PHRASES.iter().any(|phrase| reading.lower.contains(phrase)) {
        return true;
    }
    let words = reading.lower.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut meant = words
        .map(|word| word.trim_end_matches('吧').trim_start_matches('请'))
        .filter(|word| !FILLER_WORDS.contains(word));
    meant.next().is_some_and(|word| CANCEL_WORDS.contains(&word)) && meant.next().is_none()
}

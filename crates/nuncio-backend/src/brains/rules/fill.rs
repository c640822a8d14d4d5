//! Extracts slot values from a message.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use jiff::civil::Date;
use regex::Captures;

use super::compiled::{CompiledIntent, CompiledRules, CompiledSlot, SlotMatcher};
use super::normalize::{NormalizedMessage, overlap, stands_alone};
use super::{dates, numbers};

/// Slot values by slot name: dates as `2026-12-24`, numbers in digits, choices by their first synonym.
pub(super) type SlotValues = BTreeMap<String, String>;

/// Everything but the message that slot values are extracted from.
pub(super) struct SlotFillContext<'a> {
    pub(super) rules: &'a CompiledRules,
    pub(super) intent: &'a CompiledIntent,
    /// Slot that the user was asked for, if the message is the reply.
    pub(super) asked: Option<&'a CompiledSlot>,
    /// Slot values of earlier intents.
    pub(super) memory: Option<&'a SlotValues>,
    pub(super) today: Date,
}

/// Fills slots that have no value yet. Only unambiguous values are taken; the agent asks for the others.
pub(super) fn fill(search: &SlotFillContext<'_>, reading: &NormalizedMessage, values: &mut SlotValues) {
    let mut message = SlotFiller { search, text: &reading.text, values, taken: Vec::new() };
    message.take_groups();
    match search.asked {
        // The reply to a text slot is taken as a whole.
        Some(slot) if matches!(slot.matcher, SlotMatcher::Text) => message.take_reply(slot),
        _ => {
            message.take_dates();
            message.take_matches(|form| matches!(form, SlotMatcher::Pattern(_)));
            message.take_matches(|form| matches!(form, SlotMatcher::Choice(_)));
            message.take_numbers();
        }
    }
    message.recall(|_| true);
}

struct SlotFiller<'a> {
    search: &'a SlotFillContext<'a>,
    text: &'a str,
    values: &'a mut SlotValues,
    /// Parts of the message that were assigned to a slot.
    taken: Vec<Range<usize>>,
}

impl<'a> SlotFiller<'a> {
    /// Slots of one kind that have no value yet, the slot that was asked for first.
    fn open(&self, form: fn(&SlotMatcher) -> bool) -> Vec<&'a CompiledSlot> {
        let slots = self.search.intent.slots.iter().filter(|slot| form(&slot.matcher));
        let mut open: Vec<&CompiledSlot> = slots.filter(|slot| !self.values.contains_key(slot.name())).collect();
        open.sort_by_key(|slot| self.search.asked.is_none_or(|asked| asked.name() != slot.name()));
        open
    }

    fn is_taken(&self, part: &Range<usize>) -> bool {
        self.taken.iter().any(|taken| overlap(taken, part))
    }

    fn set(&mut self, slot: &CompiledSlot, value: String) {
        self.values.insert(slot.name().to_owned(), value);
    }

    /// Fills slots from the named groups of the intent's patterns.
    fn take_groups(&mut self) {
        for pattern in &self.search.intent.patterns {
            let Some(groups) = pattern.captures(self.text) else { continue };
            for slot in self.open(|_| true) {
                let Some(group) = groups.name(slot.name()) else { continue };
                if let Some(value) = read(slot, group.as_str(), self.search.today) {
                    self.set(slot, value);
                    self.taken.push(group.range());
                }
            }
        }
    }

    /// Assigns dates to date slots in order; a length of stay counts from the preceding date.
    fn take_dates(&mut self) {
        let mentions = dates::find(self.text, self.search.today);
        let length = dates::length(self.text, &mentions);
        let free = mentions.iter().filter(|mention| !self.is_taken(&mention.part));
        let said: Vec<Date> = free.filter_map(|mention| mention.date).collect();
        self.taken.extend(mentions.iter().map(|mention| mention.part.clone()));
        self.taken.extend(length.iter().map(|length| length.part.clone()));

        let open = self.open(|form| matches!(form, SlotMatcher::Date));
        let before = self.values.len();
        if said.len() <= open.len() {
            for (slot, date) in open.iter().zip(&said) {
                self.set(slot, date.to_string());
            }
        }
        let mut recalled = BTreeSet::new();
        // Remembered dates belong together; beside a new date they could contradict it.
        if said.is_empty() && self.values.len() == before {
            recalled = self.recall(|form| matches!(form, SlotMatcher::Date));
        }
        let Some(length) = length else { return };
        let slots: Vec<&CompiledSlot> =
            self.search.intent.slots.iter().filter(|slot| matches!(slot.matcher, SlotMatcher::Date)).collect();
        for (from, to) in slots.iter().zip(slots.iter().skip(1)) {
            let is_known = self.values.contains_key(to.name()) && !recalled.contains(to.name());
            let start = self.values.get(from.name()).and_then(|date| date.parse().ok());
            if let (false, Some(start)) = (is_known, start)
                && let Some(end) = dates::later(start, length.days)
            {
                self.set(to, end.to_string());
            }
        }
    }

    /// Fills slots with the matches of their pattern or choices. A slot with several different values stays unfilled.
    fn take_matches(&mut self, form: fn(&SlotMatcher) -> bool) {
        for slot in self.open(form) {
            let mut found = matches_of(slot, self.text);
            found.retain(|(part, _)| !self.is_taken(part));
            let values: BTreeSet<&String> = found.iter().map(|(_, value)| value).collect();
            if let (1, Some(value)) = (values.len(), values.first()) {
                self.set(slot, (*value).clone());
            }
            self.taken.extend(found.into_iter().map(|(part, _)| part));
        }
    }

    fn take_numbers(&mut self) {
        let open = self.open(|form| matches!(form, SlotMatcher::Integer));
        let Some(first) = open.first() else { return };
        let names = names_elsewhere(self.search.rules, self.search.intent, self.text);
        let mut numbers: Vec<numbers::NumberMention> = numbers::find(self.text)
            .into_iter()
            .filter(|number| !self.is_taken(&number.part))
            .filter(|number| number.part.len() <= 2 || !names.iter().any(|name| overlap(name, &number.part)))
            .collect();

        for slot in &open {
            let named =
                only(numbers.iter().filter(|number| is_counted(self.text, number, slot)).map(|number| number.value));
            if let Some(value) = named {
                self.set(slot, value.to_string());
                numbers.retain(|number| !is_counted(self.text, number, slot));
            }
        }
        let is_asked = self.search.asked.is_some_and(|asked| asked.name() == first.name());
        if is_asked && !self.values.contains_key(first.name()) {
            // A single number in a reply always counts as the answer.
            if let Some(value) = only(numbers.iter().map(|number| number.value)) {
                self.set(first, value.to_string());
                return;
            }
        }
        // A bare number does not replace an earlier value, because it may mean something else.
        let mut open = self.open(|form| matches!(form, SlotMatcher::Integer));
        open.retain(|slot| self.remembered(slot).is_none());
        numbers.retain(|number| number.is_free);
        if numbers.len() == open.len() {
            for (slot, number) in open.iter().zip(&numbers) {
                self.set(slot, number.value.to_string());
            }
        } else if let ([slot], Some(value)) = (open.as_slice(), only(numbers.iter().map(|number| number.value))) {
            self.set(slot, value.to_string());
        }
    }

    fn take_reply(&mut self, slot: &CompiledSlot) {
        if self.values.contains_key(slot.name()) {
            return;
        }
        if let Some(value) = read(slot, self.text, self.search.today) {
            self.set(slot, value);
        }
    }

    /// Value from an earlier intent, if the slot has `remember` set and the value is valid.
    fn remembered(&self, slot: &CompiledSlot) -> Option<&'a String> {
        self.search.memory?.get(slot.name()).filter(|value| slot.spec.remember && fits(slot, value))
    }

    /// Fills slots that have `remember` set from earlier intents; returns the names of the filled slots.
    fn recall(&mut self, form: fn(&SlotMatcher) -> bool) -> BTreeSet<String> {
        let mut dates = self.search.intent.slots.iter().filter(|slot| matches!(slot.matcher, SlotMatcher::Date));
        let dated = dates.any(|slot| self.values.contains_key(slot.name()));
        let mut recalled = BTreeSet::new();
        for slot in self.open(form) {
            let is_late_date = dated && matches!(slot.matcher, SlotMatcher::Date);
            let Some(value) = self.remembered(slot).filter(|_| !is_late_date).cloned() else { continue };
            self.set(slot, value);
            recalled.insert(slot.name().to_owned());
        }
        recalled
    }
}

/// Reads the value of one slot from a text that is meant for this slot.
pub(super) fn read(slot: &CompiledSlot, text: &str, today: Date) -> Option<String> {
    match &slot.matcher {
        SlotMatcher::Text => prose(text),
        SlotMatcher::Date => dates::find(text, today).first()?.date.map(|date| date.to_string()),
        SlotMatcher::Integer => Some(numbers::find(text).first()?.value.to_string()),
        SlotMatcher::Choice(_) | SlotMatcher::Pattern(_) => {
            matches_of(slot, text).into_iter().next().map(|(_, value)| value)
        }
    }
}

/// Whether a value is valid for the slot.
fn fits(slot: &CompiledSlot, value: &str) -> bool {
    match &slot.matcher {
        SlotMatcher::Text => true,
        SlotMatcher::Date => value.parse::<Date>().is_ok(),
        SlotMatcher::Integer => value.parse::<i64>().is_ok(),
        SlotMatcher::Choice(choices) => choices.iter().any(|(known, _)| known == value),
        SlotMatcher::Pattern(pattern) => pattern.is_match(value),
    }
}

/// Phrases that are removed from the start of an answer.
const LEAD_INS: [&str; 9] =
    ["my name is", "the name is", "name is", "name:", "我的名字是", "我的名字叫", "名字是", "姓名", "我叫"];

/// Answer to a text slot, without introductory phrase, quotes and final punctuation.
fn prose(text: &str) -> Option<String> {
    let text = text.trim();
    if !text.is_empty() && text.chars().all(|sign| sign == '.') {
        // The folder itself, or the one above, and no punctuation.
        return Some(text.to_owned());
    }
    let led_in =
        LEAD_INS.iter().find(|words| text.get(..words.len()).is_some_and(|start| start.eq_ignore_ascii_case(words)));
    let answer = led_in.map_or(text, |words| &text[words.len()..]);
    let answer = answer.trim_start_matches([' ', ':', '\u{FF1A}']);
    let answer =
        answer.trim_matches(['"', '「', '」']).trim_end_matches(['.', '!', ';', '。', '\u{FF01}', '\u{FF1B}']).trim();
    (!answer.is_empty()).then(|| answer.to_owned())
}

/// Parts of the text that match the pattern or a choice of a slot, with their values.
fn matches_of(slot: &CompiledSlot, text: &str) -> Vec<(Range<usize>, String)> {
    match &slot.matcher {
        SlotMatcher::Pattern(pattern) => {
            let value = |groups: Captures<'_>| {
                let whole = groups.get(0)?;
                let value = groups.get(1).unwrap_or(whole).as_str().trim();
                (!value.is_empty()).then(|| (whole.range(), value.to_owned()))
            };
            pattern.captures_iter(text).filter_map(value).collect()
        }
        SlotMatcher::Choice(choices) => {
            let mut found = Vec::new();
            for (value, words) in choices {
                let parts = words.find_iter(text).map(|word| word.range());
                found.extend(parts.filter(|part| stands_alone(text, part)).map(|part| (part, value.clone())));
            }
            found
        }
        SlotMatcher::Text | SlotMatcher::Date | SlotMatcher::Integer => Vec::new(),
    }
}

/// Parts of the text that match slots of other intents, such as a room number.
fn names_elsewhere(rules: &CompiledRules, intent: &CompiledIntent, text: &str) -> Vec<Range<usize>> {
    let others = rules.intents.iter().filter(|other| other.spec.name != intent.spec.name);
    others.flat_map(|other| &other.slots).flat_map(|slot| matches_of(slot, text)).map(|(part, _)| part).collect()
}

/// Whether the number is followed by the slot's name: `2 guests` for `guests`.
fn is_counted(text: &str, number: &numbers::NumberMention, slot: &CompiledSlot) -> bool {
    let word = numbers::following_word(text, &number.part);
    let singular = |word: &str| word.strip_suffix('s').unwrap_or(word).to_owned();
    !word.is_empty() && singular(&word) == singular(&slot.name().to_lowercase())
}

/// The common value if all values are equal.
fn only(mut values: impl Iterator<Item = i64>) -> Option<i64> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

//! Taking the values of slots out of a message.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use jiff::civil::Date;
use regex::Regex;

use super::lexicon::{Form, Gap, Lexicon, Wish};
use super::reading::{Reading, overlap, stands_alone};
use super::{dates, numbers};

/// What is known, by the slot's name: dates as `2026-12-24`, numbers in digits, choices by their value.
pub(super) type Values = BTreeMap<String, String>;

/// What a message is searched for.
pub(super) struct Search<'a> {
    pub(super) lexicon: &'a Lexicon,
    pub(super) wish: &'a Wish,
    /// The slot that was asked for, if the message is the reply.
    pub(super) asked: Option<&'a Gap>,
    /// What earlier intents were about.
    pub(super) memory: Option<&'a Values>,
    pub(super) today: Date,
}

/// Adds to `values` what the message says about slots that have none. A thing is taken only when
/// there is one way to take it; the rest is left to be asked for.
pub(super) fn fill(search: &Search<'_>, reading: &Reading, values: &mut Values) {
    let mut message = Message { search, text: &reading.text, values, taken: Vec::new() };
    message.take_groups();
    match search.asked {
        // Whatever is said is the text, and nothing else.
        Some(gap) if matches!(gap.form, Form::Text) => message.take_reply(gap),
        _ => {
            message.take_dates();
            message.take_patterns();
            message.take_choices();
            message.take_numbers();
        }
    }
    message.recall(|_| true);
}

struct Message<'a> {
    search: &'a Search<'a>,
    text: &'a str,
    values: &'a mut Values,
    /// The parts of the message that have found their slot.
    taken: Vec<Range<usize>>,
}

impl<'a> Message<'a> {
    /// The slots of that form that have no value, the one asked for first.
    fn open(&self, form: fn(&Form) -> bool) -> Vec<&'a Gap> {
        let mut open: Vec<&Gap> = self
            .search
            .wish
            .slots
            .iter()
            .filter(|gap| form(&gap.form) && !self.values.contains_key(gap.name()))
            .collect();
        open.sort_by_key(|gap| self.search.asked.is_none_or(|asked| asked.name() != gap.name()));
        open
    }

    fn is_taken(&self, part: &Range<usize>) -> bool {
        self.taken.iter().any(|taken| overlap(taken, part))
    }

    fn set(&mut self, gap: &Gap, value: String) {
        self.values.insert(gap.name().to_owned(), value);
    }

    /// What the named groups of the intent's patterns say.
    fn take_groups(&mut self) {
        for pattern in &self.search.wish.patterns {
            let Some(groups) = pattern.captures(self.text) else { continue };
            for gap in self.open(|_| true) {
                let Some(group) = groups.name(gap.name()) else { continue };
                if let Some(value) = read(gap, group.as_str(), self.search.today) {
                    self.set(gap, value);
                    self.taken.push(group.range());
                }
            }
        }
    }

    /// Dates fill date slots in order; a length of stay counts from the date before the gap.
    fn take_dates(&mut self) {
        let mentions = dates::find(self.text, self.search.today);
        let length = dates::length(self.text, &mentions);
        let said: Vec<Date> = mentions
            .iter()
            .filter(|mention| !self.is_taken(&mention.part))
            .filter_map(|mention| mention.date)
            .collect();
        self.taken.extend(mentions.iter().map(|mention| mention.part.clone()));
        self.taken.extend(length.iter().map(|length| length.part.clone()));

        let open = self.open(|form| matches!(form, Form::Date));
        let before = self.values.len();
        if said.len() <= open.len() {
            for (gap, date) in open.iter().zip(&said) {
                self.set(gap, date.to_string());
            }
        }
        let mut recalled = BTreeSet::new();
        // Remembered dates belong together: with a new one beside them they may contradict it.
        if said.is_empty() && self.values.len() == before {
            recalled = self.recall(|form| matches!(form, Form::Date));
        }
        let Some(length) = length else { return };
        let slots: Vec<&Gap> = self.search.wish.slots.iter().filter(|gap| matches!(gap.form, Form::Date)).collect();
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

    fn take_patterns(&mut self) {
        for gap in self.open(|form| matches!(form, Form::Pattern(_))) {
            let Form::Pattern(pattern) = &gap.form else { continue };
            let found: Vec<(Range<usize>, String)> =
                finds(pattern, self.text).into_iter().filter(|(part, _)| !self.is_taken(part)).collect();
            let values: BTreeSet<&String> = found.iter().map(|(_, value)| value).collect();
            if values.len() == 1 {
                let value = found[0].1.clone();
                self.set(gap, value);
            }
            self.taken.extend(found.into_iter().map(|(part, _)| part));
        }
    }

    fn take_choices(&mut self) {
        for gap in self.open(|form| matches!(form, Form::Choice(_))) {
            let Form::Choice(choices) = &gap.form else { continue };
            let mut found: Vec<(&String, Range<usize>)> = Vec::new();
            for (value, words) in choices {
                found.extend(standing(words, self.text).filter(|part| !self.is_taken(part)).map(|part| (value, part)));
            }
            let values: BTreeSet<&String> = found.iter().map(|(value, _)| *value).collect();
            if let (1, Some(value)) = (values.len(), values.first()) {
                self.set(gap, (*value).clone());
            }
            self.taken.extend(found.into_iter().map(|(_, part)| part));
        }
    }

    fn take_numbers(&mut self) {
        let open = self.open(|form| matches!(form, Form::Integer));
        let Some(first) = open.first() else { return };
        let names = names_elsewhere(self.search.lexicon, self.search.wish, self.text);
        let mut numbers: Vec<numbers::Number> = numbers::find(self.text)
            .into_iter()
            .filter(|number| !self.is_taken(&number.part))
            .filter(|number| number.part.len() <= 2 || !names.iter().any(|name| overlap(name, &number.part)))
            .collect();

        for gap in &open {
            let named =
                only(numbers.iter().filter(|number| is_counted(self.text, number, gap)).map(|number| number.value));
            if let Some(value) = named {
                self.set(gap, value.to_string());
                numbers.retain(|number| !is_counted(self.text, number, gap));
            }
        }
        let is_asked = self.search.asked.is_some_and(|asked| asked.name() == first.name());
        if is_asked && !self.values.contains_key(first.name()) {
            // To a question even `a room for 3 nights, 2` may be an answer, but a lone number always is.
            if let Some(value) = only(numbers.iter().map(|number| number.value)) {
                self.set(first, value.to_string());
                return;
            }
        }
        // A bare number does not overrule what was said before: it may name something else.
        let mut open = self.open(|form| matches!(form, Form::Integer));
        open.retain(|gap| self.remembered(gap).is_none());
        numbers.retain(|number| number.is_free);
        if numbers.len() == open.len() {
            for (gap, number) in open.iter().zip(&numbers) {
                self.set(gap, number.value.to_string());
            }
        } else if let ([gap], Some(value)) = (open.as_slice(), only(numbers.iter().map(|number| number.value))) {
            self.set(gap, value.to_string());
        }
    }

    fn take_reply(&mut self, gap: &Gap) {
        if self.values.contains_key(gap.name()) {
            return;
        }
        if let Some(value) = read(gap, self.text, self.search.today) {
            self.set(gap, value);
        }
    }

    /// What earlier intents said for a slot that remembers.
    fn remembered(&self, gap: &Gap) -> Option<&'a String> {
        self.search.memory?.get(gap.name()).filter(|value| gap.slot.remember && fits(gap, value))
    }

    /// Fills slots that remember from what earlier intents were about, and tells which.
    fn recall(&mut self, form: fn(&Form) -> bool) -> BTreeSet<String> {
        let dated = self
            .search
            .wish
            .slots
            .iter()
            .any(|gap| matches!(gap.form, Form::Date) && self.values.contains_key(gap.name()));
        let mut recalled = BTreeSet::new();
        for gap in self.open(form) {
            let is_late_date = dated && matches!(gap.form, Form::Date);
            let Some(value) = self.remembered(gap).filter(|_| !is_late_date).cloned() else { continue };
            self.set(gap, value);
            recalled.insert(gap.name().to_owned());
        }
        recalled
    }
}

/// Reads a text that is meant for that slot alone.
pub(super) fn read(gap: &Gap, text: &str, today: Date) -> Option<String> {
    match &gap.form {
        Form::Text => prose(text),
        Form::Date => dates::find(text, today).first()?.date.map(|date| date.to_string()),
        Form::Integer => Some(numbers::find(text).first()?.value.to_string()),
        Form::Choice(choices) => {
            let found = choices.iter().find(|(_, words)| standing(words, text).next().is_some());
            found.map(|(value, _)| value.clone())
        }
        Form::Pattern(pattern) => finds(pattern, text).into_iter().next().map(|(_, value)| value),
    }
}

/// Whether a value from elsewhere is one the slot could hold.
fn fits(gap: &Gap, value: &str) -> bool {
    match &gap.form {
        Form::Text => true,
        Form::Date => value.parse::<Date>().is_ok(),
        Form::Integer => value.parse::<i64>().is_ok(),
        Form::Choice(choices) => choices.iter().any(|(known, _)| known == value),
        Form::Pattern(pattern) => pattern.is_match(value),
    }
}

/// What people say before an answer without meaning it.
const LEAD_INS: [&str; 9] =
    ["my name is", "the name is", "name is", "name:", "我的名字是", "我的名字叫", "名字是", "姓名", "我叫"];

/// An answer in words, without what leads into it and the full stop after it.
fn prose(text: &str) -> Option<String> {
    let text = text.trim();
    let led_in =
        LEAD_INS.iter().find(|words| text.get(..words.len()).is_some_and(|start| start.eq_ignore_ascii_case(words)));
    let answer = led_in.map_or(text, |words| &text[words.len()..]);
    let answer = answer.trim_start_matches([' ', ':', '\u{FF1A}']);
    let answer =
        answer.trim_matches(['"', '「', '」']).trim_end_matches(['.', '!', ';', '。', '\u{FF01}', '\u{FF1B}']).trim();
    (!answer.is_empty()).then(|| answer.to_owned())
}

/// What a slot's pattern finds: its first group if it has one.
fn finds(pattern: &Regex, text: &str) -> Vec<(Range<usize>, String)> {
    pattern
        .captures_iter(text)
        .filter_map(|groups| {
            let whole = groups.get(0)?;
            let value = groups.get(1).unwrap_or(whole).as_str().trim();
            (!value.is_empty()).then(|| (whole.range(), value.to_owned()))
        })
        .collect()
}

fn standing<'t>(words: &'t Regex, text: &'t str) -> impl Iterator<Item = Range<usize>> + use<'t> {
    words.find_iter(text).map(|found| found.range()).filter(move |part| stands_alone(text, part))
}

/// The parts of the text that are names of something to other intents, such as a room's number.
fn names_elsewhere(lexicon: &Lexicon, wish: &Wish, text: &str) -> Vec<Range<usize>> {
    let others = lexicon.intents.iter().filter(|other| other.intent.name != wish.intent.name);
    others
        .flat_map(|other| &other.slots)
        .flat_map(|gap| match &gap.form {
            Form::Pattern(pattern) => finds(pattern, text).into_iter().map(|(part, _)| part).collect(),
            Form::Choice(choices) => choices.iter().flat_map(|(_, words)| standing(words, text)).collect(),
            Form::Text | Form::Date | Form::Integer => Vec::new(),
        })
        .collect()
}

/// Whether the number is followed by the slot's own name: `2 guests` for `guests`.
fn is_counted(text: &str, number: &numbers::Number, gap: &Gap) -> bool {
    let word = numbers::following_word(text, &number.part);
    let singular = |word: &str| word.strip_suffix('s').unwrap_or(word).to_owned();
    !word.is_empty() && singular(&word) == singular(&gap.name().to_lowercase())
}

/// The one value that all agree on.
fn only(mut values: impl Iterator<Item = i64>) -> Option<i64> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

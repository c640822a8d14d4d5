//! What an agent file taught the brain, with its patterns compiled.

use nuncio_core::agent::{Intent, RulesSpec, Slot, SlotKind};
use nuncio_core::template::Template;
use regex::{Regex, RegexBuilder};

/// How many bytes one compiled pattern may take.
const MAX_PATTERN: usize = 1 << 20;

/// Everything the brain knows.
#[derive(Debug)]
pub(super) struct Lexicon {
    pub(super) fallback: Option<Template>,
    pub(super) intents: Vec<Wish>,
}

/// An intent, ready to be recognised.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) intent: Intent,
    /// In lower case.
    pub(super) keywords: Vec<String>,
    pub(super) patterns: Vec<Regex>,
    pub(super) slots: Vec<Gap>,
}

/// A slot, ready to be filled.
#[derive(Debug)]
pub(super) struct Gap {
    pub(super) slot: Slot,
    pub(super) form: Form,
}

/// What fills a slot.
#[derive(Debug)]
pub(super) enum Form {
    Text,
    Date,
    Integer,
    /// Each value, and what finds it.
    Choice(Vec<(String, Regex)>),
    Pattern(Regex),
}

impl Lexicon {
    /// Compiles what an agent file says, or tells which pattern is wrong.
    pub(super) fn compile(spec: &RulesSpec) -> Result<Self, String> {
        let intents = spec.intents.iter().map(Wish::compile).collect::<Result<_, _>>()?;
        Ok(Self { fallback: spec.fallback.clone(), intents })
    }
}

impl Wish {
    fn compile(intent: &Intent) -> Result<Self, String> {
        let within = |fault: String| format!("intent {}: {fault}", intent.name);
        let patterns = intent.patterns.iter().map(|source| pattern(source)).collect::<Result<_, _>>();
        let slots = intent.slots.iter().map(Gap::compile).collect::<Result<_, _>>();
        Ok(Self {
            intent: intent.clone(),
            keywords: intent
                .keywords
                .iter()
                .map(|word| word.trim().to_lowercase())
                .filter(|word| !word.is_empty())
                .collect(),
            patterns: patterns.map_err(within)?,
            slots: slots.map_err(within)?,
        })
    }
}

impl Gap {
    fn compile(slot: &Slot) -> Result<Self, String> {
        let within = |fault: String| format!("slot {}: {fault}", slot.name);
        let form = match &slot.kind {
            SlotKind::Text => Form::Text,
            SlotKind::Date => Form::Date,
            SlotKind::Integer => Form::Integer,
            SlotKind::Choice(choices) => Form::Choice(
                choices.iter().filter_map(|choice| self::choice(choice)).collect::<Result<_, _>>().map_err(within)?,
            ),
            SlotKind::Pattern(source) => Form::Pattern(pattern(source).map_err(within)?),
        };
        Ok(Self { slot: slot.clone(), form })
    }

    /// The slot's name.
    pub(super) fn name(&self) -> &str {
        &self.slot.name
    }

    /// Whether it must be asked for when nobody said it.
    pub(super) fn is_required(&self) -> bool {
        self.slot.ask.is_some() && self.slot.default.is_none()
    }
}

/// A choice's value and what finds it: `suite|suites|套房` is `suite`, found by any of the three.
fn choice(source: &str) -> Option<Result<(String, Regex), String>> {
    let words: Vec<&str> = source.split('|').map(str::trim).filter(|word| !word.is_empty()).collect();
    let value = (*words.first()?).to_owned();
    let any = words.iter().map(|word| regex::escape(word)).collect::<Vec<_>>().join("|");
    Some(pattern(&any).map(|found_by| (value, found_by)))
}

/// A pattern of an agent file: case does not matter unless it says so.
fn pattern(source: &str) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(source);
    builder.case_insensitive(true).size_limit(MAX_PATTERN);
    builder.build().map_err(|fault| format!("the pattern {source:?} does not compile: {fault}"))
}

//! Compiled rules of an agent file.

use nuncio_core::agent::{Intent, IntentSlot, RulesBrainSpec, SlotKind};
use nuncio_core::template::Template;
use regex::{Regex, RegexBuilder};

/// Size limit of a compiled pattern, in bytes.
const MAX_PATTERN: usize = 1 << 20;

/// Compiled intents of an agent file, and its reply for messages without an intent.
#[derive(Debug)]
pub(super) struct CompiledRules {
    pub(super) fallback: Option<Template>,
    pub(super) intents: Vec<CompiledIntent>,
}

#[derive(Debug)]
pub(super) struct CompiledIntent {
    pub(super) spec: Intent,
    pub(super) keywords: Vec<String>,
    pub(super) patterns: Vec<Regex>,
    pub(super) slots: Vec<CompiledSlot>,
}

#[derive(Debug)]
pub(super) struct CompiledSlot {
    pub(super) spec: IntentSlot,
    pub(super) matcher: SlotMatcher,
}

#[derive(Debug)]
pub(super) enum SlotMatcher {
    Text,
    Date,
    Integer,
    /// Allowed values of a choice slot, each with its pattern.
    Choice(Vec<(String, Regex)>),
    Pattern(Regex),
}

impl CompiledRules {
    /// Compiles the rules; the error names the invalid pattern.
    pub(super) fn compile(spec: &RulesBrainSpec) -> Result<Self, String> {
        let intents = spec.intents.iter().map(CompiledIntent::compile).collect::<Result<_, _>>()?;
        Ok(Self { fallback: spec.fallback.clone(), intents })
    }
}

impl CompiledIntent {
    fn compile(intent: &Intent) -> Result<Self, String> {
        let within = |fault: String| format!("intent {}: {fault}", intent.name);
        let patterns = intent.patterns.iter().map(|source| pattern(source)).collect::<Result<_, _>>();
        let slots = intent.slots.iter().map(CompiledSlot::compile).collect::<Result<_, _>>();
        let keywords = intent.keywords.iter().map(|word| word.trim().to_lowercase());
        Ok(Self {
            spec: intent.clone(),
            keywords: keywords.filter(|word| !word.is_empty()).collect(),
            patterns: patterns.map_err(within)?,
            slots: slots.map_err(within)?,
        })
    }
}

impl CompiledSlot {
    fn compile(slot: &IntentSlot) -> Result<Self, String> {
        let within = |fault: String| format!("slot {}: {fault}", slot.name);
        let matcher = match &slot.kind {
            SlotKind::Text => SlotMatcher::Text,
            SlotKind::Date => SlotMatcher::Date,
            SlotKind::Integer => SlotMatcher::Integer,
            SlotKind::Choice(choices) => SlotMatcher::Choice(
                choices.iter().filter_map(|choice| self::choice(choice)).collect::<Result<_, _>>().map_err(within)?,
            ),
            SlotKind::Pattern(source) => SlotMatcher::Pattern(pattern(source).map_err(within)?),
        };
        Ok(Self { spec: slot.clone(), matcher })
    }

    pub(super) fn name(&self) -> &str {
        &self.spec.name
    }
}

/// Value and pattern of a choice: `suite|suites|套房` is `suite`, matched by any of the three.
fn choice(source: &str) -> Option<Result<(String, Regex), String>> {
    let words: Vec<&str> = SlotKind::spellings(source).collect();
    let value = (*words.first()?).to_owned();
    let any = words.iter().map(|word| regex::escape(word)).collect::<Vec<_>>().join("|");
    Some(pattern(&any).map(|found_by| (value, found_by)))
}

/// Compiles a pattern, which ignores case unless it sets a flag.
fn pattern(source: &str) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(source);
    builder.case_insensitive(true).size_limit(MAX_PATTERN);
    builder.build().map_err(|fault| format!("the pattern {source:?} does not compile: {fault}"))
}

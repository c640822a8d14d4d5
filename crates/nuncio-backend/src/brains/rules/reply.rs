//! What to say or do now.

use jiff::civil::Date;
use nuncio_core::agent::OptionKind;
use nuncio_core::ids::ToolName;
use nuncio_core::message::{Block, Content};
use nuncio_core::template::{EscapeContext, Template};
use nuncio_engine::ports::brain::Prompt;
use serde_json::{Map, Value, json};

use super::arguments::arguments;
use super::dialogue::{Dialogue, Stage};
use super::fill::{Values, read};
use super::language::Language;
use super::lexicon::{Form, Lexicon, Wish};
use super::{dates, sentences};

/// One step of the brain.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Reply {
    Say(String),
    Call { name: ToolName, input: Map<String, Value> },
}

/// The next step in the conversation. The same prompt on the same day gets the same step.
pub(super) fn reply(lexicon: &Lexicon, prompt: &Prompt, today: Date) -> Reply {
    let dialogue = Dialogue::replay(lexicon, &prompt.history, today);
    let chosen = prompt.options.get("language").and_then(|option| Language::insisted(option));
    let speech = Speech { lexicon, prompt, today, language: chosen.unwrap_or(dialogue.language) };
    match dialogue.stage {
        Stage::Lost => Reply::Say(speech.fallback()),
        Stage::Dropped => Reply::Say(sentences::dropped(speech.language)),
        Stage::Asking { wish, known, gap } => {
            let context = speech.context(wish, &known);
            let asked = gap.slot.ask.as_ref().and_then(|ask| render(ask, context));
            Reply::Say(asked.unwrap_or_else(|| sentences::ask(speech.language, gap.name())))
        }
        Stage::Ready { wish, known } => speech.act(wish, known),
        Stage::Called { wish, known, .. } => {
            Reply::Say(speech.failure(wish, &known, &Failure::silence(speech.language)))
        }
        Stage::Answered { wish, known, content } => Reply::Say(speech.answer(wish, &known, content)),
    }
}

/// What is needed to put things into words.
struct Speech<'a> {
    lexicon: &'a Lexicon,
    prompt: &'a Prompt,
    today: Date,
    language: Language,
}

impl Speech<'_> {
    fn act(&self, wish: &Wish, mut known: Values) -> Reply {
        for gap in wish.slots.iter().filter(|gap| !known.contains_key(gap.name())).collect::<Vec<_>>() {
            if let Some(default) = &gap.slot.default {
                // A default may be given as it would be said: `today`.
                let value = read(gap, default, self.today).unwrap_or_else(|| default.clone());
                known.insert(gap.name().to_owned(), value);
            }
        }
        let Some(name) = &wish.intent.tool else {
            let answer = render(&wish.intent.answer, self.context(wish, &known));
            return Reply::Say(answer.unwrap_or_else(|| sentences::done(self.language)));
        };
        match self.prompt.tools.iter().find(|tool| tool.name == *name) {
            Some(tool) => Reply::Call { name: name.clone(), input: arguments(wish, &known, &tool.parameters) },
            None => Reply::Say(sentences::switched_off(self.language, name.as_str())),
        }
    }

    fn answer(&self, wish: &Wish, known: &Values, content: &Content) -> String {
        let text = content.text();
        if let Some(failure) = Failure::in_result(&text) {
            return self.failure(wish, known, &failure);
        }
        let mut context = self.context(wish, known);
        context["result"] = parsed(content, &text);
        context["text"] = Value::from(text.as_str());
        let answer = render(&wish.intent.answer, context);
        answer.unwrap_or_else(|| if text.trim().is_empty() { sentences::done(self.language) } else { text })
    }

    fn failure(&self, wish: &Wish, known: &Values, failure: &Failure<'_>) -> String {
        let mut context = self.context(wish, known);
        context["error"] = Value::from(failure.error);
        context["denied"] = Value::from(failure.is_denial);
        let written = wish.intent.failure.as_ref().and_then(|template| render(template, context));
        written.unwrap_or_else(|| match failure {
            Failure { is_denial: true, error: "" } => sentences::denied(self.language, None),
            Failure { is_denial: true, error } => sentences::denied(self.language, Some(error)),
            Failure { error, .. } => sentences::failed(self.language, error),
        })
    }

    fn fallback(&self) -> String {
        let named = |wish: &Wish| wish.intent.name.as_str().replace(['-', '_'], " ");
        let abilities: Vec<String> =
            self.lexicon.intents.iter().filter(|wish| wish.intent.tool.is_some()).map(named).collect();
        let mut context = self.general();
        context["intents"] = json!(abilities);
        let written = self.lexicon.fallback.as_ref().and_then(|template| render(template, context));
        written.unwrap_or_else(|| sentences::not_understood(self.language, &abilities))
    }

    fn general(&self) -> Value {
        let is_secret =
            |name: &str| self.prompt.agent.option(name).is_none_or(|option| option.kind == OptionKind::Secret);
        let options: Map<String, Value> = self
            .prompt
            .options
            .iter()
            .filter(|(name, _)| !is_secret(name.as_str()))
            .map(|(name, value)| (name.to_string(), Value::from(value.as_str())))
            .collect();
        json!({ "language": self.language.tag(), "options": options })
    }

    fn context(&self, wish: &Wish, known: &Values) -> Value {
        let mut slots = Map::new();
        let mut spoken = Map::new();
        for gap in &wish.slots {
            let Some(value) = known.get(gap.name()) else { continue };
            let (plain, words) = match gap.form {
                Form::Integer => {
                    (value.parse::<i64>().map_or_else(|_| Value::from(value.as_str()), Value::from), value.clone())
                }
                Form::Date => {
                    let words = value.parse().map_or_else(|_| value.clone(), |date| dates::spoken(date, self.language));
                    (Value::from(value.as_str()), words)
                }
                Form::Text | Form::Choice(_) | Form::Pattern(_) => (Value::from(value.as_str()), value.clone()),
            };
            slots.insert(gap.name().to_owned(), plain);
            spoken.insert(gap.name().to_owned(), Value::from(words));
        }
        let mut context = self.general();
        context["slots"] = Value::Object(slots);
        context["spoken"] = Value::Object(spoken);
        context
    }
}

/// A result that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Failure<'a> {
    is_denial: bool,
    error: &'a str,
}

impl<'a> Failure<'a> {
    /// The engine's words for calls that came to nothing. A denial without a reason has no error.
    fn in_result(text: &'a str) -> Option<Self> {
        const WORDS: [(&str, bool); 4] = [
            ("Tool call denied", true),
            ("Tool execution failed", false),
            ("Tool not found", false),
            ("Invalid arguments", false),
        ];
        let (words, is_denial) = WORDS.into_iter().find(|(words, _)| text.starts_with(words))?;
        let detail = text[words.len()..].trim_start_matches(':').trim();
        let error = if detail.is_empty() && !is_denial { words } else { detail };
        Some(Self { is_denial, error })
    }

    fn silence(language: Language) -> Self {
        Self { is_denial: false, error: sentences::no_result(language) }
    }
}

/// A result as JSON: the whole text, or the first block that is JSON by itself; else null.
fn parsed(content: &Content, text: &str) -> Value {
    let blocks = content.blocks().iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    std::iter::once(text).chain(blocks).find_map(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null)
}

/// A template in words, or nothing when it fails or has nothing to say.
fn render(template: &Template, context: Value) -> Option<String> {
    match template.render(EscapeContext::Text, context) {
        Ok(text) => {
            let text = text.trim();
            (!text.is_empty()).then(|| text.to_owned())
        }
        Err(fault) => {
            tracing::warn!(%fault, template = template.as_str(), "a template of the rules brain could not be rendered");
            None
        }
    }
}

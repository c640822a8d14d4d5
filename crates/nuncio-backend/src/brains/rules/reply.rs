//! Chooses the next action of the rules brain and renders the reply.

use jiff::civil::Date;
use nuncio_core::agent::ToolRunSpec;
use nuncio_core::ids::ToolName;
use nuncio_core::message::{Block, Content};
use nuncio_core::template::{EscapeContext, Template};
use nuncio_engine::ports::brain::BrainStepInput;
use serde_json::{Map, Value, json};

use super::arguments::arguments;
use super::compiled::{CompiledIntent, CompiledRules, SlotMatcher};
use super::dialogue::{DialogueState, IntentStage};
use super::fill::{SlotValues, read};
use super::language::DialogueLanguage;
use super::{dates, sentences};
use crate::brains::public_options;

/// Result of one step of the rules brain.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RulesBrainAction {
    Say(String),
    Call { name: ToolName, input: Map<String, Value> },
}

/// Chooses the next step of the conversation, which depends only on the prompt and the date.
///
/// # Errors
///
/// A template of the agent file could not be rendered; the text says which one and why.
pub(super) fn reply(rules: &CompiledRules, prompt: &BrainStepInput, today: Date) -> Result<RulesBrainAction, String> {
    let dialogue = DialogueState::replay(rules, &prompt.history, today);
    let chosen = prompt.options.get("language").and_then(|option| DialogueLanguage::enforced(option));
    let speech = ReplyTemplateContext { rules, prompt, today, language: chosen.unwrap_or(dialogue.language) };
    Ok(match dialogue.stage {
        IntentStage::Lost => RulesBrainAction::Say(speech.fallback()?),
        IntentStage::Dropped => RulesBrainAction::Say(sentences::dropped(speech.language)),
        IntentStage::Asking { intent, known, slot } => {
            let place = || format!("`ask` of the slot `{}` of the intent `{}`", slot.name(), intent.spec.name);
            let asked = render(slot.spec.ask.as_ref(), speech.context(intent, &known), place)?;
            RulesBrainAction::Say(asked.unwrap_or_else(|| sentences::ask(speech.language, slot.name())))
        }
        IntentStage::Ready { intent, known } => speech.act(intent, known)?,
        IntentStage::Called { intent, known, .. } => {
            RulesBrainAction::Say(speech.failure(intent, &known, &FailedToolResult::silence(speech.language))?)
        }
        IntentStage::Answered { intent, known, content } => {
            RulesBrainAction::Say(speech.answer(intent, &known, content)?)
        }
    })
}

struct ReplyTemplateContext<'a> {
    rules: &'a CompiledRules,
    prompt: &'a BrainStepInput,
    today: Date,
    language: DialogueLanguage,
}

impl ReplyTemplateContext<'_> {
    fn act(&self, intent: &CompiledIntent, mut known: SlotValues) -> Result<RulesBrainAction, String> {
        for slot in intent.slots.iter().filter(|slot| !known.contains_key(slot.name())).collect::<Vec<_>>() {
            if let Some(default) = &slot.spec.default {
                // A default may be a phrase such as `today`.
                let value = read(slot, default, self.today).unwrap_or_else(|| default.clone());
                known.insert(slot.name().to_owned(), value);
            }
        }
        let Some(name) = &intent.spec.tool else {
            let answer = render(Some(&intent.spec.answer), self.context(intent, &known), || answer_of(intent))?;
            // Nothing was done that could be called done.
            return Ok(RulesBrainAction::Say(answer.map_or_else(|| self.fallback(), Ok)?));
        };
        Ok(match self.prompt.tools.iter().find(|tool| tool.name == *name) {
            Some(tool) => {
                RulesBrainAction::Call { name: name.clone(), input: arguments(intent, &known, &tool.parameters) }
            }
            None if self.is_device_tool(name) => RulesBrainAction::Say(sentences::no_person(self.language)),
            None => RulesBrainAction::Say(sentences::switched_off(self.language, name.as_str())),
        })
    }

    fn is_device_tool(&self, name: &ToolName) -> bool {
        self.prompt.agent.tool(name.as_str()).is_some_and(|tool| matches!(tool.run, ToolRunSpec::Device(_)))
    }

    fn answer(&self, intent: &CompiledIntent, known: &SlotValues, content: &Content) -> Result<String, String> {
        let text = content.text();
        if let Some(failure) = FailedToolResult::in_result(&text) {
            return self.failure(intent, known, &failure);
        }
        let mut context = self.context(intent, known);
        context["result"] = parsed(content, &text);
        context["text"] = Value::from(text.as_str());
        let answer = render(Some(&intent.spec.answer), context, || answer_of(intent))?;
        Ok(answer.unwrap_or_else(|| if text.trim().is_empty() { sentences::done_text(self.language) } else { text }))
    }

    fn failure(
        &self,
        intent: &CompiledIntent,
        known: &SlotValues,
        failure: &FailedToolResult<'_>,
    ) -> Result<String, String> {
        let mut context = self.context(intent, known);
        context["error"] = Value::from(failure.error);
        context["denied"] = Value::from(failure.is_denial);
        let place = || format!("`failure` of the intent `{}`", intent.spec.name);
        let written = render(intent.spec.failure.as_ref(), context, place)?;
        Ok(written.unwrap_or_else(|| match failure {
            FailedToolResult { is_denial: true, error: "" } => sentences::denied(self.language, None),
            FailedToolResult { is_denial: true, error } => sentences::denied(self.language, Some(error)),
            FailedToolResult { error, .. } => sentences::failed(self.language, error),
        }))
    }

    fn fallback(&self) -> Result<String, String> {
        let named = |intent: &CompiledIntent| intent.spec.name.as_str().replace(['-', '_'], " ");
        let abilities: Vec<String> =
            self.rules.intents.iter().filter(|intent| intent.spec.tool.is_some()).map(named).collect();
        let mut context = self.general();
        context["intents"] = json!(abilities);
        let written = render(self.rules.fallback.as_ref(), context, || "`fallback` of the brain".to_owned())?;
        Ok(written.unwrap_or_else(|| sentences::not_understood(self.language, &abilities)))
    }

    fn general(&self) -> Value {
        json!({ "language": self.language.tag(), "options": public_options(self.prompt) })
    }

    fn context(&self, intent: &CompiledIntent, known: &SlotValues) -> Value {
        let mut slots = Map::new();
        let mut spoken = Map::new();
        for slot in &intent.slots {
            let Some(value) = known.get(slot.name()) else { continue };
            let (mut plain, mut words) = (Value::from(value.as_str()), value.clone());
            if let (SlotMatcher::Integer, Ok(number)) = (&slot.matcher, value.parse::<i64>()) {
                plain = Value::from(number);
            }
            if let (SlotMatcher::Date, Ok(date)) = (&slot.matcher, value.parse()) {
                words = dates::format_date(date, self.language);
            }
            slots.insert(slot.name().to_owned(), plain);
            spoken.insert(slot.name().to_owned(), Value::from(words));
        }
        let mut context = self.general();
        context["slots"] = Value::Object(slots);
        context["spoken"] = Value::Object(spoken);
        context
    }
}

/// Error of a failed or denied tool call, for reply templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FailedToolResult<'a> {
    is_denial: bool,
    error: &'a str,
}

impl<'a> FailedToolResult<'a> {
    /// Recognises the engine's texts for failed tool calls. A denial without a reason has no error text.
    fn in_result(text: &'a str) -> Option<Self> {
        const FAILURE_TEXTS: [(&str, bool); 4] = [
            ("Tool call denied", true),
            ("Tool execution failed", false),
            ("Tool not found", false),
            ("Invalid arguments", false),
        ];
        let (words, is_denial) = FAILURE_TEXTS.into_iter().find(|(words, _)| text.starts_with(words))?;
        let detail = text[words.len()..].trim_start_matches(':').trim();
        let error = if detail.is_empty() && !is_denial { words } else { detail };
        Some(Self { is_denial, error })
    }

    fn silence(language: DialogueLanguage) -> Self {
        Self { is_denial: false, error: sentences::no_result(language) }
    }
}

/// Tool result as JSON: the whole text, or the first block that is JSON; else null.
fn parsed(content: &Content, text: &str) -> Value {
    let blocks = content.blocks().iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    std::iter::once(text).chain(blocks).find_map(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null)
}

fn answer_of(intent: &CompiledIntent) -> String {
    format!("`answer` of the intent `{}`", intent.spec.name)
}

/// Renders a template; `None` without a template or if the text is empty. `place` names the template in errors.
fn render(
    template: Option<&Template>,
    context: Value,
    place: impl FnOnce() -> String,
) -> Result<Option<String>, String> {
    let Some(template) = template else { return Ok(None) };
    match template.render(EscapeContext::Text, context) {
        Ok(text) => Ok(Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned)),
        Err(error) => Err(format!("{} could not be rendered: {}", place(), error.reason())),
    }
}

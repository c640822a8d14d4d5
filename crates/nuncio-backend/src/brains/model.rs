//! A language model, wherever it is served.
//!
//! One step is one streamed request. The history goes out as the provider wants it
//! ([`conversation`], [`names`]), by the interface it speaks ([`openai`], [`anthropic`]); what comes
//! back is read event by event ([`reading`]), its tool calls put together from their fragments
//! ([`calls`]). [`upstream`] sends, tries again before anything was heard, and notices silence.
//!
//! Why these adapters are our own: `docs/decisions/0004-model-adapters.md`.

use std::sync::Arc;

use async_trait::async_trait;
use nuncio_core::agent::{Agent, ModelSpec, OptionKind};
use nuncio_core::ids::{OptionName, SessionId};
use nuncio_core::message::Message;
use nuncio_core::template::EscapeContext;
use nuncio_core::turn::{StopReason, StreamMode};
use nuncio_engine::converse::LiveTurn;
use nuncio_engine::ports::brain::{Brain, BrainError, Prompt, Speaker, Thought};
use serde_json::{Map, Value, json};

use super::Means;
use crate::runners::secrets::Secrets;
use anthropic::AnthropicReading;
use calls::Called;
use conversation::{Conversation, SIGNATURE};
use names::ToolNames;
use openai::OpenAiReading;
use provider::Interface;
use reading::{Ask, Finish, Heard, Reading, Stumble};
use upstream::{Answer, Request, Upstream};

mod anthropic;
mod calls;
mod conversation;
mod names;
mod openai;
mod provider;
mod reading;
#[cfg(test)]
mod tests;
mod upstream;

/// What a call carries whose arguments are no JSON: the engine finds that they do not fit the tool,
/// and the model reads why.
const UNREADABLE: &str = "unreadable_arguments";
/// How much of them is kept.
const MAX_UNREADABLE: usize = 2000;

/// The brain of agents whose file says `kind = "model"`.
#[derive(Debug)]
pub struct ModelBrain {
    spec: ModelSpec,
    means: Arc<Means>,
}

impl ModelBrain {
    pub(super) fn new(spec: &ModelSpec, means: Arc<Means>) -> Self {
        Self { spec: spec.clone(), means }
    }

    /// The key, from the session or from the agent's secrets.
    async fn secrets(&self, prompt: &Prompt) -> Result<Secrets, String> {
        let mut secrets = match &self.spec.key {
            Some(name) if self.option(prompt, self.spec.options.key.as_ref()).is_none() => {
                let base_dir = self.means.programs.base_dir(&prompt.agent.name);
                let read = Secrets::named(&prompt.agent, &base_dir, name).await?;
                let key = read.get(name.as_str()).unwrap_or_default().to_owned();
                let mut secrets = Secrets::default();
                secrets.add(KEY, &key);
                secrets
            }
            _ => Secrets::default(),
        };
        if let Some(key) = self.option(prompt, self.spec.options.key.as_ref()) {
            secrets.add(KEY, key);
        }
        Ok(secrets)
    }

    /// What a session set for an option, if it did.
    fn option<'p>(&self, prompt: &'p Prompt, name: Option<&OptionName>) -> Option<&'p str> {
        prompt.options.get(name?).map(String::as_str).filter(|value| !value.trim().is_empty())
    }

    fn temperature(&self, prompt: &Prompt) -> Result<Option<f64>, String> {
        let name = self.spec.options.temperature.as_ref();
        let Some(text) = self.option(prompt, name) else {
            return Ok(self.spec.temperature);
        };
        match text.trim().parse::<f64>() {
            Ok(number) if (0.0..=2.0).contains(&number) => Ok(Some(number)),
            _ => {
                let name = name.map(OptionName::as_str).unwrap_or_default();
                Err(format!("the option `{name}` should be a number from 0 to 2, such as 0.7"))
            }
        }
    }

    fn instructions(&self, prompt: &Prompt) -> Result<Option<String>, String> {
        let Some(template) = &self.spec.instructions else { return Ok(None) };
        let context = json!({"options": shown_options(prompt)});
        let text = template
            .render(EscapeContext::Text, context)
            .map_err(|error| format!("the brain's instructions: {error}"))?;
        Ok(Some(text))
    }

    fn request(&self, prompt: &Prompt, names: &ToolNames, key: Option<&str>) -> Result<Request, String> {
        let spec = &self.spec;
        let instructions = self.instructions(prompt)?;
        let conversation = Conversation::new(spec.provider, instructions.as_deref(), &prompt.history, names);
        let ask = Ask {
            provider: spec.provider,
            at_home: spec.base_url.is_none(),
            model: self.option(prompt, spec.options.model.as_ref()).unwrap_or(&spec.model),
            temperature: self.temperature(prompt)?,
            max_tokens: spec.max_tokens,
        };
        let body = match provider::interface(spec.provider) {
            Interface::OpenAi => openai::request(&ask, &conversation, &prompt.tools, names),
            Interface::Anthropic => anthropic::request(&ask, &conversation, &prompt.tools, names),
        };
        Ok(Request {
            url: provider::address(spec)?,
            headers: provider::headers(spec.provider, key)?,
            body: body.to_string().into(),
        })
    }

    fn reading(&self) -> Box<dyn Reading> {
        match provider::interface(self.spec.provider) {
            Interface::OpenAi => Box::new(OpenAiReading::default()),
            Interface::Anthropic => Box::new(AnthropicReading::default()),
        }
    }
}

/// What the key is called among the secrets of a step.
const KEY: &str = "key";

/// What the model is asked when a conversation outgrows its window.
const SUM_UP: &str = "Sum up the conversation so far for yourself: it will be taken out of your sight and only your \
summary will stay. Keep names, numbers, dates, decisions, what was promised and what is still open. Answer with the \
summary alone, in the language of the conversation.";

#[async_trait]
impl Brain for ModelBrain {
    async fn think(&self, prompt: Prompt, voice: &mut Speaker) -> Result<Thought, BrainError> {
        let secrets = self.secrets(&prompt).await.map_err(BrainError::Failed)?;
        let names = ToolNames::new(&prompt.tools);
        let request = self.request(&prompt, &names, secrets.get(KEY)).map_err(BrainError::Failed)?;
        let upstream = Upstream {
            provider: self.spec.provider,
            http: &self.means.http,
            clock: &*self.means.clock,
            secrets: &secrets,
        };
        let mut answer = upstream.open(&request).await.map_err(BrainError::Failed)?;
        let finish = listen(&mut answer, self.reading(), voice).await?;
        conclude(&prompt.agent, finish, &names, &answer, voice)
    }

    /// Asks the same model, without tools, for what is worth remembering.
    async fn summarize(&self, mut prompt: Prompt) -> Option<String> {
        prompt.tools.clear();
        prompt.history.push(Message::user(SUM_UP));
        let nobody = SessionId::parse("summary").ok()?;
        let mut voice = Speaker::for_turn(Arc::new(LiveTurn::new(nobody, 0, StreamMode::None)));
        match self.think(prompt, &mut voice).await {
            Ok(thought) if thought.stop == StopReason::EndTurn => {
                Some(voice.message().text()).filter(|text| !text.trim().is_empty())
            }
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(%error, "the conversation could not be summed up; its oldest part is left out");
                None
            }
        }
    }

    /// `window_tokens` by four bytes; 100,000 tokens where the file says nothing, 8,000 for Ollama.
    fn window(&self) -> Option<usize> {
        Some(provider::window(&self.spec))
    }
}

/// Says what is heard until the answer is over.
async fn listen(
    answer: &mut Answer<'_>,
    mut reading: Box<dyn Reading>,
    voice: &mut Speaker,
) -> Result<Finish, BrainError> {
    let mut heard = Vec::new();
    while !reading.is_done() {
        let Some(data) = answer.next().await.map_err(BrainError::Failed)? else { break };
        let stumble = reading.event(&data, &mut heard);
        for piece in heard.drain(..) {
            match piece {
                Heard::Text(text) => voice.text(&text).await?,
                Heard::Thinking(text) => voice.thinking(&text).await?,
                Heard::Signature(signature) => voice.keep(Map::from_iter([(SIGNATURE.to_owned(), signature.into())])),
            }
        }
        stumble.map_err(|stumble| {
            BrainError::Failed(match stumble {
                Stumble::Said(why) => answer.broke_off(&why),
                Stumble::Unreadable(data) => answer.broke_off(&format!("it sent what is no event: {data}")),
                Stumble::TooMuch(what) => answer.unusable(&what),
            })
        })?;
    }
    let finish = reading.finish();
    finish.ok_or_else(|| BrainError::Failed(answer.broke_off("it ended without saying that it was finished")))
}

/// Makes the calls of a finished answer.
fn conclude(
    agent: &Agent,
    finish: Finish,
    names: &ToolNames,
    answer: &Answer<'_>,
    voice: &mut Speaker,
) -> Result<Thought, BrainError> {
    let Finish { mut calls, stop, usage } = finish;
    // A call that was cut off by the limit was not meant to be made as it is.
    if stop == StopReason::MaxTokens && calls.last().is_some_and(|call| call.input.is_err()) {
        calls.pop();
    }
    for Called { id, name, input, extra } in calls {
        let Some(tool) = names.ours(&name) else {
            return Err(BrainError::Failed(answer.unusable("a call of a tool without a name")));
        };
        let input = match input {
            Ok(input) => input,
            Err(text) => unreadable(agent, tool.as_str(), &text).ok_or_else(|| {
                let what = format!("a call of `{tool}` whose arguments are no JSON object: {}", reading::short(&text));
                BrainError::Failed(answer.unusable(&what))
            })?,
        };
        voice.call(id, tool, input);
        voice.keep(extra);
    }
    Ok(Thought { stop, usage })
}

/// Arguments that stand for unreadable ones, if the tool is sure to refuse them.
fn unreadable(agent: &Agent, tool: &str, text: &str) -> Option<Map<String, Value>> {
    let kept: String = text.chars().take(MAX_UNREADABLE).collect();
    let input = Map::from_iter([(UNREADABLE.to_owned(), Value::from(kept))]);
    let schema = &agent.tool(tool)?.input;
    schema.check(&Value::Object(input.clone())).is_err().then_some(input)
}

/// The options of a session that may be shown.
fn shown_options(prompt: &Prompt) -> Map<String, Value> {
    let shown =
        |name: &OptionName| prompt.agent.option(name.as_str()).is_some_and(|option| option.kind != OptionKind::Secret);
    let options = prompt.options.iter().filter(|(name, _)| shown(name));
    options.map(|(name, value)| (name.to_string(), Value::from(value.as_str()))).collect()
}

//! Brain that calls a language model.
//!
//! One step is one streamed request. The history is converted for the provider ([`conversation`], [`names`]) and its
//! API dialect ([`openai`], [`anthropic`]); the answer is parsed event by event ([`parser`]), and its tool calls are
//! assembled from fragments ([`calls`]). [`upstream`] sends requests with retries and timeouts.
//!
//! Why these adapters are our own: `docs/decisions/0004-model-adapters.md`.

use std::sync::Arc;

use async_trait::async_trait;
use nuncio_core::agent::{Agent, ModelBrainSpec};
use nuncio_core::ids::{OptionName, SessionId};
use nuncio_core::message::{Message, UNREADABLE_ARGUMENTS_KEY};
use nuncio_core::template::EscapeContext;
use nuncio_core::turn::{StopReason, StreamMode};
use nuncio_engine::converse::LiveTurn;
use nuncio_engine::ports::brain::{Brain, BrainError, BrainStepInput, BrainStepStop, BrainWriter, HistoryNeed};
use serde_json::{Map, Value, json};

use crate::runners::RunnerAndBrainServices;
use crate::runners::secrets::{self, SecretValues};
use anthropic::AnthropicParser;
use calls::CompleteToolCall;
use conversation::{ModelConversation, SIGNATURE_KEY};
use names::ToolNameMapping;
use openai::OpenAiParser;
use parser::{ModelAnswerDelta, ModelAnswerEnd, ModelAnswerStreamError, ModelRequestParameters, StreamedAnswerParser};
use provider::ModelApiDialect;
use upstream::{ModelAnswerStream, ModelClient, ModelRequest};

mod anthropic;
mod calls;
mod conversation;
mod listing;
mod names;
mod openai;
mod parser;
mod provider;
#[cfg(test)]
mod tests;
mod upstream;

pub(crate) use provider::address as model_address;

/// Length limit of the quoted malformed arguments, in characters.
const MAX_UNREADABLE: usize = 2000;

/// Brain of agents with `kind = "model"`.
#[derive(Debug)]
pub struct ModelBrain {
    spec: ModelBrainSpec,
    services: Arc<RunnerAndBrainServices>,
}

impl ModelBrain {
    pub(crate) fn new(spec: &ModelBrainSpec, services: Arc<RunnerAndBrainServices>) -> Self {
        Self { spec: spec.clone(), services }
    }

    /// Reads the API key from the session options or the agent's secrets.
    async fn secrets(&self, prompt: &BrainStepInput) -> Result<SecretValues, String> {
        let mut secrets = SecretValues::default();
        if let Some(key) = self.option(prompt, self.spec.options.key.as_ref()) {
            secrets.add(API_KEY_NAME, key);
        } else if let Some(name) = &self.spec.key {
            let base_dir = self.services.programs.base_dir(&prompt.agent.name);
            secrets.add(API_KEY_NAME, &secrets::read_one(&prompt.agent, &base_dir, name).await?);
        }
        Ok(secrets)
    }

    /// Value of a session option; `None` if it is unset or blank.
    fn option<'p>(&self, prompt: &'p BrainStepInput, name: Option<&OptionName>) -> Option<&'p str> {
        prompt.options.get(name?).map(String::as_str).filter(|value| !value.trim().is_empty())
    }

    fn temperature(&self, prompt: &BrainStepInput) -> Result<Option<f64>, String> {
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

    fn instructions(&self, prompt: &BrainStepInput) -> Result<Option<String>, String> {
        let Some(template) = &self.spec.instructions else { return Ok(None) };
        let context = json!({"options": super::public_options(prompt)});
        let text = template
            .render(EscapeContext::Text, context)
            .map_err(|error| format!("the brain's instructions: {error}"))?;
        Ok(Some(text))
    }

    fn request(
        &self,
        prompt: &BrainStepInput,
        names: &ToolNameMapping,
        key: Option<&str>,
    ) -> Result<ModelRequest, String> {
        let spec = &self.spec;
        let instructions = self.instructions(prompt)?;
        let conversation = ModelConversation::new(spec.provider, instructions.as_deref(), &prompt.history, names);
        let ask = ModelRequestParameters {
            provider: spec.provider,
            at_home: spec.base_url.is_none(),
            model: self.option(prompt, spec.options.model.as_ref()).unwrap_or(&spec.model),
            temperature: self.temperature(prompt)?,
            max_tokens: spec.max_tokens,
            tools: &prompt.tools,
            names,
        };
        let body = match provider::interface(spec.provider) {
            ModelApiDialect::OpenAi => openai::request(&ask, &conversation),
            ModelApiDialect::Anthropic => anthropic::request(&ask, &conversation),
        };
        Ok(ModelRequest {
            url: provider::address(spec)?,
            headers: provider::headers(spec.provider, key)?,
            body: body.to_string().into(),
        })
    }

    fn parser(&self) -> Box<dyn StreamedAnswerParser> {
        match provider::interface(self.spec.provider) {
            ModelApiDialect::OpenAi => Box::new(OpenAiParser::default()),
            ModelApiDialect::Anthropic => Box::new(AnthropicParser::default()),
        }
    }
}

/// Name of the API key among the secrets of a step.
const API_KEY_NAME: &str = "key";

/// Prompt that asks the model for a summary when the conversation exceeds the model's context window.
const SUM_UP: &str = "Sum up the conversation so far for yourself: it will be removed from your context and only your \
summary will remain. Keep names, numbers, dates, decisions, what was promised and what is still open. Answer with the \
summary alone, in the language of the conversation.";

#[async_trait]
impl Brain for ModelBrain {
    async fn think(&self, prompt: BrainStepInput, writer: &mut BrainWriter) -> Result<BrainStepStop, BrainError> {
        let secrets = self.secrets(&prompt).await.map_err(BrainError::Failed)?;
        let names = ToolNameMapping::new(&prompt.tools);
        let request = self.request(&prompt, &names, secrets.get(API_KEY_NAME)).map_err(BrainError::Failed)?;
        let upstream = ModelClient {
            provider: self.spec.provider,
            http: &self.services.http,
            clock: &*self.services.clock,
            secrets: &secrets,
        };
        let mut answer = upstream.open(&request).await.map_err(BrainError::Failed)?;
        let finish = forward_answer(&mut answer, self.parser(), writer).await?;
        finish_step(&prompt.agent, finish, &names, &answer, writer)
    }

    /// Asks the model, without tools, for a summary of the conversation.
    async fn summarize(&self, mut prompt: BrainStepInput) -> Option<String> {
        prompt.tools.clear();
        prompt.history.push(Message::user(SUM_UP));
        let nobody = SessionId::parse("summary").ok()?;
        let mut writer = BrainWriter::for_turn(Arc::new(LiveTurn::new(nobody, 0, StreamMode::None)));
        match self.think(prompt, &mut writer).await {
            Ok(thought) if thought.stop == StopReason::EndTurn => {
                Some(writer.message().text()).filter(|text| !text.trim().is_empty())
            }
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(%error, "the conversation could not be summarised; its oldest part is dropped");
                None
            }
        }
    }

    /// History window in bytes: four times `window_tokens`, whose default is 100,000, or 8,000 for Ollama.
    fn history_need(&self, _exchange: &[Message]) -> HistoryNeed {
        HistoryNeed::SummarizedWindow(provider::window(&self.spec))
    }
}

/// Forwards a model's streamed answer to `writer` until the answer ends.
async fn forward_answer(
    answer: &mut ModelAnswerStream<'_>,
    mut parser: Box<dyn StreamedAnswerParser>,
    writer: &mut BrainWriter,
) -> Result<ModelAnswerEnd, BrainError> {
    let mut deltas = Vec::new();
    while !parser.is_done() {
        let Some(data) = answer.next().await.map_err(BrainError::Failed)? else { break };
        let error = parser.event(&data, &mut deltas);
        for piece in deltas.drain(..) {
            match piece {
                ModelAnswerDelta::Text(text) => writer.text(&text).await?,
                ModelAnswerDelta::Thinking(text) => writer.thinking(&text).await?,
                ModelAnswerDelta::Signature(signature) => {
                    writer.keep(Map::from_iter([(SIGNATURE_KEY.to_owned(), signature.into())]));
                }
            }
        }
        error.map_err(|error| {
            BrainError::Failed(match error {
                ModelAnswerStreamError::Said(why) => answer.broke_off(&why),
                ModelAnswerStreamError::Unreadable(data) => {
                    answer.broke_off(&format!("it sent something that is not an event: {data}"))
                }
                ModelAnswerStreamError::TooMuch(what) => answer.unusable(&what),
            })
        })?;
    }
    let finish = parser.finish();
    finish.ok_or_else(|| BrainError::Failed(answer.broke_off("the stream ended without an end event")))
}

/// Passes the tool calls of a finished answer to `writer`, under the tools' local names.
fn finish_step(
    agent: &Agent,
    finish: ModelAnswerEnd,
    names: &ToolNameMapping,
    answer: &ModelAnswerStream<'_>,
    writer: &mut BrainWriter,
) -> Result<BrainStepStop, BrainError> {
    let ModelAnswerEnd { mut calls, stop, usage } = finish;
    // A call that was cut off by the token limit is dropped, because its arguments may be incomplete.
    if stop == StopReason::MaxTokens && calls.last().is_some_and(|call| call.input.is_err()) {
        calls.pop();
    }
    for CompleteToolCall { id, name, input, extra } in calls {
        let Some(tool) = names.local_name(&name) else {
            return Err(BrainError::Failed(answer.unusable("a call of a tool without a name")));
        };
        let input = match input {
            Ok(input) => input,
            Err(text) => unreadable(agent, tool.as_str(), &text).ok_or_else(|| {
                let what =
                    format!("a call of `{tool}` whose arguments are not a JSON object: {}", parser::short(&text));
                BrainError::Failed(answer.unusable(&what))
            })?,
        };
        writer.call(id, tool, input);
        writer.keep(extra);
    }
    Ok(BrainStepStop { stop, usage })
}

/// Placeholder arguments for malformed JSON; `None` if the tool's schema would accept them.
fn unreadable(agent: &Agent, tool: &str, text: &str) -> Option<Map<String, Value>> {
    let kept: String = text.chars().take(MAX_UNREADABLE).collect();
    let input = Map::from_iter([(UNREADABLE_ARGUMENTS_KEY.to_owned(), Value::from(kept))]);
    let schema = &agent.tool(tool)?.input;
    schema.check(&Value::Object(input.clone())).is_err().then_some(input)
}

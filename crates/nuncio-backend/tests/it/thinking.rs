//! A brain with everything it needs, without an engine around it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nuncio_backend::brains::LocalBrains;
use nuncio_core::agent::Agent;
use nuncio_core::ids::{OptionName, SessionId};
use nuncio_core::message::Message;
use nuncio_core::turn::StreamMode;
use nuncio_engine::converse::LiveTurn;
use nuncio_engine::ports::brain::{Brain, BrainError, Brains, OfferedTool, Prompt, Speaker, Thought};
use serde_json::Value;

use crate::workshop::Workshop;

/// What a brain came to in one step.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) outcome: Result<Thought, BrainError>,
    /// The message that what it said becomes.
    pub(crate) message: Value,
}

impl Step {
    /// The blocks it said, of a step that went well.
    pub(crate) fn blocks(self) -> (Thought, Value) {
        let thought = self.outcome.unwrap_or_else(|error| panic!("{error}"));
        (thought, self.message["content"].clone())
    }

    /// Why it failed, which it must have.
    pub(crate) fn failure(self) -> String {
        match self.outcome {
            Err(BrainError::Failed(why)) => why,
            other => panic!("did not fail: {other:?}"),
        }
    }
}

/// A brain of an agent named `hotel`.
pub(crate) struct Thinker {
    pub(crate) workshop: Workshop,
    pub(crate) agent: Arc<Agent>,
    pub(crate) brain: Arc<dyn Brain>,
    pub(crate) history: Vec<Message>,
    pub(crate) options: BTreeMap<OptionName, String>,
}

impl Thinker {
    /// What is written after `[agent]`, with the secret `KEY` beside it.
    pub(crate) fn new(rest: &str) -> Self {
        let workshop = Workshop::new();
        std::fs::write(workshop.folder.path().join("key"), "sk-hunter22").unwrap();
        let text =
            format!("[agent]\nname = \"hotel\"\nversion = \"1.0.0\"\n{rest}\n[secrets]\nKEY = {{ file = \"key\" }}\n");
        Self::of(workshop, &text)
    }

    pub(crate) fn of(workshop: Workshop, text: &str) -> Self {
        let declared = nuncio_core::declaration::parse("agent.toml", text).unwrap_or_else(|faults| panic!("{faults}"));
        let agent = Arc::new(declared.agent);
        let brain = LocalBrains::new(&workshop.runners).brain(&agent).unwrap();
        let options = agent.options.iter().map(|option| (option.name.clone(), option.default.clone())).collect();
        Self { workshop, agent, brain, history: vec![Message::user("Hello")], options }
    }

    pub(crate) fn set(&mut self, option: &str, value: &str) {
        self.options.insert(OptionName::parse(option).unwrap(), value.to_owned());
    }

    pub(crate) async fn think(&self) -> Step {
        let tool = |tool: &Arc<nuncio_core::agent::Tool>| OfferedTool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: tool.input.source().clone(),
        };
        let prompt = Prompt {
            agent: Arc::clone(&self.agent),
            history: self.history.clone(),
            tools: self.agent.tools.iter().map(tool).collect(),
            options: self.options.clone(),
        };
        let session = SessionId::parse("ses_1").unwrap();
        let mut speaker = Speaker::for_turn(Arc::new(LiveTurn::new(session, 1, StreamMode::Delta)));
        let outcome = self.brain.think(prompt, &mut speaker).await;
        Step { outcome, message: serde_json::to_value(speaker.message()).unwrap() }
    }

    /// Thinks while time flies: a second by the clock every few milliseconds.
    pub(crate) async fn think_long(&self) -> Step {
        let time_flies = async {
            loop {
                tokio::time::sleep(Duration::from_millis(2)).await;
                self.workshop.clock.advance(Duration::from_secs(1));
            }
        };
        tokio::select! {
            step = self.think() => step,
            () = time_flies => unreachable!("time never ends"),
        }
    }
}

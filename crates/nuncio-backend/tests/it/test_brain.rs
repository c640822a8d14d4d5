//! A brain with its dependencies, without an engine, for tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nuncio_backend::brains::LocalBrainFactory;
use nuncio_core::agent::Agent;
use nuncio_core::ids::{OptionName, SessionId};
use nuncio_core::message::Message;
use nuncio_core::turn::StreamMode;
use nuncio_engine::converse::LiveTurn;
use nuncio_engine::ports::brain::{
    Brain, BrainError, BrainFactory, BrainStepInput, BrainStepStop, BrainWriter, OfferedTool,
};
use serde_json::Value;

use crate::test_runners::RunnersFixture;

/// Result of one brain step.
#[derive(Debug)]
pub(crate) struct BrainStepResult {
    pub(crate) outcome: Result<BrainStepStop, BrainError>,
    /// Assistant message made of the step's output, as JSON.
    pub(crate) message: Value,
}

impl BrainStepResult {
    /// Stop reason and content blocks of a successful step.
    pub(crate) fn blocks(self) -> (BrainStepStop, Value) {
        let thought = self.outcome.unwrap_or_else(|error| panic!("{error}"));
        (thought, self.message["content"].clone())
    }

    /// Error text of a failed step; the details if its program failed.
    pub(crate) fn failure(self) -> String {
        match self.outcome {
            Err(BrainError::Failed(why) | BrainError::ProgramFailed { details: why }) => why,
            other => panic!("did not fail: {other:?}"),
        }
    }
}

/// Brain of an agent named `hotel`.
pub(crate) struct TestBrain {
    pub(crate) workshop: RunnersFixture,
    pub(crate) agent: Arc<Agent>,
    pub(crate) brain: Arc<dyn Brain>,
    pub(crate) history: Vec<Message>,
    pub(crate) options: BTreeMap<OptionName, String>,
}

impl TestBrain {
    /// Creates the brain from the text after `[agent]`, with the secret `KEY`.
    pub(crate) fn new(rest: &str) -> Self {
        let workshop = RunnersFixture::new();
        std::fs::write(workshop.folder.path().join("key"), "sk-hunter22").unwrap();
        let text =
            format!("[agent]\nname = \"hotel\"\nversion = \"1.0.0\"\n{rest}\n[secrets]\nKEY = {{ file = \"key\" }}\n");
        Self::of(workshop, &text)
    }

    pub(crate) fn of(workshop: RunnersFixture, text: &str) -> Self {
        let declared = nuncio_agent_file::parse("agent.toml", text).unwrap_or_else(|faults| panic!("{faults}"));
        let agent = Arc::new(declared.agent);
        let brain = LocalBrainFactory::new(&workshop.runners).brain(&agent).unwrap();
        let options = agent.options.iter().map(|option| (option.name.clone(), option.default.clone())).collect();
        Self { workshop, agent, brain, history: vec![Message::user("Hello")], options }
    }

    pub(crate) fn set(&mut self, option: &str, value: &str) {
        self.options.insert(OptionName::parse(option).unwrap(), value.to_owned());
    }

    pub(crate) async fn think(&self) -> BrainStepResult {
        let tool = |tool: &Arc<nuncio_core::agent::Tool>| OfferedTool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: tool.input.source().clone(),
        };
        let prompt = BrainStepInput {
            agent: Arc::clone(&self.agent),
            history: self.history.clone(),
            tools: self.agent.tools.iter().map(tool).collect(),
            options: self.options.clone(),
        };
        let session = SessionId::parse("ses_1").unwrap();
        let mut speaker = BrainWriter::for_turn(Arc::new(LiveTurn::new(session, 1, StreamMode::Delta)));
        let outcome = self.brain.think(prompt, &mut speaker).await;
        BrainStepResult { outcome, message: serde_json::to_value(speaker.message()).unwrap() }
    }

    /// Runs a step while the clock advances by a second every few milliseconds.
    pub(crate) async fn think_with_moving_clock(&self) -> BrainStepResult {
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

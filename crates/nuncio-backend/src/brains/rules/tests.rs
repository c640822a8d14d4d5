//! Tests of the rules brain with whole conversations.

mod chinese;
mod english;
mod laws;
mod transcript;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::civil::{Date, date};
use nuncio_core::agent::{Agent, BrainSpec};
use nuncio_core::declaration;
use nuncio_core::message::Message;
use nuncio_engine::ports::brain::{BrainPrompt, OfferedTool};

use super::compiled::CompiledRules;
use super::reply::{NextStep, reply};

const TODAY: Date = date(2026, 11, 15);

/// Agent with a rules brain, run without an engine.
struct TestAgent {
    agent: Arc<Agent>,
    rules: CompiledRules,
    options: BTreeMap<nuncio_core::ids::OptionName, String>,
    is_switched_on: bool,
}

impl TestAgent {
    fn of(file: &str) -> Self {
        let declared = declaration::parse("agent.toml", file).unwrap_or_else(|faults| panic!("{faults}"));
        let agent = Arc::new(declared.agent);
        let BrainSpec::Rules(spec) = &agent.brain else { panic!("no rules brain") };
        let rules = CompiledRules::compile(spec).unwrap();
        Self { agent, rules, options: BTreeMap::new(), is_switched_on: true }
    }

    fn hotel() -> Self {
        Self::of(include_str!("../../../../../examples/hotel/agent.toml"))
    }

    fn reply(&self, history: &[Message]) -> NextStep {
        let tools = self.agent.tools.iter().filter(|_| self.is_switched_on);
        let tools = tools.map(|tool| OfferedTool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: tool.input.source().clone(),
        });
        let prompt = BrainPrompt {
            agent: Arc::clone(&self.agent),
            history: history.to_vec(),
            tools: tools.collect(),
            options: self.options.clone(),
        };
        reply(&self.rules, &prompt, TODAY)
    }
}

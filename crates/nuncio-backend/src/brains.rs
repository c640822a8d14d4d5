//! Brains of agents: `rules` and `script` run in this process, `model` calls a language model's server, `process`
//! starts a program of the author, `aap` calls another AAP server.

use std::sync::Arc;

use nuncio_core::agent::{Agent, BrainSpec, OptionValueType};
use nuncio_core::ids::OptionName;
use nuncio_engine::ports::brain::{Brain, BrainFactory, BrainStepInput};
use serde_json::{Map, Value};

use crate::runners::{RunnerAndBrainServices, ToolRunner};

mod aap;
mod chunks;
mod model;
mod process;
mod rules;
mod script;

pub use aap::AapBrain;
pub use model::ModelBrain;
pub(crate) use model::model_address;
pub use process::ProcessBrain;
pub use rules::RulesBrain;
pub use script::ScriptBrain;

/// Factory for the brain that an agent file declares.
#[derive(Debug, Clone)]
pub struct LocalBrainFactory {
    services: Arc<RunnerAndBrainServices>,
}

impl LocalBrainFactory {
    /// Creates a factory whose brains share the clock, HTTP client and folders of the runners.
    #[must_use]
    pub fn new(runners: &ToolRunner) -> Self {
        Self { services: Arc::clone(&runners.services) }
    }
}

impl BrainFactory for LocalBrainFactory {
    fn brain(&self, agent: &Arc<Agent>) -> Result<Arc<dyn Brain>, String> {
        let clock = || Arc::clone(&self.services.clock);
        Ok(match &agent.brain {
            BrainSpec::Script => Arc::new(ScriptBrain::new(clock())),
            BrainSpec::Rules(spec) => Arc::new(RulesBrain::new(spec, clock())?),
            BrainSpec::Model(spec) => Arc::new(ModelBrain::new(spec, Arc::clone(&self.services))),
            BrainSpec::Process(program) => Arc::new(ProcessBrain::new(program, Arc::clone(&self.services))),
            BrainSpec::Aap(spec) => Arc::new(AapBrain::new(spec, Arc::clone(&self.services))),
        })
    }
}

/// Session options that templates may use: all except those of type `secret`.
fn public_options(prompt: &BrainStepInput) -> Map<String, Value> {
    let shown = |name: &OptionName| {
        prompt.agent.option(name.as_str()).is_some_and(|option| option.kind != OptionValueType::Secret)
    };
    let options = prompt.options.iter().filter(|(name, _)| shown(name));
    options.map(|(name, value)| (name.to_string(), Value::from(value.as_str()))).collect()
}

#[cfg(test)]
mod tests;

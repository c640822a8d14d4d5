//! The brains that need nothing but this process: `rules` and `script`.

use std::sync::Arc;

use nuncio_core::agent::{Agent, BrainSpec};
use nuncio_engine::ports::brain::{Brain, Brains};
use nuncio_engine::ports::clock::Clock;

mod rules;
mod script;
mod words;

pub use rules::RulesBrain;
pub use script::ScriptBrain;

/// Makes the brain that an agent file asks for.
#[derive(Debug, Clone)]
pub struct LocalBrains {
    clock: Arc<dyn Clock>,
}

impl LocalBrains {
    /// Brains that ask `clock` the time and wait by it.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock }
    }
}

impl Brains for LocalBrains {
    fn brain(&self, agent: &Arc<Agent>) -> Result<Arc<dyn Brain>, String> {
        match &agent.brain {
            BrainSpec::Script => Ok(Arc::new(ScriptBrain::new(Arc::clone(&self.clock)))),
            BrainSpec::Rules(spec) => {
                let brain = RulesBrain::new(spec, Arc::clone(&self.clock))?;
                Ok(Arc::new(brain))
            }
        }
    }
}

#[cfg(test)]
mod tests;

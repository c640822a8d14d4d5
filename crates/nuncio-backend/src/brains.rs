//! What agents think with: `rules` and `script` in this process, `model` at a language model's
//! server, `process` in a program of the author's, `aap` at another AAP server.

use std::sync::Arc;

use nuncio_core::agent::{Agent, BrainSpec};
use nuncio_engine::ports::brain::{Brain, Brains};
use nuncio_engine::ports::clock::Clock;

use crate::runners::Runners;
use crate::runners::process::Programs;

mod aap;
mod model;
mod process;
mod rules;
mod script;
mod words;

pub use aap::AapBrain;
pub use model::ModelBrain;
pub use process::ProcessBrain;
pub use rules::RulesBrain;
pub use script::ScriptBrain;

/// Makes the brain that an agent file asks for.
#[derive(Debug, Clone)]
pub struct LocalBrains {
    means: Arc<Means>,
}

/// What brains think by.
#[derive(Debug)]
pub(crate) struct Means {
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
    /// The way out to addresses that an agent file names.
    pub(crate) http: reqwest::Client,
    /// How programs are started, and where an agent's relative paths begin.
    pub(crate) programs: Arc<Programs>,
}

impl LocalBrains {
    /// Brains beside these runners: with their clock, their way out and their folders.
    #[must_use]
    pub fn new(runners: &Runners) -> Self {
        Self { means: Arc::new(runners.means()) }
    }
}

impl Brains for LocalBrains {
    fn brain(&self, agent: &Arc<Agent>) -> Result<Arc<dyn Brain>, String> {
        let clock = || Arc::clone(&self.means.clock);
        Ok(match &agent.brain {
            BrainSpec::Script => Arc::new(ScriptBrain::new(clock())),
            BrainSpec::Rules(spec) => Arc::new(RulesBrain::new(spec, clock())?),
            BrainSpec::Model(spec) => Arc::new(ModelBrain::new(spec, Arc::clone(&self.means))),
            BrainSpec::Process(program) => Arc::new(ProcessBrain::new(program, Arc::clone(&self.means))),
            BrainSpec::Aap(spec) => Arc::new(AapBrain::new(spec, Arc::clone(&self.means))),
        })
    }
}

#[cfg(test)]
mod tests;

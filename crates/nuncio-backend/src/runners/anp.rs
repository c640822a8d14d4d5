//! Tools that are methods of other hosts' agents.

use std::sync::{Arc, OnceLock};

use nuncio_anp::client::{AnpClient, ClientError, Invocation, LocalDids, Options, Reason, Signers, Target, Way};
use nuncio_core::agent::AnpRun;
use nuncio_engine::ports::runner::{RunCall, RunError, ToolOutput};
use nuncio_engine::ports::{Clock, Entropy, Fetch};

/// The agents of other hosts. Their descriptions and the tokens they gave are remembered while the server runs.
#[derive(Debug)]
pub(super) struct Peers {
    client: AnpClient,
    /// Known once the server knows its address, and with it its DIDs.
    signers: OnceLock<Arc<dyn Signers>>,
    clock: Arc<dyn Clock>,
}

impl Peers {
    pub(super) fn new(
        fetch: Arc<dyn Fetch>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        local: LocalDids,
    ) -> Self {
        let options = Options { local, ..Options::default() };
        let client = AnpClient::new(fetch, Arc::clone(&clock), entropy, options);
        Self { client, signers: OnceLock::new(), clock }
    }

    pub(super) fn set_signers(&self, signers: Arc<dyn Signers>) {
        // Whoever comes second changes nothing.
        let _ = self.signers.set(signers);
    }

    /// Calls a method, signed with the DID of the agent whose tool it is.
    pub(super) async fn run(&self, run: &AnpRun, call: &RunCall) -> Result<ToolOutput, RunError> {
        let signer = self.signers.get().and_then(|signers| signers.signer(&call.agent.name));
        let invocation = Invocation {
            target: Target::parse(&run.target).map_err(|error| failure(&error))?,
            way: Way::Method(run.method.clone()),
            arguments: call.arguments.clone(),
            timeout: Some(self.clock.now().until(call.deadline)),
        };
        call.program_start.report();
        let outcome = self.client.clone().signed_by(signer).invoke(&invocation).await;
        outcome.map(ToolOutput::json).map_err(|error| failure(&error))
    }
}

/// Checks, before the tool is served, what can be known about it.
pub(super) fn check(run: &AnpRun) -> Result<(), String> {
    match Target::parse(&run.target).map_err(|error| error.to_string())? {
        Target::Host(_) => Err(format!("{:?} names a host and no agent", run.target)),
        Target::Did(_) | Target::Description(_) => Ok(()),
    }
}

fn failure(error: &ClientError) -> RunError {
    let said = format!("{}: {}", error.reason.as_str(), error.message);
    match error.reason {
        Reason::Unreachable | Reason::TooSlow => RunError::Unavailable(said),
        Reason::Answered if error.status.is_some_and(|status| status >= 500) => RunError::Unavailable(said),
        _ => RunError::Failed(said),
    }
}

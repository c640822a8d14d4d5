//! Tools that are ANP methods of other agents.

use std::sync::{Arc, OnceLock};

use nuncio_anp::client::{
    AgentSigners, AgentTarget, AnpClient, AnpClientOptions, ClientError, Invocation, LocalDidScheme, MethodChoice,
    NegotiationRequest, Reason,
};
use nuncio_core::agent::{AnpMethod, AnpRun};
use nuncio_engine::ports::runner::{RunCall, RunError, ToolOutput};
use nuncio_engine::ports::{Clock, Entropy, Fetch};

/// ANP client for agents of other hosts. Descriptions, tokens and agreements are cached.
#[derive(Debug)]
pub(super) struct RemoteAgentRunner {
    client: AnpClient,
    /// Signers of the served agents; set once the server knows its address and DIDs.
    signers: OnceLock<Arc<dyn AgentSigners>>,
    clock: Arc<dyn Clock>,
}

impl RemoteAgentRunner {
    pub(super) fn new(
        fetch: Arc<dyn Fetch>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        local: LocalDidScheme,
    ) -> Self {
        let options = AnpClientOptions { local, ..AnpClientOptions::default() };
        let client = AnpClient::new(fetch, Arc::clone(&clock), entropy, options);
        Self { client, signers: OnceLock::new(), clock }
    }

    pub(super) fn set_signers(&self, signers: Arc<dyn AgentSigners>) {
        // Later calls have no effect.
        let _ = self.signers.set(signers);
    }

    /// Calls an ANP method. The request is signed with the DID of the tool's agent, if the agent has a signer.
    pub(super) async fn run(&self, run: &AnpRun, call: &RunCall) -> Result<ToolOutput, RunError> {
        let signer = self.signers.get().and_then(|signers| signers.signer(&call.agent.name));
        let invocation = Invocation {
            target: AgentTarget::parse(&run.target).map_err(|error| failure(&error))?,
            method: method_choice(&run.method),
            arguments: call.arguments.clone(),
            timeout: Some(self.clock.now().until(call.deadline)),
        };
        call.program_start.report();
        let outcome = self.client.clone().signed_by(signer).invoke(&invocation).await;
        outcome.map(ToolOutput::json).map_err(|error| failure(&error))
    }
}

fn method_choice(method: &AnpMethod) -> MethodChoice {
    match method {
        AnpMethod::Named(name) => MethodChoice::Method(name.clone()),
        AnpMethod::ForIntent(intent) => MethodChoice::Negotiate(NegotiationRequest {
            intent: Some(intent.clone()),
            calls_only: true,
            ..NegotiationRequest::default()
        }),
    }
}

/// Checks the declaration of an ANP tool.
pub(super) fn check(run: &AnpRun) -> Result<(), String> {
    match AgentTarget::parse(&run.target).map_err(|error| error.to_string())? {
        AgentTarget::Host(_) => Err(format!("{:?} names a host and no agent", run.target)),
        AgentTarget::Did(_) | AgentTarget::Description(_) => Ok(()),
    }
}

fn failure(error: &ClientError) -> RunError {
    let message = format!("{}: {}", error.reason.as_str(), error.message);
    match error.reason {
        Reason::Unreachable | Reason::TooSlow => RunError::Unavailable(message),
        Reason::Answered if error.status.is_some_and(|status| status >= 500) => RunError::Unavailable(message),
        _ => RunError::Failed(message),
    }
}

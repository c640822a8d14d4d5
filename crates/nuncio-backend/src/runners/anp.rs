//! Tools that are ANP methods of other agents.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use nuncio_anp::client::{
    AgentSignerLookup, AgentTarget, AnpClient, AnpClientOptions, ClientError, ClientErrorReason, InvocationDelegate,
    InvocationStep, LocalDidUrlScheme, MethodChoice, NegotiationRequest, RemoteMethod,
};
use nuncio_core::agent::{AnpMethod, AnpRunSpec};
use nuncio_core::text::plain;
use nuncio_engine::ports::runner::{AuthorizedToolCall, ToolOutput, ToolRunError};
use nuncio_engine::ports::{Clock, Entropy, Fetch};
use serde_json::{Map, Value};

/// ANP client for agents of other hosts. Descriptions, tokens and agreements are cached.
#[derive(Debug)]
pub(super) struct AnpToolRunner {
    client: AnpClient,
    /// Signers of the served agents; set once the server knows its address and DIDs.
    signers: OnceLock<Arc<dyn AgentSignerLookup>>,
    clock: Arc<dyn Clock>,
}

impl AnpToolRunner {
    pub(super) fn new(
        fetch: Arc<dyn Fetch>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        local: LocalDidUrlScheme,
    ) -> Self {
        let options = AnpClientOptions { local, ..AnpClientOptions::default() };
        let client = AnpClient::new(fetch, Arc::clone(&clock), entropy, options);
        Self { client, signers: OnceLock::new(), clock }
    }

    /// Keeps agreements in this file too, so that they last when the server restarts.
    pub(super) fn with_agreement_file(mut self, path: PathBuf) -> Self {
        self.client = self.client.with_agreement_file(path);
        self
    }

    pub(super) fn set_signers(&self, signers: Arc<dyn AgentSignerLookup>) {
        // Later calls have no effect.
        let _ = self.signers.set(signers);
    }

    /// Calls an ANP method. The request is signed with the DID of the tool's agent, if the agent has a signer.
    pub(super) async fn run(&self, run: &AnpRunSpec, call: &AuthorizedToolCall) -> Result<ToolOutput, ToolRunError> {
        let signer = self.signers.get().and_then(|signers| signers.signer(&call.agent.name));
        let target = AgentTarget::parse(&run.target).map_err(|error| failure(&error))?;
        let timeout = Some(self.clock.now().until(call.deadline));
        call.program_start.report();
        let client = self.client.clone().signed_by(signer);
        let outcome =
            client.invoke_with(&target, &method_choice(&run.method), &AnpToolCallDelegate(call), timeout).await;
        outcome.map(ToolOutput::json).map_err(|error| failure(&error))
    }
}

/// Supplies the arguments of a tool call to the ANP client, and logs the agreement where it differs from the description.
struct AnpToolCallDelegate<'a>(&'a AuthorizedToolCall);

impl InvocationDelegate for AnpToolCallDelegate<'_> {
    fn argument_names(&self) -> Vec<&str> {
        self.0.arguments.argument_names()
    }

    fn arguments(&self, method: &RemoteMethod) -> Map<String, Value> {
        self.0.arguments.arguments(method)
    }

    fn on_step(&self, step: InvocationStep<'_>) {
        let (agent, tool) = (&self.0.agent.name, &self.0.tool.name);
        match step {
            InvocationStep::Described(_) => {}
            InvocationStep::Prepared { method, agreement, .. } => {
                let negotiation = agreement.map(|agreement| plain(&agreement.result.negotiation_id));
                for note in agreement.into_iter().flat_map(|agreement| &agreement.notes) {
                    tracing::warn!(%agent, %tool, negotiation, note, "the agreement differs from the description");
                }
                if method.asks_a_person {
                    tracing::info!(%agent, %tool, negotiation, "a person of the other agent must approve the call");
                }
            }
            InvocationStep::Outdated(error) => {
                tracing::info!(%agent, %tool, error = %error.message, "negotiating again");
            }
        }
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
pub(super) fn check(run: &AnpRunSpec) -> Result<(), String> {
    match AgentTarget::parse(&run.target).map_err(|error| error.to_string())? {
        AgentTarget::Host(_) => Err(format!("{:?} is a host, not an agent", run.target)),
        AgentTarget::Did(_) | AgentTarget::Description(_) => Ok(()),
    }
}

fn failure(error: &ClientError) -> ToolRunError {
    let message = format!("{}: {}", error.reason.as_str(), error.message);
    match error.reason {
        ClientErrorReason::Unreachable | ClientErrorReason::TooSlow => ToolRunError::Unavailable(message),
        ClientErrorReason::Answered if error.status.is_some_and(|status| status >= 500) => {
            ToolRunError::Unavailable(message)
        }
        _ => ToolRunError::Failed(message),
    }
}

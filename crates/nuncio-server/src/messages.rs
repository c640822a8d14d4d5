//! Direct messages that operators send as an agent.

use nuncio_anp::client::{AgentSignerLookup, AgentTarget, AnpClient, ClientError, RequestSigner as _};
use nuncio_anp::server::{AnpServerState, OutgoingDirectMessage};
use nuncio_auth::did::{DidOwnership, HostDids as _};
use nuncio_core::ErrorCode;
use nuncio_core::ids::AgentName;
use nuncio_engine::Engine;
use nuncio_engine::ports::entropy::random_name;
use nuncio_engine::ports::store::SentDirectMessage;

use crate::dids::{DidSubject, Dids};
use crate::error::OperatorError;
use crate::system::SystemEntropy;

/// Limit of the text of one direct message, in bytes.
const MAX_TEXT: usize = 256 * 1024;

/// Sends direct messages as an agent of this server.
#[derive(Debug, Clone)]
pub(crate) struct DirectMessageSender {
    pub(crate) engine: Engine,
    pub(crate) anp: AnpServerState,
    pub(crate) client: AnpClient,
    pub(crate) dids: Dids,
}

impl DirectMessageSender {
    /// Sends a message as an agent. The receiver is resolved and verified like the target of a call.
    pub(crate) async fn send(
        &self,
        agent: &AgentName,
        target: &str,
        text: String,
    ) -> Result<SentDirectMessage, OperatorError> {
        let wrong = |message: String| OperatorError::new(ErrorCode::BadRequest, message);
        if text.trim().is_empty() || text.len() > MAX_TEXT {
            return Err(wrong(format!("a message must be a text of 1 to {MAX_TEXT} bytes")));
        }
        let signer = self.dids.signer(&DidSubject::Agent(agent.clone()))?;
        self.engine.agents().agent(agent.as_str())?;
        let to = self.address(agent, target).await?;
        if to == signer.did().as_str() {
            return Err(wrong(format!("{agent} cannot write to itself")));
        }
        let id = random_name(&SystemEntropy, "msg-");
        let message = OutgoingDirectMessage { agent: agent.clone(), to, id, answers: None, text };
        Ok(self.anp.say(&message).await?)
    }

    async fn address(&self, agent: &AgentName, target: &str) -> Result<String, OperatorError> {
        let refused = |error: ClientError| {
            let advice = error.advice.as_ref().map(|advice| format!("; {advice}")).unwrap_or_default();
            OperatorError::new(error.reason.code(), format!("{}{advice}", error.message))
        };
        let target = AgentTarget::parse(target).map_err(refused)?;
        // DIDs of this server are not looked up: the outbound client may not reach this server.
        if let AgentTarget::Did(did) = &target
            && !matches!(self.dids.ownership(did), DidOwnership::Foreign)
        {
            return Ok(did.to_string());
        }
        let client = self.client.clone().signed_by(AgentSignerLookup::signer(&self.dids, agent));
        let described = client.describe(&target).await.map_err(refused)?;
        described.checks.ensure_trusted().map_err(refused)?;
        let message = || OperatorError::new(ErrorCode::PeerUntrusted, "the target has no valid DID");
        Ok(described.did().ok_or_else(message)?.to_string())
    }
}

//! Messages that operators have agents send, and the answers that come back; and whoever takes our agents'
//! answers to others.

use nuncio_anp::client::{AgentTarget, AnpClient};
use nuncio_anp::server::{Anp, DirectMessage};
use nuncio_core::Code;
use nuncio_core::ids::AgentName;
use nuncio_engine::ports::entropy::random_name;
use nuncio_engine::{Engine, EngineError};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::dids::{DidOwnership, DidSubject, Dids};
use crate::error::StartError;
use crate::system::SystemEntropy;

/// Limit of the text of one message in bytes.
const MAX_TEXT: usize = 256 * 1024;

/// Sends messages for agents.
#[derive(Debug, Clone)]
pub(crate) struct Messages {
    pub(crate) engine: Engine,
    pub(crate) anp: Anp,
    pub(crate) client: AnpClient,
    pub(crate) dids: Dids,
}

impl Messages {
    /// Sends a message for an agent. Whom it is for is found and checked like anyone who is called.
    pub(crate) async fn send(&self, agent: &AgentName, target: &str, text: String) -> Result<Value, StartError> {
        let wrong = |message: String| StartError::from(EngineError::new(Code::BadRequest, message));
        if text.trim().is_empty() || text.len() > MAX_TEXT {
            return Err(wrong(format!("a message is a text of 1 to {MAX_TEXT} bytes")));
        }
        let signer = self.dids.signer(&DidSubject::Agent(agent.clone()))?;
        self.engine.agents().agent(agent.as_str())?;
        let to = self.address(agent, target).await?;
        if to == signer.own().did().as_str() {
            return Err(wrong(format!("{agent} cannot write to itself")));
        }
        let id = random_name(&SystemEntropy, "msg-");
        let message = DirectMessage { agent: agent.clone(), to, id, answers: None, text };
        Ok(json!({"letter": self.anp.say(&message).await?}))
    }

    async fn address(&self, agent: &AgentName, target: &str) -> Result<String, StartError> {
        let refused = |error: nuncio_anp::client::ClientError| {
            let advice = error.advice.as_ref().map(|advice| format!("; {advice}")).unwrap_or_default();
            StartError::from(EngineError::new(error.reason.code(), format!("{}{advice}", error.message)))
        };
        let target = AgentTarget::parse(target).map_err(refused)?;
        // Our own need no looking up, and a way out to ourselves is none.
        if let AgentTarget::Did(did) = &target
            && !matches!(self.dids.standing(did), DidOwnership::Foreign)
        {
            return Ok(did.to_string());
        }
        let client = self.client.clone().signed_by(nuncio_anp::client::AgentSigners::signer(&self.dids, agent));
        let described = client.describe(&target).await.map_err(refused)?;
        described.checks.trusted().map_err(refused)?;
        let message = || EngineError::new(Code::PeerUntrusted, "no DID that holds could be addressed");
        Ok(described.did().ok_or_else(message)?.to_string())
    }

    /// A message, with its answer once it came.
    pub(crate) async fn letter(&self, agent: &AgentName, id: &str) -> Result<Value, StartError> {
        Ok(json!({"letter": self.engine.direct_messages().direct_message(agent, id).await?}))
    }
}

/// Takes answers to whoever wrote. What is not sent when it is told to stop may be until `closed`; what is not
/// sent then the next process sends.
pub(crate) async fn deliver(anp: Anp, stop: CancellationToken, closed: CancellationToken) {
    tokio::select! {
        () = anp.deliver(stop.cancelled_owned()) => {}
        () = closed.cancelled() => {}
    }
}

//! Authentication by the first frame, within five seconds.

use std::time::Duration;

use nuncio_core::happening::Recipient;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::{Credential, EngineError};

use super::line::{End, Incoming, Line};
use super::seats::Sitter;
use super::{A2h, Door};
use crate::server::{Shown, identify};
use crate::wire::frame::{ClientFrame, Refusal, ServerFrame, close};

/// Time until the first frame.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) recipient: Recipient,
    pub(super) sitter: Sitter,
    /// Token of the connection, which is checked again later.
    pub(super) token: Box<str>,
    /// Expiry of the token.
    pub(super) expires_at: Option<Timestamp>,
    /// Event after which to start.
    pub(super) after: Option<u64>,
}

/// Waits for the first frame and authenticates the connection.
pub(super) async fn admit(a2h: &A2h, door: &Door, line: &mut Line) -> Result<Admitted, End> {
    let late = line.until(line.now().after(PATIENCE));
    let frame = tokio::select! {
        frame = first(line) => frame?,
        () = late => return Err(End::closed(close::TIMEOUT, "no auth frame within 5 seconds")),
        () = a2h.engine.until_closing() => return Err(End::STOPPING),
    };
    let admitted = match frame {
        Ok(ClientFrame::Auth { token, agent_id, after }) => {
            let named = match door {
                Door::Human => Ok(None),
                Door::Agent(None) => Ok(agent_id),
                Door::Agent(Some(id)) if agent_id.as_ref().is_none_or(|said| said == id) => Ok(Some(id.clone())),
                Door::Agent(Some(_)) => Err(refused("wrong_agent", "the address and the frame name different agents")),
            };
            match named {
                Ok(named) => look_up(a2h, door, token, named.as_ref(), after).await,
                Err(refusal) => Ok(Err(refusal)),
            }
        }
        Ok(_) => Ok(Err(refused("malformed", "the first frame must be {\"type\":\"auth\",\"token\":…}"))),
        Err(why) => Ok(Err(refused("malformed", why))),
    };
    match admitted {
        Ok(Ok(admitted)) => Ok(admitted),
        Ok(Err(refusal)) => {
            line.say(&ServerFrame::AuthError(refusal)).await?;
            Err(End::UNKNOWN)
        }
        Err(error) => {
            tracing::error!(%error, "cannot authenticate a connection");
            Err(End::FAULT)
        }
    }
}

async fn first(line: &mut Line) -> Result<Result<ClientFrame, String>, End> {
    loop {
        if let Incoming::Frame(frame) = line.next().await? {
            return Ok(frame);
        }
    }
}

async fn look_up(
    a2h: &A2h,
    door: &Door,
    token: String,
    named: Option<&nuncio_core::ids::AgentId>,
    after: Option<u64>,
) -> Result<Result<Admitted, Refusal>, EngineError> {
    let Some(shown) = identify(&a2h.engine, &*a2h.tokens, &token).await? else {
        return Ok(Err(invalid()));
    };
    let Some((recipient, sitter)) = who(&shown) else { return Ok(Err(invalid())) };
    let fits = match (door, &recipient) {
        (Door::Human, Recipient::Person(_)) => true,
        (Door::Agent(_), Recipient::Agent(id)) => named.is_none_or(|named| named == id),
        _ => false,
    };
    if !fits {
        return Ok(Err(refused("wrong_agent", "this token is not for this address, or not of that agent")));
    }
    if let Recipient::Agent(id) = &recipient
        && a2h.engine.is_called(id)
    {
        let message = "this agent is called at its webhook_url; its owner sets connection_mode to \"websocket\" first";
        return Ok(Err(refused("connection_mode", message)));
    }
    Ok(Ok(Admitted { recipient, sitter, token: token.into(), expires_at: shown.expires_at, after }))
}

/// Recipient whose events the connection gets, and the slot it occupies.
pub(super) fn who(shown: &Shown) -> Option<(Recipient, Sitter)> {
    match (&shown.caller.principal, &shown.caller.credential) {
        (Principal::Person(name), Credential::Device(device)) => {
            Some((Recipient::Person(name.clone()), Sitter::Device(device.clone())))
        }
        (Principal::Agent(id), Credential::AgentToken) => {
            Some((Recipient::Agent(id.clone()), Sitter::Agent(id.clone())))
        }
        _ => None,
    }
}

pub(super) fn invalid() -> Refusal {
    refused("invalid_token", "the token is not valid: unknown, expired or revoked")
}

fn refused(reason: &str, message: impl Into<String>) -> Refusal {
    Refusal::new(reason, message)
}

//! Authenticates a WebSocket connection by its first frame, which must arrive within five seconds.

use std::time::Duration;

use nuncio_core::ids::AgentId;
use nuncio_core::notification::RelayParty;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::{AuthenticationMethod, EngineError};

use super::socket_connection::{IncomingFrame, SocketCloseReason, SocketConnection};
use super::socket_slots::SocketOwner;
use super::{A2hServerState, SocketEndpointKind};
use crate::server::{AuthenticatedTokenCaller, identify};
use crate::wire::frame::{AuthRefusal, ClientFrame, ServerFrame, close};

const FIRST_FRAME_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct AuthenticatedSocket {
    pub(super) recipient: RelayParty,
    pub(super) owner: SocketOwner,
    /// Token that the client presented; its validity is checked again later.
    pub(super) token: Box<str>,
    /// Expiry of the token, if it has one.
    pub(super) expires_at: Option<Timestamp>,
    /// Number of the event after which delivery starts; the acknowledged position if `None`.
    pub(super) after: Option<u64>,
}

pub(super) async fn admit(
    a2h: &A2hServerState,
    endpoint: &SocketEndpointKind,
    connection: &mut SocketConnection,
) -> Result<AuthenticatedSocket, SocketCloseReason> {
    let late = connection.until(connection.now().after(FIRST_FRAME_TIMEOUT));
    let frame = tokio::select! {
        frame = first(connection) => frame?,
        () = late => return Err(SocketCloseReason::closed(close::TIMEOUT, "no auth frame within 5 seconds")),
        () = a2h.engine.until_closing() => return Err(SocketCloseReason::STOPPING),
    };
    let refusal = match frame {
        Ok(ClientFrame::Auth { token, agent_id, after }) => {
            match look_up(a2h, endpoint, token, agent_id.as_ref(), after).await {
                Ok(Ok(admitted)) => return Ok(admitted),
                Ok(Err(refusal)) => refusal,
                Err(error) => {
                    tracing::error!(%error, "cannot authenticate a connection");
                    return Err(SocketCloseReason::FAULT);
                }
            }
        }
        Ok(_) => AuthRefusal::new("malformed", "the first frame must be {\"type\":\"auth\",\"token\":…}"),
        Err(why) => AuthRefusal::new("malformed", why),
    };
    connection.send_json(&ServerFrame::AuthError(refusal)).await?;
    Err(SocketCloseReason::UNKNOWN)
}

async fn first(connection: &mut SocketConnection) -> Result<Result<ClientFrame, String>, SocketCloseReason> {
    loop {
        if let IncomingFrame::Frame(frame) = connection.next().await? {
            return Ok(frame);
        }
    }
}

async fn look_up(
    a2h: &A2hServerState,
    endpoint: &SocketEndpointKind,
    token: String,
    said: Option<&AgentId>,
    after: Option<u64>,
) -> Result<Result<AuthenticatedSocket, AuthRefusal>, EngineError> {
    let named = match endpoint {
        SocketEndpointKind::Agent(Some(id)) if said.is_none_or(|said| said == id) => Some(id),
        SocketEndpointKind::Agent(Some(_)) => {
            return Ok(Err(AuthRefusal::new("wrong_agent", "the address and the frame name different agents")));
        }
        SocketEndpointKind::Human | SocketEndpointKind::Agent(None) => said,
    };
    let Some(shown) = identify(&a2h.engine, &*a2h.tokens, &token).await? else {
        return Ok(Err(invalid()));
    };
    let Some((recipient, owner)) = who(&shown) else { return Ok(Err(invalid())) };
    let fits = match (endpoint, &recipient) {
        (SocketEndpointKind::Human, RelayParty::Person(_)) => true,
        (SocketEndpointKind::Agent(_), RelayParty::Agent(id)) => named.is_none_or(|named| named == id),
        _ => false,
    };
    if !fits {
        return Ok(Err(AuthRefusal::new(
            "wrong_agent",
            "this token is not accepted at this address, or belongs to another agent",
        )));
    }
    if let RelayParty::Agent(id) = &recipient
        && a2h.engine.webhooks().has_webhook(id)
    {
        let message = "this agent receives its events at its webhook_url; its owner must set connection_mode to \"websocket\" first";
        return Ok(Err(AuthRefusal::new("connection_mode", message)));
    }
    Ok(Ok(AuthenticatedSocket { recipient, owner, token: token.into(), expires_at: shown.expires_at, after }))
}

/// Recipient whose events a connection gets, and the slot that the connection occupies.
pub(super) fn who(shown: &AuthenticatedTokenCaller) -> Option<(RelayParty, SocketOwner)> {
    match (&shown.caller.principal, &shown.caller.authentication) {
        (Principal::Person(name), AuthenticationMethod::Device(device)) => {
            Some((RelayParty::Person(name.clone()), SocketOwner::Device(device.clone())))
        }
        (Principal::Agent(id), AuthenticationMethod::AgentToken) => {
            Some((RelayParty::Agent(id.clone()), SocketOwner::Agent(id.clone())))
        }
        _ => None,
    }
}

pub(super) fn invalid() -> AuthRefusal {
    AuthRefusal::new("invalid_token", "the token is not valid: unknown, expired or revoked")
}

//! WebSocket connection to a relay: authentication, then events.

use std::time::Duration;

use futures_util::FutureExt as _;
use nuncio_core::ErrorCode;
use nuncio_core::opaque_debug;
use nuncio_engine::ports::WebSocketDialer;
use nuncio_engine::ports::dial::{SocketFrame, TextSocket, WebSocketDialRequest};
use nuncio_engine::ports::fetch::AddressTrust;
use serde_json::Value;
use tokio::sync::mpsc;
use url::Url;

use super::read::{body, event, garbled};
use super::relay_identity::RelayCredentials;
use super::{RelayClientError, RelayEvent};
use crate::wire::frame::{ClientFrame, ServerFrame};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Limit of events that are returned, and so acknowledged, together.
const MAX_EVENTS_PER_ACK: usize = 64;
/// Limit of an incoming frame, in bytes; the largest is a sealed message in base64.
const MAX_FRAME: usize = 1024 * 1024;

pub(super) struct RelayConnection {
    wire: Box<dyn TextSocket>,
    /// Queue of stream frames to send.
    outgoing: mpsc::Receiver<String>,
    /// Whether the relay accepts streams.
    pub(super) streams: bool,
}

opaque_debug!(RelayConnection);

impl RelayConnection {
    /// Connects and authenticates. Frames queued in `outgoing` are sent while [`Self::next`] waits for events.
    pub(super) async fn open(
        dial: &dyn WebSocketDialer,
        url: Url,
        trust: AddressTrust,
        auth: ClientFrame,
        outgoing: mpsc::Receiver<String>,
    ) -> Result<Self, RelayClientError> {
        let to = WebSocketDialRequest { url, trust, timeout: CONNECT_TIMEOUT, max_frame: MAX_FRAME };
        let wire = dial.dial(to).await.map_err(|why| RelayClientError::Unreachable(why.to_string()))?;
        let mut connection = Self { wire, outgoing, streams: false };
        connection.send_frame(&auth).await?;
        match serde_json::from_value(read(connection.wire.next().await)?) {
            Ok(ServerFrame::AuthOk { streams, .. }) => Ok(Self { streams, ..connection }),
            Ok(ServerFrame::AuthError(refusal)) => Err(unauthorized(&refusal.message)),
            _ => Err(garbled("it did not answer the authentication")),
        }
    }

    async fn send_frame(&mut self, frame: &ClientFrame) -> Result<(), RelayClientError> {
        match self.wire.send(body(frame).to_string()).await {
            true => Ok(()),
            false => Err(broken(None)),
        }
    }

    /// Waits for the next event; also returns the events that have already arrived.
    pub(super) async fn next(
        &mut self,
        credentials: &dyn RelayCredentials,
    ) -> Result<Vec<RelayEvent>, RelayClientError> {
        let mut events = Vec::new();
        while events.is_empty() {
            let frame = tokio::select! {
                frame = self.wire.next() => read(frame)?,
                Some(text) = self.outgoing.recv() => {
                    if !self.wire.send(text).await {
                        return Err(broken(None));
                    }
                    continue;
                }
            };
            events.extend(self.handle_frame(frame, credentials).await?);
            while (1..MAX_EVENTS_PER_ACK).contains(&events.len())
                && let Some(frame) = self.wire.next().now_or_never()
            {
                // A closed connection is reported at the next call.
                let Ok(frame) = read(frame) else { break };
                events.extend(self.handle_frame(frame, credentials).await?);
            }
        }
        Ok(events)
    }

    /// Parses a frame as an event. Frames about the connection are handled here and give `None`.
    async fn handle_frame(
        &mut self,
        frame: Value,
        credentials: &dyn RelayCredentials,
    ) -> Result<Option<RelayEvent>, RelayClientError> {
        // All other frames are events; those of unknown types are passed on.
        let is_about_connection =
            matches!(frame["type"].as_str(), Some("auth.expiring" | "auth.error" | "session.invalidated"));
        if !is_about_connection {
            return event(frame);
        }
        match serde_json::from_value(frame) {
            Ok(ServerFrame::AuthExpiring { .. }) => {
                let access_token = credentials.token().await?;
                self.send_frame(&ClientFrame::Renew { access_token }).await?;
                Ok(None)
            }
            Ok(ServerFrame::AuthError(refusal)) => Err(unauthorized(&refusal.message)),
            Ok(ServerFrame::Invalidated { reason }) => Err(unauthorized(&reason)),
            _ => Err(unauthorized("the token is not valid")),
        }
    }

    pub(super) async fn acknowledge(&mut self, seq: u64) -> Result<(), RelayClientError> {
        self.send_frame(&ClientFrame::Ack { seq }).await
    }
}

fn read(frame: SocketFrame) -> Result<Value, RelayClientError> {
    match frame {
        SocketFrame::Text(text) => serde_json::from_str(&text).map_err(|why| garbled(&why.to_string())),
        SocketFrame::Closed(code) => Err(broken(code)),
    }
}

fn unauthorized(why: &str) -> RelayClientError {
    RelayClientError::Refused { code: ErrorCode::Unauthorized, message: nuncio_core::text::plain(why) }
}

fn broken(code: Option<u16>) -> RelayClientError {
    let how = code.map(|code| format!(" with code {code}")).unwrap_or_default();
    RelayClientError::Unreachable(format!("the connection ended{how}"))
}

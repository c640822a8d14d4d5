//! WebSocket connection to a relay: authentication, then events.

use std::time::Duration;

use futures_util::FutureExt as _;
use nuncio_core::Code;
use nuncio_engine::ports::Dial;
use nuncio_engine::ports::dial::{DialRequest, SocketFrame, TextSocket};
use nuncio_engine::ports::fetch::Trust;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use url::Url;

use super::read::{event, garbled};
use super::relay_identity::Credentials;
use super::{RelayError, RelayEvent};

const TIME: Duration = Duration::from_secs(15);
/// Limit of events that are handled before one acknowledgement.
const TOGETHER: usize = 64;
/// Frame limit in bytes: the largest sealed message, in base64.
const MAX_FRAME: usize = 1024 * 1024;

pub(super) struct RelayConnection {
    wire: Box<dyn TextSocket>,
    /// Stream frames to send.
    outgoing: mpsc::Receiver<String>,
    /// Whether the relay accepts streams.
    pub(super) streams: bool,
}

impl std::fmt::Debug for RelayConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RelayConnection")
    }
}

impl RelayConnection {
    /// Connects and authenticates. Texts in `outgoing` are sent while events are awaited.
    pub(super) async fn open(
        dial: &dyn Dial,
        url: Url,
        trust: Trust,
        who: Value,
        outgoing: mpsc::Receiver<String>,
    ) -> Result<Self, RelayError> {
        let to = DialRequest { url, trust, timeout: TIME, max_frame: MAX_FRAME };
        let wire = dial.dial(to).await.map_err(|why| RelayError::Unreachable(why.to_string()))?;
        let mut connection = Self { wire, outgoing, streams: false };
        connection.say(&without_null(who)).await?;
        let answer = connection.frame().await?;
        match answer["type"].as_str() {
            Some("auth.ok") => Ok(Self { streams: answer["streams"] == true, ..connection }),
            Some("auth.error") => Err(unknown(&answer)),
            _ => Err(garbled("it did not say whether we are known")),
        }
    }

    async fn say(&mut self, frame: &Value) -> Result<(), RelayError> {
        match self.wire.send(frame.to_string()).await {
            true => Ok(()),
            false => Err(broken(None)),
        }
    }

    async fn frame(&mut self) -> Result<Value, RelayError> {
        read(self.wire.next().await)
    }

    /// The next event, and those that have already arrived.
    pub(super) async fn next(&mut self, credentials: &dyn Credentials) -> Result<Vec<RelayEvent>, RelayError> {
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
            events.extend(self.heard(frame, credentials).await?);
            while (1..TOGETHER).contains(&events.len())
                && let Some(frame) = self.wire.next().now_or_never()
            {
                // A closed connection is reported at the next call.
                let Ok(frame) = read(frame) else { break };
                events.extend(self.heard(frame, credentials).await?);
            }
        }
        Ok(events)
    }

    /// Event of a frame; frames about the connection are handled here.
    async fn heard(&mut self, frame: Value, credentials: &dyn Credentials) -> Result<Option<RelayEvent>, RelayError> {
        match frame["type"].as_str() {
            Some("auth.expiring") => {
                let token = credentials.token().await?;
                self.say(&json!({"type": "auth.renew", "access_token": token})).await?;
                Ok(None)
            }
            Some("auth.error" | "session.invalidated") => Err(unknown(&frame)),
            _ => event(frame),
        }
    }

    /// Acknowledges all events up to a number.
    pub(super) async fn acknowledge(&mut self, seq: u64) -> Result<(), RelayError> {
        self.say(&json!({"type": "ack", "seq": seq})).await
    }
}

fn read(frame: SocketFrame) -> Result<Value, RelayError> {
    match frame {
        SocketFrame::Text(text) => serde_json::from_str(&text).map_err(|why| garbled(&why.to_string())),
        SocketFrame::Closed(code) => Err(broken(code)),
    }
}

fn unknown(frame: &Value) -> RelayError {
    let said = frame["message"].as_str().or(frame["reason"].as_str()).unwrap_or("the token is not valid");
    RelayError::Refused { code: Code::Unauthorized, message: nuncio_core::text::plain(said) }
}

fn without_null(mut frame: Value) -> Value {
    if let Value::Object(fields) = &mut frame {
        fields.retain(|_, value| !value.is_null());
    }
    frame
}

fn broken(code: Option<u16>) -> RelayError {
    let how = code.map(|code| format!(" with code {code}")).unwrap_or_default();
    RelayError::Unreachable(format!("the connection ended{how}"))
}

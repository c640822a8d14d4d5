//! Outgoing WebSocket connections with text frames.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use url::Url;

use super::fetch::{AddressTrust, FetchError};

#[derive(Clone)]
pub struct WebSocketDialRequest {
    /// URL to connect to, `http:` or `https:`.
    pub url: Url,
    /// Whether the operator configured the URL or it came from an untrusted source.
    pub trust: AddressTrust,
    /// Time limit for opening the connection.
    pub timeout: Duration,
    /// Maximum incoming frame size, in bytes.
    pub max_frame: usize,
}

impl fmt::Debug for WebSocketDialRequest {
    /// Formats the request without the query of its URL, which may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{} ({:?})", self.url.origin().ascii_serialization(), self.url.path(), self.trust)
    }
}

/// A frame received on a WebSocket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketFrame {
    Text(String),
    /// The connection closed, with the peer's close code if any.
    Closed(Option<u16>),
}

#[async_trait]
pub trait WebSocketDialer: fmt::Debug + Send + Sync + 'static {
    async fn dial(&self, to: WebSocketDialRequest) -> Result<Box<dyn TextSocket>, FetchError>;
}

/// A WebSocket connection. It answers pings while it is read.
#[async_trait]
pub trait TextSocket: Send {
    /// Sends a text frame; false if the connection is closed.
    async fn send(&mut self, text: String) -> bool;
    /// The next frame of the WebSocket. Cancel safe.
    async fn next(&mut self) -> SocketFrame;
}

//! The one way out to addresses that keep talking: WebSockets of texts.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use url::Url;

use super::fetch::{FetchError, Trust};

/// A connection to be made.
#[derive(Clone)]
pub struct Dialled {
    /// Where to: an `http:` or `https:` address.
    pub url: Url,
    /// Whether the operator named the address, or it came from a stranger.
    pub trust: Trust,
    /// How long it may take to come about.
    pub timeout: Duration,
    /// The largest frame that is read.
    pub max_frame: usize,
}

impl fmt::Debug for Dialled {
    /// Without what may hold a secret: the query.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{} ({:?})", self.url.origin().ascii_serialization(), self.url.path(), self.trust)
    }
}

/// What comes over a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A text.
    Text(String),
    /// It ended, with a code if the other side gave one.
    Closed(Option<u16>),
}

/// Makes connections.
#[async_trait]
pub trait Dial: fmt::Debug + Send + Sync + 'static {
    /// Connects.
    async fn dial(&self, to: Dialled) -> Result<Box<dyn Wire>, FetchError>;
}

/// A connection. It answers pings by itself, as long as it is read.
#[async_trait]
pub trait Wire: Send {
    /// Sends a text; false when the connection is gone.
    async fn send(&mut self, text: String) -> bool;
    /// The next frame. Nothing is lost when it is not waited for to the end.
    async fn next(&mut self) -> Frame;
}

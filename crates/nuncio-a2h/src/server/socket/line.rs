//! One connection: texts out within a time, texts in within a size, and a last word.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use nuncio_core::json;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Clock;
use serde::Serialize;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use super::upgrade::{MAX_FRAME, WebSocket};
use crate::wire::frame::{ClientFrame, close};

/// How large a frame of ours is at most. What is larger leaves in several, as fragments of one message: a
/// connection keeps the room its largest frame took.
pub(super) const FRAGMENT: usize = 16 * 1024;

/// How long one frame may take to leave. Whoever does not read is let go of.
const WRITE_TIME: Duration = Duration::from_secs(20);

/// Why a connection ends, as it is said to the other side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// It went away, or does not listen: there is nobody to tell.
    Gone,
    /// It is told why.
    Closed { code: u16, reason: &'static str },
}

impl End {
    pub(super) const fn closed(code: u16, reason: &'static str) -> Self {
        Self::Closed { code, reason }
    }

    /// Who it is does not hold.
    pub(super) const UNKNOWN: Self = Self::closed(close::AUTH, "not authenticated");
    /// The server stops.
    pub(super) const STOPPING: Self = Self::closed(close::GOING_AWAY, "the server stops");
    /// The store does not answer.
    pub(super) const FAULT: Self = Self::closed(close::INTERNAL, "a fault of the server");
}

/// What came in.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A frame, or why it is none.
    Frame(Result<ClientFrame, String>),
    /// The other side lives.
    Pong,
    /// Something that asks for no answer of ours.
    Other,
}

/// One connection.
pub(super) struct Line {
    socket: WebSocket,
    clock: Arc<dyn Clock>,
}

impl Line {
    pub(super) fn new(socket: WebSocket, clock: Arc<dyn Clock>) -> Self {
        Self { socket, clock }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Waits until then.
    pub(super) fn until(&self, moment: Timestamp) -> futures_util::future::BoxFuture<'static, ()> {
        self.clock.sleep_until(moment)
    }

    /// Says something, in as many frames as it takes.
    pub(super) async fn say(&mut self, what: &impl Serialize) -> Result<(), End> {
        let mut left = Bytes::from(serde_json::to_vec(what).unwrap_or_default());
        let mut kind = Data::Text;
        loop {
            let part = left.split_to(left.len().min(FRAGMENT));
            let frame = Frame::message(part, OpCode::Data(kind), left.is_empty());
            self.send(Message::Frame(frame)).await?;
            kind = Data::Continue;
            if left.is_empty() {
                return Ok(());
            }
        }
    }

    /// Asks whether the other side lives.
    pub(super) async fn ping(&mut self) -> Result<(), End> {
        self.send(Message::Ping(Bytes::new())).await
    }

    async fn send(&mut self, message: Message) -> Result<(), End> {
        let late = self.clock.sleep_until(self.clock.now().after(WRITE_TIME));
        tokio::select! {
            biased;
            sent = self.socket.send(message) => sent.map_err(|_| End::Gone),
            () = late => Err(End::Gone),
        }
    }

    /// The next thing that comes in. Nothing is lost when it is not waited for to the end.
    pub(super) async fn next(&mut self) -> Result<Incoming, End> {
        match self.socket.next().await {
            Some(Ok(Message::Text(text))) => Ok(Incoming::Frame(read(text.as_str()))),
            Some(Ok(Message::Pong(_))) => Ok(Incoming::Pong),
            Some(Ok(Message::Ping(_) | Message::Frame(_))) => Ok(Incoming::Other),
            Some(Ok(Message::Binary(_))) => Err(End::closed(close::UNSUPPORTED, "frames are texts")),
            Some(Ok(Message::Close(_))) | None => Err(End::Gone),
            // Too large, or no WebSocket at all; it is told so in case it still listens.
            Some(Err(_)) => Err(End::closed(close::TOO_LARGE, "the frame is too large or broken")),
        }
    }

    /// The last word.
    pub(super) async fn close(&mut self, end: End) {
        let End::Closed { code, reason } = end else { return };
        if self.send(Message::Close(Some(CloseFrame { code: code.into(), reason: reason.into() }))).await.is_err() {
            return;
        }
        // A moment for the other side to answer, so that the last word is not lost with the connection.
        let late = self.clock.sleep_until(self.clock.now().after(Duration::from_secs(1)));
        tokio::select! {
            () = async { while self.socket.next().await.is_some_and(|next| next.is_ok()) {} } => {}
            () = late => {}
        }
    }
}

fn read(text: &str) -> Result<ClientFrame, String> {
    let value = json::read(text.as_bytes(), MAX_FRAME).map_err(|why| format!("the frame {why}"))?;
    serde_json::from_value(value).map_err(|why| format!("the frame is none we know: {why}"))
}

//! One connection: texts out within a time, texts in within a size, and a last word.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use bytes::Bytes;
use nuncio_core::json;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Clock;
use serde::Serialize;

use super::MAX_FRAME;
use crate::wire::frame::{ClientFrame, close};

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

    /// Sends a frame.
    pub(super) async fn say(&mut self, frame: &impl Serialize) -> Result<(), End> {
        let text = serde_json::to_string(frame).unwrap_or_default();
        self.send(Message::Text(Utf8Bytes::from(text))).await
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
        match self.socket.recv().await {
            Some(Ok(Message::Text(text))) => Ok(Incoming::Frame(read(text.as_str()))),
            Some(Ok(Message::Pong(_))) => Ok(Incoming::Pong),
            Some(Ok(Message::Ping(_))) => Ok(Incoming::Other),
            Some(Ok(Message::Binary(_))) => Err(End::closed(close::UNSUPPORTED, "frames are texts")),
            Some(Ok(Message::Close(_))) | None => Err(End::Gone),
            // Too large, or no WebSocket at all; it is told so in case it still listens.
            Some(Err(_)) => Err(End::closed(close::TOO_LARGE, "the frame is too large or broken")),
        }
    }

    /// The last word.
    pub(super) async fn close(&mut self, end: End) {
        let End::Closed { code, reason } = end else { return };
        if self.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await.is_err() {
            return;
        }
        // A moment for the other side to answer, so that the last word is not lost with the connection.
        let late = self.clock.sleep_until(self.clock.now().after(Duration::from_secs(1)));
        tokio::select! {
            () = async { while self.socket.recv().await.is_some_and(|next| next.is_ok()) {} } => {}
            () = late => {}
        }
    }
}

fn read(text: &str) -> Result<ClientFrame, String> {
    let value = json::read(text.as_bytes(), MAX_FRAME).map_err(|why| format!("the frame {why}"))?;
    serde_json::from_value(value).map_err(|why| format!("the frame is none we know: {why}"))
}

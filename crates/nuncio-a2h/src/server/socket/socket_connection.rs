//! One WebSocket connection: size and time limits, and the closing handshake.

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

/// Limit of an outgoing frame, in bytes. Larger messages are sent in several frames, because a connection keeps a
/// buffer as large as its largest frame.
pub(super) const MAX_FRAME_BYTES: usize = 16 * 1024;

/// Time limit of one write; a client that does not read is disconnected.
const WRITE_TIME: Duration = Duration::from_secs(20);

/// Why the server ends a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SocketCloseReason {
    /// The client closed the connection or does not read, so nothing is sent.
    Gone,
    Closed {
        code: u16,
        reason: &'static str,
    },
}

impl SocketCloseReason {
    pub(super) const fn closed(code: u16, reason: &'static str) -> Self {
        Self::Closed { code, reason }
    }

    pub(super) const UNKNOWN: Self = Self::closed(close::AUTH, "not authenticated");
    pub(super) const STOPPING: Self = Self::closed(close::GOING_AWAY, "the server is stopping");
    pub(super) const FAULT: Self = Self::closed(close::INTERNAL, "internal error");
}

#[derive(Debug)]
pub(super) enum IncomingFrame {
    /// A parsed client frame, or why it is invalid.
    Frame(Result<ClientFrame, String>),
    Pong,
    /// A WebSocket frame without content for the session, such as a ping.
    Other,
}

pub(super) struct SocketConnection {
    socket: WebSocket,
    clock: Arc<dyn Clock>,
}

impl SocketConnection {
    pub(super) fn new(socket: WebSocket, clock: Arc<dyn Clock>) -> Self {
        Self { socket, clock }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn until(&self, moment: Timestamp) -> futures_util::future::BoxFuture<'static, ()> {
        self.clock.sleep_until(moment)
    }

    /// Sends JSON as one text message, in as many WebSocket frames as needed.
    pub(super) async fn send_json(&mut self, what: &impl Serialize) -> Result<(), SocketCloseReason> {
        let mut left = Bytes::from(serde_json::to_vec(what).unwrap_or_default());
        let mut kind = Data::Text;
        loop {
            let part = left.split_to(left.len().min(MAX_FRAME_BYTES));
            let frame = Frame::message(part, OpCode::Data(kind), left.is_empty());
            self.send(Message::Frame(frame)).await?;
            kind = Data::Continue;
            if left.is_empty() {
                return Ok(());
            }
        }
    }

    pub(super) async fn ping(&mut self) -> Result<(), SocketCloseReason> {
        self.send(Message::Ping(Bytes::new())).await
    }

    async fn send(&mut self, message: Message) -> Result<(), SocketCloseReason> {
        let late = self.clock.sleep_until(self.clock.now().after(WRITE_TIME));
        tokio::select! {
            biased;
            sent = self.socket.send(message) => sent.map_err(|_| SocketCloseReason::Gone),
            () = late => Err(SocketCloseReason::Gone),
        }
    }

    /// The next incoming frame. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<IncomingFrame, SocketCloseReason> {
        match self.socket.next().await {
            Some(Ok(Message::Text(text))) => Ok(IncomingFrame::Frame(read(text.as_str()))),
            Some(Ok(Message::Pong(_))) => Ok(IncomingFrame::Pong),
            Some(Ok(Message::Ping(_) | Message::Frame(_))) => Ok(IncomingFrame::Other),
            Some(Ok(Message::Binary(_))) => {
                Err(SocketCloseReason::closed(close::UNSUPPORTED, "only text frames are accepted"))
            }
            Some(Ok(Message::Close(_))) | None => Err(SocketCloseReason::Gone),
            // The frame is too large or not a WebSocket frame.
            Some(Err(_)) => Err(SocketCloseReason::closed(close::TOO_LARGE, "the frame is too large or broken")),
        }
    }

    pub(super) async fn close(&mut self, end: SocketCloseReason) {
        let SocketCloseReason::Closed { code, reason } = end else { return };
        if self.send(Message::Close(Some(CloseFrame { code: code.into(), reason: reason.into() }))).await.is_err() {
            return;
        }
        // Waits for the client's close frame, so that ours is not lost with the connection.
        let late = self.clock.sleep_until(self.clock.now().after(Duration::from_secs(1)));
        tokio::select! {
            () = async { while self.socket.next().await.is_some_and(|next| next.is_ok()) {} } => {}
            () = late => {}
        }
    }
}

fn read(text: &str) -> Result<ClientFrame, String> {
    let value = json::read(text.as_bytes(), MAX_FRAME).map_err(|why| format!("the frame {why}"))?;
    serde_json::from_value(value).map_err(|why| format!("the frame is not valid: {why}"))
}

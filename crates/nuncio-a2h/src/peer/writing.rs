//! Outgoing streams: recipients read a reply while it is written, and the final message is sent like any other.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nuncio_core::conversation::{ContentType, ConversationType, StreamId};
use nuncio_core::ids::{ClientMessageId, ConversationId};
use nuncio_core::notification::RelayParty;
use nuncio_core::opaque_debug;
use nuncio_engine::ports::Clock;
use nuncio_engine::ports::entropy::timed_name;
use nuncio_engine::relay::{MAX_STREAM_PIECE, MAX_STREAM_START};
use nuncio_identity::seal::{NewSealedStream, SealedStreamPiece, StreamSealer};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::context::PeerContext;
use super::error::SendError;
use super::outbox::{OutgoingMessageIds, SealedMessageOutbox};
use super::seal_keys::SealKeyService;
use super::{InboundMessage, lock};
use crate::client::RelayClient;
use crate::wire::message::SealedBytes;
use crate::wire::stream::{StreamAbort, StreamDelta, StreamDone, StreamFrame, StreamStart};

/// Delay after a stream piece was sent; text that arrives meanwhile goes into the next piece.
const PIECE_INTERVAL: Duration = Duration::from_millis(50);
/// How long the final message waits until the last stream piece is sent.
const LAST_PIECE_TIMEOUT: Duration = Duration::from_secs(2);
/// Limit of the text in one stream piece, in bytes; leaves room for a length field and the authentication tag.
const MAX_PIECE_BYTES: usize = MAX_STREAM_PIECE - 20;
/// Limit of the unsent text of a stream, in bytes; beyond it the stream is cancelled.
const MAX_WAITING_BYTES: usize = 128 * 1024;

/// Writer of a message that recipients read while it is written. Dropping the writer cancels the stream.
#[derive(Debug)]
pub struct StreamWriter {
    streams: Arc<OutgoingStreams>,
    conversation: ConversationId,
    answers: OutgoingMessageIds,
    orders: mpsc::UnboundedSender<StreamWriterCommand>,
    waiting: Arc<AtomicUsize>,
    over: CancellationToken,
}

#[derive(Debug)]
enum StreamWriterCommand {
    Append(String),
    /// Ends the stream and names the message that has the whole text.
    Finish(ClientMessageId, oneshot::Sender<()>),
}

/// Streams of this peer: messages that recipients read while they are written.
pub struct OutgoingStreams {
    pub(super) context: Arc<PeerContext>,
    pub(super) keys: Arc<SealKeyService>,
    pub(super) outbox: Arc<SealedMessageOutbox>,
    /// Open streams of this peer.
    pub(super) writing: Mutex<HashMap<StreamId, CancellationToken>>,
}

opaque_debug!(OutgoingStreams);

impl OutgoingStreams {
    /// Starts a streamed message; `None` if streams are not possible, and the message must be sent when complete.
    ///
    /// # Errors
    /// The stream cannot be sealed, or the relay refuses streams in that conversation.
    pub async fn begin(self: &Arc<Self>, conversation: &ConversationId) -> Result<Option<StreamWriter>, SendError> {
        let answers = OutgoingMessageIds { client_id: self.context.new_client_id()?, in_reply_to: None };
        self.begin_as(answers, conversation).await
    }

    /// Starts a streamed reply; if a message is handled again, still only one reply is sent.
    pub async fn begin_reply(self: &Arc<Self>, to: &InboundMessage) -> Result<Option<StreamWriter>, SendError> {
        self.begin_as(OutgoingMessageIds::to(to)?, &to.conversation).await
    }

    async fn begin_as(
        self: &Arc<Self>,
        answers: OutgoingMessageIds,
        id: &ConversationId,
    ) -> Result<Option<StreamWriter>, SendError> {
        if !self.context.relay.streams() || matches!(self.context.me(), RelayParty::Person(_)) {
            return Ok(None);
        }
        let conversation = self.context.conversation(id).await?;
        if conversation.kind != ConversationType::H2a {
            return Ok(None);
        }
        let stream = StreamId::parse(&timed_name(&*self.context.entropy, "s_", self.context.now()));
        let stream = stream.map_err(|why| SendError::Fault(why.to_string()))?;
        let new = NewSealedStream { conversation: id.clone(), stream: stream.clone(), created_at: self.context.now() };
        let begun = self
            .keys
            .seal_for(&conversation, move |seal_identity, to| StreamSealer::begin(seal_identity, new.clone(), to));
        let (envelope, sealer) = begun.await?;
        if envelope.len() > MAX_STREAM_START {
            tracing::debug!(conversation = %id, "a person has too many devices to stream to");
            return Ok(None);
        }
        let start = StreamStart {
            conversation_id: id.clone(),
            stream_id: stream.clone(),
            encrypted_payload: SealedBytes(envelope.into()),
        };
        let over = CancellationToken::new();
        lock(&self.writing).insert(stream.clone(), over.clone());
        let (orders, taken) = mpsc::unbounded_channel();
        let waiting = Arc::<AtomicUsize>::default();
        let pen = StreamWritingTask {
            streams: Arc::clone(self),
            stream,
            sealer,
            text: String::new(),
            waiting: Arc::clone(&waiting),
            over: over.clone(),
        };
        let taken_on = self.context.relay.stream(StreamFrame::Start(start)).await;
        taken_on.inspect_err(|_| self.cancel(&pen.stream))?;
        tokio::spawn(pen.write(taken));
        Ok(Some(StreamWriter { streams: Arc::clone(self), conversation: id.clone(), answers, orders, waiting, over }))
    }

    /// Cancels a stream that the relay ended or refused.
    pub(super) fn cancel(&self, stream: &StreamId) {
        if let Some(over) = lock(&self.writing).remove(stream) {
            over.cancel();
        }
    }

    /// Cancels all streams after the connection closed.
    pub(super) fn cancel_all(&self) {
        lock(&self.writing).drain().for_each(|(_, over)| over.cancel());
    }
}

impl StreamWriter {
    /// Appends text to the stream, which is sent within 50 milliseconds; delivery is not confirmed. If too much text
    /// waits, the stream is cancelled.
    pub fn push(&self, text: &str) {
        if text.is_empty() || self.is_over() {
            return;
        }
        if self.waiting.fetch_add(text.len(), Ordering::Relaxed) > MAX_WAITING_BYTES {
            // The relay is too slow, so the stream is cancelled; the final message is still sent.
            self.over.cancel();
            return;
        }
        let _ = self.orders.send(StreamWriterCommand::Append(text.to_owned()));
    }

    /// Whether the stream ended or was cancelled; [`Self::finish`] sends the final message anyway.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Sends the complete message like any other: it is stored before the stream ends, and retried until the relay
    /// accepts it, also by the next process.
    ///
    /// # Errors
    /// The relay refused the message. The stream is then cancelled, unless its end was sent already.
    pub async fn finish(self, content_type: ContentType, payload: Value) -> Result<(), SendError> {
        let Self { streams, conversation, answers, orders, .. } = self;
        let message = answers.client_id.clone();
        let send_permit = streams.outbox.send_permit(&conversation).await?;
        let outgoing = streams.outbox.prepare(&send_permit, answers, content_type, None, payload).await?;
        let (said, ended) = oneshot::channel();
        let _ = orders.send(StreamWriterCommand::Finish(message, said));
        // The final message must not wait long for the end of the stream, because later messages wait for it.
        tokio::select! {
            _ = ended => {}
            () = streams.context.clock.sleep_until(streams.context.now().after(LAST_PIECE_TIMEOUT)) => {}
        }
        streams.outbox.send_answer(&send_permit, &outgoing).await
    }
}

struct StreamWritingTask {
    streams: Arc<OutgoingStreams>,
    stream: StreamId,
    sealer: StreamSealer,
    text: String,
    waiting: Arc<AtomicUsize>,
    over: CancellationToken,
}

/// Error: the writer was dropped, or the relay accepts no more frames of the stream.
struct StreamStoppedError;

impl StreamWritingTask {
    async fn write(mut self, orders: mpsc::UnboundedReceiver<StreamWriterCommand>) {
        let over = self.over.clone();
        let done = tokio::select! {
            () = over.cancelled() => Err(StreamStoppedError),
            done = self.take(orders) => done,
        };
        over.cancel();
        // A stream that the relay ended needs no abort frame.
        let open = lock(&self.streams.writing).remove(&self.stream).is_some();
        if done.is_err() && open {
            let _ = self.send(StreamFrame::Abort(StreamAbort { stream_id: self.stream.clone() })).await;
        }
    }

    async fn take(
        &mut self,
        mut orders: mpsc::UnboundedReceiver<StreamWriterCommand>,
    ) -> Result<(), StreamStoppedError> {
        let clock: Arc<dyn Clock> = Arc::clone(&self.streams.context.clock);
        let mut free = clock.now();
        loop {
            let order = tokio::select! {
                // Text that is already queued is sent as one piece.
                biased;
                order = orders.recv() => order,
                () = clock.sleep_until(free), if !self.text.is_empty() => {
                    self.send_piece().await?;
                    free = clock.now().after(PIECE_INTERVAL);
                    continue;
                }
            };
            match order {
                Some(StreamWriterCommand::Append(more)) => self.text.push_str(&more),
                Some(StreamWriterCommand::Finish(message, said)) => {
                    self.send_piece().await?;
                    self.end(message).await?;
                    let _ = said.send(());
                    return Ok(());
                }
                None => return Err(StreamStoppedError),
            }
        }
    }

    async fn send_piece(&mut self) -> Result<(), StreamStoppedError> {
        let text = std::mem::take(&mut self.text);
        self.waiting.fetch_sub(text.len(), Ordering::Relaxed);
        let mut left = text.as_str();
        while !left.is_empty() {
            let (piece, rest) = left.split_at(left.floor_char_boundary(MAX_PIECE_BYTES));
            left = rest;
            let SealedStreamPiece { seq, sealed } = self.sealer.piece(piece).map_err(|_| StreamStoppedError)?;
            let (stream_id, encrypted_payload) = (self.stream.clone(), SealedBytes(sealed.into()));
            self.send(StreamFrame::Delta(StreamDelta { stream_id, stream_seq: seq, encrypted_payload })).await?;
        }
        Ok(())
    }

    async fn end(&mut self, message: ClientMessageId) -> Result<(), StreamStoppedError> {
        let SealedStreamPiece { seq, sealed } = self.sealer.end(&message).map_err(|_| StreamStoppedError)?;
        let (stream_id, encrypted_payload) = (self.stream.clone(), SealedBytes(sealed.into()));
        let done = StreamDone { stream_id, stream_seq: seq, client_message_id: message, encrypted_payload };
        self.send(StreamFrame::Done(done)).await
    }

    async fn send(&self, frame: StreamFrame) -> Result<(), StreamStoppedError> {
        let relay: &dyn RelayClient = &*self.streams.context.relay;
        relay.stream(frame).await.map_err(|why| {
            tracing::debug!(stream = %self.stream, %why, "cannot send a stream frame; the stream ends");
            StreamStoppedError
        })
    }
}

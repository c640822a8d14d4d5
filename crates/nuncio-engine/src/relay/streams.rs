//! Streams: an answer sent while it is written, to those who subscribed before it began. Nothing is stored: a slow or
//! late reader gets the final message instead.
//!
//! Architecture Invariant: streams stay within one process. Anything that must arrive is a message.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::conversation::{ConversationType, StreamId};
use nuncio_core::ids::{AgentId, ClientMessageId, ConversationId, PersonName};
use nuncio_core::notification::RelayParty;
use nuncio_core::rate::{Rate, RateUsage};
use nuncio_core::time::Timestamp;
use nuncio_core::{ErrorCode, string_enum};

use super::conversations::{agent, member, person, relation_required};
use crate::access::Caller;
use crate::consent_error::ConsentError;
use crate::relay::RelayService;

mod subscribers;

pub use subscribers::StreamSubscriber;
pub(crate) use subscribers::StreamSubscribers;
use subscribers::WeakSubscriber;

/// Maximum size of the encrypted message that begins a stream, in bytes: it fits one frame.
pub const MAX_STREAM_START: usize = 11 * 1024;
/// Maximum size of an encrypted piece, in bytes.
pub const MAX_STREAM_PIECE: usize = 4096 + 16;

/// Maximum open streams per connection.
const MAX_OPEN_STREAMS: usize = 256;
/// Maximum open streams per conversation.
const OPEN_THERE: usize = 4;
/// Longest time from the start to the end of a stream.
const MAX_STREAM_DURATION: Duration = Duration::from_secs(300);
/// Maximum pause between two pieces of a stream.
const MAX_PIECE_PAUSE: Duration = Duration::from_secs(30);
/// Rate of pieces per stream: 30 a second.
const PIECE_RATE: Rate = Rate { each: Duration::from_millis(33), burst: 60 };
/// Rate of pieces per connection: 1000 a second.
const ALL_PIECES: Rate = Rate { each: Duration::from_millis(1), burst: 1000 };
/// Interval of the check that the relation still exists.
const LOOKED_UP: Duration = Duration::from_secs(10);

/// An update of a stream for its subscribers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamUpdate {
    pub conversation: ConversationId,
    pub stream: StreamId,
    pub what: StreamUpdateKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamUpdateKind {
    Started {
        sender: RelayParty,
        at: Timestamp,
        /// Encrypted message that contains the key of the stream.
        envelope: Arc<[u8]>,
    },
    Piece(StreamPiece),
    Done {
        /// Last piece, whose encrypted content marks the end.
        last: StreamPiece,
        /// Client id of the final message that replaces the stream.
        message: ClientMessageId,
    },
    /// The stream was aborted; readers discard the pieces they received.
    Aborted(StreamAbortReason),
}

/// An encrypted piece of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamPiece {
    /// Number of the piece, from one without gaps.
    pub seq: u64,
    pub sealed: Arc<[u8]>,
}

string_enum! {
    /// Why a stream was aborted.
    pub enum StreamAbortReason {
        Sender = "sender",
        /// The connection of the stream's sender closed.
        Gone = "gone",
        Silent = "silent",
        TooLong = "too_long",
        TooFast = "too_fast",
        Refused = "refused",
        Slow = "slow",
    }
}

/// Sender of streams, per connection or in process. Its open streams end when it is dropped.
pub struct StreamSender {
    relay: Arc<RelayService>,
    by: Caller,
    agent: AgentId,
    open: HashMap<StreamId, OpenStreamState>,
    used: Option<RateUsage>,
}

impl fmt::Debug for StreamSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamSender").field("agent", &self.agent).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct OpenStreamState {
    conversation: ConversationId,
    person: PersonName,
    /// Subscribers since the start of the stream, without those that left or were too slow.
    subscribers: Vec<WeakSubscriber>,
    /// Number of the last accepted piece of the stream.
    seq: u64,
    used: Option<RateUsage>,
    began: Timestamp,
    last_piece_at: Timestamp,
    looked_up: Timestamp,
}

impl RelayService {
    /// Creates a stream sender for an agent; people cannot stream.
    pub fn streamer(self: &Arc<Self>, by: Caller) -> Result<StreamSender, ConsentError> {
        let sender = member(&by)?;
        let agent = agent(&sender).cloned().ok_or_else(|| {
            ConsentError::new(ErrorCode::PermissionDenied, "only agents can open streams; people send messages")
        })?;
        Ok(StreamSender { relay: Arc::clone(self), by, agent, open: HashMap::new(), used: None })
    }

    /// Subscribes to streams of a person's conversations that begin from now on.
    #[must_use]
    pub fn listen_to_streams(&self, reader: &RelayParty) -> StreamSubscriber {
        self.streams.listen(reader)
    }
}

impl StreamSender {
    /// Begins a stream and notifies the person's current subscribers.
    pub async fn start(
        &mut self,
        id: &ConversationId,
        stream: StreamId,
        envelope: Arc<[u8]>,
    ) -> Result<(), ConsentError> {
        sized(&envelope, MAX_STREAM_START)?;
        self.expire();
        if self.open.contains_key(&stream) {
            return Err(ConsentError::new(ErrorCode::MessageClash, format!("the stream {stream} is already open")));
        }
        if self.open.len() >= MAX_OPEN_STREAMS {
            return Err(ConsentError::limit("streams open on this connection", MAX_OPEN_STREAMS));
        }
        if self.open.values().filter(|open| open.conversation == *id).count() >= OPEN_THERE {
            return Err(ConsentError::limit("streams open in this conversation", OPEN_THERE));
        }
        let conversation = self.relay.conversation_for(&self.by, id).await?.conversation;
        let person = conversation.members.iter().find_map(person).cloned();
        let (ConversationType::H2a, Some(person)) = (conversation.kind, person) else {
            let message = "streams are only for conversations of one person and one agent; send a message";
            return Err(ConsentError::new(ErrorCode::BadRequest, message));
        };
        self.still_deals(&person).await?;
        let now = self.relay.context.now();
        let mut open = OpenStreamState {
            conversation: conversation.id.clone(),
            subscribers: self.relay.streams.subscribers(&RelayParty::Person(person.clone())),
            person,
            seq: 0,
            used: None,
            began: now,
            last_piece_at: now,
            looked_up: now,
        };
        open.send(
            &stream,
            StreamUpdateKind::Started { sender: RelayParty::Agent(self.agent.clone()), at: now, envelope },
        );
        self.open.insert(stream, open);
        Ok(())
    }

    /// Sends a piece of a stream. Fails if the stream is not open or the piece is refused, which also ends the stream.
    pub async fn piece(&mut self, stream: &StreamId, piece: StreamPiece) -> Result<(), ConsentError> {
        self.check(stream, &piece).await?;
        if let Some(open) = self.open.get_mut(stream) {
            open.send(stream, StreamUpdateKind::Piece(piece));
        }
        Ok(())
    }

    /// Ends a stream and names its final message.
    pub async fn done(
        &mut self,
        stream: &StreamId,
        last: StreamPiece,
        message: ClientMessageId,
    ) -> Result<(), ConsentError> {
        self.check(stream, &last).await?;
        if let Some(mut open) = self.open.remove(stream) {
            open.send(stream, StreamUpdateKind::Done { last, message });
        }
        Ok(())
    }

    pub fn abort(&mut self, stream: &StreamId) -> Result<(), ConsentError> {
        if !self.open.contains_key(stream) {
            return Err(unknown(stream));
        }
        self.end(stream, StreamAbortReason::Sender);
        Ok(())
    }

    /// Time at which the next of the open streams times out.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        self.open.values().map(OpenStreamState::due).min()
    }

    /// Time at which the given stream times out.
    #[must_use]
    pub fn due_of(&self, stream: &StreamId) -> Option<Timestamp> {
        self.open.get(stream).map(OpenStreamState::due)
    }

    /// Aborts the streams that timed out and returns them.
    pub fn expire(&mut self) -> Vec<(StreamId, StreamAbortReason)> {
        let now = self.relay.context.now();
        let over = self.open.iter().filter(|(_, open)| open.due() <= now);
        let over: Vec<_> = over.map(|(stream, open)| (stream.clone(), open.over_by())).collect();
        over.iter().for_each(|(stream, why)| self.end(stream, *why));
        over
    }

    /// Validates a piece; a refused piece ends its stream.
    async fn check(&mut self, stream: &StreamId, piece: &StreamPiece) -> Result<(), ConsentError> {
        self.expire();
        let now = self.relay.context.now();
        let open = self.open.get_mut(stream).ok_or_else(|| unknown(stream))?;
        let looked_up_at = open.looked_up.after(LOOKED_UP);
        let (person, mut fits) = (open.person.clone(), open.take(piece, now));
        if fits.is_ok() {
            fits = ALL_PIECES.take(self.used, now).map(|used| self.used = Some(used)).map_err(too_fast);
        }
        if fits.is_ok() && looked_up_at <= now {
            fits = self.still_deals(&person).await;
            if let Some(open) = self.open.get_mut(stream) {
                open.looked_up = now;
            }
        }
        fits.inspect_err(|why| {
            let end = if why.code == ErrorCode::RateLimited {
                StreamAbortReason::TooFast
            } else {
                StreamAbortReason::Refused
            };
            self.end(stream, end);
        })
    }

    async fn still_deals(&self, person: &PersonName) -> Result<(), ConsentError> {
        match self.relay.relation_store.relation_between(person, &self.agent).await? {
            Some(_) => Ok(()),
            None => Err(relation_required(&self.agent)),
        }
    }

    fn end(&mut self, stream: &StreamId, why: StreamAbortReason) {
        if let Some(mut open) = self.open.remove(stream) {
            open.send(stream, StreamUpdateKind::Aborted(why));
        }
    }
}

impl Drop for StreamSender {
    fn drop(&mut self) {
        for (stream, mut open) in self.open.drain() {
            open.send(&stream, StreamUpdateKind::Aborted(StreamAbortReason::Gone));
        }
    }
}

impl OpenStreamState {
    /// Sends an update to the subscribers that keep up.
    fn send(&mut self, stream: &StreamId, what: StreamUpdateKind) {
        let update = StreamUpdate { conversation: self.conversation.clone(), stream: stream.clone(), what };
        self.subscribers.retain(|subscriber| subscriber.send(&update));
    }

    /// Accepts the next piece if its number and the rate are valid.
    fn take(&mut self, piece: &StreamPiece, now: Timestamp) -> Result<(), ConsentError> {
        sized(&piece.sealed, MAX_STREAM_PIECE)?;
        let due = self.seq.saturating_add(1);
        if piece.seq != due {
            let message =
                format!("received piece {} where {due} was expected; pieces are numbered from one", piece.seq);
            return Err(ConsentError::new(ErrorCode::BadRequest, message));
        }
        let used = PIECE_RATE.take(self.used, now).map_err(too_fast)?;
        (self.seq, self.used, self.last_piece_at) = (due, Some(used), now);
        Ok(())
    }

    fn due(&self) -> Timestamp {
        self.last_piece_at.after(MAX_PIECE_PAUSE).min(self.began.after(MAX_STREAM_DURATION))
    }

    /// Reason for ending an expired stream: too long, or silent.
    fn over_by(&self) -> StreamAbortReason {
        match self.began.after(MAX_STREAM_DURATION) <= self.last_piece_at.after(MAX_PIECE_PAUSE) {
            true => StreamAbortReason::TooLong,
            false => StreamAbortReason::Silent,
        }
    }
}

fn sized(sealed: &[u8], most: usize) -> Result<(), ConsentError> {
    match sealed.len() {
        0 => Err(ConsentError::new(ErrorCode::BadRequest, "encrypted_payload is empty")),
        length if length > most => {
            let message = format!("encrypted_payload has {length} bytes; at most {most} are allowed");
            Err(ConsentError::new(ErrorCode::BodyTooLarge, message))
        }
        _ => Ok(()),
    }
}

fn too_fast(wait: Duration) -> ConsentError {
    let message = "a stream may have at most 30 pieces a second, a connection 1000; combine several pieces into one";
    ConsentError::rate_limited(wait, |_| message.to_owned())
}

fn unknown(stream: &StreamId) -> ConsentError {
    let message = format!("no stream {stream} is open on this connection: it has ended, or was opened on another one");
    ConsentError::new(ErrorCode::StreamNotFound, message)
}

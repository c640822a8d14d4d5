//! Streams: an answer told while it is being written, to whoever listens at this moment. Nothing of it is kept and
//! nobody waits for it: whoever is slow, away or comes later has the message that follows.
//!
//! Architecture Invariant: streams flow within one process. What must arrive is a message.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::Code;
use nuncio_core::conversation::{ConversationType, StreamId};
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{AgentId, ClientMessageId, ConversationId, PersonName};
use nuncio_core::rate::{Rate, RateUsage};
use nuncio_core::time::Timestamp;

use super::conversations::{agent, member, person, relation_required};
use crate::Engine;
use crate::access::Caller;
use crate::consent::{ConsentError, Details};

mod ears;

pub use ears::StreamEar;
pub(crate) use ears::Streams;
use ears::WeakEar;

/// The largest sealed letter that begins a stream, in bytes: it fits into one frame.
pub const MAX_STREAM_START: usize = 11 * 1024;
/// The largest sealed piece, in bytes.
pub const MAX_STREAM_PIECE: usize = 4096 + 16;

/// How many streams one connection may have open.
const OPEN: usize = 256;
/// How many of them in one conversation.
const OPEN_THERE: usize = 4;
/// How long a stream may last.
const LONGEST: Duration = Duration::from_secs(300);
/// How long it may say nothing.
const SILENCE: Duration = Duration::from_secs(30);
/// How many pieces of one stream there may be: 30 a second, and a few at once.
const PIECES: Rate = Rate { each: Duration::from_millis(33), burst: 60 };
/// How many of all streams of one connection: a thousand a second.
const ALL_PIECES: Rate = Rate { each: Duration::from_millis(1), burst: 1000 };
/// How often it is looked up whether the two still deal with each other.
const LOOKED_UP: Duration = Duration::from_secs(10);

/// Something told of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamTold {
    /// Where.
    pub conversation: ConversationId,
    /// Which.
    pub stream: StreamId,
    /// What.
    pub what: StreamWhat,
}

/// What is told of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamWhat {
    /// It began.
    Started {
        /// Who streams.
        sender: Recipient,
        /// When it began.
        at: Timestamp,
        /// The sealed letter with its key.
        envelope: Arc<[u8]>,
    },
    /// A piece came.
    Piece(StreamPiece),
    /// It is done.
    Done {
        /// Its last piece, which says so under seal.
        last: StreamPiece,
        /// The message that says all of it.
        message: ClientMessageId,
    },
    /// It was given up: what was shown of it counts for nothing.
    Aborted(StreamEnd),
}

/// A sealed piece of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamPiece {
    /// Its place, from one, without gaps.
    pub seq: u64,
    /// Its bytes.
    pub sealed: Arc<[u8]>,
}

/// Why a stream was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// Its sender gave it up.
    Sender,
    /// The connection it came by ended.
    Gone,
    /// Nothing was said for too long.
    Silent,
    /// It lasted too long.
    TooLong,
    /// Too much came at once.
    TooFast,
    /// A piece of it was refused.
    Refused,
    /// This reader is too slow for it.
    Slow,
}

impl StreamEnd {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Gone => "gone",
            Self::Silent => "silent",
            Self::TooLong => "too_long",
            Self::TooFast => "too_fast",
            Self::Refused => "refused",
            Self::Slow => "slow",
        }
    }
}

/// One who streams, over one connection or from this very process. What it has open ends with it.
#[derive(Debug)]
pub struct Streamer {
    engine: Engine,
    by: Caller,
    agent: AgentId,
    open: HashMap<StreamId, Open>,
    used: Option<RateUsage>,
}

/// A stream that is open.
#[derive(Debug)]
struct Open {
    conversation: ConversationId,
    person: PersonName,
    /// Those who listened when it began.
    ears: Vec<WeakEar>,
    /// The place of its last piece.
    seq: u64,
    used: Option<RateUsage>,
    began: Timestamp,
    heard: Timestamp,
    looked_up: Timestamp,
}

impl Engine {
    /// Somebody who streams; agents alone do.
    ///
    /// # Errors
    /// The caller is no agent.
    pub fn streamer(&self, by: Caller) -> Result<Streamer, ConsentError> {
        let sender = member(&by)?;
        let agent = agent(&sender).cloned().ok_or_else(|| {
            ConsentError::new(Code::PermissionDenied, "agents stream their answers; people send messages")
        })?;
        Ok(Streamer { engine: self.clone(), by, agent, open: HashMap::new(), used: None })
    }

    /// Listens to the streams of a person's conversations that begin from now on.
    #[must_use]
    pub fn listen_to_streams(&self, reader: &Recipient) -> StreamEar {
        self.streams().listen(reader)
    }
}

impl Streamer {
    /// Begins a stream: everyone who takes part and listens now is told.
    ///
    /// # Errors
    /// The caller takes part in no such conversation, it is no conversation of two, the person does not deal with the
    /// agent, or there are too many.
    pub async fn start(
        &mut self,
        id: &ConversationId,
        stream: StreamId,
        envelope: Arc<[u8]>,
    ) -> Result<(), ConsentError> {
        sized(&envelope, MAX_STREAM_START)?;
        self.expire();
        if self.open.contains_key(&stream) {
            return Err(ConsentError::new(Code::MessageClash, format!("{stream} names a stream that is open already")));
        }
        if self.open.len() >= OPEN {
            return Err(ConsentError::limit("streams open on this connection", OPEN));
        }
        if self.open.values().filter(|open| open.conversation == *id).count() >= OPEN_THERE {
            return Err(ConsentError::limit("streams open in this conversation", OPEN_THERE));
        }
        let conversation = self.engine.held_conversation(&self.by, id).await?.conversation;
        let reader = conversation.members.iter().find(|one| person(one).is_some());
        let (ConversationType::H2a, Some(reader)) = (conversation.kind, reader) else {
            let message = "streams are for a person and an agent alone; send a message";
            return Err(ConsentError::new(Code::BadRequest, message));
        };
        let Some(person) = person(reader).cloned() else { return Err(relation_required(&self.agent)) };
        self.still_deals(&person).await?;
        let now = self.engine.now();
        let mut open = Open {
            conversation: conversation.id.clone(),
            person,
            ears: self.engine.streams().ears(reader),
            seq: 0,
            used: None,
            began: now,
            heard: now,
            looked_up: now,
        };
        open.tell(&stream, StreamWhat::Started { sender: Recipient::Agent(self.agent.clone()), at: now, envelope });
        self.open.insert(stream, open);
        Ok(())
    }

    /// Tells a piece of it.
    ///
    /// # Errors
    /// There is no such stream, or the piece cannot be told; then the stream is over.
    pub async fn piece(&mut self, stream: &StreamId, piece: StreamPiece) -> Result<(), ConsentError> {
        self.check(stream, &piece).await?;
        if let Some(open) = self.open.get_mut(stream) {
            open.tell(stream, StreamWhat::Piece(piece));
        }
        Ok(())
    }

    /// Ends it, and names the message that says all of it.
    ///
    /// # Errors
    /// As [`Streamer::piece`].
    pub async fn done(
        &mut self,
        stream: &StreamId,
        last: StreamPiece,
        message: ClientMessageId,
    ) -> Result<(), ConsentError> {
        self.check(stream, &last).await?;
        if let Some(mut open) = self.open.remove(stream) {
            open.tell(stream, StreamWhat::Done { last, message });
        }
        Ok(())
    }

    /// Gives it up.
    ///
    /// # Errors
    /// There is no such stream.
    pub fn abort(&mut self, stream: &StreamId) -> Result<(), ConsentError> {
        if !self.open.contains_key(stream) {
            return Err(unknown(stream));
        }
        self.end(stream, StreamEnd::Sender);
        Ok(())
    }

    /// When a stream will be over by itself, unless something is said; none while nothing is open.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        self.open.values().map(Open::due).min()
    }

    /// The same for one stream; none when it is over.
    #[must_use]
    pub fn due_of(&self, stream: &StreamId) -> Option<Timestamp> {
        self.open.get(stream).map(Open::due)
    }

    /// Ends what has lasted or been silent for too long; says what.
    pub fn expire(&mut self) -> Vec<(StreamId, StreamEnd)> {
        let now = self.engine.now();
        let over = self.open.iter().filter(|(_, open)| open.due() <= now);
        let over: Vec<_> = over.map(|(stream, open)| (stream.clone(), open.over_by())).collect();
        over.iter().for_each(|(stream, why)| self.end(stream, *why));
        over
    }

    /// Whether that piece may be told; what may not ends its stream.
    async fn check(&mut self, stream: &StreamId, piece: &StreamPiece) -> Result<(), ConsentError> {
        self.expire();
        let now = self.engine.now();
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
            let end = if why.code == Code::RateLimited { StreamEnd::TooFast } else { StreamEnd::Refused };
            self.end(stream, end);
        })
    }

    async fn still_deals(&self, person: &PersonName) -> Result<(), ConsentError> {
        match self.engine.store().relation_between(person, &self.agent).await? {
            Some(_) => Ok(()),
            None => Err(relation_required(&self.agent)),
        }
    }

    fn end(&mut self, stream: &StreamId, why: StreamEnd) {
        if let Some(mut open) = self.open.remove(stream) {
            open.tell(stream, StreamWhat::Aborted(why));
        }
    }
}

impl Drop for Streamer {
    fn drop(&mut self) {
        for (stream, mut open) in self.open.drain() {
            open.tell(&stream, StreamWhat::Aborted(StreamEnd::Gone));
        }
    }
}

impl Open {
    /// Tells everyone who still listens and keeps up.
    fn tell(&mut self, stream: &StreamId, what: StreamWhat) {
        let told = StreamTold { conversation: self.conversation.clone(), stream: stream.clone(), what };
        self.ears.retain(|ear| ear.tell(&told));
    }

    /// Counts a piece that comes in its place and not too soon.
    fn take(&mut self, piece: &StreamPiece, now: Timestamp) -> Result<(), ConsentError> {
        sized(&piece.sealed, MAX_STREAM_PIECE)?;
        let due = self.seq.saturating_add(1);
        if piece.seq != due {
            let message = format!("piece {} came where {due} is due; pieces are numbered from one", piece.seq);
            return Err(ConsentError::new(Code::BadRequest, message));
        }
        let used = PIECES.take(self.used, now).map_err(too_fast)?;
        (self.seq, self.used, self.heard) = (due, Some(used), now);
        Ok(())
    }

    fn due(&self) -> Timestamp {
        self.heard.after(SILENCE).min(self.began.after(LONGEST))
    }

    /// Why it is over when its time is.
    fn over_by(&self) -> StreamEnd {
        match self.began.after(LONGEST) <= self.heard.after(SILENCE) {
            true => StreamEnd::TooLong,
            false => StreamEnd::Silent,
        }
    }
}

fn sized(sealed: &[u8], most: usize) -> Result<(), ConsentError> {
    match sealed.len() {
        0 => Err(ConsentError::new(Code::BadRequest, "encrypted_payload is empty")),
        length if length > most => {
            let message = format!("encrypted_payload has {length} bytes; {most} are the most here");
            Err(ConsentError::new(Code::BodyTooLarge, message))
        }
        _ => Ok(()),
    }
}

fn too_fast(wait: Duration) -> ConsentError {
    let seconds = wait.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX);
    let message = "a stream has at most 30 pieces a second, a connection 1000; put several together";
    ConsentError::with(Code::RateLimited, message, Details::RetryAfter(seconds))
}

fn unknown(stream: &StreamId) -> ConsentError {
    let message = format!("no stream {stream} is open on this connection: it ended, or never began here");
    ConsentError::new(Code::StreamNotFound, message)
}

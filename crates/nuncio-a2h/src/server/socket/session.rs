//! An authenticated connection: events out, acknowledgements in, and timers.

use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use nuncio_core::Code;
use nuncio_core::happening::{Notification, QueuedNotification, Recipient};
use nuncio_core::time::Timestamp;
use nuncio_engine::EngineError;

use super::A2h;
use super::entry::{AuthenticatedConnection, invalid, who};
use super::replay::{self, Replay, ReplayPart};
use super::socket_connection::{CloseReason, IncomingFrame, SocketConnection};
use super::socket_slots::SocketOwner;
use super::streams::{StreamRole, news};
use crate::error::A2hError;
use crate::server::identify;
use crate::wire::event::Event;
use crate::wire::frame::{ClientFrame, Refusal, ServerFrame, close};
use crate::wire::stream::{StreamFrame, StreamNews};

/// Interval between pings to a client.
const PING: Duration = Duration::from_secs(30);
/// Time without a pong after which the connection is closed.
const SILENCE: Duration = Duration::from_secs(90);
/// How long before the expiry of its token a client is warned.
const WARNING: Duration = Duration::from_secs(60);
/// Limit of incoming frames between two pings.
const MAX_FRAMES: u32 = 300;
/// Number of events per read from the store.
const BATCH: usize = 100;
/// Reader name under which an agent's read position is stored.
pub(in crate::server) const AGENT: &str = "agent";

pub(super) struct SocketSession<'a> {
    a2h: &'a A2h,
    recipient: Recipient,
    owner: SocketOwner,
    token: Box<str>,
    expires_at: Option<Timestamp>,
    /// Whether the client was warned that its token expires.
    warned: bool,
    /// Number of the last event sent on this connection.
    sent: u64,
    /// Replay that the client requested; other events wait until it is complete.
    replay: Replay,
    /// Number of the last acknowledged event.
    read: u64,
    last_frame_at: Timestamp,
    /// Number of pings without a pong.
    unanswered: u32,
    next_ping: Timestamp,
    frames: u32,
    streaming: StreamRole,
}

type Mail<'a> = BoxFuture<'a, Result<EventBatch, EngineError>>;

enum EventBatch {
    /// Events; empty when the server stops.
    Mail(Vec<QueuedNotification>),
    /// Part of a requested replay.
    Replay(ReplayPart),
}

impl<'a> SocketSession<'a> {
    pub(super) async fn run(
        a2h: &'a A2h,
        admitted: AuthenticatedConnection,
        line: &mut SocketConnection,
    ) -> CloseReason {
        let seat = a2h.sockets.seats.take(admitted.owner.clone());
        let begun = Self::begin(a2h, admitted, line).await;
        let mut session = match begun {
            Ok(session) => session,
            Err(end) => return end,
        };
        let mut mail = session.mail();
        let mut timer = line.until(session.next_moment());
        loop {
            let step = tokio::select! {
                // Incoming frames come before timers; their number is limited per interval.
                biased;
                incoming = line.next() => match incoming {
                    // Boxed, so that an idle connection does not reserve memory for it.
                    Ok(incoming) => match Box::pin(session.hear(incoming, line)).await {
                        Ok(PositionChange::Unchanged) => Ok(()),
                        Ok(PositionChange::Changed) => {
                            mail = session.mail();
                            Ok(())
                        }
                        Err(end) => Err(end),
                    },
                    Err(end) => Err(end),
                },
                found = &mut mail => {
                    let told = Box::pin(session.tell(found, line)).await;
                    mail = session.mail();
                    told
                }
                () = &mut timer => session.tick(line).await,
                () = seat.taken_over() => session.still_holds(line).await.and_then(|()| {
                    Err(CloseReason::closed(close::REPLACED, "a newer connection of this device or agent took over"))
                }),
                // Last, because transient stream events must not delay stored ones.
                told = session.streaming.next() => line.say(&news(told)).await,
            };
            if let Err(end) = step {
                return end;
            }
            timer = line.until(session.next_moment());
        }
    }

    async fn begin(
        a2h: &'a A2h,
        admitted: AuthenticatedConnection,
        line: &mut SocketConnection,
    ) -> Result<Self, CloseReason> {
        let AuthenticatedConnection { recipient, owner, token, expires_at, after } = admitted;
        let now = line.now();
        let mut session = Self {
            a2h,
            streaming: StreamRole::of(&a2h.engine, &recipient),
            recipient,
            owner,
            token,
            expires_at,
            warned: false,
            sent: 0,
            replay: Replay::default(),
            read: 0,
            last_frame_at: now,
            unanswered: 0,
            next_ping: now.after(PING),
            frames: 0,
        };
        session.read =
            session.a2h.engine.mailbox().mail_read(&session.recipient, session.reader()).await.map_err(fault)?;
        let last_seq = session.head().await?;
        session.sent = after.unwrap_or(session.read).min(last_seq);
        line.say(&session.known(last_seq)).await?;
        Ok(session)
    }

    fn known(&self, last_seq: u64) -> ServerFrame {
        let streams = matches!(self.streaming, StreamRole::Sends(_));
        ServerFrame::AuthOk { expires_at: self.expires_at, after: self.sent, last_seq, streams }
    }

    /// Next events after the last sent one, or the next part of a replay.
    fn mail(&self) -> Mail<'a> {
        let (a2h, recipient, after) = (self.a2h, self.recipient.clone(), self.sent);
        match self.replay.first() {
            Some(place) => async move {
                let next = replay::read(a2h, recipient, place).await;
                next.map(EventBatch::Replay).map_err(|why| EngineError::new(why.code, why.message))
            }
            .boxed(),
            None => async move { a2h.engine.mailbox().next_mail(&recipient, after, BATCH).await.map(EventBatch::Mail) }
                .boxed(),
        }
    }

    fn reader(&self) -> &str {
        match &self.owner {
            SocketOwner::Device(id) => id.as_str(),
            SocketOwner::Agent(_) => AGENT,
        }
    }

    async fn head(&self) -> Result<u64, CloseReason> {
        self.a2h.engine.mailbox().mail_head(&self.recipient).await.map_err(fault)
    }

    /// Time at which the connection's next timer is due.
    fn next_moment(&self) -> Timestamp {
        let next = self.streaming.due().map_or(self.next_ping, |due| due.min(self.next_ping));
        let Some(end) = self.expires_at else { return next };
        let warning = if self.warned { end } else { before(end, WARNING) };
        next.min(warning)
    }

    async fn tell(
        &mut self,
        found: Result<EventBatch, EngineError>,
        line: &mut SocketConnection,
    ) -> Result<(), CloseReason> {
        let found = found.map_err(fault)?;
        self.streaming.tell_waiting(line).await?;
        match found {
            EventBatch::Mail(mail) if mail.is_empty() => Err(CloseReason::STOPPING),
            EventBatch::Mail(mail) => self.tell_mail(mail, line).await,
            EventBatch::Replay(next) => self.tell_again(next, line).await,
        }
    }

    async fn tell_mail(
        &mut self,
        mail: Vec<QueuedNotification>,
        line: &mut SocketConnection,
    ) -> Result<(), CloseReason> {
        for mailed in mail {
            if matches!(mailed.happening, Notification::DevicesChanged { .. }) {
                self.still_holds(line).await?;
            }
            let seq = mailed.seq;
            if let Some(event) = self.a2h.event(&self.recipient, mailed).await.map_err(fault)? {
                line.say(&event).await?;
                self.a2h.sockets.watch.events_sent(1);
            }
            self.sent = seq;
        }
        Ok(())
    }

    async fn tell_again(&mut self, next: ReplayPart, line: &mut SocketConnection) -> Result<(), CloseReason> {
        let more = match next {
            ReplayPart::Messages(messages, more) => {
                for posted in messages {
                    self.replay.sent_up_to(posted.seq);
                    if let Some(event) = Event::again(&self.recipient, posted) {
                        line.say(&event).await?;
                        self.a2h.sockets.watch.events_sent(1);
                    }
                }
                more
            }
            ReplayPart::NotMember(why) => {
                line.say(&ServerFrame::error(why.code, why.message)).await?;
                false
            }
        };
        if !more {
            self.replay.drop_first();
        }
        if self.replay.is_over() { self.resumed(line).await } else { Ok(()) }
    }

    async fn resumed(&self, line: &mut SocketConnection) -> Result<(), CloseReason> {
        let last_seq = self.head().await?;
        line.say(&ServerFrame::ResumeOk { after: self.sent, last_seq }).await
    }

    async fn tick(&mut self, line: &mut SocketConnection) -> Result<(), CloseReason> {
        let now = line.now();
        self.streaming.expire(line).await?;
        if let Some(expires_at) = self.expires_at {
            if now >= expires_at {
                let message = "the token has run out; get a new one and renew in time";
                line.say(&ServerFrame::AuthError(Refusal::new("expired", message))).await?;
                return Err(CloseReason::UNKNOWN);
            }
            if !self.warned && now >= before(expires_at, WARNING) {
                self.warned = true;
                line.say(&ServerFrame::AuthExpiring { expires_at }).await?;
            }
        }
        if now < self.next_ping {
            return Ok(());
        }
        // After the machine slept, the client gets one more ping before the connection is closed.
        if now >= self.last_frame_at.after(SILENCE) && self.unanswered >= 2 {
            return Err(CloseReason::closed(close::TIMEOUT, "nothing was heard for 90 seconds"));
        }
        self.next_ping = now.after(PING);
        self.frames = 0;
        self.unanswered += 1;
        self.still_holds(line).await?;
        line.ping().await
    }

    /// Closes the connection if its device or token was revoked, or the agent switched to webhook delivery.
    async fn still_holds(&self, line: &mut SocketConnection) -> Result<(), CloseReason> {
        let engine = &self.a2h.engine;
        let (holds, reason) = match &self.owner {
            SocketOwner::Device(id) => {
                (engine.people().valid_device(id).await.map_err(fault)?.is_some(), "device_revoked")
            }
            SocketOwner::Agent(id) if engine.webhooks().has_webhook(id) => (false, "connection_mode"),
            SocketOwner::Agent(id) => {
                let caller = engine.accounts().authenticate_agent_token(&self.token).await.map_err(fault)?;
                let same = nuncio_core::principal::Principal::Agent(id.clone());
                (caller.is_some_and(|caller| caller.principal == same), "token_revoked")
            }
        };
        if holds {
            return Ok(());
        }
        line.say(&ServerFrame::Invalidated { reason: reason.to_owned() }).await?;
        Err(CloseReason::UNKNOWN)
    }

    async fn hear(
        &mut self,
        incoming: IncomingFrame,
        line: &mut SocketConnection,
    ) -> Result<PositionChange, CloseReason> {
        self.frames += 1;
        if self.frames > MAX_FRAMES {
            return Err(CloseReason::closed(close::TOO_MANY, "too many frames"));
        }
        let frame = match incoming {
            IncomingFrame::Pong => {
                self.last_frame_at = line.now();
                self.unanswered = 0;
                return Ok(PositionChange::Unchanged);
            }
            IncomingFrame::Other => return Ok(PositionChange::Unchanged),
            IncomingFrame::Frame(frame) => frame,
        };
        match frame {
            Ok(ClientFrame::Ack { seq }) => self.acknowledged(seq, line).await,
            Ok(ClientFrame::Resume { after, conversations }) => {
                self.sent = after.unwrap_or(self.read).min(self.head().await?);
                self.replay = Replay::of(conversations);
                if self.replay.is_over() {
                    self.resumed(line).await?;
                }
                Ok(PositionChange::Changed)
            }
            Ok(ClientFrame::Renew { access_token }) => self.renewed(access_token, line).await,
            Ok(ClientFrame::StreamStart(start)) => self.streamed(StreamFrame::Start(start), line).await,
            Ok(ClientFrame::StreamDelta(delta)) => self.streamed(StreamFrame::Delta(delta), line).await,
            Ok(ClientFrame::StreamDone(done)) => self.streamed(StreamFrame::Done(done), line).await,
            Ok(ClientFrame::StreamAbort(abort)) => self.streamed(StreamFrame::Abort(abort), line).await,
            Ok(ClientFrame::Auth { .. }) => {
                let message = "who you are is known already; a new token comes in auth.renew";
                self.objected(message, line).await
            }
            Err(why) => self.objected(why, line).await,
        }
    }

    /// Handles a stream frame. Frames of an accepted stream have their own limits and do not count against the frame
    /// limit.
    async fn streamed(
        &mut self,
        frame: StreamFrame,
        line: &mut SocketConnection,
    ) -> Result<PositionChange, CloseReason> {
        let (stream, begins) = (frame.stream().clone(), matches!(frame, StreamFrame::Start(_)));
        match self.streaming.take(&self.a2h.engine, &self.recipient, frame).await {
            Ok(()) if begins => {}
            Ok(()) => self.frames -= 1,
            Err(why) => line.say(&StreamNews::error(stream, A2hError::from(why).body.error)).await?,
        }
        Ok(PositionChange::Unchanged)
    }

    async fn objected(
        &self,
        message: impl Into<String>,
        line: &mut SocketConnection,
    ) -> Result<PositionChange, CloseReason> {
        line.say(&ServerFrame::error(Code::BadRequest, message)).await?;
        Ok(PositionChange::Unchanged)
    }

    /// Stores the acknowledged position; events that were not sent cannot be acknowledged.
    async fn acknowledged(&mut self, seq: u64, line: &mut SocketConnection) -> Result<PositionChange, CloseReason> {
        if seq > self.sent {
            return self.objected(format!("event {seq} was not sent on this connection yet"), line).await;
        }
        if seq > self.read {
            self.a2h.engine.mailbox().mark_mail_read(&self.recipient, self.reader(), seq).await.map_err(fault)?;
            self.read = seq;
        }
        Ok(PositionChange::Unchanged)
    }

    async fn renewed(&mut self, token: String, line: &mut SocketConnection) -> Result<PositionChange, CloseReason> {
        let shown = identify(&self.a2h.engine, &*self.a2h.tokens, &token).await.map_err(fault)?;
        let same = shown.filter(|shown| who(shown).is_some_and(|(_, owner)| owner == self.owner));
        let Some(shown) = same else {
            line.say(&ServerFrame::AuthError(invalid())).await?;
            return Err(CloseReason::UNKNOWN);
        };
        self.token = token.into();
        self.expires_at = shown.expires_at;
        self.warned = false;
        let last_seq = self.head().await?;
        line.say(&self.known(last_seq)).await?;
        Ok(PositionChange::Unchanged)
    }
}

/// Whether the read position changed, so that pending reads are void.
enum PositionChange {
    Unchanged,
    Changed,
}

fn before(moment: Timestamp, span: Duration) -> Timestamp {
    let span = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(moment.as_millis().saturating_sub(span))
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn fault(error: EngineError) -> CloseReason {
    tracing::error!(%error, "cannot serve a connection");
    CloseReason::FAULT
}

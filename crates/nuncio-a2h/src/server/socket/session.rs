//! An authenticated connection: events out, acknowledgements in, and timers.

use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use nuncio_core::Code;
use nuncio_core::notification::{Notification, QueuedNotification, Recipient};
use nuncio_core::time::Timestamp;
use nuncio_engine::EngineError;

use super::A2h;
use super::entry::{AuthenticatedConnection, invalid, who};
use super::replay::{self, ReplayPart, ReplayQueue};
use super::socket_connection::{CloseReason, IncomingFrame, SocketConnection};
use super::socket_slots::SocketOwner;
use super::streams::{StreamRole, stream_notice};
use crate::error::A2hError;
use crate::server::identify;
use crate::wire::error::WireError;
use crate::wire::event::Event;
use crate::wire::frame::{AuthRefusal, ClientFrame, ServerFrame, close};
use crate::wire::stream::{StreamFrame, StreamNotice};

/// Interval between pings to a client.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Time without a pong after which the connection is closed.
const PONG_TIMEOUT: Duration = Duration::from_secs(90);
/// How long before the expiry of its token a client is warned.
const EXPIRY_WARNING: Duration = Duration::from_secs(60);
/// Limit of incoming frames between two pings.
const MAX_FRAMES: u32 = 300;
/// Number of events per read from the store.
const EVENTS_PER_READ: usize = 100;
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
    replay: ReplayQueue,
    /// Number of the last acknowledged event.
    read: u64,
    last_frame_at: Timestamp,
    /// Number of pings without a pong.
    unanswered: u32,
    next_ping: Timestamp,
    frames: u32,
    streaming: StreamRole,
}

type NextBatch<'a> = BoxFuture<'a, Result<EventBatch, EngineError>>;

enum EventBatch {
    /// Events; empty when the server stops.
    Events(Vec<QueuedNotification>),
    /// Part of a requested replay.
    Replay(ReplayPart),
}

impl<'a> SocketSession<'a> {
    pub(super) async fn run(
        a2h: &'a A2h,
        admitted: AuthenticatedConnection,
        connection: &mut SocketConnection,
    ) -> CloseReason {
        let slot = a2h.sockets.slots.take(admitted.owner.clone());
        let begun = Self::begin(a2h, admitted, connection).await;
        let mut session = match begun {
            Ok(session) => session,
            Err(end) => return end,
        };
        let mut mail = session.mail();
        let mut timer = connection.until(session.next_timer());
        loop {
            let step = tokio::select! {
                // Incoming frames come before timers; their number is limited per interval.
                biased;
                incoming = connection.next() => match incoming {
                    // Boxed, so that an idle connection does not reserve memory for handling a frame.
                    Ok(incoming) => match Box::pin(session.handle_frame(incoming, connection)).await {
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
                    let sent = Box::pin(session.send_batch(found, connection)).await;
                    mail = session.mail();
                    sent
                }
                () = &mut timer => session.tick(connection).await,
                () = slot.taken_over() => session.check_still_valid(connection).await.and_then(|()| {
                    Err(CloseReason::closed(close::REPLACED, "a newer connection of this device or agent took over"))
                }),
                // Last, because transient stream events must not delay stored ones.
                update = session.streaming.next() => connection.send_json(&stream_notice(update)).await,
            };
            if let Err(end) = step {
                return end;
            }
            timer = connection.until(session.next_timer());
        }
    }

    async fn begin(
        a2h: &'a A2h,
        admitted: AuthenticatedConnection,
        connection: &mut SocketConnection,
    ) -> Result<Self, CloseReason> {
        let AuthenticatedConnection { recipient, owner, token, expires_at, after } = admitted;
        let now = connection.now();
        let mut session = Self {
            a2h,
            streaming: StreamRole::of(&a2h.engine, &recipient),
            recipient,
            owner,
            token,
            expires_at,
            warned: false,
            sent: 0,
            replay: ReplayQueue::default(),
            read: 0,
            last_frame_at: now,
            unanswered: 0,
            next_ping: now.after(PING_INTERVAL),
            frames: 0,
        };
        session.read =
            session.a2h.engine.mailbox().mail_read(&session.recipient, session.reader()).await.map_err(fault)?;
        let last_seq = session.head().await?;
        session.sent = after.unwrap_or(session.read).min(last_seq);
        connection.send_json(&session.auth_ok(last_seq)).await?;
        Ok(session)
    }

    fn auth_ok(&self, last_seq: u64) -> ServerFrame {
        let streams = matches!(self.streaming, StreamRole::Sends(_));
        ServerFrame::AuthOk { expires_at: self.expires_at, after: self.sent, last_seq, streams }
    }

    /// Next events after the last sent one, or the next part of a replay.
    fn mail(&self) -> NextBatch<'a> {
        let (a2h, recipient, after) = (self.a2h, self.recipient.clone(), self.sent);
        match self.replay.first() {
            Some(position) => async move {
                let next = replay::read(a2h, recipient, position).await;
                next.map(EventBatch::Replay).map_err(|why| EngineError::new(why.code, why.message))
            }
            .boxed(),
            None => async move {
                a2h.engine.mailbox().next_mail(&recipient, after, EVENTS_PER_READ).await.map(EventBatch::Events)
            }
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
    fn next_timer(&self) -> Timestamp {
        let next = self.streaming.due().map_or(self.next_ping, |due| due.min(self.next_ping));
        let Some(end) = self.expires_at else { return next };
        let warning = if self.warned { end } else { end.before(EXPIRY_WARNING) };
        next.min(warning)
    }

    async fn send_batch(
        &mut self,
        found: Result<EventBatch, EngineError>,
        connection: &mut SocketConnection,
    ) -> Result<(), CloseReason> {
        let found = found.map_err(fault)?;
        self.streaming.send_waiting(connection).await?;
        match found {
            EventBatch::Events(mail) if mail.is_empty() => Err(CloseReason::STOPPING),
            EventBatch::Events(mail) => self.send_events(mail, connection).await,
            EventBatch::Replay(next) => self.send_replay(next, connection).await,
        }
    }

    async fn send_events(
        &mut self,
        mail: Vec<QueuedNotification>,
        connection: &mut SocketConnection,
    ) -> Result<(), CloseReason> {
        for mailed in mail {
            if matches!(mailed.notification, Notification::DevicesChanged { .. }) {
                self.check_still_valid(connection).await?;
            }
            let seq = mailed.seq;
            if let Some(event) = self.a2h.event(&self.recipient, mailed).await.map_err(fault)? {
                connection.send_json(&event).await?;
                self.a2h.sockets.metrics.events_sent(1);
            }
            self.sent = seq;
        }
        Ok(())
    }

    async fn send_replay(&mut self, next: ReplayPart, connection: &mut SocketConnection) -> Result<(), CloseReason> {
        let more = match next {
            ReplayPart::Messages(messages, more) => {
                for posted in messages {
                    self.replay.sent_up_to(posted.seq);
                    if let Some(event) = Event::again(&self.recipient, posted) {
                        connection.send_json(&event).await?;
                        self.a2h.sockets.metrics.events_sent(1);
                    }
                }
                more
            }
            ReplayPart::NotMember(why) => {
                connection.send_json(&ServerFrame::Error(WireError::new(why.code, why.message))).await?;
                false
            }
        };
        if !more {
            self.replay.drop_first();
        }
        if self.replay.is_over() { self.send_resume_ok(connection).await } else { Ok(()) }
    }

    async fn send_resume_ok(&self, connection: &mut SocketConnection) -> Result<(), CloseReason> {
        let last_seq = self.head().await?;
        connection.send_json(&ServerFrame::ResumeOk { after: self.sent, last_seq }).await
    }

    async fn tick(&mut self, connection: &mut SocketConnection) -> Result<(), CloseReason> {
        let now = connection.now();
        self.streaming.expire(connection).await?;
        if let Some(expires_at) = self.expires_at {
            if now >= expires_at {
                let message = "the token has run out; get a new one and renew in time";
                connection.send_json(&ServerFrame::AuthError(AuthRefusal::new("expired", message))).await?;
                return Err(CloseReason::UNKNOWN);
            }
            if !self.warned && now >= expires_at.before(EXPIRY_WARNING) {
                self.warned = true;
                connection.send_json(&ServerFrame::AuthExpiring { expires_at }).await?;
            }
        }
        if now < self.next_ping {
            return Ok(());
        }
        // After the machine slept, the client gets one more ping before the connection is closed.
        if now >= self.last_frame_at.after(PONG_TIMEOUT) && self.unanswered >= 2 {
            return Err(CloseReason::closed(close::TIMEOUT, "nothing was heard for 90 seconds"));
        }
        self.next_ping = now.after(PING_INTERVAL);
        self.frames = 0;
        self.unanswered += 1;
        self.check_still_valid(connection).await?;
        connection.ping().await
    }

    /// Closes the connection if its device or token was revoked, or the agent switched to webhook delivery.
    async fn check_still_valid(&self, connection: &mut SocketConnection) -> Result<(), CloseReason> {
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
        connection.send_json(&ServerFrame::Invalidated { reason: reason.to_owned() }).await?;
        Err(CloseReason::UNKNOWN)
    }

    async fn handle_frame(
        &mut self,
        incoming: IncomingFrame,
        connection: &mut SocketConnection,
    ) -> Result<PositionChange, CloseReason> {
        self.frames += 1;
        if self.frames > MAX_FRAMES {
            return Err(CloseReason::closed(close::TOO_MANY, "too many frames"));
        }
        let frame = match incoming {
            IncomingFrame::Pong => {
                self.last_frame_at = connection.now();
                self.unanswered = 0;
                return Ok(PositionChange::Unchanged);
            }
            IncomingFrame::Other => return Ok(PositionChange::Unchanged),
            IncomingFrame::Frame(frame) => frame,
        };
        match frame {
            Ok(ClientFrame::Ack { seq }) => self.acknowledge(seq, connection).await,
            Ok(ClientFrame::Resume { after, conversations }) => {
                self.sent = after.unwrap_or(self.read).min(self.head().await?);
                self.replay = ReplayQueue::of(conversations);
                if self.replay.is_over() {
                    self.send_resume_ok(connection).await?;
                }
                Ok(PositionChange::Changed)
            }
            Ok(ClientFrame::Renew { access_token }) => self.renew_token(access_token, connection).await,
            Ok(ClientFrame::StreamStart(start)) => {
                self.handle_stream_frame(StreamFrame::Start(start), connection).await
            }
            Ok(ClientFrame::StreamDelta(delta)) => {
                self.handle_stream_frame(StreamFrame::Delta(delta), connection).await
            }
            Ok(ClientFrame::StreamDone(done)) => self.handle_stream_frame(StreamFrame::Done(done), connection).await,
            Ok(ClientFrame::StreamAbort(abort)) => {
                self.handle_stream_frame(StreamFrame::Abort(abort), connection).await
            }
            Ok(ClientFrame::Auth { .. }) => {
                let message = "this connection is already authenticated; send a new token in auth.renew";
                self.send_error(message, connection).await
            }
            Err(why) => self.send_error(why, connection).await,
        }
    }

    /// Handles a stream frame. Frames of an accepted stream have their own limits and do not count against the frame
    /// limit.
    async fn handle_stream_frame(
        &mut self,
        frame: StreamFrame,
        connection: &mut SocketConnection,
    ) -> Result<PositionChange, CloseReason> {
        let (stream, begins) = (frame.stream().clone(), matches!(frame, StreamFrame::Start(_)));
        match self.streaming.take(&self.a2h.engine, &self.recipient, frame).await {
            Ok(()) if begins => {}
            Ok(()) => self.frames -= 1,
            Err(why) => {
                let error = A2hError::from(why).body.error;
                connection.send_json(&StreamNotice::Error { stream_id: stream, error }).await?;
            }
        }
        Ok(PositionChange::Unchanged)
    }

    async fn send_error(
        &self,
        message: impl Into<String>,
        connection: &mut SocketConnection,
    ) -> Result<PositionChange, CloseReason> {
        connection.send_json(&ServerFrame::Error(WireError::new(Code::BadRequest, message))).await?;
        Ok(PositionChange::Unchanged)
    }

    /// Stores the acknowledged position; events that were not sent cannot be acknowledged.
    async fn acknowledge(
        &mut self,
        seq: u64,
        connection: &mut SocketConnection,
    ) -> Result<PositionChange, CloseReason> {
        if seq > self.sent {
            return self.send_error(format!("event {seq} was not sent on this connection yet"), connection).await;
        }
        if seq > self.read {
            self.a2h.engine.mailbox().mark_mail_read(&self.recipient, self.reader(), seq).await.map_err(fault)?;
            self.read = seq;
        }
        Ok(PositionChange::Unchanged)
    }

    async fn renew_token(
        &mut self,
        token: String,
        connection: &mut SocketConnection,
    ) -> Result<PositionChange, CloseReason> {
        let shown = identify(&self.a2h.engine, &*self.a2h.tokens, &token).await.map_err(fault)?;
        let same = shown.filter(|shown| who(shown).is_some_and(|(_, owner)| owner == self.owner));
        let Some(shown) = same else {
            connection.send_json(&ServerFrame::AuthError(invalid())).await?;
            return Err(CloseReason::UNKNOWN);
        };
        self.token = token.into();
        self.expires_at = shown.expires_at;
        self.warned = false;
        let last_seq = self.head().await?;
        connection.send_json(&self.auth_ok(last_seq)).await?;
        Ok(PositionChange::Unchanged)
    }
}

/// Whether the read position changed, so that pending reads are void.
enum PositionChange {
    Unchanged,
    Changed,
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn fault(error: EngineError) -> CloseReason {
    tracing::error!(%error, "cannot serve a connection");
    CloseReason::FAULT
}

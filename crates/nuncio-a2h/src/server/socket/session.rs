//! An authenticated WebSocket connection: sends events, receives frames and runs timers.

use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use nuncio_core::ErrorCode;
use nuncio_core::notification::{Notification, QueuedNotification, RelayParty};
use nuncio_core::time::Timestamp;
use nuncio_engine::EngineError;

use super::A2hServerState;
use super::entry::{AuthenticatedSocket, invalid, who};
use super::replay::{self, ConversationReplayBatch, ReplayQueue};
use super::socket_connection::{IncomingFrame, SocketCloseReason, SocketConnection};
use super::socket_slots::SocketOwner;
use super::streams::{StreamRole, stream_notice};
use crate::error::A2hError;
use crate::server::identify;
use crate::wire::error::WireError;
use crate::wire::event::Event;
use crate::wire::frame::{AuthRefusal, ClientFrame, ServerFrame, close};
use crate::wire::stream::{RelayStreamFrame, StreamFrame};

const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Time without a pong after which a connection is closed.
const PONG_TIMEOUT: Duration = Duration::from_secs(90);
/// How long before the expiry of its token a client is warned.
const EXPIRY_WARNING: Duration = Duration::from_secs(60);
/// Limit of incoming frames on a connection between two pings.
const MAX_FRAMES: u32 = 300;
const EVENTS_PER_READ: usize = 100;
/// Reader name under which an agent's read position is stored.
pub(in crate::server) const AGENT: &str = "agent";

pub(super) struct SocketSession<'a> {
    a2h: &'a A2hServerState,
    connection: &'a mut SocketConnection,
    /// Pending read of the next events; replaced when the read position changes.
    mail: NextBatchFuture<'a>,
    recipient: RelayParty,
    owner: SocketOwner,
    token: Box<str>,
    expires_at: Option<Timestamp>,
    /// Whether the client was warned that its token expires.
    warned: bool,
    sent: u64,
    /// Replay that the client requested; other events wait until it is complete.
    replay: ReplayQueue,
    /// Number of the last acknowledged event.
    read: u64,
    last_frame_at: Timestamp,
    /// Number of pings that no pong has answered.
    unanswered: u32,
    next_ping: Timestamp,
    frames: u32,
    streaming: StreamRole,
}

type NextBatchFuture<'a> = BoxFuture<'a, Result<EventBatch, EngineError>>;

enum EventBatch {
    /// Stored events; empty when the server stops.
    Events(Vec<QueuedNotification>),
    /// Part of a requested replay.
    Replay(ConversationReplayBatch),
}

impl<'a> SocketSession<'a> {
    pub(super) async fn run(
        a2h: &'a A2hServerState,
        admitted: AuthenticatedSocket,
        connection: &'a mut SocketConnection,
    ) -> SocketCloseReason {
        let slot = a2h.sockets.slots.take(admitted.owner.clone());
        let mut session = match Self::begin(a2h, admitted, connection).await {
            Ok(session) => session,
            Err(end) => return end,
        };
        loop {
            let timer = session.connection.until(session.next_timer());
            let step = tokio::select! {
                // Incoming frames are handled before timers; their number is limited per ping interval.
                biased;
                incoming = session.connection.next() => match incoming {
                    // Boxed, so that an idle connection does not reserve memory for handling a frame.
                    Ok(incoming) => Box::pin(session.handle_frame(incoming)).await,
                    Err(end) => Err(end),
                },
                found = &mut session.mail => Box::pin(session.send_batch(found)).await,
                () = timer => session.tick().await,
                () = slot.wait_until_taken_over() => session.check_still_valid().await.and_then(|()| {
                    Err(SocketCloseReason::closed(close::REPLACED, "a newer connection of this device or agent replaced this one"))
                }),
                // Last, because transient stream events must not delay stored ones.
                update = session.streaming.next() => session.connection.send_json(&stream_notice(update)).await,
            };
            if let Err(end) = step {
                return end;
            }
        }
    }

    async fn begin(
        a2h: &'a A2hServerState,
        admitted: AuthenticatedSocket,
        connection: &'a mut SocketConnection,
    ) -> Result<Self, SocketCloseReason> {
        let AuthenticatedSocket { recipient, owner, token, expires_at, after } = admitted;
        let now = connection.now();
        let mut session = Self {
            a2h,
            connection,
            mail: std::future::pending().boxed(),
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
        session.send_auth_ok(last_seq).await?;
        session.mail = session.next_batch();
        Ok(session)
    }

    async fn send_auth_ok(&mut self, last_seq: u64) -> Result<(), SocketCloseReason> {
        let streams = matches!(self.streaming, StreamRole::Sends(_));
        let frame = ServerFrame::AuthOk { expires_at: self.expires_at, after: self.sent, last_seq, streams };
        self.connection.send_json(&frame).await
    }

    /// Read of the events after the last sent one, or of the next part of a replay.
    fn next_batch(&self) -> NextBatchFuture<'a> {
        let (a2h, recipient, after) = (self.a2h, self.recipient.clone(), self.sent);
        match self.replay.first_key_value() {
            Some((conversation, after)) => {
                let position = (conversation.clone(), *after);
                let next = async move { replay::read(a2h, recipient, position).await.map(EventBatch::Replay) };
                next.map(|next| next.map_err(|why| EngineError::new(why.code, why.message))).boxed()
            }
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

    async fn head(&mut self) -> Result<u64, SocketCloseReason> {
        self.a2h.engine.mailbox().mail_head(&self.recipient).await.map_err(fault)
    }

    /// Time at which the connection's next timer is due.
    fn next_timer(&self) -> Timestamp {
        let next = self.streaming.due().map_or(self.next_ping, |due| due.min(self.next_ping));
        let Some(end) = self.expires_at else { return next };
        let warning = if self.warned { end } else { end.before(EXPIRY_WARNING) };
        next.min(warning)
    }

    async fn send_batch(&mut self, found: Result<EventBatch, EngineError>) -> Result<(), SocketCloseReason> {
        let found = found.map_err(fault)?;
        self.streaming.send_waiting(self.connection).await?;
        match found {
            EventBatch::Events(mail) if mail.is_empty() => return Err(SocketCloseReason::STOPPING),
            EventBatch::Events(mail) => self.send_events(mail).await?,
            EventBatch::Replay(next) => self.send_replay(next).await?,
        }
        self.mail = self.next_batch();
        Ok(())
    }

    async fn send_events(&mut self, mail: Vec<QueuedNotification>) -> Result<(), SocketCloseReason> {
        for mailed in mail {
            if matches!(mailed.notification, Notification::DevicesChanged { .. }) {
                self.check_still_valid().await?;
            }
            let seq = mailed.seq;
            if let Some(event) = self.a2h.event(&self.recipient, mailed).await.map_err(fault)? {
                self.connection.send_json(&event).await?;
                self.a2h.sockets.metrics.events_sent(1);
            }
            self.sent = seq;
        }
        Ok(())
    }

    async fn send_replay(&mut self, next: ConversationReplayBatch) -> Result<(), SocketCloseReason> {
        let more = match next {
            ConversationReplayBatch::Messages(messages, more) => {
                for posted in messages {
                    if let Some(mut first) = self.replay.first_entry() {
                        *first.get_mut() = posted.seq;
                    }
                    if let Some(event) = Event::again(&self.recipient, posted) {
                        self.connection.send_json(&event).await?;
                        self.a2h.sockets.metrics.events_sent(1);
                    }
                }
                more
            }
            ConversationReplayBatch::NotMember(why) => {
                self.connection.send_json(&ServerFrame::Error(WireError::new(why.code, why.message))).await?;
                false
            }
        };
        if !more {
            self.replay.pop_first();
        }
        if self.replay.is_empty() { self.send_resume_ok().await } else { Ok(()) }
    }

    async fn send_resume_ok(&mut self) -> Result<(), SocketCloseReason> {
        let last_seq = self.head().await?;
        self.connection.send_json(&ServerFrame::ResumeOk { after: self.sent, last_seq }).await
    }

    async fn tick(&mut self) -> Result<(), SocketCloseReason> {
        let now = self.connection.now();
        self.streaming.expire(self.connection).await?;
        if let Some(expires_at) = self.expires_at {
            if now >= expires_at {
                let message = "the token has expired; get a new one and send auth.renew before the next expiry";
                self.connection.send_json(&ServerFrame::AuthError(AuthRefusal::new("expired", message))).await?;
                return Err(SocketCloseReason::UNKNOWN);
            }
            if !self.warned && now >= expires_at.before(EXPIRY_WARNING) {
                self.warned = true;
                self.connection.send_json(&ServerFrame::AuthExpiring { expires_at }).await?;
            }
        }
        if now < self.next_ping {
            return Ok(());
        }
        // Two pings must be unanswered too: after the server's machine slept, the time alone proves nothing.
        if now >= self.last_frame_at.after(PONG_TIMEOUT) && self.unanswered >= 2 {
            return Err(SocketCloseReason::closed(close::TIMEOUT, "no pong was received for 90 seconds"));
        }
        self.next_ping = now.after(PING_INTERVAL);
        self.frames = 0;
        self.unanswered += 1;
        self.check_still_valid().await?;
        self.connection.ping().await
    }

    /// Closes the connection if its device or token was revoked, or the agent switched to webhook delivery.
    async fn check_still_valid(&mut self) -> Result<(), SocketCloseReason> {
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
        self.connection.send_json(&ServerFrame::Invalidated { reason: reason.to_owned() }).await?;
        Err(SocketCloseReason::UNKNOWN)
    }

    async fn handle_frame(&mut self, incoming: IncomingFrame) -> Result<(), SocketCloseReason> {
        self.frames += 1;
        if self.frames > MAX_FRAMES {
            return Err(SocketCloseReason::closed(close::TOO_MANY, "too many frames"));
        }
        let frame = match incoming {
            IncomingFrame::Pong => {
                self.last_frame_at = self.connection.now();
                self.unanswered = 0;
                return Ok(());
            }
            IncomingFrame::Other => return Ok(()),
            IncomingFrame::Frame(frame) => frame,
        };
        match frame {
            Ok(ClientFrame::Ack { seq }) => self.acknowledge(seq).await,
            Ok(ClientFrame::Resume { after, conversations }) => {
                self.sent = after.unwrap_or(self.read).min(self.head().await?);
                self.replay = conversations;
                if self.replay.is_empty() {
                    self.send_resume_ok().await?;
                }
                self.mail = self.next_batch();
                Ok(())
            }
            Ok(ClientFrame::Renew { access_token }) => self.renew_token(access_token).await,
            Ok(ClientFrame::StreamStart(start)) => self.handle_stream_frame(StreamFrame::Start(start)).await,
            Ok(ClientFrame::StreamDelta(delta)) => self.handle_stream_frame(StreamFrame::Delta(delta)).await,
            Ok(ClientFrame::StreamDone(done)) => self.handle_stream_frame(StreamFrame::Done(done)).await,
            Ok(ClientFrame::StreamAbort(abort)) => self.handle_stream_frame(StreamFrame::Abort(abort)).await,
            Ok(ClientFrame::Auth { .. }) => {
                let message = "this connection is already authenticated; send a new token in auth.renew";
                self.send_error(message).await
            }
            Err(why) => self.send_error(why).await,
        }
    }

    /// Handles a stream frame. Frames of an accepted stream have their own limits and do not count for `MAX_FRAMES`.
    async fn handle_stream_frame(&mut self, frame: StreamFrame) -> Result<(), SocketCloseReason> {
        let (stream, begins) = (frame.stream().clone(), matches!(frame, StreamFrame::Start(_)));
        match self.streaming.take(&self.a2h.engine, &self.recipient, frame).await {
            Ok(()) if begins => {}
            Ok(()) => self.frames -= 1,
            Err(why) => {
                let error = A2hError::from(why).body.error;
                self.connection.send_json(&RelayStreamFrame::Error { stream_id: stream, error }).await?;
            }
        }
        Ok(())
    }

    async fn send_error(&mut self, message: impl Into<String>) -> Result<(), SocketCloseReason> {
        self.connection.send_json(&ServerFrame::Error(WireError::new(ErrorCode::BadRequest, message))).await
    }

    /// Stores the number of the last acknowledged event; events that were not sent cannot be acknowledged.
    async fn acknowledge(&mut self, seq: u64) -> Result<(), SocketCloseReason> {
        if seq > self.sent {
            return self.send_error(format!("event {seq} was not sent on this connection yet")).await;
        }
        if seq > self.read {
            self.a2h.engine.mailbox().mark_mail_read(&self.recipient, self.reader(), seq).await.map_err(fault)?;
            self.read = seq;
        }
        Ok(())
    }

    async fn renew_token(&mut self, token: String) -> Result<(), SocketCloseReason> {
        let shown = identify(&self.a2h.engine, &*self.a2h.tokens, &token).await.map_err(fault)?;
        let same = shown.filter(|shown| who(shown).is_some_and(|(_, owner)| owner == self.owner));
        let Some(shown) = same else {
            self.connection.send_json(&ServerFrame::AuthError(invalid())).await?;
            return Err(SocketCloseReason::UNKNOWN);
        };
        self.token = token.into();
        self.expires_at = shown.expires_at;
        self.warned = false;
        let last_seq = self.head().await?;
        self.send_auth_ok(last_seq).await
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn fault(error: EngineError) -> SocketCloseReason {
    tracing::error!(%error, "cannot serve a connection");
    SocketCloseReason::FAULT
}

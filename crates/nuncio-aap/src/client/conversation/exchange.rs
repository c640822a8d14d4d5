//! One turn as seen by the client, across reconnects.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::{Stream, StreamExt as _};
use nuncio_core::backoff::Backoff;
use nuncio_core::ids::CallId;
use nuncio_core::message::{Content, Message, ToolCall};
use nuncio_core::turn::{CallAnswer, StopReason, TurnInput};

use super::fold::TurnMessageBuilder;
use super::reconcile::{self, PreTurnState, RESULT_REQUESTS};
use super::{AapConversation, TurnCompleteness, TurnEnd, TurnUpdate, UnansweredCall, history_kind};
use crate::client::error::ClientError;
use crate::client::event::{TurnEvent, TurnStop, TurnStopError};
use crate::client::stream::{ResumableEvent, TurnStream};
use crate::wire::turn::TurnBody;

/// Number of reconnects without a new event before giving up.
const MAX_RECONNECTS: u32 = 6;
/// Delays before the second and further reconnects; the first reconnect is immediate.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(100), Duration::from_secs(60));

/// Running turn as a stream of updates. An error is the last item and means that the turn did not start; later
/// failures are reported in [`TurnUpdate::Ended`].
pub struct TurnUpdateStream<'a> {
    conversation: &'a mut AapConversation,
    input: Option<TurnInput>,
    denied: Vec<(CallId, Option<String>)>,
    /// Calls that this turn's input allowed. The agent runs them before its first output.
    granted: Vec<CallId>,
    phase: TurnStreamPhase,
    fold: TurnMessageBuilder,
    ready: VecDeque<TurnUpdate>,
    last_id: Option<Arc<str>>,
    attempts: u32,
    interrupted: bool,
    /// Whether every connection so far closed cleanly, although without `turn_stop`.
    clean: bool,
    /// Whether a running turn was joined and no event has arrived.
    joining: bool,
    /// Whether the agent's first output of this turn has arrived.
    output_began: bool,
}

enum TurnStreamPhase {
    Opening(BoxFuture<'static, Result<TurnStream, ClientError>>),
    Reading(Box<TurnStream>),
    Resuming(BoxFuture<'static, Result<TurnStream, ClientError>>),
    Reconciling(BoxFuture<'static, (PreTurnState, Option<Vec<Message>>)>),
    /// The results of allowed calls that were not streamed are looked up in the history.
    LoadingResults {
        held: DeferredTurnEvent,
        looking: BoxFuture<'static, Vec<(CallId, Content)>>,
    },
    Over,
}

/// What arrived instead of the results of allowed calls, and is handled after they were looked up.
enum DeferredTurnEvent {
    /// The first output of the turn, which follows the results.
    Output(TurnEvent, Box<TurnStream>),
    Stop(TurnStop, TurnCompleteness),
}

impl<'a> TurnUpdateStream<'a> {
    pub(super) fn new(conversation: &'a mut AapConversation, input: TurnInput, body: TurnBody) -> Self {
        let (client, session) = (conversation.client.clone(), conversation.session.clone());
        let answers = match &input {
            TurnInput::User(_) => &[][..],
            TurnInput::Answers(answers) => answers,
        };
        let denied = answers.iter().filter_map(denial).collect();
        let granted = answers.iter().filter_map(permitted).collect();
        let opening = async move { client.turn(&session, &body).await };
        let opening = TurnStreamPhase::Opening(opening.boxed());
        Self { input: Some(input), denied, granted, ..Self::in_phase(conversation, opening) }
    }

    fn in_phase(conversation: &'a mut AapConversation, phase: TurnStreamPhase) -> Self {
        Self {
            conversation,
            input: None,
            denied: Vec::new(),
            granted: Vec::new(),
            phase,
            fold: TurnMessageBuilder::default(),
            ready: VecDeque::new(),
            last_id: None,
            attempts: 0,
            interrupted: false,
            clean: false,
            joining: false,
            output_began: false,
        }
    }

    /// Exchange for a turn that was already running, with its first event.
    pub(super) fn joined(
        conversation: &'a mut AapConversation,
        stream: TurnStream,
        first: Option<Result<ResumableEvent, ClientError>>,
    ) -> Self {
        let reading = Self::in_phase(conversation, TurnStreamPhase::Reading(Box::new(stream)));
        let mut exchange = Self { joining: true, ready: VecDeque::from([TurnUpdate::Started]), ..reading };
        if let Some(first) = first {
            exchange.read(Some(first));
        }
        exchange
    }

    /// The conversation, which gets the messages of this turn only when the turn ends.
    #[must_use]
    pub fn conversation(&self) -> &AapConversation {
        self.conversation
    }

    fn read(&mut self, received_event: Option<Result<ResumableEvent, ClientError>>) {
        match received_event {
            Some(Ok(received_event)) => {
                self.attempts = 0;
                self.last_id = received_event.id.or(self.last_id.take());
                if self.joining && received_event.event != TurnEvent::TurnStart {
                    self.joining = false;
                    self.conversation.remove_turn(&received_event.event);
                }
                match received_event.event {
                    TurnEvent::TurnStop(stop) => {
                        let received =
                            if self.interrupted { TurnCompleteness::Continued } else { TurnCompleteness::Whole };
                        self.stopped(stop, received);
                    }
                    event => self.take(event),
                }
            }
            Some(Err(error @ (ClientError::NotAap(_) | ClientError::TooLarge(_)))) => {
                self.end(failed(error.to_string()), TurnCompleteness::Incomplete);
            }
            Some(Err(_)) => self.broken(false),
            None => self.broken(true),
        }
    }

    fn step(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        match &mut self.phase {
            TurnStreamPhase::Opening(opening) => {
                let opened = ready!(opening.poll_unpin(context));
                self.phase = TurnStreamPhase::Over;
                let stream = opened?;
                if let Some(input) = self.input.take() {
                    self.conversation.accepted(input);
                }
                self.ready.push_back(TurnUpdate::Started);
                self.phase = TurnStreamPhase::Reading(Box::new(stream));
            }
            TurnStreamPhase::Reading(stream) => {
                let received_event = ready!(stream.poll_next_unpin(context));
                self.read(received_event);
            }
            TurnStreamPhase::Resuming(resuming) => match ready!(resuming.poll_unpin(context)) {
                Ok(stream) => self.phase = TurnStreamPhase::Reading(Box::new(stream)),
                Err(
                    ClientError::Unreachable(_) | ClientError::Broken(_) | ClientError::Refused { status: 500.., .. },
                ) => {
                    self.broken(false);
                }
                Err(_) => self.reconcile(),
            },
            TurnStreamPhase::Reconciling(looking) => {
                let (anchor, exchange) = ready!(looking.poll_unpin(context));
                match exchange {
                    Some(exchange) => self.adopt(&anchor, exchange),
                    None => self.give_up(),
                }
            }
            TurnStreamPhase::LoadingResults { looking, .. } => {
                let results = ready!(looking.poll_unpin(context));
                self.resume_after(results);
            }
            TurnStreamPhase::Over => {}
        }
        Poll::Ready(Ok(()))
    }

    /// Handles an event other than `turn_stop`. Some servers do not stream the results of calls that this turn allowed,
    /// and store them before the agent goes on: at its first output the results are looked up in the history, so that
    /// they are reported before it.
    fn take(&mut self, event: TurnEvent) {
        let is_output = !matches!(
            event,
            TurnEvent::TurnStart | TurnEvent::ToolResult { .. } | TurnEvent::Unknown { .. } | TurnEvent::TurnStop(_)
        );
        let begins = is_output && !self.output_began;
        self.output_began |= is_output;
        let looking = if begins { self.look_up_results(1) } else { None };
        let Some(looking) = looking else { return self.ready.extend(self.fold.take(event)) };
        match std::mem::replace(&mut self.phase, TurnStreamPhase::Over) {
            TurnStreamPhase::Reading(stream) => {
                self.phase =
                    TurnStreamPhase::LoadingResults { held: DeferredTurnEvent::Output(event, stream), looking };
            }
            other => {
                self.phase = other;
                self.ready.extend(self.fold.take(event));
            }
        }
    }

    /// Handles `turn_stop`. Results that are still missing are looked up in the history once more, because some servers
    /// store a turn only at its end.
    fn stopped(&mut self, stop: TurnStop, received: TurnCompleteness) {
        match self.look_up_results(RESULT_REQUESTS) {
            Some(looking) => {
                self.phase = TurnStreamPhase::LoadingResults { held: DeferredTurnEvent::Stop(stop, received), looking };
            }
            None => self.end(stop, received),
        }
    }

    /// Looks up the results of allowed calls that have none, with at most `requests` requests; `None` if there are no
    /// such calls, or the agent offers no history.
    fn look_up_results(&self, requests: usize) -> Option<BoxFuture<'static, Vec<(CallId, Content)>>> {
        let silent: Vec<CallId> = self.granted.iter().filter(|call| !self.fold.has_answer(call)).cloned().collect();
        let kind = history_kind(&self.conversation.agent).filter(|_| !silent.is_empty())?;
        let (client, session) = (self.conversation.client.clone(), self.conversation.session.clone());
        Some(reconcile::poll_results(client, session, kind, silent, requests).boxed())
    }

    /// Reports the results that were looked up, and goes on with the event that was held back for them.
    fn resume_after(&mut self, results: Vec<(CallId, Content)>) {
        let TurnStreamPhase::LoadingResults { held, .. } = std::mem::replace(&mut self.phase, TurnStreamPhase::Over)
        else {
            return;
        };
        match held {
            DeferredTurnEvent::Output(event, stream) => {
                self.phase = TurnStreamPhase::Reading(stream);
                for (call, content) in results {
                    self.ready.extend(self.fold.take(TurnEvent::ToolResult { call, content }));
                }
                self.ready.extend(self.fold.take(event));
            }
            DeferredTurnEvent::Stop(stop, received) => {
                for (call, content) in results {
                    self.conversation.messages.push(Message::tool(call.clone(), content.clone()));
                    self.ready.push_back(TurnUpdate::Result { call, content });
                }
                self.end(stop, received);
            }
        }
    }

    /// Handles a closed connection without `turn_stop`.
    fn broken(&mut self, clean: bool) {
        self.clean = clean && (self.clean || !self.interrupted);
        if !std::mem::replace(&mut self.interrupted, true) {
            self.ready.push_back(TurnUpdate::Interrupted);
        }
        let Some(last) = self.last_id.clone().filter(|_| self.attempts < MAX_RECONNECTS) else {
            return self.reconcile();
        };
        let pause = BACKOFF.after(self.attempts);
        self.attempts += 1;
        let (client, session) = (self.conversation.client.clone(), self.conversation.session.clone());
        let resuming = async move {
            tokio::time::sleep(pause).await;
            client.resume(&session, Some(&last)).await
        };
        self.phase = TurnStreamPhase::Resuming(resuming.boxed());
    }

    /// Looks for the rest of the turn in the history when the stream cannot be resumed.
    fn reconcile(&mut self) {
        match history_kind(&self.conversation.agent) {
            Some(kind) => {
                let (client, session) = (self.conversation.client.clone(), self.conversation.session.clone());
                let anchor = PreTurnState::of(self.conversation, self.granted.clone());
                self.phase =
                    TurnStreamPhase::Reconciling(reconcile::poll_history(client, session, kind, anchor).boxed());
            }
            None => self.give_up(),
        }
    }

    /// Replaces the received part of the turn by the turn from the history, unless the history adds nothing.
    fn adopt(&mut self, anchor: &PreTurnState, exchange: Vec<Message>) {
        let reason = if reconcile::waits(&exchange) { StopReason::ToolUse } else { StopReason::EndTurn };
        let missing = anchor.missing(&exchange, &self.fold);
        if missing.is_empty() {
            return self.end(TurnStop::because(reason), TurnCompleteness::FromHistory);
        }
        self.ready.extend(missing);
        let begins = self.conversation.messages.len() - super::since_user(&self.conversation.messages).len();
        self.conversation.messages.truncate(begins);
        self.conversation.messages.extend(exchange);
        let pending = self.conversation.unresolved();
        self.finish_turn(TurnStop::because(reason), TurnCompleteness::FromHistory, pending);
    }

    /// Ends the turn with its received part when neither resuming nor the history provides the rest.
    fn give_up(&mut self) {
        let waits = self.fold.open_calls().any(|(call, _)| self.conversation.needs_us(call));
        let stop = match (waits, self.clean && !self.fold.is_empty()) {
            (true, _) => TurnStop::because(StopReason::ToolUse),
            (false, true) => TurnStop::because(StopReason::EndTurn),
            (false, false) => failed("the connection ended before the turn did".to_owned()),
        };
        self.end(stop, TurnCompleteness::Incomplete);
    }

    /// Ends the turn and adds its messages to the conversation.
    fn end(&mut self, stop: TurnStop, received: TurnCompleteness) {
        let fold = std::mem::take(&mut self.fold);
        let conversation = &mut *self.conversation;
        let waits = |call: &ToolCall, passed: bool| match stop.reason {
            StopReason::ToolUse => !passed || conversation.needs_us(call),
            // Some servers end a turn with `end_turn` although a call waits for this client. Without an answer the
            // call stays open in the history, and models refuse such a history.
            StopReason::EndTurn => !stop.cancelled && !passed && conversation.needs_us(call),
            StopReason::MaxTokens | StopReason::Refusal | StopReason::Error => false,
        };
        let open = fold.open_calls().filter(|(call, passed)| waits(call, *passed));
        let pending: Vec<_> =
            open.map(|(call, _)| UnansweredCall { call: call.clone(), awaits: conversation.awaits(call) }).collect();
        let reason = if pending.is_empty() { stop.reason } else { StopReason::ToolUse };
        // Some servers do not stream the results of denied calls.
        for (call, reason) in std::mem::take(&mut self.denied) {
            if !fold.has_answer(&call) {
                let words = reason.map_or_else(|| "Tool call denied".into(), |why| format!("Tool call denied: {why}"));
                conversation.messages.push(Message::tool(call, Content::Text(words)));
            }
        }
        conversation.messages.extend(fold.finish());
        self.finish_turn(TurnStop { reason, ..stop }, received, pending);
    }

    fn finish_turn(&mut self, stop: TurnStop, received: TurnCompleteness, pending: Vec<UnansweredCall>) {
        self.conversation.pending.clone_from(&pending);
        self.ready.push_back(TurnUpdate::Ended(TurnEnd { stop, received, pending }));
        self.phase = TurnStreamPhase::Over;
    }
}

impl Stream for TurnUpdateStream<'_> {
    type Item = Result<TurnUpdate, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(update) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(update)));
            }
            if matches!(self.phase, TurnStreamPhase::Over) {
                return Poll::Ready(None);
            }
            if let Err(error) = ready!(self.step(context)) {
                return Poll::Ready(Some(Err(error)));
            }
        }
    }
}

impl fmt::Debug for TurnUpdateStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnUpdateStream").field("session", &self.conversation.session).finish_non_exhaustive()
    }
}

fn permitted(answer: &CallAnswer) -> Option<CallId> {
    match answer {
        CallAnswer::Permission { call, granted: true, .. } => Some(call.clone()),
        _ => None,
    }
}

fn denial(answer: &CallAnswer) -> Option<(CallId, Option<String>)> {
    match answer {
        CallAnswer::Permission { call, granted: false, reason } => Some((call.clone(), reason.clone())),
        _ => None,
    }
}

fn failed(message: String) -> TurnStop {
    TurnStop { error: Some(TurnStopError { code: None, message }), ..TurnStop::because(StopReason::Error) }
}

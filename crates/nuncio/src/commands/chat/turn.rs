//! One turn of a chat: shows its output, stops it on Ctrl-C, and answers its pending calls.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{BoxFuture, Fuse, FutureExt as _};
use nuncio_aap::client::{AapConversation, ClientError, TurnUpdate, TurnUpdateStream, UnansweredCall};
use nuncio_core::ids::ToolName;
use nuncio_core::message::{Content, ToolCall, UnknownMessageFields};
use nuncio_core::session::AwaitedAnswer;
use nuncio_core::turn::{CallAnswer, StopReason};

use super::input::{ChatInput, ChatInputEvent};
use super::screen::ChatScreen;
use super::tool::ChatLocalTool;

/// Time without an update after which a note says what an open call may wait for. AAP has no event for that.
const SILENCE: Duration = Duration::from_secs(3);

/// Shows a turn and returns whether it ended by itself: not if it was stopped or reading it failed. Ctrl-C stops the
/// turn, and a second Ctrl-C stops listening. `open_calls` are the calls of earlier turns whose results the turn waits
/// for.
pub(super) async fn watch(
    mut exchange: TurnUpdateStream<'_>,
    mut open_calls: Vec<ToolCall>,
    screen: &mut ChatScreen,
    user: &mut ChatInput,
) -> bool {
    let conversation = exchange.conversation();
    let (client, session) = (conversation.client().clone(), conversation.session().to_owned());
    let mut stopping: Fuse<BoxFuture<'static, Result<(), ClientError>>> = Fuse::terminated();
    let mut stopped = false;
    let mut is_noted = false;
    loop {
        tokio::select! {
            update = exchange.next() => match update {
                Some(Ok(update)) => {
                    screen.update(&update);
                    is_noted = false;
                    match &update {
                        TurnUpdate::Call(call) => open_calls.push(call.clone()),
                        TurnUpdate::Result { call, .. } => open_calls.retain(|open| open.id != *call),
                        _ => {}
                    }
                    if let TurnUpdate::Ended(ended) = &update {
                        screen.turn_failed |= ended.stop.reason == StopReason::Error;
                        return !ended.stop.cancelled;
                    }
                }
                Some(Err(error)) => {
                    screen.turn_failed = true;
                    screen.failed(&error.to_string());
                    return false;
                }
                None => return false,
            },
            () = tokio::time::sleep(SILENCE), if !is_noted && !stopped && !open_calls.is_empty() => {
                is_noted = true;
                let tools: Vec<_> = open_calls.iter().map(|call| call.name.as_str()).collect();
                screen.note(&screen.texts.no_result_yet.replace("{tools}", &tools.join(", ")));
            }
            () = user.interrupted() => {
                if stopped {
                    screen.note(screen.texts.stopped);
                    return false;
                }
                stopped = true;
                screen.note(screen.texts.stopping);
                let (client, session) = (client.clone(), session.clone());
                stopping = async move { client.cancel(&session).await }.boxed().fuse();
            }
            outcome = &mut stopping => {
                if outcome.is_err() {
                    screen.note(screen.texts.cannot_stop);
                    return false;
                }
            }
        }
    }
}

/// The pending calls that the server runs after these answers.
pub(super) fn permitted_calls(pending: &[UnansweredCall], answers: &[CallAnswer]) -> Vec<ToolCall> {
    let is_permitted = |one: &&UnansweredCall| {
        answers
            .iter()
            .any(|answer| matches!(answer, CallAnswer::Permission { call, granted: true, .. } if *call == one.call.id))
    };
    pending.iter().filter(is_permitted).map(|one| one.call.clone()).collect()
}

/// Answers pending tool calls: allows or denies them, and runs local tools.
#[derive(Debug)]
pub(super) struct CallAnswerer {
    pub(super) tools: Vec<ChatLocalTool>,
    /// Whether every call is allowed without asking (`--trust`).
    pub(super) trust: bool,
    /// The tools that the user has allowed for this session.
    pub(super) allowed: HashSet<ToolName>,
}

enum ToolCallDecision {
    Yes,
    No(Option<String>),
}

impl CallAnswerer {
    pub(super) fn new(tools: Vec<ChatLocalTool>, trust: bool) -> Self {
        Self { tools, trust, allowed: HashSet::new() }
    }

    /// Answers for all pending calls; `None` when the user leaves the calls unanswered.
    pub(super) async fn answer_pending(
        &mut self,
        conversation: &mut AapConversation,
        screen: &mut ChatScreen,
        user: &mut ChatInput,
        show: bool,
    ) -> Option<Vec<CallAnswer>> {
        let pending = conversation.pending().to_vec();
        let show = show || pending.len() > 1;
        let mut answers = Vec::new();
        for UnansweredCall { call, awaits } in pending {
            let decision = if self.trust || self.allowed.contains(&call.name) {
                ToolCallDecision::Yes
            } else if !user.is_interactive {
                screen.note(&screen.texts.refused_unasked.replace("{tool}", call.name.as_str()));
                ToolCallDecision::No(Some("there is no person to ask".to_owned()))
            } else {
                if show {
                    screen.call(&call);
                }
                self.ask(&call.name, conversation, screen, user).await?
            };
            let answer = match (awaits, decision) {
                (AwaitedAnswer::Permission, ToolCallDecision::Yes) => {
                    CallAnswer::Permission { call: call.id, granted: true, reason: None }
                }
                (AwaitedAnswer::Permission, ToolCallDecision::No(reason)) => {
                    CallAnswer::Permission { call: call.id, granted: false, reason }
                }
                (AwaitedAnswer::Result, decision) => {
                    let content = match decision {
                        ToolCallDecision::No(None) => "Tool call denied".to_owned(),
                        ToolCallDecision::No(Some(reason)) => format!("Tool call denied: {reason}"),
                        ToolCallDecision::Yes => match self.tools.iter().find(|tool| tool.name == call.name) {
                            Some(tool) => tokio::select! {
                                output = tool.run(&call.input) => output,
                                () = user.interrupted() => "Tool execution failed: the user stopped it".to_owned(),
                            },
                            None => format!("Tool not found: {}", call.name),
                        },
                    };
                    let content = Content::Text(content);
                    screen.update(&TurnUpdate::Result { call: call.id.clone(), content: content.clone() });
                    CallAnswer::Result { call: call.id, content, extra: UnknownMessageFields::new() }
                }
            };
            answers.push(answer);
        }
        Some(answers)
    }

    /// Asks the user about one call; `None` when the user leaves it unanswered.
    async fn ask(
        &mut self,
        tool: &ToolName,
        conversation: &mut AapConversation,
        screen: &mut ChatScreen,
        user: &mut ChatInput,
    ) -> Option<ToolCallDecision> {
        let texts = screen.texts;
        let question = format!("{} {}: ", texts.allow.replace("{tool}", tool.as_str()), texts.choices);
        loop {
            let ChatInputEvent::Line(line) = user.ask(screen, &question).await else { return None };
            let line = line.trim();
            let (first, reason) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            match first.to_lowercase().as_str() {
                "y" | "yes" | "是" | "允许" => return Some(ToolCallDecision::Yes),
                "a" | "always" | "始终" => {
                    self.allowed.insert(tool.clone());
                    conversation.trust(tool.as_str());
                    return Some(ToolCallDecision::Yes);
                }
                "n" | "no" | "否" | "拒绝" => {
                    let reason = reason.trim();
                    return Some(ToolCallDecision::No((!reason.is_empty()).then(|| reason.to_owned())));
                }
                _ => screen.note(texts.again),
            }
        }
    }
}

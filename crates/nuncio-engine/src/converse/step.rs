//! One step of a turn: the brain runs, its message is stored, its tool calls are run or left to the app.

use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;
use nuncio_core::ErrorCode;
use nuncio_core::digest::Digest;
use nuncio_core::event::ModelOutputKind;
use nuncio_core::execution::TraceIds;
use nuncio_core::ids::CallId;
use nuncio_core::message::{Block, Content, Message, ToolCall, UnknownMessageFields};
use nuncio_core::session::{AwaitedAnswer, HistorySummary, PendingCall};
use nuncio_core::turn::{StopReason, TokenUsage};
use serde_json::Value;

use super::begin::PermissionResponder;
use super::history::{compact, summary_message};
use super::turn::{RunningTurn, TurnEnding, too_large};
use crate::call::{ClientDecision, ToolCallOutcome, ToolCallRequest};
use crate::error::EngineError;
use crate::ports::brain::{
    BrainError, BrainOutput, BrainOutputPiece, BrainStepInput, BrainStepStop, BrainWriter, HistoryNeed, OfferedTool,
    text_block,
};
use crate::ports::store::{HistorySlot, ResultTarget, SessionChange, StoredMessage};

/// Message blocks and tool calls of one step.
struct BrainStepOutput {
    blocks: Vec<Block>,
    calls: Vec<(ToolCall, UnknownMessageFields)>,
    /// Calls that the brain runs itself and wants the app to allow.
    asked: HashSet<CallId>,
}

/// Outcome of one tool call of a step.
pub(super) enum BrainStepCallOutcome {
    Ended { call: CallId, content: Content },
    AskClient(ToolCall),
}

impl RunningTurn {
    /// Runs one step of the turn; `None` if all tool results are available and the brain runs again.
    pub(super) async fn step(&mut self, usage: &mut Option<TokenUsage>) -> Result<Option<TurnEnding>, EngineError> {
        let history = self.history().await?;
        let used = used_ids(&history);
        let prompt = self.prompt(history);
        let mut writer = BrainWriter::for_turn(Arc::clone(&self.turn)).answered(self.asked.clone());
        let thought = {
            let mut think = self.served.brain.think(prompt, &mut writer);
            let think = poll_fn(|context| {
                let thought = think.as_mut().poll(context);
                self.turn.wake();
                thought
            });
            tokio::select! {
                // The brain is polled first: one that answers at once needs no timer.
                biased;
                thought = think => Ok(thought),
                () = self.turn.cancellation().cancelled() => Err(self.stopped()),
                () = async { self.conversations.context.clock.sleep_until(self.deadline).await } => Err(self.out_of_time()),
            }
        };
        let mut output = writer.into_output();
        self.store_external_results(std::mem::take(&mut output.results)).await?;
        match thought {
            Ok(Ok(thought)) if thought.stop == StopReason::Error => {
                Ok(Some(TurnEnding::error(ErrorCode::BrainFailed, "the agent's brain stopped with an error")))
            }
            Ok(Ok(thought)) => {
                if let Some(counted) = thought.usage {
                    *usage.get_or_insert_default() += counted;
                }
                self.conclude(thought, output, used).await
            }
            Ok(Err(error)) => {
                if let BrainError::ProgramFailed { details } = &error {
                    let (session, turn) = (&self.turn.session, self.turn.number);
                    tracing::warn!(%session, turn, agent = %self.served.agent.name, "the agent's program failed: {details}");
                }
                let code = match &error {
                    BrainError::Failed(_) | BrainError::ProgramFailed { .. } => ErrorCode::BrainFailed,
                    BrainError::TooMuch(_) => ErrorCode::TurnTooLarge,
                };
                Ok(Some(TurnEnding::error(code, error.to_string())))
            }
            Err(ending) => {
                // Output before a cancellation is stored; output of a failed step is dropped.
                if ending.cancelled {
                    self.store_partial_output(output).await?;
                }
                Ok(Some(ending))
            }
        }
    }

    /// History for the brain. Messages that no longer fit are summarised if the brain can, and the summary is stored
    /// before it is used.
    async fn history(&mut self) -> Result<Vec<Message>, EngineError> {
        let (session, store) = (&self.turn.session, &self.conversations.history_reader());
        self.history.read_newer(store, session, self.session.next_message).await?;
        let exchange = self.history.newest_exchange(store, session).await?;
        let need = *self.need.insert(self.served.brain.history_need(&exchange));
        let (window, summarizes) = match need {
            HistoryNeed::NewestExchange => return Ok(exchange),
            HistoryNeed::Everything => {
                let messages = self.history.everything(store, session).await?;
                return Ok(messages.into_iter().map(|stored| stored.message).collect());
            }
            HistoryNeed::Window(window) => (window, false),
            HistoryNeed::SummarizedWindow(window) => (window, true),
        };
        let from = self.session.summary.as_ref().map_or(0, |summary| summary.until);
        let messages = self.history.window(store, session, window, from).await?;
        let compacted = compact(&messages, self.session.summary.as_ref(), window);
        if summarizes && (compacted.leaves_out || self.history.starts_after(from)) {
            self.summarize(compacted.first_kept, window).await?;
        }
        Ok(compacted.with(self.session.summary.as_ref()))
    }

    /// Adds the messages before number `until` to the summary, as many whole exchanges at a time as fit the brain's
    /// window. What the brain does not summarise now is offered again in the next step.
    async fn summarize(&mut self, until: u64, window: usize) -> Result<(), EngineError> {
        loop {
            let from = self.session.summary.as_ref().map_or(0, |summary| summary.until);
            let (session, store) = (&self.turn.session, &self.conversations.history_reader());
            let (exchanges, until) = self.history.oldest_exchanges(store, session, (from, until), window).await?;
            if exchanges.is_empty() {
                break;
            }
            let mut earlier: Vec<Message> = self.session.summary.iter().map(summary_message).collect();
            earlier.extend(exchanges);
            let prompt = BrainStepInput { tools: Vec::new(), ..self.prompt(earlier) };
            let text = tokio::select! {
                biased;
                text = self.served.brain.summarize(prompt) => text,
                () = self.turn.cancellation().cancelled() => None,
                () = self.conversations.context.clock.sleep_until(self.deadline) => None,
            };
            let Some(text) = text else { break };
            let summary = HistorySummary { until, text };
            let change = SessionChange::SetSummary { session: self.turn.session.clone(), summary: summary.clone() };
            self.conversations.context.commit_one(change).await?;
            self.session.summary = Some(summary);
        }
        Ok(())
    }

    fn prompt(&self, history: Vec<Message>) -> BrainStepInput {
        let agent = &self.served.agent;
        let own = agent
            .tools
            .iter()
            // Device tools exist only for callers with a person.
            .filter(|tool| !tool.on_device() || self.caller.person.is_some())
            .filter(|tool| !tool.exposed || self.session.settings.tool(tool.name.as_str()).is_some())
            .map(|tool| OfferedTool {
                name: tool.name.clone(),
                description: tool.description.clone(),
                parameters: tool.input.source().clone(),
            });
        let brought = self.session.settings.client_tools.iter().map(|tool| OfferedTool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: tool.parameters.clone(),
        });
        BrainStepInput {
            agent: Arc::clone(agent),
            history,
            tools: own.chain(brought).collect(),
            options: self.conversations.option_values(agent, &self.turn.session, &self.session.settings),
        }
    }

    /// Stores the brain's message, then runs its tool calls.
    async fn conclude(
        &mut self,
        thought: BrainStepStop,
        output: BrainOutput,
        mut used: HashSet<CallId>,
    ) -> Result<Option<TurnEnding>, EngineError> {
        let BrainStepOutput { mut blocks, calls, asked } = self.split_output(output, &mut used);
        let has_blocks = !blocks.is_empty();
        let uses = calls.iter().map(|(call, extra)| Block::ToolUse { call: call.clone(), extra: extra.clone() });
        blocks.extend(uses);
        let calls: Vec<ToolCall> = calls.into_iter().map(|(call, _)| call).collect();
        let message = Message::assistant(blocks);
        if calls.is_empty() {
            // `tool_use` without calls is a normal end.
            let reason = if thought.stop == StopReason::ToolUse { StopReason::EndTurn } else { thought.stop };
            let last = has_blocks.then(|| self.numbered(message));
            return Ok(Some(TurnEnding { last, ..TurnEnding::stop(reason) }));
        }
        self.append(message).await?;
        self.turn
            .write(|log| {
                log.close_block();
                calls.iter().try_for_each(|call| log.tool_call(call))
            })
            .map_err(too_large)?;
        let pending = self.run_calls(calls, &asked).await?;
        if !pending.is_empty() {
            let ending = self.interrupted().unwrap_or_else(|| TurnEnding::stop(StopReason::ToolUse));
            if ending.reason != StopReason::ToolUse {
                self.abandon(&pending).await?;
                return Ok(Some(ending));
            }
            return Ok(Some(TurnEnding { pending, ..ending }));
        }
        match thought.stop {
            StopReason::ToolUse | StopReason::EndTurn => Ok(None),
            cut_short => Ok(Some(TurnEnding::stop(cut_short))),
        }
    }

    /// Splits the brain's output: blocks, a new one at each change between text and thinking, then the tool calls.
    fn split_output(&self, output: BrainOutput, used: &mut HashSet<CallId>) -> BrainStepOutput {
        let mut texts: Vec<(ModelOutputKind, String, UnknownMessageFields)> = Vec::new();
        let (mut calls, mut asked) = (Vec::new(), HashSet::new());
        for (at, piece) in output.pieces.into_iter().enumerate() {
            match piece {
                BrainOutputPiece::Text { kind, text, extra } => match texts.last_mut() {
                    Some((last, written, written_extra)) if *last == kind => {
                        written.push_str(&text);
                        written_extra.extend(extra);
                    }
                    _ => texts.push((kind, text, extra)),
                },
                BrainOutputPiece::Call { id, name, input, extra } => {
                    let call = ToolCall { id: self.fresh_id(id, used), name, input };
                    if output.asked.contains(&at) {
                        asked.insert(call.id.clone());
                    }
                    calls.push((call, extra));
                }
            }
        }
        let blocks = texts.into_iter().map(|(kind, text, extra)| text_block(kind, text, extra)).collect();
        BrainStepOutput { blocks, calls, asked }
    }

    /// Runs the calls of a step concurrently. Results are logged in call order; calls that the app must answer are
    /// returned.
    async fn run_calls(
        &mut self,
        calls: Vec<ToolCall>,
        asked: &HashSet<CallId>,
    ) -> Result<Vec<PendingCall>, EngineError> {
        let mut pending = Vec::new();
        let mut targeted = Vec::new();
        for call in calls {
            if self.session.settings.client_tool(call.name.as_str()).is_some() {
                pending.push(pend(call, AwaitedAnswer::Result));
            } else if asked.contains(&call.id) {
                pending.push(PendingCall { elsewhere: true, ..pend(call, AwaitedAnswer::Permission) });
            } else {
                let target = self.result_target(&call.id);
                targeted.push((call, target));
            }
        }
        let this = &*self;
        let mut running: FuturesOrdered<_> = targeted
            .into_iter()
            .map(|(call, target)| async move {
                let (decision, offered) = this.client_decision(&call);
                this.call(call, decision, offered, target).await
            })
            .collect();
        while let Some(answered) = running.next().await {
            match answered? {
                BrainStepCallOutcome::Ended { call, content } => {
                    this.turn.write(|log| log.tool_result(call.as_str(), &content)).map_err(too_large)?;
                }
                BrainStepCallOutcome::AskClient(call) => pending.push(pend(call, AwaitedAnswer::Permission)),
            }
        }
        Ok(pending)
    }

    /// The app's setting for a call, and whether the tool is enabled.
    fn client_decision(&self, call: &ToolCall) -> (ClientDecision, bool) {
        match (self.served.agent.tool(call.name.as_str()), self.session.settings.tool(call.name.as_str())) {
            (Some(tool), _) if !tool.exposed => (ClientDecision::NotAsked, true),
            (Some(_), Some(switched_on)) if switched_on.trust == Some(true) => match self.prompts {
                PermissionResponder::App => (ClientDecision::Trusts, true),
                PermissionResponder::Absent => (ClientDecision::NotAsked, true),
            },
            (Some(_), Some(_)) => (ClientDecision::AskFirst, true),
            (Some(_), None) | (None, _) => (ClientDecision::NotAsked, false),
        }
    }

    pub(super) async fn call(
        &self,
        call: ToolCall,
        client: ClientDecision,
        offered: bool,
        target: ResultTarget,
    ) -> Result<BrainStepCallOutcome, EngineError> {
        // Boxed, so that the futures of turns stay small.
        let called = Box::pin(self.conversations.calls.call(ToolCallRequest {
            caller: &self.caller,
            protocol: self.protocol,
            published: &self.served,
            id: call.id.clone(),
            tool: call.name.clone(),
            arguments: call.input.clone(),
            offered,
            client,
            turn: Some((self.turn.session.clone(), self.turn.number)),
            target: Some(target),
            pending_insert: None,
            trace: &TraceIds::default(),
            on_start: None,
            deadline: self.deadline,
            cancel: self.turn.cancellation(),
        }))
        .await?;
        Ok(match called {
            ToolCallOutcome::Ended(ended) => BrainStepCallOutcome::Ended { content: ended.content(), call: call.id },
            ToolCallOutcome::AskClient => BrainStepCallOutcome::AskClient(call),
        })
    }

    /// Unique id of a tool call, from the id that the brain chose; random if it chose none.
    fn fresh_id(&self, given: Option<CallId>, used: &mut HashSet<CallId>) -> CallId {
        let random =
            || CallId::parse(&self.conversations.context.random_name("call_")).expect("a random name is a call id");
        let mut id = given.unwrap_or_else(random);
        let base = id.clone();
        let mut copy = 1;
        while used.contains(&id) {
            copy += 1;
            id = CallId::parse(&format!("{base}_{copy}")).unwrap_or_else(|_| random());
        }
        used.insert(id.clone());
        id
    }

    /// Reserves the next history number for a call result, which the call stores.
    pub(super) fn result_target(&mut self, call: &CallId) -> ResultTarget {
        let number = self.session.next_message;
        self.session.next_message += 1;
        ResultTarget::Message(HistorySlot {
            session: self.turn.session.clone(),
            turn: self.turn.number,
            number,
            call: call.clone(),
        })
    }

    pub(super) async fn append(&mut self, message: Message) -> Result<(), EngineError> {
        let stored = self.numbered(message);
        let change = stored.clone().append_to(&self.turn.session);
        self.conversations.context.commit_one(change).await?;
        self.history.push(&stored);
        Ok(())
    }

    fn numbered(&mut self, message: Message) -> StoredMessage {
        let number = self.session.next_message;
        self.session.next_message += 1;
        StoredMessage { number, turn: self.turn.number, message }
    }

    async fn store_partial_output(&mut self, output: BrainOutput) -> Result<(), EngineError> {
        let BrainStepOutput { blocks, .. } = self.split_output(output, &mut HashSet::new());
        if blocks.is_empty() { Ok(()) } else { self.append(Message::assistant(blocks)).await }
    }

    /// Answers calls that wait for the app in a turn that was stopped.
    async fn abandon(&mut self, pending: &[PendingCall]) -> Result<(), EngineError> {
        for pending in pending {
            let message = "Tool call not run: the turn was stopped";
            self.append(Message::tool(pending.call.id.clone(), Content::from(message))).await?;
        }
        Ok(())
    }
}

fn pend(call: ToolCall, awaits: AwaitedAnswer) -> PendingCall {
    let arguments_digest = Digest::of_json(&Value::Object(call.input.clone()));
    PendingCall { call, arguments_digest, awaits, elsewhere: false }
}

fn used_ids(history: &[Message]) -> HashSet<CallId> {
    let exchange = history.iter().rev().take_while(|message| !matches!(message, Message::User { .. }));
    exchange.flat_map(Message::tool_calls).map(|call| call.id.clone()).collect()
}

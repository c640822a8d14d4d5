//! Streams the answer of an agent to the person while the brain writes it. Streamed text is always a prefix of the
//! final answer; without a stream the final message is sent all the same.

use nuncio_a2h::peer::{InboundMessage, Peer, StreamWriter};
use nuncio_core::event::{ModelOutputKind, TurnLogEvent};
use nuncio_engine::converse::LiveTurn;

/// Limit of streams per turn. A tool call or the relay may end a stream, and then a new one is opened.
const MAX_STREAMS: usize = 8;

#[derive(Debug)]
pub(super) struct StreamedReplyPreview<'a> {
    agent: &'a Peer,
    message: &'a InboundMessage,
    /// Text since the last tool call.
    text: String,
    /// The open stream. Dropping it ends the stream without an answer.
    pub(super) writer: Option<StreamWriter>,
    /// Remaining streams of this turn.
    streams_left: usize,
}

#[derive(Default)]
struct NewTurnOutput {
    /// Text since the last read, without text before a tool call.
    text: String,
    /// Whether a tool was called, so that earlier text is not part of the answer.
    called_tool: bool,
    next: usize,
    is_over: bool,
}

impl<'a> StreamedReplyPreview<'a> {
    pub(super) fn new(agent: &'a Peer, message: &'a InboundMessage) -> Self {
        Self { agent, message, text: String::new(), writer: None, streams_left: MAX_STREAMS }
    }

    /// Streams text until the turn ends.
    pub(super) async fn follow(&mut self, turn: &LiveTurn) {
        let mut next = 0;
        loop {
            turn.wait_for(next).await;
            let progress = NewTurnOutput::of(turn, next);
            let is_over = progress.is_over;
            next = progress.next;
            self.add(progress).await;
            if is_over {
                return;
            }
        }
    }

    async fn add(&mut self, progress: NewTurnOutput) {
        if progress.called_tool {
            self.text.clear();
            self.writer = None;
        }
        if progress.text.is_empty() {
            return;
        }
        self.text.push_str(&progress.text);
        match &self.writer {
            Some(writer) if !writer.is_over() => writer.push(&progress.text),
            // The complete answer follows, so the last piece needs no stream of its own.
            _ if progress.is_over => {}
            _ => self.open_stream().await,
        }
    }

    /// Opens a stream with the text so far, in place of the last one. After [`MAX_STREAMS`] streams or a failure,
    /// nothing more of the turn is streamed.
    async fn open_stream(&mut self) {
        self.writer = None;
        let Some(left) = self.streams_left.checked_sub(1) else { return };
        self.streams_left = left;
        match self.agent.streams().begin_reply(self.message).await {
            Ok(Some(writer)) => {
                writer.push(&self.text);
                self.writer = Some(writer);
            }
            Ok(None) => self.streams_left = 0,
            Err(error) => {
                tracing::debug!(conversation = %self.message.conversation, %error, "an answer is not streamed");
                self.streams_left = 0;
            }
        }
    }
}

impl NewTurnOutput {
    fn of(turn: &LiveTurn, from: usize) -> Self {
        turn.read(|log| {
            let mut progress = Self { next: log.len(), is_over: log.is_finished(), ..Self::default() };
            for (_, event) in log.from(from) {
                match event {
                    TurnLogEvent::Delta(ModelOutputKind::Text, piece) => progress.text.push_str(piece),
                    TurnLogEvent::ToolCall(_) => {
                        progress.text.clear();
                        progress.called_tool = true;
                    }
                    _ => {}
                }
            }
            progress
        })
    }
}

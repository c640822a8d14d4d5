//! Streams the answer of an agent to the person while the brain writes it. Streamed text is always a prefix of the
//! final answer; without a stream the final message is sent all the same.

use nuncio_a2h::peer::{InboundMessage, Peer, StreamWriter};
use nuncio_core::event::{Event, OutputKind};
use nuncio_engine::converse::LiveTurn;

/// Limit of streams per turn: a tool call or the relay may end one.
const BEGINNINGS: usize = 8;

#[derive(Debug)]
pub(super) struct Preview<'a> {
    agent: &'a Peer,
    message: &'a InboundMessage,
    /// Text since the last tool call.
    said: String,
    writer: Option<StreamWriter>,
    /// Remaining streams of this turn.
    left: usize,
}

#[derive(Default)]
struct TurnProgress {
    /// New text; all of it after a tool call.
    text: String,
    /// Whether a tool was called: text before it is not the answer.
    called: bool,
    next: usize,
    over: bool,
}

impl<'a> Preview<'a> {
    pub(super) fn new(agent: &'a Peer, message: &'a InboundMessage) -> Self {
        Self { agent, message, said: String::new(), writer: None, left: BEGINNINGS }
    }

    /// Streams text until the turn ends.
    pub(super) async fn follow(&mut self, turn: &LiveTurn) {
        let mut next = 0;
        loop {
            turn.wait_for(next).await;
            let news = TurnProgress::of(turn, next);
            if news.over {
                // What was said last comes whole now, with the answer.
                self.add(news).await;
                return;
            }
            next = news.next;
            self.add(news).await;
        }
    }

    async fn add(&mut self, news: TurnProgress) {
        if news.called {
            self.said.clear();
            self.writer = None;
        }
        if news.text.is_empty() {
            return;
        }
        self.said.push_str(&news.text);
        match &self.writer {
            Some(writer) if !writer.is_over() => writer.push(&news.text),
            // Nobody watches what is over already.
            _ if news.over => {}
            _ => self.begin().await,
        }
    }

    /// Opens the stream with the text so far.
    async fn begin(&mut self) {
        self.writer = None;
        let Some(left) = self.left.checked_sub(1) else { return };
        self.left = left;
        match self.agent.stream_reply(self.message).await {
            Ok(Some(writer)) => {
                writer.push(&self.said);
                self.writer = Some(writer);
            }
            Ok(None) => self.left = 0,
            Err(error) => {
                tracing::debug!(conversation = %self.message.conversation, %error, "an answer is not streamed");
                self.left = 0;
            }
        }
    }

    /// Ends the stream: its text is not the answer.
    pub(super) fn give_up(&mut self) {
        self.writer = None;
    }

    /// Returns the open stream, to be ended with the final answer.
    pub(super) fn into_writer(self) -> Option<StreamWriter> {
        self.writer
    }
}

impl TurnProgress {
    fn of(turn: &LiveTurn, from: usize) -> Self {
        turn.read(|log| {
            let mut news = Self { next: log.len(), over: log.is_finished(), ..Self::default() };
            for (_, event) in log.from(from) {
                match event {
                    Event::Delta(OutputKind::Text, piece) => news.text.push_str(piece),
                    Event::ToolCall(_) => {
                        news.text.clear();
                        news.called = true;
                    }
                    _ => {}
                }
            }
            news
        })
    }
}

//! What an agent is saying, shown to the person while it says it. What is shown is the beginning of the answer that
//! comes at the end, and nothing else; where nothing can be shown, the answer comes all the same.

use nuncio_a2h::peer::{Inbound, Peer, StreamWriter};
use nuncio_core::event::{Event, OutputKind};
use nuncio_engine::converse::LiveTurn;

/// How often it is begun again in one turn, at most: where a tool was called in between, or the relay ended it.
const BEGINNINGS: usize = 8;

/// The stream of one answer.
#[derive(Debug)]
pub(super) struct Preview<'a> {
    agent: &'a Peer,
    message: &'a Inbound,
    /// What was said since the last tool was called.
    said: String,
    writer: Option<StreamWriter>,
    /// How often it may still be begun.
    left: usize,
}

/// What happened to a turn.
#[derive(Default)]
struct News {
    /// What was said last; all of it where a tool was called before.
    text: String,
    /// Whether a tool was called: what was said before is not the answer.
    called: bool,
    /// The number of the next event.
    next: usize,
    over: bool,
}

impl<'a> Preview<'a> {
    /// For the answer to a message.
    pub(super) fn new(agent: &'a Peer, message: &'a Inbound) -> Self {
        Self { agent, message, said: String::new(), writer: None, left: BEGINNINGS }
    }

    /// Shows what is said until the turn is over.
    pub(super) async fn follow(&mut self, turn: &LiveTurn) {
        let mut next = 0;
        loop {
            turn.wait_for(next).await;
            let news = News::of(turn, next);
            if news.over {
                // What was said last comes whole now, with the answer.
                self.add(news).await;
                return;
            }
            next = news.next;
            self.add(news).await;
        }
    }

    async fn add(&mut self, news: News) {
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

    /// Begins to show it, from the first word on.
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

    /// What was shown is not the answer.
    pub(super) fn give_up(&mut self) {
        self.writer = None;
    }

    /// What ends it with the answer, where it was shown.
    pub(super) fn into_writer(self) -> Option<StreamWriter> {
        self.writer
    }
}

impl News {
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

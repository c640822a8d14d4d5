//! Answers while they are being written: in memory alone. What counts is the message that follows.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nuncio_core::ids::{AgentId, ClientMessageId};
use serde::Serialize;
use tokio::sync::broadcast;

use super::{MAX_TEXT, words};

/// How many answers are read at once, of all agents.
const MOST: usize = 32;

/// An answer as far as it has been written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Growing {
    /// Who writes.
    pub agent: AgentId,
    /// Which of its answers.
    pub stream: ClientMessageId,
    /// What it says so far.
    pub text: String,
    /// Of how many pieces that is made.
    pub pieces: u64,
}

/// What happened to an answer that is being written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LiveNews {
    /// Who writes.
    pub agent: AgentId,
    /// Which of its answers.
    pub stream: ClientMessageId,
    /// What.
    #[serde(flatten)]
    pub what: Live,
}

/// What happened to an answer that is being written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Live {
    /// It began.
    Begun,
    /// More was said.
    Piece {
        /// The number of this piece, from zero.
        piece: u64,
        /// It.
        text: String,
    },
    /// All was said: the message is there, or comes at once.
    Done,
    /// It was given up: what was shown of it counts for nothing.
    Aborted,
}

/// The answers that are being written, and whoever listens.
pub(crate) struct Writing {
    growing: Mutex<Vec<Growing>>,
    told: broadcast::Sender<LiveNews>,
}

impl Writing {
    pub(crate) fn new() -> Self {
        Self { growing: Mutex::default(), told: broadcast::Sender::new(1024) }
    }

    fn growing(&self) -> MutexGuard<'_, Vec<Growing>> {
        self.growing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears from now on; and how far everything is now.
    pub(crate) fn listen(&self) -> (broadcast::Receiver<LiveNews>, Vec<Growing>) {
        let growing = self.growing();
        (self.told.subscribe(), growing.clone())
    }

    /// An answer begins.
    pub(crate) fn begin(&self, agent: AgentId, stream: ClientMessageId) {
        let mut growing = self.growing();
        if growing.len() >= MOST {
            let gone = growing.remove(0);
            self.tell(gone.agent, gone.stream, Live::Aborted);
        }
        growing.push(Growing { agent: agent.clone(), stream: stream.clone(), text: String::new(), pieces: 0 });
        self.tell(agent, stream, Live::Begun);
    }

    /// More of it. Nothing where it is not known, and nothing beyond what a message holds.
    pub(crate) fn add(&self, agent: &AgentId, stream: &ClientMessageId, more: &str) {
        let mut growing = self.growing();
        let Some(one) = growing.iter_mut().find(|one| one.agent == *agent && one.stream == *stream) else { return };
        let (text, _) = words(more);
        if one.text.len() + text.len() > MAX_TEXT {
            return;
        }
        one.text.push_str(&text);
        let piece = one.pieces;
        one.pieces += 1;
        self.tell(agent.clone(), stream.clone(), Live::Piece { piece, text });
    }

    /// It is over.
    pub(crate) fn end(&self, agent: &AgentId, stream: &ClientMessageId, what: Live) {
        let mut growing = self.growing();
        let before = growing.len();
        growing.retain(|one| one.agent != *agent || one.stream != *stream);
        if growing.len() < before {
            self.tell(agent.clone(), stream.clone(), what);
        }
    }

    fn tell(&self, agent: AgentId, stream: ClientMessageId, what: Live) {
        // Nobody need be there.
        let _ = self.told.send(LiveNews { agent, stream, what });
    }
}

impl fmt::Debug for Writing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Writing({} answers)", self.growing().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_comes_later_has_the_whole_and_every_piece_after_it() {
        let (agent, stream) = (AgentId::parse("agt_1").unwrap(), ClientMessageId::parse("s_1").unwrap());
        let writing = Writing::new();
        writing.add(&agent, &stream, "nobody began this");
        writing.begin(agent.clone(), stream.clone());
        writing.add(&agent, &stream, "One.\r\n");
        let (mut heard, growing) = writing.listen();
        assert_eq!((growing[0].text.as_str(), growing[0].pieces), ("One.\n", 1));
        writing.add(&agent, &stream, "Two\u{202e}");
        writing.add(&agent, &stream, &"x".repeat(MAX_TEXT));
        writing.end(&agent, &stream, Live::Done);
        writing.end(&agent, &stream, Live::Aborted);
        let mut whats = Vec::new();
        while let Ok(news) = heard.try_recv() {
            whats.push(news.what);
        }
        assert_eq!(whats, [Live::Piece { piece: 1, text: "Two ".to_owned() }, Live::Done]);
        assert!(writing.listen().1.is_empty());
    }

    #[test]
    fn the_oldest_of_too_many_is_given_up() {
        let agent = AgentId::parse("agt_1").unwrap();
        let writing = Writing::new();
        for number in 0..=MOST {
            writing.begin(agent.clone(), ClientMessageId::parse(&format!("s_{number}")).unwrap());
        }
        let growing = writing.listen().1;
        assert_eq!((growing.len(), growing[0].stream.as_str()), (MOST, "s_1"));
    }
}

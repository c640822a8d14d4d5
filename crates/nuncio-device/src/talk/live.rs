//! Replies while they are streamed, in memory only. The complete message that follows is authoritative.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nuncio_core::ids::{AgentId, ClientMessageId};
use serde::Serialize;
use tokio::sync::broadcast;

use super::{MAX_TEXT, sanitise};

/// Limit of concurrent streamed replies of all agents together.
const MAX_LIVE_REPLIES: usize = 32;

/// Text of a streamed reply so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StreamedReply {
    pub agent: AgentId,
    pub stream: ClientMessageId,
    pub text: String,
    /// Number of received pieces of the reply.
    pub pieces: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StreamedReplyEvent {
    pub agent: AgentId,
    pub stream: ClientMessageId,
    #[serde(flatten)]
    pub what: StreamedReplyProgress,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum StreamedReplyProgress {
    Begun,
    Piece {
        /// Number of the piece in its reply, from zero.
        piece: u64,
        text: String,
    },
    /// The reply is complete; its message is stored or follows at once.
    Done,
    /// The reply was cancelled; its text so far must be discarded.
    Aborted,
}

pub(crate) struct StreamedReplies {
    growing: Mutex<Vec<StreamedReply>>,
    events: broadcast::Sender<StreamedReplyEvent>,
}

impl StreamedReplies {
    pub(crate) fn new() -> Self {
        Self { growing: Mutex::default(), events: broadcast::Sender::new(1024) }
    }

    fn growing(&self) -> MutexGuard<'_, Vec<StreamedReply>> {
        self.growing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes to streamed replies, and returns the texts of the current ones so far.
    pub(crate) fn listen(&self) -> (broadcast::Receiver<StreamedReplyEvent>, Vec<StreamedReply>) {
        let growing = self.growing();
        (self.events.subscribe(), growing.clone())
    }

    pub(crate) fn begin(&self, agent: AgentId, stream: ClientMessageId) {
        let mut growing = self.growing();
        if growing.len() >= MAX_LIVE_REPLIES {
            let gone = growing.remove(0);
            self.notify(gone.agent, gone.stream, StreamedReplyProgress::Aborted);
        }
        growing.push(StreamedReply { agent: agent.clone(), stream: stream.clone(), text: String::new(), pieces: 0 });
        self.notify(agent, stream, StreamedReplyProgress::Begun);
    }

    /// Appends a piece to a streamed reply. Ignored for unknown streams and beyond [`MAX_TEXT`].
    pub(crate) fn add(&self, agent: &AgentId, stream: &ClientMessageId, more: &str) {
        let mut growing = self.growing();
        let Some(one) = growing.iter_mut().find(|one| one.agent == *agent && one.stream == *stream) else { return };
        let (text, _) = sanitise(more);
        if one.text.len() + text.len() > MAX_TEXT {
            return;
        }
        one.text.push_str(&text);
        let piece = one.pieces;
        one.pieces += 1;
        self.notify(agent.clone(), stream.clone(), StreamedReplyProgress::Piece { piece, text });
    }

    pub(crate) fn end(&self, agent: &AgentId, stream: &ClientMessageId, what: StreamedReplyProgress) {
        let mut growing = self.growing();
        let before = growing.len();
        growing.retain(|one| one.agent != *agent || one.stream != *stream);
        if growing.len() < before {
            self.notify(agent.clone(), stream.clone(), what);
        }
    }

    fn notify(&self, agent: AgentId, stream: ClientMessageId, what: StreamedReplyProgress) {
        // Without subscribers the event is dropped.
        let _ = self.events.send(StreamedReplyEvent { agent, stream, what });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriber_during_streamed_reply_gets_text_so_far_and_following_pieces() {
        let (agent, stream) = (AgentId::parse("agt_1").unwrap(), ClientMessageId::parse("s_1").unwrap());
        let writing = StreamedReplies::new();
        writing.add(&agent, &stream, "nobody began this");
        writing.begin(agent.clone(), stream.clone());
        writing.add(&agent, &stream, "One.\r\n");
        let (mut events, growing) = writing.listen();
        assert_eq!((growing[0].text.as_str(), growing[0].pieces), ("One.\n", 1));
        writing.add(&agent, &stream, "Two\u{202e}");
        writing.add(&agent, &stream, &"x".repeat(MAX_TEXT));
        writing.end(&agent, &stream, StreamedReplyProgress::Done);
        writing.end(&agent, &stream, StreamedReplyProgress::Aborted);
        let mut whats = Vec::new();
        while let Ok(event) = events.try_recv() {
            whats.push(event.what);
        }
        assert_eq!(
            whats,
            [StreamedReplyProgress::Piece { piece: 1, text: "Two ".to_owned() }, StreamedReplyProgress::Done]
        );
        assert!(writing.listen().1.is_empty());
    }

    #[test]
    fn streamed_reply_beyond_the_limit_removes_the_oldest_one() {
        let agent = AgentId::parse("agt_1").unwrap();
        let writing = StreamedReplies::new();
        for number in 0..=MAX_LIVE_REPLIES {
            writing.begin(agent.clone(), ClientMessageId::parse(&format!("s_{number}")).unwrap());
        }
        let growing = writing.listen().1;
        assert_eq!((growing.len(), growing[0].stream.as_str()), (MAX_LIVE_REPLIES, "s_1"));
    }
}

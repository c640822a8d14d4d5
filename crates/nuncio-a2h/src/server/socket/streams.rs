//! Streams on a connection: an agent's frames in, and what a person's devices are told of them out.

use nuncio_core::happening::Recipient;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::consent::ConsentError;
use nuncio_engine::relay::{StreamEar, StreamPiece, StreamTold, StreamWhat, Streamer};
use nuncio_engine::{Caller, Credential, Engine};

use super::line::{End, Line};
use crate::streamed;
use crate::wire::message::Sealed;
use crate::wire::stream::{StreamFrame, StreamNews};

/// How much of streams is told before what is kept.
const WAITING: usize = 64;

/// What a connection has to do with streams.
#[derive(Debug)]
pub(super) enum Streaming {
    /// A person's device hears them.
    Hears(StreamEar),
    /// An agent sends them; one that did not yet has nothing.
    Sends(Option<Box<Streamer>>),
}

impl Streaming {
    pub(super) fn of(engine: &Engine, recipient: &Recipient) -> Self {
        match recipient {
            Recipient::Person(_) => Self::Hears(engine.listen_to_streams(recipient)),
            Recipient::Agent(_) => Self::Sends(None),
        }
    }

    /// What is told next; never where streams are sent.
    pub(super) async fn next(&self) -> StreamTold {
        match self {
            Self::Hears(ear) => ear.next().await,
            Self::Sends(_) => std::future::pending().await,
        }
    }

    /// Tells what waits, so that a stream's end is said before the message that follows it.
    pub(super) async fn tell_waiting(&self, line: &mut Line) -> Result<(), End> {
        let Self::Hears(ear) = self else { return Ok(()) };
        // So many at most: what is kept waits for nobody who streams.
        for _ in 0..WAITING {
            let Some(told) = ear.waiting() else { break };
            line.say(&news(told)).await?;
        }
        Ok(())
    }

    /// When streams of this connection may be over by themselves.
    pub(super) fn due(&self) -> Option<Timestamp> {
        match self {
            Self::Sends(Some(streamer)) => streamer.due(),
            _ => None,
        }
    }

    /// Ends those whose time is over, and says so to their sender.
    pub(super) async fn expire(&mut self, line: &mut Line) -> Result<(), End> {
        let Self::Sends(Some(streamer)) = self else { return Ok(()) };
        for (stream, why) in streamer.expire() {
            line.say(&StreamNews::ended(stream, why.as_str())).await?;
        }
        Ok(())
    }

    /// Takes a frame of an agent's; why not, where it is not taken.
    pub(super) async fn take(
        &mut self,
        engine: &Engine,
        recipient: &Recipient,
        frame: StreamFrame,
    ) -> Result<(), ConsentError> {
        let streamer = match self {
            Self::Sends(Some(streamer)) => streamer,
            Self::Sends(none) => none.insert(Box::new(engine.streamer(by(recipient))?)),
            // Says why not.
            Self::Hears(_) => return engine.streamer(by(recipient)).map(drop),
        };
        streamed::take(streamer, frame).await
    }
}

fn by(recipient: &Recipient) -> Caller {
    Caller { credential: Credential::AgentToken, ..Caller::new(Principal::from(recipient.clone())) }
}

/// What is told of a stream, as it is written.
pub(super) fn news(StreamTold { conversation: conversation_id, stream: stream_id, what }: StreamTold) -> StreamNews {
    match what {
        StreamWhat::Started { sender, at, envelope } => StreamNews::Start {
            conversation_id,
            stream_id,
            sender_id: sender.id().to_owned(),
            sender_type: sender.sender_type(),
            encrypted_payload: Sealed(envelope),
            created_at: at,
        },
        StreamWhat::Piece(StreamPiece { seq, sealed }) => {
            StreamNews::Delta { conversation_id, stream_id, stream_seq: seq, encrypted_payload: Sealed(sealed) }
        }
        StreamWhat::Done { last: StreamPiece { seq, sealed }, message } => StreamNews::Done {
            conversation_id,
            stream_id,
            stream_seq: seq,
            client_message_id: message,
            encrypted_payload: Sealed(sealed),
        },
        StreamWhat::Aborted(why) => StreamNews::Abort { conversation_id, stream_id, reason: why.as_str().to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use nuncio_core::Code;
    use nuncio_core::conversation::StreamId;
    use nuncio_core::happening::Recipient;
    use nuncio_core::ids::AgentId;
    use nuncio_core::ids::{ClientMessageId, ConversationId};
    use nuncio_core::time::Timestamp;
    use nuncio_engine::relay::StreamEnd;
    use serde_json::json;

    use super::*;
    use crate::wire::error::WireError;

    #[test]
    fn what_is_told_of_a_stream_is_written_as_the_page_has_it() {
        let conversation = ConversationId::parse("cnv_1").unwrap();
        let stream = StreamId::parse("s_1").unwrap();
        let sealed = |bytes: &[u8]| bytes.into();
        let piece = |seq| StreamPiece { seq, sealed: sealed(b"ab") };
        let sender = Recipient::Agent(AgentId::parse("agt_1").unwrap());
        let at = Timestamp::from_millis(1_794_740_400_000);
        let message = ClientMessageId::parse("m_1").unwrap();
        for (what, written) in [
            (
                StreamWhat::Started { sender, at, envelope: sealed(b"{}") },
                json!({"type": "stream.start", "conversation_id": "cnv_1", "stream_id": "s_1", "sender_id": "agt_1",
                    "sender_type": "agent", "encrypted_payload": "e30=", "created_at": at}),
            ),
            (
                StreamWhat::Piece(piece(1)),
                json!({"type": "stream.delta", "conversation_id": "cnv_1", "stream_id": "s_1", "stream_seq": 1,
                    "encrypted_payload": "YWI="}),
            ),
            (
                StreamWhat::Done { last: piece(2), message },
                json!({"type": "stream.done", "conversation_id": "cnv_1", "stream_id": "s_1", "stream_seq": 2,
                    "client_message_id": "m_1", "encrypted_payload": "YWI="}),
            ),
            (
                StreamWhat::Aborted(StreamEnd::TooLong),
                json!({"type": "stream.abort", "conversation_id": "cnv_1", "stream_id": "s_1", "reason": "too_long"}),
            ),
        ] {
            let told = StreamTold { conversation: conversation.clone(), stream: stream.clone(), what };
            let event = news(told);
            assert_eq!(serde_json::to_value(&event).unwrap(), written);
            assert_eq!(serde_json::from_value::<StreamNews>(written).unwrap(), event);
        }
        let error = StreamNews::error(stream, WireError::new(Code::StreamNotFound, "no"));
        let written = json!({"type": "stream.error", "stream_id": "s_1", "code": "STREAM_NOT_FOUND", "message": "no",
            "i18n_key": "errors.stream_not_found", "params": {}});
        assert_eq!(serde_json::to_value(&error).unwrap(), written);
    }
}

//! Streams on a WebSocket connection: an agent sends stream frames, and a person's device receives stream events.

use nuncio_core::notification::RelayParty;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::consent::ConsentError;
use nuncio_engine::relay::{StreamPiece, StreamSender, StreamSubscriber, StreamUpdate, StreamUpdateKind};
use nuncio_engine::{AuthenticationMethod, Caller, Engine};

use super::socket_connection::{SocketCloseReason, SocketConnection};
use crate::stream_frames;
use crate::wire::message::SealedBytes;
use crate::wire::stream::{RelayStreamFrame, StreamFrame};

/// Limit of stream events that are sent before the next batch of stored events.
const MAX_WAITING_EVENTS: usize = 64;

#[derive(Debug)]
pub(super) enum StreamRole {
    /// The connection of a person's device, which receives streams.
    Receives(StreamSubscriber),
    /// The connection of an agent, which sends streams; `None` before the first stream.
    Sends(Option<Box<StreamSender>>),
}

impl StreamRole {
    pub(super) fn of(engine: &Engine, recipient: &RelayParty) -> Self {
        match recipient {
            RelayParty::Person(_) => Self::Receives(engine.relay().listen_to_streams(recipient)),
            RelayParty::Agent(_) => Self::Sends(None),
        }
    }

    /// Next stream event; never resolves for agents.
    pub(super) async fn next(&self) -> StreamUpdate {
        match self {
            Self::Receives(subscriber) => subscriber.next().await,
            Self::Sends(_) => std::future::pending().await,
        }
    }

    /// Sends waiting stream events, so that the end of a stream arrives before the message with the whole text.
    pub(super) async fn send_waiting(&self, connection: &mut SocketConnection) -> Result<(), SocketCloseReason> {
        let Self::Receives(subscriber) = self else { return Ok(()) };
        // Limited, so that streams do not delay stored events.
        for _ in 0..MAX_WAITING_EVENTS {
            let Some(update) = subscriber.waiting() else { break };
            connection.send_json(&stream_notice(update)).await?;
        }
        Ok(())
    }

    /// Time at which the next stream of this connection expires.
    pub(super) fn due(&self) -> Option<Timestamp> {
        match self {
            Self::Sends(Some(streamer)) => streamer.due(),
            _ => None,
        }
    }

    /// Ends expired streams and notifies the agent that writes them.
    pub(super) async fn expire(&mut self, connection: &mut SocketConnection) -> Result<(), SocketCloseReason> {
        let Self::Sends(Some(streamer)) = self else { return Ok(()) };
        for (stream, why) in streamer.expire() {
            connection.send_json(&RelayStreamFrame::ended(stream, why.as_str())).await?;
        }
        Ok(())
    }

    pub(super) async fn take(
        &mut self,
        engine: &Engine,
        recipient: &RelayParty,
        frame: StreamFrame,
    ) -> Result<(), ConsentError> {
        let streamer = match self {
            Self::Sends(Some(streamer)) => streamer,
            Self::Sends(none) => none.insert(Box::new(engine.relay().streamer(agent_caller(recipient))?)),
            // A person's device may not send streams; the engine refuses and gives the reason.
            Self::Receives(_) => return engine.relay().streamer(agent_caller(recipient)).map(drop),
        };
        stream_frames::apply(streamer, frame).await
    }
}

fn agent_caller(recipient: &RelayParty) -> Caller {
    Caller { authentication: AuthenticationMethod::AgentToken, ..Caller::new(Principal::from(recipient.clone())) }
}

pub(super) fn stream_notice(
    StreamUpdate { conversation: conversation_id, stream: stream_id, what }: StreamUpdate,
) -> RelayStreamFrame {
    match what {
        StreamUpdateKind::Started { sender, at, envelope } => RelayStreamFrame::Start {
            conversation_id,
            stream_id,
            sender_id: sender.id().to_owned(),
            sender_type: sender.sender_type(),
            encrypted_payload: SealedBytes(envelope),
            created_at: at,
        },
        StreamUpdateKind::Piece(StreamPiece { seq, sealed }) => RelayStreamFrame::Delta {
            conversation_id,
            stream_id,
            stream_seq: seq,
            encrypted_payload: SealedBytes(sealed),
        },
        StreamUpdateKind::Done { last: StreamPiece { seq, sealed }, message } => RelayStreamFrame::Done {
            conversation_id,
            stream_id,
            stream_seq: seq,
            client_message_id: message,
            encrypted_payload: SealedBytes(sealed),
        },
        StreamUpdateKind::Aborted(why) => {
            RelayStreamFrame::Abort { conversation_id, stream_id, reason: why.as_str().to_owned() }
        }
    }
}

#[cfg(test)]
mod tests {
    use nuncio_core::ErrorCode;
    use nuncio_core::conversation::StreamId;
    use nuncio_core::ids::AgentId;
    use nuncio_core::ids::{ClientMessageId, ConversationId};
    use nuncio_core::notification::RelayParty;
    use nuncio_core::time::Timestamp;
    use nuncio_engine::relay::StreamAbortReason;
    use serde_json::json;

    use super::*;
    use crate::wire::error::WireError;

    #[test]
    fn stream_events_have_the_documented_json() {
        let conversation = ConversationId::parse("cnv_1").unwrap();
        let stream = StreamId::parse("s_1").unwrap();
        let sealed = |bytes: &[u8]| bytes.into();
        let piece = |seq| StreamPiece { seq, sealed: sealed(b"ab") };
        let sender = RelayParty::Agent(AgentId::parse("agt_1").unwrap());
        let at = Timestamp::from_millis(1_794_740_400_000);
        let message = ClientMessageId::parse("m_1").unwrap();
        for (what, written) in [
            (
                StreamUpdateKind::Started { sender, at, envelope: sealed(b"{}") },
                json!({"type": "stream.start", "conversation_id": "cnv_1", "stream_id": "s_1", "sender_id": "agt_1",
                    "sender_type": "agent", "encrypted_payload": "e30=", "created_at": at}),
            ),
            (
                StreamUpdateKind::Piece(piece(1)),
                json!({"type": "stream.delta", "conversation_id": "cnv_1", "stream_id": "s_1", "stream_seq": 1,
                    "encrypted_payload": "YWI="}),
            ),
            (
                StreamUpdateKind::Done { last: piece(2), message },
                json!({"type": "stream.done", "conversation_id": "cnv_1", "stream_id": "s_1", "stream_seq": 2,
                    "client_message_id": "m_1", "encrypted_payload": "YWI="}),
            ),
            (
                StreamUpdateKind::Aborted(StreamAbortReason::TooLong),
                json!({"type": "stream.abort", "conversation_id": "cnv_1", "stream_id": "s_1", "reason": "too_long"}),
            ),
        ] {
            let update = StreamUpdate { conversation: conversation.clone(), stream: stream.clone(), what };
            let event = stream_notice(update);
            assert_eq!(serde_json::to_value(&event).unwrap(), written);
            assert_eq!(serde_json::from_value::<RelayStreamFrame>(written).unwrap(), event);
        }
        let error =
            RelayStreamFrame::Error { stream_id: stream, error: WireError::new(ErrorCode::StreamNotFound, "no") };
        let written = json!({"type": "stream.error", "stream_id": "s_1", "code": "STREAM_NOT_FOUND", "message": "no",
            "i18n_key": "errors.stream_not_found", "params": {}});
        assert_eq!(serde_json::to_value(&error).unwrap(), written);
    }
}

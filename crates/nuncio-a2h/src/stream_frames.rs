//! Passes stream frames of an agent to the engine; used for connected agents and for agents in the same process.

use nuncio_engine::consent::ConsentError;
use nuncio_engine::relay::{StreamPiece, StreamSender};

use crate::wire::stream::StreamFrame;

pub(crate) async fn apply(streamer: &mut StreamSender, frame: StreamFrame) -> Result<(), ConsentError> {
    match frame {
        StreamFrame::Start(start) => {
            streamer.start(&start.conversation_id, start.stream_id, start.encrypted_payload.0).await
        }
        StreamFrame::Delta(delta) => {
            let piece = StreamPiece { seq: delta.stream_seq, sealed: delta.encrypted_payload.0 };
            streamer.piece(&delta.stream_id, piece).await
        }
        StreamFrame::Done(done) => {
            let last = StreamPiece { seq: done.stream_seq, sealed: done.encrypted_payload.0 };
            streamer.done(&done.stream_id, last, done.client_message_id).await
        }
        StreamFrame::Abort(abort) => streamer.abort(&abort.stream_id),
    }
}

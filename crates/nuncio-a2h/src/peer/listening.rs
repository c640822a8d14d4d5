//! Incoming streams: each frame is opened and verified before it is reported; an invalid frame ends its stream.

use nuncio_core::conversation::{ContentType, ConversationType, SenderType, StreamId};
use nuncio_core::ids::{AgentId, ClientMessageId, ConversationId};
use nuncio_core::notification::RelayParty;
use nuncio_identity::seal::{RelayMetadata, SealIdentity, StreamOpener};

use super::{Peer, lock};
use crate::wire::stream::RelayStreamFrame;

const MAX_INCOMING_STREAMS: usize = 64;

/// Event of an incoming stream, by which a message can be read while it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncomingStreamEvent {
    pub conversation: ConversationId,
    pub sender: RelayParty,
    pub stream: StreamId,
    pub what: IncomingStreamEventKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IncomingStreamEventKind {
    Begun,
    Delta(String),
    /// The stream is complete. The message with the whole text arrives separately and is authoritative.
    Done {
        client_message_id: ClientMessageId,
    },
    /// The stream was cancelled or tampered with; its text so far must be discarded.
    Aborted,
}

#[derive(Debug)]
pub(super) struct IncomingTextStream {
    sender: RelayParty,
    opener: StreamOpener,
}

type IncomingStreamId = (ConversationId, StreamId);

impl Peer {
    /// Handles an event of an incoming stream. The relay does not repeat stream events.
    pub(super) async fn receive_stream(&self, news: RelayStreamFrame) {
        match news {
            RelayStreamFrame::Start {
                conversation_id,
                stream_id,
                sender_id,
                sender_type: SenderType::Agent,
                encrypted_payload,
                ..
            } => {
                let Ok(sender) = AgentId::parse(&sender_id).map(RelayParty::Agent) else { return };
                self.receive_stream_start((conversation_id, stream_id), sender, &encrypted_payload.0).await;
            }
            // Streams of persons are ignored, because only agents may send streams.
            RelayStreamFrame::Start { .. } => {}
            RelayStreamFrame::Delta { conversation_id, stream_id, stream_seq, encrypted_payload } => {
                self.receive_stream_frame((conversation_id, stream_id), |opener| {
                    opener.piece(stream_seq, &encrypted_payload.0).ok().map(IncomingStreamEventKind::Delta)
                })
                .await;
            }
            RelayStreamFrame::Done { conversation_id, stream_id, stream_seq, client_message_id, encrypted_payload } => {
                self.receive_stream_frame((conversation_id, stream_id), |opener| {
                    let message = opener.end(stream_seq, &encrypted_payload.0).ok()?;
                    (message == client_message_id).then_some(IncomingStreamEventKind::Done { client_message_id })
                })
                .await;
            }
            RelayStreamFrame::Abort { conversation_id, stream_id, .. } => {
                self.receive_stream_frame((conversation_id, stream_id), |_| None).await;
            }
            RelayStreamFrame::Error { stream_id, error } => {
                tracing::debug!(stream = %stream_id, message = error.message, "the relay ended a stream");
                self.state.streams.cancel(&stream_id);
            }
        }
    }

    async fn receive_stream_start(&self, name: IncomingStreamId, sender: RelayParty, envelope: &[u8]) {
        let (id, stream) = &name;
        let Ok(conversation) = self.conversation(id).await else { return };
        let theirs = conversation.kind == ConversationType::H2a && conversation.has(&sender) && sender != *self.me();
        if !theirs || lock(&self.state.incoming).len() >= MAX_INCOMING_STREAMS {
            return;
        }
        let metadata = RelayMetadata {
            conversation: id.clone(),
            conversation_type: conversation.kind,
            sender: sender.clone(),
            sender_device: None,
            client_id: stream.clone(),
            content_type: ContentType::System,
            subtype: None,
        };
        let (envelope, now) = (envelope.to_vec(), self.state.context.now());
        let open = move |keys: &mut SealIdentity| StreamOpener::begin(keys, &metadata, &envelope, now);
        let opener = match self.state.keys.with_seal_identity(open).await {
            Ok(Ok((opened, opener))) => {
                if opened.rekeyed {
                    self.state.calls.call_again(id);
                }
                opener
            }
            // The message with the whole text follows and reports the same problem.
            Ok(Err(why)) => {
                tracing::debug!(conversation = %id, %stream, %why, "ignored a stream that cannot be opened");
                None
            }
            Err(_) => None,
        };
        let Some(opener) = opener else { return };
        lock(&self.state.incoming).insert(name.clone(), IncomingTextStream { sender: sender.clone(), opener });
        self.report_stream((name, sender), IncomingStreamEventKind::Begun).await;
    }

    /// Opens a frame of a known stream; a frame that does not open ends the stream.
    async fn receive_stream_frame(
        &self,
        name: IncomingStreamId,
        open: impl FnOnce(&mut StreamOpener) -> Option<IncomingStreamEventKind>,
    ) {
        let (sender, what) = {
            let mut all = lock(&self.state.incoming);
            let Some(incoming) = all.get_mut(&name) else { return };
            let what = open(&mut incoming.opener).unwrap_or(IncomingStreamEventKind::Aborted);
            let sender = incoming.sender.clone();
            if !matches!(what, IncomingStreamEventKind::Delta(_)) {
                all.remove(&name);
            }
            (sender, what)
        };
        self.report_stream((name, sender), what).await;
    }

    /// Reports all incoming streams as aborted after the connection closed.
    pub(super) async fn abort_incoming_streams(&self) {
        let all: Vec<_> = lock(&self.state.incoming).drain().collect();
        for (name, incoming) in all {
            self.report_stream((name, incoming.sender), IncomingStreamEventKind::Aborted).await;
        }
    }

    async fn report_stream(
        &self,
        ((conversation, stream), sender): (IncomingStreamId, RelayParty),
        what: IncomingStreamEventKind,
    ) {
        let event = IncomingStreamEvent { conversation, sender, stream, what };
        self.state.handler.on_stream(self, event).await;
    }
}

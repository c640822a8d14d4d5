//! Incoming streams: each frame is opened and verified before it is reported; an invalid frame ends its stream.

use nuncio_core::conversation::{ContentType, ConversationType, SenderType, StreamId};
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{AgentId, ClientMessageId, ConversationId};
use nuncio_identity::seal::{RelayMetadata, StreamOpener};

use super::{Peer, lock};
use crate::wire::stream::StreamNews;

/// Limit of concurrent incoming streams.
const MOST: usize = 64;

/// Event of an incoming stream: a message that is read while it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEvent {
    pub conversation: ConversationId,
    pub sender: Recipient,
    pub stream: StreamId,
    pub what: StreamEventKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEventKind {
    Begun,
    Delta(String),
    /// Complete. The message itself arrives separately and is authoritative.
    Done {
        client_message_id: ClientMessageId,
    },
    /// Cancelled or tampered with; the text so far is void.
    Aborted,
}

#[derive(Debug)]
pub(super) struct IncomingStream {
    sender: Recipient,
    opener: StreamOpener,
}

type StreamKey = (ConversationId, StreamId);

impl Peer {
    /// Handles an event of an incoming stream, which is never repeated.
    pub(super) async fn receive_stream(&self, news: StreamNews) {
        match news {
            StreamNews::Start {
                conversation_id,
                stream_id,
                sender_id,
                sender_type: SenderType::Agent,
                encrypted_payload,
                ..
            } => {
                let Ok(sender) = AgentId::parse(&sender_id).map(Recipient::Agent) else { return };
                self.receive_stream_start((conversation_id, stream_id), sender, &encrypted_payload.0).await;
            }
            // Only agents stream.
            StreamNews::Start { .. } => {}
            StreamNews::Delta { conversation_id, stream_id, stream_seq, encrypted_payload } => {
                self.receive_stream_frame((conversation_id, stream_id), |opener| {
                    opener.piece(stream_seq, &encrypted_payload.0).ok().map(StreamEventKind::Delta)
                })
                .await;
            }
            StreamNews::Done { conversation_id, stream_id, stream_seq, client_message_id, encrypted_payload } => {
                self.receive_stream_frame((conversation_id, stream_id), |opener| {
                    let named = opener.end(stream_seq, &encrypted_payload.0).ok()?;
                    (named == client_message_id).then_some(StreamEventKind::Done { client_message_id })
                })
                .await;
            }
            StreamNews::Abort { conversation_id, stream_id, .. } => {
                self.receive_stream_frame((conversation_id, stream_id), |_| None).await;
            }
            StreamNews::Error { stream_id, message, .. } => {
                tracing::debug!(stream = %stream_id, message, "the relay ended a stream");
                self.stream_ended(&stream_id);
            }
        }
    }

    async fn receive_stream_start(&self, name: StreamKey, sender: Recipient, envelope: &[u8]) {
        let (id, stream) = &name;
        let Ok(conversation) = self.conversation(id).await else { return };
        let theirs = conversation.kind == ConversationType::H2a && conversation.has(&sender) && sender != *self.me();
        if !theirs || lock(&self.inner.heard).len() >= MOST {
            return;
        }
        let told = RelayMetadata {
            conversation: id.clone(),
            conversation_type: conversation.kind,
            sender: sender.clone(),
            sender_device: None,
            client_id: stream.clone(),
            content_type: ContentType::System,
            subtype: None,
        };
        let (envelope, now) = (envelope.to_vec(), self.now());
        let opened = self.with_party(move |party| party.open_stream(&told, &envelope, now)).await;
        let opener = match opened {
            Ok(Ok((opened, opener))) => {
                if opened.rekeyed {
                    self.call_again(id);
                }
                opener
            }
            // Problems are handled with the message that follows.
            Ok(Err(why)) => {
                tracing::debug!(conversation = %id, %stream, %why, "ignored a stream that cannot be opened");
                None
            }
            Err(_) => None,
        };
        let Some(opener) = opener else { return };
        lock(&self.inner.heard).insert(name.clone(), IncomingStream { sender: sender.clone(), opener });
        self.report_stream((name, sender), StreamEventKind::Begun).await;
    }

    /// Opens a frame of a known stream; a frame that does not open ends the stream.
    async fn receive_stream_frame(
        &self,
        name: StreamKey,
        open: impl FnOnce(&mut StreamOpener) -> Option<StreamEventKind>,
    ) {
        let (sender, what) = {
            let mut all = lock(&self.inner.heard);
            let Some(heard) = all.get_mut(&name) else { return };
            let what = open(&mut heard.opener).unwrap_or(StreamEventKind::Aborted);
            let sender = heard.sender.clone();
            if !matches!(what, StreamEventKind::Delta(_)) {
                all.remove(&name);
            }
            (sender, what)
        };
        self.report_stream((name, sender), what).await;
    }

    /// Aborts all incoming streams after the connection closed.
    pub(super) async fn abort_incoming_streams(&self) {
        let all: Vec<_> = lock(&self.inner.heard).drain().collect();
        for (name, heard) in all {
            self.report_stream((name, heard.sender), StreamEventKind::Aborted).await;
        }
    }

    async fn report_stream(&self, ((conversation, stream), sender): (StreamKey, Recipient), what: StreamEventKind) {
        let event = StreamEvent { conversation, sender, stream, what };
        self.inner.handler.on_stream(self, event).await;
    }
}

//! Hearing streams: everything is opened and checked before it is told, and what does not hold ends its stream.

use nuncio_core::conversation::{ContentType, ConversationType, SenderType, StreamId};
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{AgentId, ClientMessageId, ConversationId};
use nuncio_identity::seal::{StreamOpener, Told};

use super::{Peer, lock};
use crate::wire::stream::StreamNews;

/// How many streams are heard at once.
const MOST: usize = 64;

/// Something of a stream: a message that is read while it is being written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEvent {
    /// Where.
    pub conversation: ConversationId,
    /// Who writes.
    pub sender: Recipient,
    /// Which stream.
    pub stream: StreamId,
    /// What happened.
    pub what: Streamed,
}

/// What happened to a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Streamed {
    /// It began.
    Begun,
    /// More was said.
    Delta(String),
    /// All was said. The message comes by itself, shortly after or before: it is what counts.
    Done {
        /// Its sender's name for that message.
        client_message_id: ClientMessageId,
    },
    /// It was given up, or somebody between changed it: what was shown of it counts for nothing.
    Aborted,
}

/// A stream that is being heard.
#[derive(Debug)]
pub(super) struct Heard {
    sender: Recipient,
    opener: StreamOpener,
}

type Name = (ConversationId, StreamId);

impl Peer {
    /// Takes what the relay told of a stream. Nothing of it is ever told again.
    pub(super) async fn hear(&self, news: StreamNews) {
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
                self.hear_start((conversation_id, stream_id), sender, &encrypted_payload.0).await;
            }
            // People do not stream.
            StreamNews::Start { .. } => {}
            StreamNews::Delta { conversation_id, stream_id, stream_seq, encrypted_payload } => {
                self.hear_more((conversation_id, stream_id), |opener| {
                    opener.piece(stream_seq, &encrypted_payload.0).ok().map(Streamed::Delta)
                })
                .await;
            }
            StreamNews::Done { conversation_id, stream_id, stream_seq, client_message_id, encrypted_payload } => {
                self.hear_more((conversation_id, stream_id), |opener| {
                    let named = opener.end(stream_seq, &encrypted_payload.0).ok()?;
                    (named == client_message_id).then_some(Streamed::Done { client_message_id })
                })
                .await;
            }
            StreamNews::Abort { conversation_id, stream_id, .. } => {
                self.hear_more((conversation_id, stream_id), |_| None).await;
            }
            StreamNews::Error { stream_id, message, .. } => {
                tracing::debug!(stream = %stream_id, message, "the relay ended a stream");
                self.stream_ended(&stream_id);
            }
        }
    }

    async fn hear_start(&self, name: Name, sender: Recipient, envelope: &[u8]) {
        let (id, stream) = &name;
        let Ok(conversation) = self.conversation(id).await else { return };
        let theirs = conversation.kind == ConversationType::H2a && conversation.has(&sender) && sender != *self.me();
        if !theirs || lock(&self.inner.heard).len() >= MOST {
            return;
        }
        let told = Told {
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
            // The message that follows is looked at anew, and whatever is wrong is dealt with there.
            Ok(Err(why)) => {
                tracing::debug!(conversation = %id, %stream, %why, "a stream is not heard");
                None
            }
            Err(_) => None,
        };
        let Some(opener) = opener else { return };
        lock(&self.inner.heard).insert(name.clone(), Heard { sender: sender.clone(), opener });
        self.tell_of((name, sender), Streamed::Begun).await;
    }

    /// Opens what came of a stream that is heard; what does not open ends it.
    async fn hear_more(&self, name: Name, open: impl FnOnce(&mut StreamOpener) -> Option<Streamed>) {
        let (sender, what) = {
            let mut all = lock(&self.inner.heard);
            let Some(heard) = all.get_mut(&name) else { return };
            let what = open(&mut heard.opener).unwrap_or(Streamed::Aborted);
            let sender = heard.sender.clone();
            if !matches!(what, Streamed::Delta(_)) {
                all.remove(&name);
            }
            (sender, what)
        };
        self.tell_of((name, sender), what).await;
    }

    /// The connection is gone, and what was heard by it goes no further.
    pub(super) async fn stop_hearing(&self) {
        let all: Vec<_> = lock(&self.inner.heard).drain().collect();
        for (name, heard) in all {
            self.tell_of((name, heard.sender), Streamed::Aborted).await;
        }
    }

    async fn tell_of(&self, ((conversation, stream), sender): (Name, Recipient), what: Streamed) {
        let event = StreamEvent { conversation, sender, stream, what };
        self.inner.handler.on_stream(self, event).await;
    }
}

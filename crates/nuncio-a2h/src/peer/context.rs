//! State that all parts of a peer share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use nuncio_core::conversation::{Conversation, ConversationType};
use nuncio_core::ids::{ClientMessageId, ConversationId};
use nuncio_core::notification::RelayParty;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::entropy::timed_name;
use nuncio_engine::ports::{Clock, Entropy};
use nuncio_identity::seal::KeyStore;

use super::error::SendError;
use super::lock;
use crate::client::Relay;

pub(super) struct PeerContext {
    pub(super) relay: Arc<dyn Relay>,
    pub(super) key_store: Arc<dyn KeyStore>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) conversations: Mutex<HashMap<ConversationId, Arc<Conversation>>>,
}

impl PeerContext {
    pub(super) fn me(&self) -> &RelayParty {
        self.relay.me()
    }

    pub(super) async fn conversation_with(&self, other: &RelayParty) -> Result<Arc<Conversation>, SendError> {
        let alone = |known: &&Arc<Conversation>| known.other(self.me()) == Some(other);
        let known = lock(&self.conversations).values().find(alone).cloned();
        match known {
            Some(known) => Ok(known),
            None => Ok(self.remember(self.relay.conversation_with(other).await?)),
        }
    }

    pub(super) async fn conversation(&self, id: &ConversationId) -> Result<Arc<Conversation>, SendError> {
        let known = lock(&self.conversations).get(id).cloned();
        match known {
            // Members of a group may change, so groups are not cached.
            Some(known) if known.kind != ConversationType::Group => Ok(known),
            _ => Ok(self.remember(self.relay.conversation(id).await?)),
        }
    }

    fn remember(&self, conversation: Conversation) -> Arc<Conversation> {
        const MAX_CACHED_CONVERSATIONS: usize = 10_000;
        let conversation = Arc::new(conversation);
        let mut known = lock(&self.conversations);
        if known.len() >= MAX_CACHED_CONVERSATIONS {
            known.clear();
        }
        known.insert(conversation.id.clone(), Arc::clone(&conversation));
        conversation
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn new_client_id(&self) -> Result<ClientMessageId, SendError> {
        let name = timed_name(&*self.entropy, "m_", self.now());
        ClientMessageId::parse(&name).map_err(|why| SendError::Fault(why.to_string()))
    }
}

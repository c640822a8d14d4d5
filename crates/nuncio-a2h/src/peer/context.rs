//! State that all parts of a peer share.

use std::sync::Arc;

use nuncio_core::bounded_cache::BoundedCache;
use nuncio_core::conversation::{Conversation, ConversationType};
use nuncio_core::ids::{ClientMessageId, ConversationId};
use nuncio_core::notification::RelayParty;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::entropy::timed_name;
use nuncio_engine::ports::{Clock, Entropy};
use nuncio_identity::seal::KeyStore;

use super::error::SendError;
use crate::client::RelayClient;

pub(super) struct PeerContext {
    pub(super) relay: Arc<dyn RelayClient>,
    pub(super) key_store: Arc<dyn KeyStore>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) entropy: Arc<dyn Entropy>,
    conversations: BoundedCache<ConversationId, Arc<Conversation>>,
    /// The conversations of two, by the other member.
    two_party: BoundedCache<RelayParty, Arc<Conversation>>,
}

const MAX_CACHED_CONVERSATIONS: usize = 10_000;

impl PeerContext {
    pub(super) fn new(
        relay: Arc<dyn RelayClient>,
        key_store: Arc<dyn KeyStore>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        let conversations = BoundedCache::new(MAX_CACHED_CONVERSATIONS);
        Self { relay, key_store, clock, entropy, conversations, two_party: BoundedCache::new(MAX_CACHED_CONVERSATIONS) }
    }

    pub(super) fn me(&self) -> &RelayParty {
        self.relay.me()
    }

    pub(super) async fn conversation_with(&self, other: &RelayParty) -> Result<Arc<Conversation>, SendError> {
        match self.two_party.get(other, self.now()) {
            Some(known) => Ok(known),
            None => Ok(self.remember(self.relay.conversation_with(other).await?)),
        }
    }

    pub(super) async fn conversation(&self, id: &ConversationId) -> Result<Arc<Conversation>, SendError> {
        match self.conversations.get(id, self.now()) {
            // Members of a group may change, so groups are not cached.
            Some(known) if known.kind != ConversationType::Group => Ok(known),
            _ => Ok(self.remember(self.relay.conversation(id).await?)),
        }
    }

    fn remember(&self, conversation: Conversation) -> Arc<Conversation> {
        let conversation = Arc::new(conversation);
        if let Some(other) = conversation.other(self.me()) {
            self.two_party.put(other.clone(), Arc::clone(&conversation), Timestamp::LAST);
        }
        self.conversations.put(conversation.id.clone(), Arc::clone(&conversation), Timestamp::LAST);
        conversation
    }

    pub(super) fn forget_conversations(&self) {
        self.conversations.clear();
        self.two_party.clear();
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn new_client_id(&self) -> Result<ClientMessageId, SendError> {
        let name = timed_name(&*self.entropy, "m_", self.now());
        ClientMessageId::parse(&name).map_err(|why| SendError::Fault(why.to_string()))
    }
}

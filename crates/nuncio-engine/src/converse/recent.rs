//! Cache of recently used conversations, so that their next turn need not read the store.
//!
//! The cache cannot be stale: only a turn changes a session, and the store refuses a turn unless its turn count
//! matches.

use nuncio_core::bounded_cache::BoundedCache;
use nuncio_core::ids::SessionId;
use nuncio_core::principal::Principal;
use nuncio_core::session::Session;
use nuncio_core::time::Timestamp;

use super::history::json_size;
use crate::ports::store::StoredMessage;

/// Approximate cache size for conversations with turns, in bytes.
const MAX_CACHE_BYTES: usize = 32 << 20;
/// Approximate cache size for conversations without a turn, in bytes: the first turn comes soon or never.
const MAX_NEW_BYTES: usize = 1 << 20;
/// Approximate maximum size of one cached conversation; for a longer one reading the store costs little in comparison.
const MAX_CONVERSATION_BYTES: usize = 1 << 20;
/// Assumed overhead per session or message, in bytes.
const OVERHEAD_BYTES: usize = 512;

/// A session between two turns, with its messages.
#[derive(Debug)]
pub(super) struct CachedConversation {
    pub(super) session: Session,
    pub(super) history: CachedHistory,
}

impl CachedConversation {
    fn bytes(&self) -> usize {
        let Session { settings, pending, summary, .. } = &self.session;
        OVERHEAD_BYTES + json_size(settings) + json_size(pending) + json_size(summary) + self.history.bytes
    }
}

/// All messages of a session in order, with their approximate size.
#[derive(Debug, Default)]
pub(super) struct CachedHistory {
    messages: Vec<StoredMessage>,
    bytes: usize,
}

impl CachedHistory {
    pub(super) fn push(&mut self, stored: StoredMessage) {
        self.bytes += OVERHEAD_BYTES + json_size(&stored.message);
        self.messages.push(stored);
    }

    pub(super) fn extend(&mut self, stored: impl IntoIterator<Item = StoredMessage>) {
        stored.into_iter().for_each(|stored| self.push(stored));
    }

    pub(super) fn messages(&self) -> &[StoredMessage] {
        &self.messages
    }
}

impl From<Vec<StoredMessage>> for CachedHistory {
    fn from(messages: Vec<StoredMessage>) -> Self {
        let bytes = messages.iter().map(|stored| OVERHEAD_BYTES + json_size(&stored.message)).sum();
        Self { messages, bytes }
    }
}

/// Cached conversations; the longest unused is dropped first.
#[derive(Debug)]
pub(crate) struct RecentConversations {
    spoken: BoundedCache<SessionId, CachedConversation>,
    new: BoundedCache<SessionId, CachedConversation>,
}

impl Default for RecentConversations {
    fn default() -> Self {
        Self { spoken: BoundedCache::new(MAX_CACHE_BYTES), new: BoundedCache::new(MAX_NEW_BYTES) }
    }
}

impl RecentConversations {
    /// Takes a conversation out of the cache for its next turn, if `owner` owns it.
    pub(super) fn take(&self, session: &SessionId, owner: &Principal) -> Option<CachedConversation> {
        let is_owned = |cached: &CachedConversation, _| cached.session.owner == *owner;
        self.spoken.take_if(session, is_owned).or_else(|| self.new.take_if(session, is_owned))
    }

    /// Caches a conversation; the store must contain exactly this state.
    pub(super) fn put(&self, conversation: CachedConversation) {
        let shelf = if conversation.session.turns == 0 { &self.new } else { &self.spoken };
        let (id, bytes) = (conversation.session.id.clone(), conversation.bytes());
        if bytes <= MAX_CONVERSATION_BYTES {
            drop(shelf.put_weighted(id, conversation, Timestamp::LAST, bytes));
        }
    }

    pub(super) fn forget(&self, session: &SessionId) {
        self.spoken.remove(session);
        self.new.remove(session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nuncio_core::ids::AgentName;
    use nuncio_core::message::Message;
    use nuncio_core::session::SessionSettings;

    fn id(name: &str) -> SessionId {
        SessionId::parse(name).unwrap()
    }

    fn conversation(name: &str, text: &str) -> CachedConversation {
        let session = Session {
            id: id(name),
            owner: Principal::Local,
            agent: AgentName::parse("a").unwrap(),
            settings: SessionSettings::default(),
            pending: Vec::new(),
            turns: 1,
            running: false,
            next_message: 1,
            summary: None,
            created_at: Timestamp::from_millis(0),
        };
        let mut history = CachedHistory::default();
        history.push(StoredMessage { number: 0, turn: 1, message: Message::user(text) });
        CachedConversation { session, history }
    }

    #[test]
    fn cached_conversation_is_taken_once_by_its_owner_only() {
        let recent = RecentConversations::default();
        recent.put(conversation("s", "hello"));
        assert!(recent.take(&id("s"), &Principal::Anonymous).is_none());
        assert!(recent.take(&id("s"), &Principal::Local).is_some());
        assert!(recent.take(&id("s"), &Principal::Local).is_none());
        assert_eq!(recent.spoken.weight(), 0);
    }

    #[test]
    fn forgotten_conversation_uses_no_cache_space() {
        let recent = RecentConversations::default();
        recent.put(conversation("s", "hello"));
        recent.put(conversation("s", "hello again"));
        recent.forget(&id("s"));
        recent.forget(&id("s"));
        assert_eq!(recent.spoken.weight(), 0);
    }

    #[test]
    fn conversations_without_turns_do_not_evict_those_with_turns() {
        let recent = RecentConversations::default();
        recent.put(conversation("old", "hello"));
        for n in 0..MAX_NEW_BYTES / OVERHEAD_BYTES {
            let CachedConversation { session, .. } = conversation(&n.to_string(), "");
            recent.put(CachedConversation {
                session: Session { turns: 0, ..session },
                history: CachedHistory::default(),
            });
        }
        assert!((1..=MAX_NEW_BYTES).contains(&recent.new.weight()));
        let last = id(&(MAX_NEW_BYTES / OVERHEAD_BYTES - 1).to_string());
        assert!(recent.take(&id("0"), &Principal::Local).is_none());
        assert!(recent.take(&id("old"), &Principal::Local).is_some());
        assert!(recent.take(&last, &Principal::Anonymous).is_none());
        assert!(recent.take(&last, &Principal::Local).is_some());
        assert!(recent.take(&last, &Principal::Local).is_none());
        recent.forget(&id(&(MAX_NEW_BYTES / OVERHEAD_BYTES - 2).to_string()));
        assert!(recent.take(&id(&(MAX_NEW_BYTES / OVERHEAD_BYTES - 2).to_string()), &Principal::Local).is_none());
    }

    #[test]
    fn full_cache_evicts_oldest_conversation_and_oversized_ones_are_not_cached() {
        let recent = RecentConversations::default();
        let text = "x".repeat(MAX_CONVERSATION_BYTES / 2);
        for n in 0..=2 * MAX_CACHE_BYTES / MAX_CONVERSATION_BYTES {
            recent.put(conversation(&n.to_string(), &text));
        }
        assert!(recent.spoken.weight() <= MAX_CACHE_BYTES);
        assert!(recent.take(&id("0"), &Principal::Local).is_none());
        assert!(
            recent.take(&id(&(2 * MAX_CACHE_BYTES / MAX_CONVERSATION_BYTES).to_string()), &Principal::Local).is_some()
        );
        recent.put(conversation("huge", &"x".repeat(MAX_CONVERSATION_BYTES)));
        assert!(recent.take(&id("huge"), &Principal::Local).is_none());
    }
}

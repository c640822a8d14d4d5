//! Cache of recently used conversations, so that their next turn need not read the store.
//!
//! The cache cannot be stale: only a turn changes a session, and the store refuses a turn unless its turn count
//! matches. Messages never change.

use nuncio_core::bounded_cache::BoundedCache;
use nuncio_core::ids::SessionId;
use nuncio_core::principal::Principal;
use nuncio_core::session::Session;
use nuncio_core::time::Timestamp;

use super::history::json_size;
use super::tail::HistoryTail;

/// Divisor of the budget for conversations without a turn: they get a sixteenth, because the first turn comes soon or
/// never.
const SHARE_OF_NEW: usize = 16;
/// Divisor of the budget for one conversation: at most a sixteenth, so that a few long ones do not evict all others.
const SHARE_OF_ONE: usize = 16;
/// Assumed overhead per session, in bytes.
const OVERHEAD_BYTES: usize = 1024;

/// A session between two turns, with its newest messages.
#[derive(Debug)]
pub(super) struct CachedConversation {
    pub(super) session: Session,
    pub(super) history: HistoryTail,
}

impl CachedConversation {
    fn bytes(&self) -> usize {
        let Session { settings, pending, summary, .. } = &self.session;
        OVERHEAD_BYTES + json_size(settings) + json_size(pending) + json_size(summary) + self.history.bytes()
    }
}

/// Cached conversations; the longest unused is dropped first.
#[derive(Debug)]
pub(crate) struct RecentConversations {
    max_bytes: usize,
    spoken: BoundedCache<SessionId, CachedConversation>,
    new: BoundedCache<SessionId, CachedConversation>,
}

impl RecentConversations {
    /// Creates a cache that uses about `max_bytes` bytes.
    pub(crate) fn new(max_bytes: usize) -> Self {
        let new = max_bytes / SHARE_OF_NEW;
        Self { max_bytes, spoken: BoundedCache::new(max_bytes - new), new: BoundedCache::new(new) }
    }

    /// Takes a conversation out of the cache for its next turn, if `owner` owns it.
    pub(super) fn take(&self, session: &SessionId, owner: &Principal) -> Option<CachedConversation> {
        let is_owned = |cached: &CachedConversation, _| cached.session.owner == *owner;
        self.spoken.take_if(session, is_owned).or_else(|| self.new.take_if(session, is_owned))
    }

    /// Caches a conversation, unless it takes more than a sixteenth of the budget. The store must contain exactly this
    /// session.
    pub(super) fn put(&self, conversation: CachedConversation) {
        let cache = if conversation.session.turns == 0 { &self.new } else { &self.spoken };
        let (id, bytes) = (conversation.session.id.clone(), conversation.bytes());
        if bytes <= self.max_bytes / SHARE_OF_ONE {
            drop(cache.put_weighted(id, conversation, Timestamp::LAST, bytes));
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
    use crate::ports::store::StoredMessage;
    use nuncio_core::ids::AgentName;
    use nuncio_core::message::Message;
    use nuncio_core::session::SessionSettings;

    const MAX_BYTES: usize = 1 << 20;

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
        let mut history = HistoryTail::empty(0);
        history.push(&StoredMessage { number: 0, turn: 1, message: Message::user(text) });
        CachedConversation { session, history }
    }

    #[test]
    fn cached_conversation_is_taken_once_by_its_owner_only() {
        let recent = RecentConversations::new(MAX_BYTES);
        recent.put(conversation("s", "hello"));
        assert!(recent.take(&id("s"), &Principal::Anonymous).is_none());
        assert!(recent.take(&id("s"), &Principal::Local).is_some());
        assert!(recent.take(&id("s"), &Principal::Local).is_none());
        assert_eq!(recent.spoken.weight(), 0);
    }

    #[test]
    fn forgotten_conversation_uses_no_cache_space() {
        let recent = RecentConversations::new(MAX_BYTES);
        recent.put(conversation("s", "hello"));
        recent.put(conversation("s", "hello again"));
        recent.forget(&id("s"));
        recent.forget(&id("s"));
        assert_eq!(recent.spoken.weight(), 0);
    }

    #[test]
    fn conversations_without_turns_do_not_evict_those_with_turns() {
        let recent = RecentConversations::new(MAX_BYTES);
        recent.put(conversation("old", "hello"));
        let max_new = MAX_BYTES / SHARE_OF_NEW;
        let last = max_new / OVERHEAD_BYTES;
        for n in 0..=last {
            let CachedConversation { session, .. } = conversation(&n.to_string(), "");
            let history = HistoryTail::empty(0);
            recent.put(CachedConversation { session: Session { turns: 0, ..session }, history });
        }
        assert!((1..=max_new).contains(&recent.new.weight()));
        assert!(recent.take(&id("0"), &Principal::Local).is_none());
        assert!(recent.take(&id("old"), &Principal::Local).is_some());
        let newest = id(&last.to_string());
        assert!(recent.take(&newest, &Principal::Anonymous).is_none());
        assert!(recent.take(&newest, &Principal::Local).is_some());
        assert!(recent.take(&newest, &Principal::Local).is_none());
        let second = id(&(last - 1).to_string());
        recent.forget(&second);
        assert!(recent.take(&second, &Principal::Local).is_none());
    }

    #[test]
    fn full_cache_evicts_oldest_conversation_and_oversized_ones_are_not_cached() {
        let recent = RecentConversations::new(MAX_BYTES);
        let max_one = MAX_BYTES / SHARE_OF_ONE;
        let text = "x".repeat(max_one / 2);
        let last = 2 * MAX_BYTES / max_one;
        for n in 0..=last {
            recent.put(conversation(&n.to_string(), &text));
        }
        assert!(recent.spoken.weight() <= MAX_BYTES);
        assert!(recent.take(&id("0"), &Principal::Local).is_none());
        assert!(recent.take(&id(&last.to_string()), &Principal::Local).is_some());
        recent.put(conversation("huge", &"x".repeat(max_one)));
        assert!(recent.take(&id("huge"), &Principal::Local).is_none());
    }
}

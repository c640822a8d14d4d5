//! Cache of recently used conversations, so that their next turn need not read the store.
//!
//! The cache cannot be stale: only a turn changes a session, and the store refuses a turn unless its turn count
//! matches.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nuncio_core::ids::SessionId;
use nuncio_core::principal::Principal;
use nuncio_core::session::Session;

use super::history::json_size;
use crate::ports::store::StoredMessage;

/// Approximate cache size for conversations with turns, in bytes.
const ALL: usize = 32 << 20;
/// Approximate cache size for conversations without a turn, in bytes: the first turn comes soon or never.
const NEW: usize = 1 << 20;
/// Approximate maximum size of one cached conversation; for a longer one reading the store costs little in comparison.
const ONE: usize = 1 << 20;
/// Assumed overhead per session or message, in bytes.
const ROOM: usize = 512;

/// A session between two turns, with its messages.
#[derive(Debug)]
pub(super) struct CachedConversation {
    pub(super) session: Session,
    pub(super) history: CachedHistory,
}

impl CachedConversation {
    fn bytes(&self) -> usize {
        let Session { settings, pending, summary, .. } = &self.session;
        ROOM + json_size(settings) + json_size(pending) + json_size(summary) + self.history.bytes
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
        self.bytes += ROOM + json_size(&stored.message);
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
        let bytes = messages.iter().map(|stored| ROOM + json_size(&stored.message)).sum();
        Self { messages, bytes }
    }
}

/// Cached conversations; the longest unused is dropped first.
#[derive(Debug)]
pub(crate) struct RecentConversations {
    spoken: ConversationCache,
    new: ConversationCache,
}

/// Conversations up to a total size.
#[derive(Debug)]
struct ConversationCache {
    room: usize,
    kept: Mutex<CacheEntries>,
}

#[derive(Debug, Default)]
struct CacheEntries {
    by_session: HashMap<SessionId, CacheEntry>,
    /// Insertion order, oldest first.
    order: BTreeMap<u64, SessionId>,
    next: u64,
    bytes: usize,
}

#[derive(Debug)]
struct CacheEntry {
    place: u64,
    bytes: usize,
    conversation: CachedConversation,
}

impl Default for RecentConversations {
    fn default() -> Self {
        Self { spoken: ConversationCache::of(ALL), new: ConversationCache::of(NEW) }
    }
}

impl RecentConversations {
    /// Removes the conversation from the cache, if `owner` owns it. It returns when its turn is over.
    pub(super) fn take(&self, session: &SessionId, owner: &Principal) -> Option<CachedConversation> {
        self.spoken.take(session, owner).or_else(|| self.new.take(session, owner))
    }

    /// Caches a conversation that is stored in exactly this state.
    pub(super) fn put(&self, conversation: CachedConversation) {
        let shelf = if conversation.session.turns == 0 { &self.new } else { &self.spoken };
        shelf.put(conversation);
    }

    pub(super) fn forget(&self, session: &SessionId) {
        self.spoken.forget(session);
        self.new.forget(session);
    }
}

impl ConversationCache {
    fn of(room: usize) -> Self {
        Self { room, kept: Mutex::default() }
    }

    fn take(&self, session: &SessionId, owner: &Principal) -> Option<CachedConversation> {
        let mut kept = self.lock();
        kept.by_session.get(session).filter(|entry| entry.conversation.session.owner == *owner)?;
        kept.remove(session)
    }

    fn put(&self, conversation: CachedConversation) {
        let bytes = conversation.bytes();
        if bytes > ONE {
            return;
        }
        // Freed after the lock is released.
        let mut dropped = Vec::new();
        let mut kept = self.lock();
        dropped.extend(kept.remove(&conversation.session.id));
        kept.insert(conversation, bytes);
        while kept.bytes > self.room {
            dropped.extend(kept.remove_oldest());
        }
        drop(kept);
    }

    fn forget(&self, session: &SessionId) {
        let forgotten = self.lock().remove(session);
        drop(forgotten);
    }

    fn lock(&self) -> MutexGuard<'_, CacheEntries> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheEntries {
    fn insert(&mut self, conversation: CachedConversation, bytes: usize) {
        let (id, place) = (conversation.session.id.clone(), self.next);
        self.next += 1;
        self.bytes += bytes;
        self.order.insert(place, id.clone());
        self.by_session.insert(id, CacheEntry { place, bytes, conversation });
    }

    fn remove(&mut self, session: &SessionId) -> Option<CachedConversation> {
        let entry = self.by_session.remove(session)?;
        self.order.remove(&entry.place);
        self.bytes -= entry.bytes;
        Some(entry.conversation)
    }

    fn remove_oldest(&mut self) -> Option<CachedConversation> {
        let (_, oldest) = self.order.first_key_value()?;
        let oldest = oldest.clone();
        self.remove(&oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nuncio_core::ids::AgentName;
    use nuncio_core::message::Message;
    use nuncio_core::session::SessionSettings;
    use nuncio_core::time::Timestamp;

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
        assert_eq!(recent.spoken.lock().bytes, 0);
    }

    #[test]
    fn forgotten_conversation_leaves_cache_empty() {
        let recent = RecentConversations::default();
        recent.put(conversation("s", "hello"));
        recent.put(conversation("s", "hello again"));
        recent.forget(&id("s"));
        recent.forget(&id("s"));
        let kept = recent.spoken.lock();
        assert_eq!((kept.by_session.len(), kept.order.len(), kept.bytes), (0, 0, 0));
    }

    #[test]
    fn new_conversations_do_not_evict_those_with_turns() {
        let recent = RecentConversations::default();
        recent.put(conversation("old", "hello"));
        for n in 0..NEW / ROOM {
            let CachedConversation { session, .. } = conversation(&n.to_string(), "");
            recent.put(CachedConversation {
                session: Session { turns: 0, ..session },
                history: CachedHistory::default(),
            });
        }
        assert!((1..=NEW).contains(&recent.new.lock().bytes));
        let last = id(&(NEW / ROOM - 1).to_string());
        assert!(recent.take(&id("0"), &Principal::Local).is_none());
        assert!(recent.take(&id("old"), &Principal::Local).is_some());
        assert!(recent.take(&last, &Principal::Anonymous).is_none());
        assert!(recent.take(&last, &Principal::Local).is_some());
        assert!(recent.take(&last, &Principal::Local).is_none());
        recent.forget(&id(&(NEW / ROOM - 2).to_string()));
        assert!(recent.take(&id(&(NEW / ROOM - 2).to_string()), &Principal::Local).is_none());
    }

    #[test]
    fn cache_evicts_oldest_and_skips_oversized_conversations() {
        let recent = RecentConversations::default();
        let text = "x".repeat(ONE / 2);
        for n in 0..=2 * ALL / ONE {
            recent.put(conversation(&n.to_string(), &text));
        }
        assert!(recent.spoken.lock().bytes <= ALL);
        assert!(recent.take(&id("0"), &Principal::Local).is_none());
        assert!(recent.take(&id(&(2 * ALL / ONE).to_string()), &Principal::Local).is_some());
        recent.put(conversation("huge", &"x".repeat(ONE)));
        assert!(recent.take(&id("huge"), &Principal::Local).is_none());
    }
}

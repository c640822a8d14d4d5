//! Cache of recently used conversations, so that their next turn need not read the store.
//!
//! The cache cannot be stale: only a turn changes a session, and the store refuses a turn unless its turn count
//! matches. Messages never change.

use nuncio_core::bounded_cache::BoundedCache;
use nuncio_core::ids::SessionId;
use nuncio_core::principal::Principal;
use nuncio_core::session::Session;
use nuncio_core::time::Timestamp;

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

/// A cached conversation in its stored form, which is several times smaller than its parsed settings and calls.
#[derive(Debug)]
struct EncodedConversation {
    /// The session without what the other fields hold.
    session: Session,
    settings: Box<str>,
    pending: Box<str>,
    history: HistoryTail,
}

impl EncodedConversation {
    fn new(conversation: CachedConversation) -> serde_json::Result<Self> {
        let CachedConversation { mut session, history } = conversation;
        let settings = serde_json::to_string(&std::mem::take(&mut session.settings))?.into();
        let pending = serde_json::to_string(&std::mem::take(&mut session.pending))?.into();
        Ok(Self { session, settings, pending, history })
    }

    fn decode(self) -> serde_json::Result<CachedConversation> {
        let Self { session, settings, pending, history } = self;
        let (settings, pending) = (serde_json::from_str(&settings)?, serde_json::from_str(&pending)?);
        Ok(CachedConversation { session: Session { settings, pending, ..session }, history })
    }

    fn bytes(&self) -> usize {
        let summary = self.session.summary.as_ref().map_or(0, |summary| summary.text.len());
        let owner = self.session.owner.to_string().len();
        OVERHEAD_BYTES + owner + self.settings.len() + self.pending.len() + summary + self.history.bytes()
    }
}

/// Cached conversations; the longest unused is dropped first.
#[derive(Debug)]
pub(crate) struct ConversationCache {
    max_bytes: usize,
    spoken: BoundedCache<SessionId, EncodedConversation>,
    new: BoundedCache<SessionId, EncodedConversation>,
}

impl ConversationCache {
    /// Creates a cache that uses at most `max_bytes` bytes.
    pub(crate) fn new(max_bytes: usize) -> Self {
        let new = max_bytes / SHARE_OF_NEW;
        Self { max_bytes, spoken: BoundedCache::new(max_bytes - new), new: BoundedCache::new(new) }
    }

    /// Takes a conversation out of the cache for its next turn, if `owner` owns it.
    pub(super) fn take(&self, session: &SessionId, owner: &Principal) -> Option<CachedConversation> {
        let is_owned = |cached: &EncodedConversation, _| cached.session.owner == *owner;
        self.spoken.take_if(session, is_owned).or_else(|| self.new.take_if(session, is_owned))?.decode().ok()
    }

    /// Caches a conversation, unless it takes more than a sixteenth of the budget. The store must contain exactly this
    /// session.
    pub(super) fn put(&self, conversation: CachedConversation) {
        let cache = if conversation.session.turns == 0 { &self.new } else { &self.spoken };
        let Ok(conversation) = EncodedConversation::new(conversation) else { return };
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
    use std::collections::HashMap;

    use nuncio_core::digest::Digest;
    use nuncio_core::ids::{AgentName, CallId, ToolName};
    use nuncio_core::message::{Message, ToolCall};
    use nuncio_core::session::{AwaitedAnswer, PendingCall, SessionSettings};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::ports::store::StoredMessage;

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
        let recent = ConversationCache::new(MAX_BYTES);
        recent.put(conversation("s", "hello"));
        assert!(recent.take(&id("s"), &Principal::Anonymous).is_none());
        assert!(recent.take(&id("s"), &Principal::Local).is_some());
        assert!(recent.take(&id("s"), &Principal::Local).is_none());
        assert_eq!(recent.spoken.weight(), 0);
    }

    #[test]
    fn forgotten_conversation_uses_no_cache_space() {
        let recent = ConversationCache::new(MAX_BYTES);
        recent.put(conversation("s", "hello"));
        recent.put(conversation("s", "hello again"));
        recent.forget(&id("s"));
        recent.forget(&id("s"));
        assert_eq!(recent.spoken.weight(), 0);
    }

    #[test]
    fn conversations_without_turns_do_not_evict_those_with_turns() {
        let recent = ConversationCache::new(MAX_BYTES);
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
    fn conversation_comes_out_of_the_cache_as_it_was_put_in() {
        let recent = ConversationCache::new(MAX_BYTES);
        let settings: SessionSettings = serde_json::from_value(json!({
            "tools": [{"name": "book", "trust": true}],
            "options": {"token": {"sealed": "v1.c2VhbGVk"}},
            "client_tools": [{"name": "mine", "description": "", "parameters": {"z": 1, "a": [1.5, null]}, "x": 1}],
        }))
        .unwrap();
        let call = ToolCall {
            id: CallId::parse("c1").unwrap(),
            name: ToolName::parse("book").unwrap(),
            input: serde_json::Map::from_iter([("room".to_owned(), json!("101"))]),
        };
        let pending =
            PendingCall { arguments_digest: Digest::ZERO, call, awaits: AwaitedAnswer::Permission, elsewhere: true };
        let CachedConversation { session, history } = conversation("s", "hello");
        let session = Session { settings, pending: vec![pending], ..session };
        recent.put(CachedConversation { session: session.clone(), history });
        assert_eq!(recent.take(&id("s"), &Principal::Local).unwrap().session, session);
    }

    #[test]
    fn full_cache_evicts_oldest_conversation_and_oversized_ones_are_not_cached() {
        let recent = ConversationCache::new(MAX_BYTES);
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

    proptest! {
        /// The weights count at least the stored texts, so a cache within its limit is within its budget.
        #[test]
        fn cache_stays_within_its_budget_after_any_sequence_of_changes(
            max_bytes in 0_usize..200_000,
            steps in prop::collection::vec((0_u8..20, 0_u8..4, 0_u64..2, 0_usize..12, 0_usize..3000), 0..80),
        ) {
            let recent = ConversationCache::new(max_bytes);
            let mut all = HashMap::new();
            for (name, action, turns, messages, size) in steps {
                let id = id(&name.to_string());
                match action {
                    0 => recent.forget(&id),
                    1 => {
                        if let Some(taken) = recent.take(&id, &Principal::Local) {
                            prop_assert_eq!(Some(taken.history.bytes()), all.get(&id).copied());
                        }
                    }
                    _ => {
                        // A turn takes its conversation out before it puts it back.
                        drop(recent.take(&id, &Principal::Local));
                        let CachedConversation { session, mut history } = conversation(&name.to_string(), "");
                        for number in 1..=messages as u64 {
                            let message = Message::user("x".repeat(size));
                            history.push(&StoredMessage { number, turn: 1, message });
                        }
                        prop_assert!(history.bytes() >= messages * size);
                        all.insert(id, history.bytes());
                        recent.put(CachedConversation { session: Session { turns, ..session }, history });
                    }
                }
                prop_assert!(recent.spoken.weight() + recent.new.weight() <= max_bytes);
            }
            let taken = all.keys().filter_map(|id| recent.take(id, &Principal::Local));
            let held: usize = taken.map(|conversation| conversation.history.bytes()).sum();
            prop_assert!(held <= max_bytes);
            prop_assert_eq!(recent.spoken.weight() + recent.new.weight(), 0);
        }
    }
}

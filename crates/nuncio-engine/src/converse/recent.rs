//! The conversations that last had a turn, or were just begun, kept so that their next turn need not read them.
//!
//! They cannot lie: nothing but a turn changes a session or its history, and a turn begins only if
//! the store counts as many turns as whoever begins it. What is kept here is what the store has, or
//! the store refuses what follows from it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nuncio_core::ids::SessionId;
use nuncio_core::principal::Principal;
use nuncio_core::session::Session;

use super::history::json_size;
use crate::ports::store::StoredMessage;

/// About how many bytes are kept of all that had a turn.
const ALL: usize = 32 << 20;
/// About how many of those that had none: the first follows at once, or nobody knows when.
const NEW: usize = 1 << 20;
/// About how many of one: a longer one costs its brain so much that reading it does not matter.
const ONE: usize = 1 << 20;
/// What a session or a message takes beside its text.
const ROOM: usize = 512;

/// A session between two turns, with everything said in it.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) session: Session,
    pub(super) history: History,
}

impl Conversation {
    fn bytes(&self) -> usize {
        let Session { settings, pending, summary, .. } = &self.session;
        ROOM + json_size(settings) + json_size(pending) + json_size(summary) + self.history.bytes
    }
}

/// Every message of a session in order, and about how many bytes that is.
#[derive(Debug, Default)]
pub(super) struct History {
    messages: Vec<StoredMessage>,
    bytes: usize,
}

impl History {
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

impl From<Vec<StoredMessage>> for History {
    fn from(messages: Vec<StoredMessage>) -> Self {
        let bytes = messages.iter().map(|stored| ROOM + json_size(&stored.message)).sum();
        Self { messages, bytes }
    }
}

/// The conversations kept, the longest idle to be dropped first.
#[derive(Debug)]
pub(crate) struct Recent {
    spoken: Shelf,
    new: Shelf,
}

/// Where conversations are kept, up to so many bytes.
#[derive(Debug)]
struct Shelf {
    room: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_session: HashMap<SessionId, Entry>,
    /// By when they were put here.
    order: BTreeMap<u64, SessionId>,
    next: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    place: u64,
    bytes: usize,
    conversation: Conversation,
}

impl Default for Recent {
    fn default() -> Self {
        Self { spoken: Shelf::of(ALL), new: Shelf::of(NEW) }
    }
}

impl Recent {
    /// Takes out that conversation of that owner's. It comes back when its turn is over.
    pub(super) fn take(&self, session: &SessionId, owner: &Principal) -> Option<Conversation> {
        self.spoken.take(session, owner).or_else(|| self.new.take(session, owner))
    }

    /// Keeps a conversation that is on disk like this, between two turns or before the first.
    pub(super) fn put(&self, conversation: Conversation) {
        let shelf = if conversation.session.turns == 0 { &self.new } else { &self.spoken };
        shelf.put(conversation);
    }

    /// Forgets a conversation.
    pub(super) fn forget(&self, session: &SessionId) {
        self.spoken.forget(session);
        self.new.forget(session);
    }
}

impl Shelf {
    fn of(room: usize) -> Self {
        Self { room, kept: Mutex::default() }
    }

    fn take(&self, session: &SessionId, owner: &Principal) -> Option<Conversation> {
        let mut kept = self.lock();
        kept.by_session.get(session).filter(|entry| entry.conversation.session.owner == *owner)?;
        kept.remove(session)
    }

    fn put(&self, conversation: Conversation) {
        let bytes = conversation.bytes();
        if bytes > ONE {
            return;
        }
        // Given back to the system when nobody waits for the lock.
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

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn insert(&mut self, conversation: Conversation, bytes: usize) {
        let (id, place) = (conversation.session.id.clone(), self.next);
        self.next += 1;
        self.bytes += bytes;
        self.order.insert(place, id.clone());
        self.by_session.insert(id, Entry { place, bytes, conversation });
    }

    fn remove(&mut self, session: &SessionId) -> Option<Conversation> {
        let entry = self.by_session.remove(session)?;
        self.order.remove(&entry.place);
        self.bytes -= entry.bytes;
        Some(entry.conversation)
    }

    fn remove_oldest(&mut self) -> Option<Conversation> {
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

    fn conversation(name: &str, text: &str) -> Conversation {
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
        let mut history = History::default();
        history.push(StoredMessage { number: 0, turn: 1, message: Message::user(text) });
        Conversation { session, history }
    }

    #[test]
    fn it_is_taken_once_and_by_its_owner_alone() {
        let recent = Recent::default();
        recent.put(conversation("s", "hello"));
        assert!(recent.take(&id("s"), &Principal::Anonymous).is_none());
        assert!(recent.take(&id("s"), &Principal::Local).is_some());
        assert!(recent.take(&id("s"), &Principal::Local).is_none());
        assert_eq!(recent.spoken.lock().bytes, 0);
    }

    #[test]
    fn a_forgotten_one_leaves_nothing() {
        let recent = Recent::default();
        recent.put(conversation("s", "hello"));
        recent.put(conversation("s", "hello again"));
        recent.forget(&id("s"));
        recent.forget(&id("s"));
        let kept = recent.spoken.lock();
        assert_eq!((kept.by_session.len(), kept.order.len(), kept.bytes), (0, 0, 0));
    }

    #[test]
    fn those_without_a_turn_have_a_room_of_their_own() {
        let recent = Recent::default();
        recent.put(conversation("old", "hello"));
        for n in 0..NEW / ROOM {
            let Conversation { session, .. } = conversation(&n.to_string(), "");
            recent.put(Conversation { session: Session { turns: 0, ..session }, history: History::default() });
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
    fn the_longest_idle_make_room_and_a_huge_one_finds_none() {
        let recent = Recent::default();
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

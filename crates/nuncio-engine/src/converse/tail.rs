//! The newest part of a history, as far as the brain needs it.
//!
//! A turn of a long conversation costs as much as one of a short conversation if the brain needs only its newest
//! exchange, and otherwise no more than the brain's window.

use std::collections::VecDeque;

use nuncio_core::ids::SessionId;
use nuncio_core::message::Message;

use crate::ports::brain::HistoryNeed;
use crate::ports::store::{EncodedMessage, MessageStore, StoreError, StoredMessage};

/// Number of messages in the first read of older messages; each further read doubles it, up to [`MAX_PAGE`]. Small,
/// because each message may have several megabytes.
const FIRST_PAGE: usize = 4;
const MAX_PAGE: usize = 1024;
/// Assumed overhead of the allocation of a message, in bytes.
const ALLOCATION_BYTES: usize = 16;

/// All stored messages of a session numbered from `first` to below `next`, as they are stored.
///
/// Messages are immutable, so a tail stays correct; it may end before the newest message.
#[derive(Debug)]
pub(super) struct HistoryTail {
    messages: VecDeque<EncodedMessage>,
    first: u64,
    next: u64,
    json_bytes: usize,
    /// System messages that were dropped or not read, once they were read separately; those numbered `first` or above
    /// are also in `messages`. Only the messages that a session began with can be system messages.
    system: Option<Vec<EncodedMessage>>,
}

impl HistoryTail {
    /// A tail without messages that continues with number `next`.
    pub(super) fn empty(next: u64) -> Self {
        Self { messages: VecDeque::new(), first: next, next, json_bytes: 0, system: None }
    }

    /// Size in memory, including what is reserved for more messages.
    pub(super) fn bytes(&self) -> usize {
        let system = self.system.iter().flatten();
        let system_bytes: usize = system.map(|message| message.json.len() + ALLOCATION_BYTES).sum();
        let slots = self.messages.capacity() + self.system.as_ref().map_or(0, Vec::capacity);
        self.json_bytes + ALLOCATION_BYTES * self.messages.len() + system_bytes + slots * size_of::<EncodedMessage>()
    }

    /// Adds a stored message if it follows the last one. Otherwise a message between the two is missing, and both are
    /// read from the store later.
    pub(super) fn push(&mut self, stored: &StoredMessage) {
        if stored.number == self.next {
            self.push_back(stored.encode());
            self.next += 1;
        }
    }

    /// Reads the messages numbered below `next` that are not here.
    pub(super) async fn read_newer(
        &mut self,
        store: &dyn MessageStore,
        session: &SessionId,
        next: u64,
    ) -> Result<(), StoreError> {
        if self.next < next {
            for message in store.messages(session, self.next).await? {
                self.push_back(message);
            }
            self.next = next;
        }
        Ok(())
    }

    /// The newest user message and the messages after it, read from the store if they are not here.
    pub(super) async fn newest_exchange(
        &mut self,
        store: &dyn MessageStore,
        session: &SessionId,
    ) -> Result<Vec<Message>, StoreError> {
        let (mut exchange, mut decoded, mut page) = (VecDeque::new(), 0, FIRST_PAGE);
        loop {
            while let Some(encoded) = self.messages.len().checked_sub(decoded + 1).map(|at| &self.messages[at]) {
                let message = encoded.decode()?.message;
                let is_start = matches!(message, Message::User { .. });
                exchange.push_front(message);
                decoded += 1;
                if is_start {
                    return Ok(exchange.into());
                }
            }
            if self.first == 0 {
                return Ok(exchange.into());
            }
            self.read_page(store, session, &mut page).await?;
        }
    }

    /// Messages for a brain with a window of `window` bytes: system messages, and the newest ones from `from` on. No more
    /// is read than fills the window.
    pub(super) async fn window(
        &mut self,
        store: &dyn MessageStore,
        session: &SessionId,
        window: usize,
        from: u64,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        let mut page = FIRST_PAGE;
        while self.first > from && self.json_bytes <= window {
            self.read_page(store, session, &mut page).await?;
        }
        let mut messages = Vec::with_capacity(self.messages.len());
        if self.first > 0 {
            if self.system.is_none() {
                self.system = Some(store.system_messages(session, self.first).await?);
            }
            for message in self.system.iter().flatten().filter(|message| message.number < self.first) {
                messages.push(message.decode()?);
            }
        }
        // Turn 0 may hold system messages that precede `from`.
        let needed = self.messages.iter().filter(|message| message.number >= from || message.turn == 0);
        for message in needed {
            messages.push(message.decode()?);
        }
        Ok(messages)
    }

    /// Whether messages from number `from` on are older than this tail.
    pub(super) fn starts_after(&self, from: u64) -> bool {
        self.first > from
    }

    /// The first exchanges of the messages numbered `from` to below `until`, as many as fit into `max_bytes`, without
    /// system messages; and the number of the message after them.
    pub(super) async fn oldest_exchanges(
        &self,
        store: &dyn MessageStore,
        session: &SessionId,
        (from, until): (u64, u64),
        max_bytes: usize,
    ) -> Result<(Vec<Message>, u64), StoreError> {
        let (mut exchanges, mut bytes) = (Vec::new(), 0);
        let (mut next, mut page) = (from, FIRST_PAGE);
        while next < until {
            let end = until.min(next + page as u64);
            for encoded in self.range(store, session, next, end).await? {
                let size = encoded.json.len();
                match encoded.decode()?.message {
                    Message::System { .. } => continue,
                    Message::User { .. } if bytes > 0 && bytes + size > max_bytes => {
                        return Ok((exchanges, encoded.number));
                    }
                    message => exchanges.push(message),
                }
                bytes += size;
            }
            next = end;
            page = (page * 2).min(MAX_PAGE);
        }
        Ok((exchanges, until))
    }

    /// Messages numbered `from` to below `until`, read from the store if they are not here.
    async fn range(
        &self,
        store: &dyn MessageStore,
        session: &SessionId,
        from: u64,
        until: u64,
    ) -> Result<Vec<EncodedMessage>, StoreError> {
        let is_within = |message: &&EncodedMessage| (from..until).contains(&message.number);
        if from >= self.first {
            return Ok(self.messages.iter().filter(is_within).cloned().collect());
        }
        let limit = usize::try_from(until - from).unwrap_or(usize::MAX);
        let newest_first = store.messages_before(session, until, limit).await?;
        Ok(newest_first.iter().rev().filter(is_within).cloned().collect())
    }

    /// The whole history.
    pub(super) async fn everything(
        &mut self,
        store: &dyn MessageStore,
        session: &SessionId,
    ) -> Result<Vec<StoredMessage>, StoreError> {
        let mut page = FIRST_PAGE;
        while self.first > 0 {
            self.read_page(store, session, &mut page).await?;
        }
        self.messages.iter().map(EncodedMessage::decode).collect()
    }

    /// Drops what the next turn will not need. A turn that answers pending calls continues the newest exchange.
    pub(super) fn trim(&mut self, need: HistoryNeed, has_pending: bool) {
        match need {
            HistoryNeed::NewestExchange if !has_pending => *self = Self::empty(self.next),
            HistoryNeed::NewestExchange | HistoryNeed::Everything => {}
            HistoryNeed::Window(window) | HistoryNeed::SummarizedWindow(window) => {
                if self.first == 0 && self.json_bytes > 2 * window {
                    self.system.get_or_insert_default();
                }
                while self.json_bytes > 2 * window {
                    let Some(dropped) = self.messages.pop_front() else { break };
                    self.json_bytes -= dropped.json.len();
                    self.first = dropped.number + 1;
                    self.retain_system(dropped);
                }
                self.messages.shrink_to(2 * self.messages.len());
            }
        }
    }

    /// Adds a dropped message to the system messages if it is one.
    fn retain_system(&mut self, dropped: EncodedMessage) {
        let Some(system) = &mut self.system else { return };
        let is_new = system.last().is_none_or(|last| last.number < dropped.number);
        if dropped.turn > 0 || !is_new {
            return;
        }
        match dropped.decode() {
            Ok(StoredMessage { message: Message::System { .. }, .. }) => system.push(dropped),
            Ok(_) => {}
            // The next read of the system messages reports it.
            Err(_) => self.system = None,
        }
    }

    fn push_back(&mut self, message: EncodedMessage) {
        self.json_bytes += message.json.len();
        self.messages.push_back(message);
    }

    async fn read_page(
        &mut self,
        store: &dyn MessageStore,
        session: &SessionId,
        page: &mut usize,
    ) -> Result<(), StoreError> {
        let older = store.messages_before(session, self.first, *page).await?;
        if older.len() < *page {
            self.first = 0;
        }
        for message in older {
            self.first = self.first.min(message.number);
            self.json_bytes += message.json.len();
            self.messages.push_front(message);
        }
        *page = (*page * 2).min(MAX_PAGE);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::task::{Context, Poll, Waker};

    use async_trait::async_trait;
    use nuncio_core::message::{Block, UnknownMessageFields};
    use proptest::prelude::*;

    use super::*;

    /// Store of one session that counts the messages read from it.
    #[derive(Default)]
    struct FakeMessageStore {
        messages: Vec<EncodedMessage>,
        read: Mutex<usize>,
    }

    impl FakeMessageStore {
        fn add(&mut self, number: u64, turn: u64, message: Message) -> StoredMessage {
            let stored = StoredMessage { number, turn, message };
            self.messages.push(stored.encode());
            stored
        }

        fn counted<'a>(&self, found: impl Iterator<Item = &'a EncodedMessage>) -> Vec<EncodedMessage> {
            let found: Vec<_> = found.cloned().collect();
            *self.read.lock().unwrap() += found.len();
            found
        }

        fn all(&self) -> Vec<Message> {
            self.messages.iter().map(|encoded| encoded.decode().unwrap().message).collect()
        }
    }

    #[async_trait]
    impl MessageStore for FakeMessageStore {
        async fn messages(&self, _session: &SessionId, from: u64) -> Result<Vec<EncodedMessage>, StoreError> {
            Ok(self.counted(self.messages.iter().filter(|message| message.number >= from)))
        }

        async fn messages_before(
            &self,
            _session: &SessionId,
            before: u64,
            limit: usize,
        ) -> Result<Vec<EncodedMessage>, StoreError> {
            Ok(self.counted(self.messages.iter().rev().filter(|message| message.number < before).take(limit)))
        }

        async fn system_messages(&self, _session: &SessionId, before: u64) -> Result<Vec<EncodedMessage>, StoreError> {
            let began = self.messages.iter().filter(|message| message.turn == 0 && message.number < before);
            Ok(self.counted(began.filter(|message| is_system(&message.decode().unwrap().message))))
        }
    }

    /// Result of a future that never waits.
    fn now<T>(future: impl Future<Output = Result<T, StoreError>>) -> T {
        match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result.unwrap(),
            Poll::Pending => panic!("the fake store never waits"),
        }
    }

    fn id() -> SessionId {
        SessionId::parse("s").unwrap()
    }

    fn said(role: u8, text: &str) -> Message {
        match role {
            0 => Message::user(text),
            1 => Message::assistant(vec![Block::text(text)]),
            _ => Message::System { content: text.to_owned(), extra: UnknownMessageFields::new() },
        }
    }

    fn is_system(message: &Message) -> bool {
        matches!(message, Message::System { .. })
    }

    fn count_system(messages: &[Message]) -> usize {
        messages.iter().filter(|message| is_system(message)).count()
    }

    fn history(turns: u64) -> FakeMessageStore {
        let mut store = FakeMessageStore::default();
        store.add(0, 0, said(2, "be kind"));
        for turn in 1..=turns {
            store.add(turn * 2 - 1, turn, said(0, "question"));
            store.add(turn * 2, turn, said(1, "answer"));
        }
        store
    }

    #[test]
    fn newest_exchange_of_a_long_history_reads_one_page() {
        let store = history(1000);
        let mut tail = HistoryTail::empty(2001);
        assert_eq!(now(tail.newest_exchange(&store, &id())), [said(0, "question"), said(1, "answer")]);
        assert_eq!(*store.read.lock().unwrap(), FIRST_PAGE);
    }

    #[test]
    fn exchange_held_by_the_tail_is_not_read_from_the_store() {
        let mut store = history(1000);
        let mut tail = HistoryTail::empty(2001);
        tail.push(&store.add(2001, 1001, said(0, "another")));
        assert_eq!(now(tail.newest_exchange(&store, &id())), [said(0, "another")]);
        assert_eq!(*store.read.lock().unwrap(), 0);
    }

    #[test]
    fn window_of_a_long_history_has_system_messages_and_reads_about_its_size() {
        let store = history(1000);
        let window = 1000;
        let mut tail = HistoryTail::empty(2001);
        let messages = now(tail.window(&store, &id(), window, 0));
        assert_eq!(messages[0].message, said(2, "be kind"));
        assert_eq!(messages.last().map(|last| last.number), Some(2000));
        assert!(messages.len() < 100, "{}", messages.len());
        assert!(*store.read.lock().unwrap() < 100);
    }

    #[test]
    fn turns_after_the_first_read_no_history_that_the_tail_holds() {
        let mut store = history(1000);
        let window = 1000;
        let mut tail = HistoryTail::empty(2001);
        now(tail.window(&store, &id(), window, 0));
        let read = *store.read.lock().unwrap();
        for turn in 0..200 {
            tail.push(&store.add(2001 + 2 * turn, 1001 + turn, said(0, "question")));
            tail.push(&store.add(2002 + 2 * turn, 1001 + turn, said(1, "answer")));
            tail.trim(HistoryNeed::Window(window), false);
            assert!(tail.json_bytes <= 2 * window);
            now(tail.window(&store, &id(), window, 0));
        }
        assert_eq!(*store.read.lock().unwrap(), read);
    }

    #[test]
    fn system_messages_that_a_tail_drops_are_not_read_again() {
        let mut store = FakeMessageStore::default();
        let mut tail = HistoryTail::empty(0);
        for number in 0..1000 {
            tail.push(&store.add(number, 0, said(if number % 100 == 0 { 2 } else { 0 }, "began")));
        }
        for turn in 1..20 {
            tail.push(&store.add(999 + turn, turn, said(0, "question")));
            tail.trim(HistoryNeed::Window(1000), false);
            let messages = now(tail.window(&store, &id(), 1000, 0));
            assert_eq!(messages.iter().filter(|stored| is_system(&stored.message)).count(), 10);
        }
        assert_eq!(*store.read.lock().unwrap(), 0);
    }

    #[test]
    fn messages_to_summarise_are_read_in_parts_of_the_window_size() {
        let store = history(1000);
        let mut tail = HistoryTail::empty(2001);
        now(tail.window(&store, &id(), 1000, 1));
        let (mut from, mut all) = (0, Vec::new());
        while from < 1981 {
            let before = *store.read.lock().unwrap();
            let (part, next) = now(tail.oldest_exchanges(&store, &id(), (from, 1981), 1000));
            let read = *store.read.lock().unwrap() - before;
            assert!((1..100).contains(&read), "{read} messages of a part of {}", part.len());
            assert_eq!(part[0], said(0, "question"));
            all.extend(part);
            from = next;
        }
        assert_eq!(from, 1981);
        assert_eq!(all, store.all()[1..1981]);
    }

    #[test]
    fn messages_to_summarise_that_the_tail_holds_are_not_read_from_the_store() {
        let store = history(1000);
        let mut tail = HistoryTail::empty(2001);
        now(tail.everything(&store, &id()));
        let read = *store.read.lock().unwrap();
        let (part, next) = now(tail.oldest_exchanges(&store, &id(), (0, 1981), usize::MAX));
        assert_eq!((&part[..], next), (&store.all()[1..1981], 1981));
        assert_eq!(*store.read.lock().unwrap(), read);
    }

    #[test]
    fn long_system_message_counts_towards_the_size_of_the_tail() {
        let mut store = FakeMessageStore::default();
        store.add(0, 0, said(2, &"rule ".repeat(10_000)));
        for number in 1..100 {
            store.add(number, number, said(0, "question"));
        }
        let mut tail = HistoryTail::empty(100);
        now(tail.window(&store, &id(), 100, 0));
        assert!(tail.bytes() > 50_000, "{}", tail.bytes());
    }

    #[test]
    fn only_system_messages_are_read_of_the_messages_that_the_session_began_with() {
        let mut store = FakeMessageStore::default();
        for number in 0..100 {
            store.add(number, 0, said(if number % 10 == 0 { 2 } else { 0 }, "began"));
        }
        for number in 100..1000 {
            store.add(number, 1, said(0, "later"));
        }
        let mut tail = HistoryTail::empty(1000);
        let messages = now(tail.window(&store, &id(), 100, 0));
        assert_eq!(messages.iter().filter(|stored| is_system(&stored.message)).count(), 10);
        assert!(*store.read.lock().unwrap() < 10 + 2 * FIRST_PAGE);
    }

    proptest! {
        /// A tail that sees only some of the messages, with gaps in their numbers, returns what the store has.
        #[test]
        fn tail_returns_the_stored_messages_after_any_sequence_of_pushes_and_trims(
            earlier in 0u64..80,
            steps in prop::collection::vec((0u8..6, 0u8..2, "[a-z]{0,40}"), 0..40),
        ) {
            let mut store = FakeMessageStore::default();
            for number in 0..earlier {
                let role = if number % 3 == 1 { 1 } else if number <= 3 && number % 2 == 0 { 2 } else { 0 };
                store.add(number, u64::from(number > 3), said(role, "earlier"));
            }
            let (mut tail, mut next) = (HistoryTail::empty(earlier), earlier);
            for (action, role, text) in steps {
                match action {
                    // Number that is reserved and never used.
                    0 => next += 1,
                    // Message that something else stores.
                    1 => {
                        store.add(next, 1, said(role, &text));
                        next += 1;
                    }
                    2 => tail.trim(HistoryNeed::Window(100), false),
                    3 => tail.trim(HistoryNeed::NewestExchange, false),
                    _ => {
                        tail.push(&store.add(next, 1, said(role, &text)));
                        next += 1;
                    }
                }
                let all = store.all();
                now(tail.read_newer(&store, &id(), next));
                let start = all.iter().rposition(|message| matches!(message, Message::User { .. })).unwrap_or(0);
                prop_assert_eq!(&now(tail.newest_exchange(&store, &id()))[..], &all[start..]);
                if action == 5 {
                    let everything = now(tail.everything(&store, &id()));
                    prop_assert_eq!(everything.into_iter().map(|stored| stored.message).collect::<Vec<_>>(), all);
                } else {
                    let window = now(tail.window(&store, &id(), 200, 0));
                    let bytes: usize = window.iter().map(|stored| stored.encode().json.len()).sum();
                    let shown: Vec<_> = window.into_iter().map(|stored| stored.message).collect();
                    prop_assert_eq!(count_system(&shown), count_system(&all));
                    let rest = |messages: &[Message]| -> Vec<Message> {
                        messages.iter().filter(|message| !is_system(message)).cloned().collect()
                    };
                    prop_assert!(rest(&all).ends_with(&rest(&shown)));
                    prop_assert!(shown.len() == all.len() || bytes > 200);
                }
            }
        }
    }
}

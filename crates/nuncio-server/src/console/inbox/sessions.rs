//! Who is signed in, in memory: it ends with the process, and needs no cleaning up on disk.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nuncio_core::digest::Digest;
use nuncio_core::ids::KeyId;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::entropy::random_name;

use crate::system::SystemEntropy;

/// How many may be signed in at once. One more, and whoever was away longest is signed out.
const MAX_SESSIONS: usize = 1000;
/// How long somebody may be away.
const IDLE: Duration = Duration::from_secs(12 * 60 * 60);
/// How many wrong keys may be tried in [`SPAN`], by all together.
const MAX_WRONG: u32 = 20;
const SPAN: Duration = Duration::from_secs(60);

/// Everyone who is signed in. Known by the digests of their cookies, so that looking one up tells
/// nothing about others.
#[derive(Default)]
pub(super) struct Sessions {
    open: Mutex<HashMap<Digest, Session>>,
    wrong: Mutex<Option<(Timestamp, u32)>>,
}

/// Somebody who is signed in.
#[derive(Clone)]
pub(super) struct Session {
    /// By which key.
    pub(super) key: KeyId,
    /// What every form of theirs must send along.
    pub(super) token: String,
    seen: Timestamp,
}

/// Whether a look counts as being there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// A person did something.
    Visit,
    /// A page asked by itself.
    Glance,
}

/// More than 128 random bits.
pub(super) fn random() -> String {
    random_name(&SystemEntropy, "") + &random_name(&SystemEntropy, "")
}

impl Sessions {
    /// Signs somebody in; the answer is what their cookie holds.
    pub(super) fn open(&self, key: KeyId, now: Timestamp) -> String {
        let mut open = self.lock();
        open.retain(|_, session| !session.is_over(now));
        if open.len() >= MAX_SESSIONS {
            let oldest = open.iter().min_by_key(|(_, session)| session.seen).map(|(cookie, _)| *cookie);
            oldest.map(|cookie| open.remove(&cookie));
        }
        let cookie = random();
        open.insert(Digest::of_bytes(cookie.as_bytes()), Session { key, token: random(), seen: now });
        cookie
    }

    /// Whose cookie it is.
    pub(super) fn find(&self, cookie: &str, look: Look, now: Timestamp) -> Option<Session> {
        let name = Digest::of_bytes(cookie.as_bytes());
        let mut open = self.lock();
        let session = open.get_mut(&name)?;
        if session.is_over(now) {
            open.remove(&name);
            return None;
        }
        if look == Look::Visit {
            session.seen = now;
        }
        Some(session.clone())
    }

    /// Signs somebody out.
    pub(super) fn close(&self, cookie: &str) {
        self.lock().remove(&Digest::of_bytes(cookie.as_bytes()));
    }

    /// Whether another key may be tried; if not, after how many seconds.
    pub(super) fn may_try(&self, now: Timestamp) -> Result<(), u64> {
        match *self.wrong.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((since, count)) if count >= MAX_WRONG && now < since.after(SPAN) => {
                Err(now.until(since.after(SPAN)).as_secs() + 1)
            }
            _ => Ok(()),
        }
    }

    /// A wrong key was tried.
    pub(super) fn tried(&self, now: Timestamp) {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        *wrong = match *wrong {
            Some((since, count)) if now < since.after(SPAN) => Some((since, count + 1)),
            _ => Some((now, 1)),
        };
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, Session>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    fn is_over(&self, now: Timestamp) -> bool {
        now >= self.seen.after(IDLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(0).after(Duration::from_secs(seconds))
    }

    fn key() -> KeyId {
        KeyId::parse("key_1").unwrap()
    }

    #[test]
    fn a_session_ends_when_nobody_was_there_for_long_and_a_page_by_itself_is_nobody() {
        let sessions = Sessions::default();
        let cookie = sessions.open(key(), at(0));
        let half = IDLE.as_secs() / 2;
        assert!(sessions.find(&cookie, Look::Visit, at(half)).is_some());
        assert!(sessions.find(&cookie, Look::Glance, at(half + IDLE.as_secs() - 1)).is_some());
        assert!(sessions.find(&cookie, Look::Glance, at(half + IDLE.as_secs())).is_none());
        assert!(sessions.find(&cookie, Look::Visit, at(0)).is_none(), "what is over stays over");
    }

    #[test]
    fn there_are_never_more_than_so_many_and_who_was_away_longest_goes_first() {
        let sessions = Sessions::default();
        let cookies: Vec<_> = (0..=MAX_SESSIONS as u64).map(|second| sessions.open(key(), at(second))).collect();
        assert_eq!(sessions.lock().len(), MAX_SESSIONS);
        assert!(sessions.find(&cookies[0], Look::Glance, at(0)).is_none());
        assert!(sessions.find(&cookies[1], Look::Glance, at(1)).is_some());
    }

    #[test]
    fn wrong_keys_are_counted_for_a_minute() {
        let sessions = Sessions::default();
        for _ in 0..MAX_WRONG {
            assert_eq!(sessions.may_try(at(10)), Ok(()));
            sessions.tried(at(10));
        }
        assert_eq!(sessions.may_try(at(30)), Err(41));
        assert_eq!(sessions.may_try(at(70)), Ok(()));
        sessions.tried(at(70));
        assert_eq!(sessions.may_try(at(71)), Ok(()));
    }
}

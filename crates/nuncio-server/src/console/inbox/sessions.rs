//! Sign-in sessions, in memory only: they end with the process.

use std::net::IpAddr;
use std::time::Duration;

use nuncio_core::backoff::Backoff;
use nuncio_core::bounded_cache::BoundedCache;
use nuncio_core::digest::Digest;
use nuncio_core::ids::KeyId;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::entropy::random_name;

use crate::system::SystemEntropy;

/// Limit of sign-in sessions. Above it the longest idle one ends.
const MAX_SESSIONS: usize = 1000;
/// Idle time after which a session ends.
const IDLE: Duration = Duration::from_secs(12 * 60 * 60);
/// How many wrong keys an address may try before it has to wait.
const FREE_TRIES: u32 = 10;
/// How long an address waits after each further wrong key.
const WAIT: Backoff = Backoff::doubling(Duration::from_secs(2), Duration::from_secs(900));
/// How many addresses are remembered. One more, and the one that tried longest ago is forgotten.
const MAX_ADDRESSES: usize = 10_000;

/// Everyone who is signed in. Known by the digests of their cookies, so that looking one up tells
/// nothing about others.
pub(super) struct Sessions {
    open: BoundedCache<Digest, SignInSession>,
    wrong: BoundedCache<Option<IpAddr>, WrongKeys>,
}

impl Default for Sessions {
    fn default() -> Self {
        Self { open: BoundedCache::new(MAX_SESSIONS), wrong: BoundedCache::new(MAX_ADDRESSES) }
    }
}

#[derive(Clone, Copy)]
struct WrongKeys {
    count: u32,
    last: Timestamp,
}

impl WrongKeys {
    fn next_try(self) -> Timestamp {
        self.last.after(WAIT.after(self.count.saturating_sub(FREE_TRIES)))
    }
}

#[derive(Clone)]
pub(super) struct SignInSession {
    pub(super) key: KeyId,
    /// The digest of the secret they signed in with.
    pub(super) secret: Digest,
    pub(super) token: String,
}

/// Whether a request extends the session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum VisitKind {
    Visit,
    Glance,
}

/// More than 128 random bits.
pub(super) fn random() -> String {
    random_name(&SystemEntropy, "") + &random_name(&SystemEntropy, "")
}

impl Sessions {
    /// Opens a session and returns its cookie value.
    pub(super) fn open(&self, key: KeyId, secret: Digest, now: Timestamp) -> String {
        let cookie = random();
        let session = SignInSession { key, secret, token: random() };
        self.open.put(Digest::of_bytes(cookie.as_bytes()), session, now.after(IDLE));
        cookie
    }

    pub(super) fn find(&self, cookie: &str, look: VisitKind, now: Timestamp) -> Option<SignInSession> {
        let name = Digest::of_bytes(cookie.as_bytes());
        match look {
            VisitKind::Visit => self.open.get_and_extend(&name, now, now.after(IDLE)),
            VisitKind::Glance => self.open.get(&name, now),
        }
    }

    /// Ends a session.
    pub(super) fn close(&self, cookie: &str) {
        self.open.remove(&Digest::of_bytes(cookie.as_bytes()));
    }

    /// Whether an address may try another key; if not, after how many seconds. An address does not keep others out.
    pub(super) fn may_try(&self, address: Option<IpAddr>, now: Timestamp) -> Result<(), u64> {
        match self.wrong.get(&address, now).map(WrongKeys::next_try) {
            Some(next) if now < next => Err(now.until(next).as_secs() + 1),
            _ => Ok(()),
        }
    }

    pub(super) fn tried(&self, address: Option<IpAddr>, now: Timestamp) {
        self.wrong.update(address, now, now.after(WAIT.max * 2), |before| {
            let count = before.map_or(0, |wrong| wrong.count).saturating_add(1);
            WrongKeys { count, last: now }
        });
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
    fn sign_in_session_expires_when_idle_and_polling_does_not_extend_it() {
        let sessions = Sessions::default();
        let cookie = sessions.open(key(), Digest::ZERO, at(0));
        let half = IDLE.as_secs() / 2;
        assert!(sessions.find(&cookie, VisitKind::Visit, at(half)).is_some());
        assert!(sessions.find(&cookie, VisitKind::Glance, at(half + IDLE.as_secs() - 1)).is_some());
        assert!(sessions.find(&cookie, VisitKind::Glance, at(half + IDLE.as_secs())).is_none());
        assert!(sessions.find(&cookie, VisitKind::Visit, at(0)).is_none(), "what is over stays over");
    }

    #[test]
    fn session_limit_evicts_the_longest_idle_session() {
        let sessions = Sessions::default();
        let cookies: Vec<_> =
            (0..=MAX_SESSIONS as u64).map(|second| sessions.open(key(), Digest::ZERO, at(second))).collect();
        assert_eq!(sessions.open.weight(), MAX_SESSIONS);
        assert!(sessions.find(&cookies[0], VisitKind::Glance, at(0)).is_none());
        assert!(sessions.find(&cookies[1], VisitKind::Glance, at(1)).is_some());
    }

    #[test]
    fn wrong_sign_in_keys_delay_only_further_attempts_from_their_address() {
        let sessions = Sessions::default();
        let [one, other] = [1, 2].map(|last| Some(IpAddr::from([192, 0, 2, last])));
        for _ in 0..FREE_TRIES {
            sessions.tried(one, at(0));
            assert_eq!(sessions.may_try(one, at(0)), Ok(()));
        }
        let mut now = 0;
        for wait in [2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900] {
            sessions.tried(one, at(now));
            assert_eq!(sessions.may_try(one, at(now)), Err(wait + 1));
            assert_eq!(sessions.may_try(other, at(now)), Ok(()));
            now += wait;
            assert_eq!(sessions.may_try(one, at(now)), Ok(()));
        }
        sessions.tried(one, at(now + 1800));
        assert_eq!(sessions.may_try(one, at(now + 1800)), Ok(()), "the count begins anew");
    }

    #[test]
    fn number_of_addresses_with_failed_sign_ins_is_limited() {
        let sessions = Sessions::default();
        for number in 0..=u32::try_from(MAX_ADDRESSES).unwrap() {
            sessions.tried(Some(IpAddr::from(number.to_be_bytes())), at(u64::from(number / 100)));
        }
        assert_eq!(sessions.wrong.weight(), MAX_ADDRESSES);
    }
}

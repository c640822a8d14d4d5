//! Sign-in sessions and wrong sign-in keys. Both are only in memory, so sessions end with the process.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::backoff::Backoff;
use nuncio_core::bounded_cache::BoundedCache;
use nuncio_core::digest::Digest;
use nuncio_core::ids::KeyId;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Entropy;
use nuncio_engine::ports::entropy::random_name;

/// Limit of open sessions; one more ends the session that was idle longest.
const MAX_SESSIONS: usize = 1000;
/// Idle time after which a session ends.
const IDLE_TIME: Duration = Duration::from_secs(12 * 60 * 60);
/// Number of wrong keys after which an address has to wait.
const FREE_ATTEMPTS: u32 = 10;
/// Waiting time of an address after each further wrong key.
const WRONG_KEY_BACKOFF: Backoff = Backoff::doubling(Duration::from_secs(2), Duration::from_secs(900));
/// Limit of addresses whose wrong keys are counted; one more removes the address that tried longest ago.
const MAX_ADDRESSES: usize = 10_000;

/// Sign-in sessions by the digest of their cookie, so that the time of a lookup reveals nothing about other cookies.
/// Also counts wrong keys by address.
pub(super) struct SignInSessions {
    entropy: Arc<dyn Entropy>,
    open: BoundedCache<Digest, SignInSession>,
    wrong_keys: BoundedCache<Option<IpAddr>, WrongKeyCount>,
}

#[derive(Clone, Copy)]
struct WrongKeyCount {
    count: u32,
    last: Timestamp,
}

impl WrongKeyCount {
    fn next_attempt_at(self) -> Timestamp {
        self.last.after(WRONG_KEY_BACKOFF.after(self.count.saturating_sub(FREE_ATTEMPTS)))
    }
}

#[derive(Clone)]
pub(super) struct SignInSession {
    pub(super) key: KeyId,
    /// The digest of the key's secret at sign-in; a session ends when the secret changes.
    pub(super) secret: Digest,
    /// The token that the forms of this session carry.
    pub(super) token: String,
}

/// Whether a request extends the session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionRenewal {
    Extend,
    Peek,
}

impl SignInSessions {
    pub(super) fn new(entropy: Arc<dyn Entropy>) -> Self {
        Self { entropy, open: BoundedCache::new(MAX_SESSIONS), wrong_keys: BoundedCache::new(MAX_ADDRESSES) }
    }

    /// A random text with more than 128 bits of entropy.
    pub(super) fn random_token(&self) -> String {
        random_name(&*self.entropy, "") + &random_name(&*self.entropy, "")
    }

    /// Opens a session and returns its cookie value.
    pub(super) fn open(&self, key: KeyId, secret: Digest, now: Timestamp) -> String {
        let cookie = self.random_token();
        let session = SignInSession { key, secret, token: self.random_token() };
        self.open.put(Digest::of_bytes(cookie.as_bytes()), session, now.after(IDLE_TIME));
        cookie
    }

    pub(super) fn find(&self, cookie: &str, access: SessionRenewal, now: Timestamp) -> Option<SignInSession> {
        let digest = Digest::of_bytes(cookie.as_bytes());
        match access {
            SessionRenewal::Extend => self.open.get_and_extend(&digest, now, now.after(IDLE_TIME)),
            SessionRenewal::Peek => self.open.get(&digest, now),
        }
    }

    pub(super) fn close(&self, cookie: &str) {
        self.open.remove(&Digest::of_bytes(cookie.as_bytes()));
    }

    /// Whether an address may try a key now. An error is the number of seconds to wait.
    pub(super) fn check_attempt(&self, address: Option<IpAddr>, now: Timestamp) -> Result<(), u64> {
        match self.wrong_keys.get(&address, now).map(WrongKeyCount::next_attempt_at) {
            Some(next) if now < next => Err(now.until(next).as_secs() + 1),
            _ => Ok(()),
        }
    }

    pub(super) fn record_wrong_key(&self, address: Option<IpAddr>, now: Timestamp) {
        self.wrong_keys.update(address, now, now.after(WRONG_KEY_BACKOFF.max * 2), |before| {
            let count = before.map_or(0, |wrong| wrong.count).saturating_add(1);
            WrongKeyCount { count, last: now }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(0).after(Duration::from_secs(seconds))
    }

    /// Fills with the hexadecimal digits of a counter, so that every token differs.
    #[derive(Debug, Default)]
    struct CountingEntropy(AtomicU64);

    impl Entropy for CountingEntropy {
        fn fill(&self, bytes: &mut [u8]) {
            let mut number = self.0.fetch_add(1, Ordering::Relaxed);
            for byte in bytes {
                *byte = (number % 16) as u8;
                number /= 16;
            }
        }
    }

    fn sessions() -> SignInSessions {
        SignInSessions::new(Arc::new(CountingEntropy::default()))
    }

    fn key() -> KeyId {
        KeyId::parse("key_1").unwrap()
    }

    #[test]
    fn sign_in_session_expires_when_idle_and_polling_does_not_extend_it() {
        let sessions = sessions();
        let cookie = sessions.open(key(), Digest::ZERO, at(0));
        let half = IDLE_TIME.as_secs() / 2;
        assert!(sessions.find(&cookie, SessionRenewal::Extend, at(half)).is_some());
        assert!(sessions.find(&cookie, SessionRenewal::Peek, at(half + IDLE_TIME.as_secs() - 1)).is_some());
        assert!(sessions.find(&cookie, SessionRenewal::Peek, at(half + IDLE_TIME.as_secs())).is_none());
        assert!(sessions.find(&cookie, SessionRenewal::Extend, at(0)).is_none(), "an expired session stays closed");
    }

    #[test]
    fn session_over_the_limit_evicts_the_longest_idle_session() {
        let sessions = sessions();
        let cookies: Vec<_> =
            (0..=MAX_SESSIONS as u64).map(|second| sessions.open(key(), Digest::ZERO, at(second))).collect();
        assert_eq!(sessions.open.weight(), MAX_SESSIONS);
        assert!(sessions.find(&cookies[0], SessionRenewal::Peek, at(0)).is_none());
        assert!(sessions.find(&cookies[1], SessionRenewal::Peek, at(1)).is_some());
    }

    #[test]
    fn wrong_sign_in_keys_delay_further_attempts_only_from_the_same_address() {
        let sessions = sessions();
        let [one, other] = [1, 2].map(|last| Some(IpAddr::from([192, 0, 2, last])));
        for _ in 0..FREE_ATTEMPTS {
            sessions.record_wrong_key(one, at(0));
            assert_eq!(sessions.check_attempt(one, at(0)), Ok(()));
        }
        let mut now = 0;
        for wait in [2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900] {
            sessions.record_wrong_key(one, at(now));
            assert_eq!(sessions.check_attempt(one, at(now)), Err(wait + 1));
            assert_eq!(sessions.check_attempt(other, at(now)), Ok(()));
            now += wait;
            assert_eq!(sessions.check_attempt(one, at(now)), Ok(()));
        }
        sessions.record_wrong_key(one, at(now + 1800));
        assert_eq!(sessions.check_attempt(one, at(now + 1800)), Ok(()), "the count starts again");
    }

    #[test]
    fn number_of_remembered_addresses_with_failed_sign_ins_is_limited() {
        let sessions = sessions();
        for number in 0..=u32::try_from(MAX_ADDRESSES).unwrap() {
            sessions.record_wrong_key(Some(IpAddr::from(number.to_be_bytes())), at(u64::from(number / 100)));
        }
        assert_eq!(sessions.wrong_keys.weight(), MAX_ADDRESSES);
    }
}

//! The nonces that were used. Each is remembered for as long as its timestamp would be accepted; when
//! there is no more room, new ones are refused rather than old ones forgotten.

use std::collections::{BTreeMap, HashMap, HashSet};

use nuncio_core::digest::Digest;
use nuncio_core::ids::KeyId;

/// How many nonces of one key are remembered.
pub(super) const PER_KEY: usize = 65_536;

/// Half a digest: enough to tell nonces apart.
type Mark = [u8; 16];

/// The memory of all keys.
#[derive(Default)]
pub(super) struct Nonces {
    by_key: HashMap<KeyId, Used>,
}

#[derive(Default)]
struct Used {
    marks: HashSet<Mark>,
    /// The same, by the second in which each may be forgotten.
    ends: BTreeMap<i64, Vec<Mark>>,
}

/// Why a nonce is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// It was used before.
    Used,
    /// There is no more room.
    Full,
}

impl Nonces {
    /// Uses a nonce of a key. `end` is the last second in which the request would be accepted.
    pub(super) fn take(&mut self, key: &KeyId, nonce: &str, end: i64, now: i64) -> Result<(), Refused> {
        self.by_key.retain(|_, used| {
            used.forget(now);
            !used.marks.is_empty()
        });
        let used = self.by_key.entry(key.clone()).or_default();
        let mark = mark(nonce);
        if used.marks.contains(&mark) {
            return Err(Refused::Used);
        }
        if used.marks.len() >= PER_KEY {
            return Err(Refused::Full);
        }
        used.marks.insert(mark);
        used.ends.entry(end).or_default().push(mark);
        Ok(())
    }
}

impl Used {
    fn forget(&mut self, now: i64) {
        while let Some(first) = self.ends.first_entry()
            && *first.key() < now
        {
            for mark in first.remove() {
                self.marks.remove(&mark);
            }
        }
    }
}

fn mark(nonce: &str) -> Mark {
    let digest = Digest::of_bytes(nonce.as_bytes());
    let mut mark = Mark::default();
    mark.copy_from_slice(&digest.as_bytes()[..16]);
    mark
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str) -> KeyId {
        KeyId::parse(id).unwrap()
    }

    #[test]
    fn a_nonce_is_a_keys_own_and_used_once_as_long_as_it_counts() {
        let mut nonces = Nonces::default();
        assert_eq!(nonces.take(&key("a"), "nonce-01", 10, 0), Ok(()));
        assert_eq!(nonces.take(&key("a"), "nonce-01", 12, 10), Err(Refused::Used));
        assert_eq!(nonces.take(&key("b"), "nonce-01", 10, 0), Ok(()));
        assert_eq!(nonces.take(&key("a"), "nonce-02", 10, 0), Ok(()));
        assert_eq!(nonces.take(&key("a"), "nonce-01", 20, 11), Ok(()), "its time was over");
        assert_eq!(nonces.by_key.len(), 1, "nothing is kept of keys that are not used");
    }

    #[test]
    fn a_full_memory_refuses_and_forgets_nothing_early() {
        let mut nonces = Nonces::default();
        for number in 0..PER_KEY {
            assert_eq!(nonces.take(&key("a"), &number.to_string(), 10, 0), Ok(()));
        }
        assert_eq!(nonces.take(&key("a"), "one more", 10, 0), Err(Refused::Full));
        assert_eq!(nonces.take(&key("a"), "0", 10, 10), Err(Refused::Used));
        assert_eq!(nonces.take(&key("b"), "one more", 10, 0), Ok(()), "others have their own room");
        assert_eq!(nonces.take(&key("a"), "one more", 20, 11), Ok(()));
    }
}

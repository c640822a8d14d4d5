//! The Olm account of a stateful identity: identity key, one-time keys and fallback key.

use std::time::Duration;

use nuncio_core::bundle::{OneTimeKey, X25519PublicKey};
use nuncio_core::ids::DeviceId;
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use vodozemac::olm::{Account, AccountPickle};

use super::secrets::SealPrivateKeys;
use super::vault::{SealedRecordChange, SealedRecords};

/// Number of one-time keys that should be available for other devices at the relay.
pub(super) const TARGET: usize = 50;
/// Lifetime of a fallback key. The previous fallback key still decrypts messages that are in transit.
const FALLBACK_FOR: Duration = Duration::from_hours(7 * 24);
const NAME: &str = "account";

/// An Olm account with the fallback key that senders use when no one-time key is left.
pub(super) struct OlmAccount {
    pub(super) account: Account,
    fallback: Option<FallbackKey>,
}

#[derive(Clone, Serialize, Deserialize)]
struct FallbackKey {
    key: OneTimeKey,
    since: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct StoredOlmAccount<P> {
    pickle: P,
    fallback: Option<FallbackKey>,
}

impl OlmAccount {
    pub(super) fn generate() -> Self {
        Self { account: Account::new(), fallback: None }
    }

    pub(super) fn key(&self) -> X25519PublicKey {
        X25519PublicKey::new(self.account.curve25519_key().to_bytes())
    }

    pub(super) fn load(vault: &SealedRecords) -> Result<Option<Self>, super::KeyStoreError> {
        let stored = vault.get::<StoredOlmAccount<AccountPickle>>(NAME)?;
        Ok(stored.map(|stored| Self { account: Account::from_pickle(stored.pickle), fallback: stored.fallback }))
    }

    pub(super) fn to_record(&self, vault: &SealedRecords) -> SealedRecordChange {
        let stored = StoredOlmAccount { pickle: self.account.pickle(), fallback: self.fallback.clone() };
        vault.put_large(NAME.to_owned(), &stored, 64 * 1024)
    }

    /// Creates the keys to publish when `have` one-time keys are left at the relay: the missing ones up to [`TARGET`],
    /// and the fallback key, which is replaced after seven days. None if neither is due.
    pub(super) fn top_up(
        &mut self,
        secrets: &SealPrivateKeys,
        device: &DeviceId,
        have: usize,
        now: Timestamp,
    ) -> Vec<OneTimeKey> {
        let sign = |(id, key): (vodozemac::KeyId, vodozemac::Curve25519PublicKey), fallback| {
            // The prefixes differ, because Olm numbers one-time keys and fallback keys separately.
            let kind = if fallback { "f" } else { "k" };
            let key_id = format!("{kind}{}", id.to_base64().replace('+', "-").replace('/', "_"));
            let key = X25519PublicKey::new(key.to_bytes());
            let signature = secrets.sign(&OneTimeKey::message(device, &key_id, key, fallback));
            OneTimeKey { key_id, key, fallback, signature }
        };
        let is_fresh = |fallback: &FallbackKey| fallback.since.after(FALLBACK_FOR) > now;
        let renew = !self.fallback.as_ref().is_some_and(is_fresh);
        if renew {
            self.account.generate_fallback_key();
            let key = self.account.fallback_key().into_iter().next();
            self.fallback = key.map(|key| FallbackKey { key: sign(key, true), since: now });
        }
        let missing = TARGET.saturating_sub(have);
        if missing > 0 {
            self.account.generate_one_time_keys(missing);
        }
        let mut keys: Vec<_> = self.account.one_time_keys().into_iter().map(|key| sign(key, false)).collect();
        keys.sort_by(|one, other| one.key_id.cmp(&other.key_id));
        self.account.mark_keys_as_published();
        if renew || !keys.is_empty() {
            keys.extend(self.fallback.iter().map(|fallback| fallback.key.clone()));
        }
        keys
    }
}

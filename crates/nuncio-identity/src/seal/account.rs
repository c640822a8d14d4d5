//! The Olm account of a stateful party: its identity key, one-time keys and fallback key.

use std::time::Duration;

use nuncio_core::bundle::{AgreementKey, OneTimeKey};
use nuncio_core::ids::DeviceId;
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use vodozemac::olm::{Account, AccountPickle};

use super::secrets::Secrets;
use super::vault::{Change, Vault};

/// How many one-time keys should wait at the relay.
pub(super) const TARGET: usize = 50;
/// How long one fallback key is used. The one before it still opens what was on its way.
const FALLBACK_FOR: Duration = Duration::from_hours(7 * 24);
const NAME: &str = "account";

/// An account, and the fallback key others find when the one-time keys are gone.
pub(super) struct Olm {
    pub(super) account: Account,
    fallback: Option<Fallback>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Fallback {
    key: OneTimeKey,
    since: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct Kept<P> {
    pickle: P,
    fallback: Option<Fallback>,
}

impl Olm {
    pub(super) fn generate() -> Self {
        Self { account: Account::new(), fallback: None }
    }

    pub(super) fn key(&self) -> AgreementKey {
        AgreementKey::new(self.account.curve25519_key().to_bytes())
    }

    pub(super) fn load(vault: &Vault) -> Result<Option<Self>, super::KeepError> {
        let kept = vault.get::<Kept<AccountPickle>>(NAME)?;
        Ok(kept.map(|kept| Self { account: Account::from_pickle(kept.pickle), fallback: kept.fallback }))
    }

    pub(super) fn kept(&self, vault: &Vault) -> Change {
        let kept = Kept { pickle: self.account.pickle(), fallback: self.fallback.clone() };
        vault.put_large(NAME.to_owned(), &kept, 64 * 1024)
    }

    /// Keys to be published where `have` are waiting: fresh ones, and the fallback key with them.
    pub(super) fn top_up(
        &mut self,
        secrets: &Secrets,
        device: &DeviceId,
        have: usize,
        now: Timestamp,
    ) -> Vec<OneTimeKey> {
        let sign = |(id, key): (vodozemac::KeyId, vodozemac::Curve25519PublicKey), fallback| {
            // The two kinds are counted apart.
            let kind = if fallback { "f" } else { "k" };
            let key_id = format!("{kind}{}", id.to_base64().replace('+', "-").replace('/', "_"));
            let key = AgreementKey::new(key.to_bytes());
            let signature = secrets.sign(&OneTimeKey::message(device, &key_id, key, fallback));
            OneTimeKey { key_id, key, fallback, signature }
        };
        let is_fresh = |fallback: &Fallback| fallback.since.after(FALLBACK_FOR) > now;
        let renew = !self.fallback.as_ref().is_some_and(is_fresh);
        if renew {
            self.account.generate_fallback_key();
            let key = self.account.fallback_key().into_iter().next();
            self.fallback = key.map(|key| Fallback { key: sign(key, true), since: now });
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

//! Keys of this peer, and the keys of others that it trusts.

use std::sync::{Arc, Mutex};

use nuncio_core::bounded_cache::BoundedCache;
use nuncio_core::bundle::{KeyBundle, OneTimeKey};
use nuncio_core::conversation::Conversation;
use nuncio_core::digest::Digest;
use nuncio_core::ids::DeviceId;
use nuncio_core::notification::RelayParty;
use nuncio_core::time::Timestamp;
use nuncio_identity::seal::backup::RestoredKeys;
use nuncio_identity::seal::{KeyReviewResult, PendingKeys, RecipientDevice, SealError, SealIdentity};

use super::context::PeerContext;
use super::error::SendError;
use super::lock;
use crate::client::RelayClientError;

/// Maximum number of people and agents whose trusted keys are cached.
pub(super) const MAX_CACHED_OWNERS: usize = 10_000;

/// How often a message is sealed again because a session with a device must be started.
const SEAL_AGAIN: usize = 3;

/// Keys of this peer, and the pinned keys of others with the person's decisions about them.
pub struct SealKeyService {
    pub(super) context: Arc<PeerContext>,
    pub(super) seal_identity: Arc<Mutex<SealIdentity>>,
    /// Cache of the trusted keys of others; an entry is removed when the keys change.
    pub(super) trusted_keys: BoundedCache<RelayParty, Vec<KeyBundle>>,
}

impl SealKeyService {
    pub async fn pinned(&self, owner: &RelayParty) -> Result<Vec<KeyBundle>, SendError> {
        let owner = owner.clone();
        Ok(self.with_seal_identity(move |seal_identity| seal_identity.pinned(&owner)).await??)
    }

    /// Number that the people on both sides compare to detect a man in the middle; `None` before first contact.
    pub async fn safety_number(&self, owner: &RelayParty) -> Result<Option<String>, SendError> {
        self.fetch_and_review_keys(owner).await?;
        let owner = owner.clone();
        Ok(self.with_seal_identity(move |seal_identity| seal_identity.safety_number(&owner)).await??)
    }

    /// Published keys of `owner` that the person has not accepted yet.
    pub async fn waiting(&self, owner: &RelayParty) -> Result<Vec<PendingKeys>, SendError> {
        self.fetch_and_review_keys(owner).await?;
        let owner = owner.clone();
        Ok(self.with_seal_identity(move |seal_identity| seal_identity.decisions().waiting(&owner)).await??)
    }

    /// Accepts the new keys of a device of `owner`, if they have the fingerprint `seen` that the person saw.
    pub async fn accept_key(&self, owner: &RelayParty, device: &DeviceId, seen: &Digest) -> Result<(), SendError> {
        let (key_owner, accepted, seen) = (owner.clone(), device.clone(), *seen);
        self.with_seal_identity(move |seal_identity| {
            seal_identity.decisions().accept_key(&key_owner, &accepted, &seen)
        })
        .await??;
        self.keys_changed(owner);
        Ok(())
    }

    /// Stops trusting a device of `owner`, even if other devices endorse it.
    pub async fn remove_keys(&self, owner: &RelayParty, device: &DeviceId) -> Result<(), SendError> {
        let (key_owner, removed) = (owner.clone(), device.clone());
        self.with_seal_identity(move |seal_identity| seal_identity.decisions().remove(&key_owner, &removed)).await??;
        self.keys_changed(owner);
        Ok(())
    }

    /// Endorses this device with the keys of a predecessor device from a backup, and publishes the endorsement.
    pub async fn vouch_by_backup(&self, restored: RestoredKeys) -> Result<(), SendError> {
        let now = self.context.now();
        self.with_seal_identity(move |seal_identity| seal_identity.decisions().endorse_from_backup(&restored, now))
            .await??;
        self.publish_keys().await
    }

    /// Publishes this peer's key bundle, and one-time keys with which others start sessions.
    pub async fn publish_keys(&self) -> Result<(), SendError> {
        let bundle = self.with_seal_identity(|seal_identity| seal_identity.bundle().cloned()).await?;
        let bundle =
            bundle.ok_or_else(|| SendError::Fault("this identity has no owner and device id yet".to_owned()))?;
        let have = match self.context.relay.register_keys(Some(bundle), Vec::new()).await {
            // The relay has a newer bundle: these keys were copied, or the clock was set back.
            Err(RelayClientError::Refused { code: nuncio_core::ErrorCode::BundleRefused, message }) => {
                return Err(SendError::Fault(message));
            }
            other => other?,
        };
        let now = self.context.now();
        let keys = self.with_seal_identity(move |seal_identity| seal_identity.one_time_keys(have, now)).await??;
        if !keys.is_empty() {
            self.context.relay.register_keys(None, keys).await?;
        }
        Ok(())
    }

    /// Seals data for the trusted devices of all members; if a session must start, fetches one-time keys and retries.
    pub(super) async fn seal_for<T: Send + 'static>(
        &self,
        conversation: &Conversation,
        seal: impl Fn(&mut SealIdentity, &[RecipientDevice<'_>]) -> Result<T, SealError> + Send + Sync + 'static,
    ) -> Result<T, SendError> {
        let seal = Arc::new(seal);
        let mut to = self.trusted_devices(conversation).await?;
        let mut again = 0..SEAL_AGAIN;
        loop {
            let seal = Arc::clone(&seal);
            let (tried, sealed) = self
                .with_seal_identity(move |seal_identity| {
                    let devices = to.iter().map(|(bundle, key)| RecipientDevice { bundle, one_time_key: key.as_ref() });
                    let sealed = seal(seal_identity, &devices.collect::<Vec<_>>());
                    (to, sealed)
                })
                .await?;
            to = tried;
            match sealed {
                Err(SealError::NeedsOneTimeKey(devices)) if again.next().is_some() => {
                    for (bundle, key) in &mut to {
                        let id = bundle.keys.id();
                        if devices.iter().any(|(owner, device)| *owner == id.owner && *device == id.device) {
                            *key = Some(self.context.relay.one_time_key(&id).await?);
                        }
                    }
                }
                done => return Ok(done?),
            }
        }
    }

    /// Key bundles of the trusted devices of all members, each without a one-time key.
    async fn trusted_devices(
        &self,
        conversation: &Conversation,
    ) -> Result<Vec<(KeyBundle, Option<OneTimeKey>)>, SendError> {
        let mut all = Vec::new();
        for member in &conversation.members {
            let bundles = match member == self.context.me() {
                false => self.trusted(member).await?,
                // The person's other devices get a copy of the message; an agent has only one device.
                true if matches!(member, RelayParty::Agent(_)) => continue,
                true => self.trusted(member).await.unwrap_or_default(),
            };
            all.extend(bundles.into_iter().map(|bundle| (bundle, None)));
        }
        Ok(all)
    }

    /// Key bundles of a recipient's trusted devices; an error if there are none.
    async fn trusted(&self, owner: &RelayParty) -> Result<Vec<KeyBundle>, SendError> {
        if let Some(known) = self.trusted_keys.get(owner, self.context.now()) {
            return Ok(known);
        }
        let (bundles, review) = self.fetch_and_review_keys(owner).await?;
        let trusted: Vec<_> =
            bundles.into_iter().filter(|bundle| review.trusted.contains(&bundle.keys.device_id)).collect();
        match (trusted.is_empty(), review.distrusted.is_empty()) {
            (false, _) => {
                self.trusted_keys.put(owner.clone(), trusted.clone(), Timestamp::LAST);
                Ok(trusted)
            }
            (true, true) => Err(SendError::NoDevice(owner.clone())),
            (true, false) => Err(SendError::KeysChanged { owner: owner.clone(), devices: review.distrusted }),
        }
    }

    pub(super) async fn fetch_and_review_keys(
        &self,
        owner: &RelayParty,
    ) -> Result<(Vec<KeyBundle>, KeyReviewResult), SendError> {
        let bundles = self.context.relay.keys_of(owner).await?;
        let (reviewed, published) = (owner.clone(), bundles.clone());
        let review = self
            .with_seal_identity(move |seal_identity| seal_identity.review_keys(&reviewed, &published, None))
            .await??;
        for change in &review.changes {
            tracing::info!(%owner, ?change, "keys changed");
        }
        for (device, why) in &review.distrusted {
            tracing::warn!(%owner, %device, %why, "a published device key is not trusted");
        }
        Ok((bundles, review))
    }

    pub(super) fn keys_changed(&self, owner: &RelayParty) {
        self.trusted_keys.remove(owner);
    }

    /// Runs `work` with the keys on a blocking thread, because every step writes to disk.
    pub(super) async fn with_seal_identity<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SealIdentity) -> T + Send + 'static,
    ) -> Result<T, SendError> {
        let seal_identity = Arc::clone(&self.seal_identity);
        let done = tokio::task::spawn_blocking(move || work(&mut lock(&seal_identity))).await;
        done.map_err(|_| SendError::Fault("the sealing task was aborted".to_owned()))
    }
}

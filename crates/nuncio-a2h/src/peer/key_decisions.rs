//! Decisions of a person about keys.

use nuncio_core::digest::Digest;
use nuncio_core::happening::Recipient;
use nuncio_core::ids::DeviceId;
use nuncio_identity::seal::PendingKeys;
use nuncio_identity::seal::backup::RestoredKeys;

use super::Peer;
use super::error::SendError;

impl Peer {
    /// Published keys that wait for acceptance.
    pub async fn waiting(&self, owner: &Recipient) -> Result<Vec<PendingKeys>, SendError> {
        self.meet(owner).await?;
        let owner = owner.clone();
        Ok(self.with_party(move |party| party.waiting(&owner)).await??)
    }

    /// Accepts a device by the key fingerprint that the person saw.
    ///
    /// # Errors
    /// No keys of this device wait for a decision, or they have another fingerprint.
    pub async fn accept_key(&self, owner: &Recipient, device: &DeviceId, seen: &Digest) -> Result<(), SendError> {
        let (asked, accepted, seen) = (owner.clone(), device.clone(), *seen);
        self.with_party(move |party| party.accept_key(&asked, &accepted, &seen)).await??;
        self.keys_changed(owner);
        Ok(())
    }

    /// Stops trusting a device, even if other devices endorse it.
    pub async fn remove_keys(&self, owner: &Recipient, device: &DeviceId) -> Result<(), SendError> {
        let (asked, removed) = (owner.clone(), device.clone());
        self.with_party(move |party| party.remove(&asked, &removed)).await??;
        self.keys_changed(owner);
        Ok(())
    }

    /// Endorses this device with the keys of a predecessor device from a backup, and publishes the endorsement.
    pub async fn vouch_by_backup(&self, restored: RestoredKeys) -> Result<(), SendError> {
        let now = self.now();
        self.with_party(move |party| party.endorse_from_backup(&restored, now)).await??;
        self.publish_keys().await
    }
}

//! What a person decides about keys.

use nuncio_core::digest::Digest;
use nuncio_core::happening::Recipient;
use nuncio_core::ids::DeviceId;
use nuncio_identity::seal::WaitingKeys;
use nuncio_identity::seal::backup::Restored;

use super::Peer;
use super::error::SendError;

impl Peer {
    /// Somebody's keys that wait for a yes, as the relay shows them now.
    ///
    /// # Errors
    /// The relay cannot be reached, or what is known cannot be read.
    pub async fn waiting(&self, owner: &Recipient) -> Result<Vec<WaitingKeys>, SendError> {
        self.meet(owner).await?;
        let owner = owner.clone();
        Ok(self.with_party(move |party| party.waiting(&owner)).await??)
    }

    /// Accepts a device by the fingerprint of the key that the person saw, and no other.
    ///
    /// # Errors
    /// It waits for no such word, or shows another key.
    pub async fn accept_key(&self, owner: &Recipient, device: &DeviceId, seen: &Digest) -> Result<(), SendError> {
        let (asked, accepted, seen) = (owner.clone(), device.clone(), *seen);
        self.with_party(move |party| party.accept_key(&asked, &accepted, &seen)).await??;
        self.keys_changed(owner);
        Ok(())
    }

    /// Takes a device's word no more, whoever vouches for it.
    ///
    /// # Errors
    /// It is this very device, or it cannot be kept.
    pub async fn remove_keys(&self, owner: &Recipient, device: &DeviceId) -> Result<(), SendError> {
        let (asked, removed) = (owner.clone(), device.clone());
        self.with_party(move |party| party.remove(&asked, &removed)).await??;
        self.keys_changed(owner);
        Ok(())
    }

    /// Lets the keys of a device before this one vouch for it, and brings that to the relay.
    ///
    /// # Errors
    /// The keys are this device's own, or the relay cannot be reached.
    pub async fn vouch_by_backup(&self, restored: Restored) -> Result<(), SendError> {
        let now = self.now();
        self.with_party(move |party| party.vouch_by_backup(&restored, now)).await??;
        self.publish_keys().await
    }
}

//! What a person decides about keys: whose word they take, whom they take away, and what a backup shows to be theirs.

use nuncio_core::bundle::{BundleKeys, Endorsement, KeyBundle, SealMode, WrapAlgorithm};
use nuncio_core::digest::Digest;
use nuncio_core::happening::Recipient;
use nuncio_core::ids::DeviceId;
use nuncio_core::time::Timestamp;

use super::backup::Restored;
use super::error::MeetError;
use super::keep::KeepError;
use super::party::{Party, This, peer_name};
use super::safety;
use super::trust::{Distrust, Peer};

/// Keys that wait for a person's yes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingKeys {
    /// The keys.
    pub bundle: KeyBundle,
    /// Why they are not trusted.
    pub why: Distrust,
    /// The safety number with their owner, were they accepted; none among one's own.
    pub safety_number: Option<String>,
}

impl Party {
    /// Somebody's keys that wait for a yes, as they were last shown.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn waiting(&mut self, owner: &Recipient) -> Result<Vec<WaitingKeys>, KeepError> {
        let known = self.peer(owner)?.unwrap_or_default();
        let own = self.named().map(|(own, _)| own.clone());
        let ours = match own.as_ref().filter(|own| *own != owner) {
            Some(own) => self.peer(own)?.unwrap_or_default().roots(),
            None => Vec::new(),
        };
        let number = |device: &DeviceId| {
            let mut then = Peer::clone(&known);
            then.accept(device).ok()?;
            let own = own.as_ref().filter(|_| !ours.is_empty())?;
            Some(safety::number((own, &ours), (owner, &then.roots())))
        };
        let waiting = known.all_waiting().map(|(bundle, why)| WaitingKeys {
            bundle: bundle.clone(),
            why,
            safety_number: number(&bundle.keys.device_id),
        });
        Ok(waiting.collect())
    }

    /// Accepts a device by the fingerprint of the signing key that the person saw: nothing that came in its place
    /// meanwhile is accepted.
    ///
    /// # Errors
    /// The device waits for no yes, shows another key, or it cannot be kept.
    pub fn accept_key(&mut self, owner: &Recipient, device: &DeviceId, expected: &Digest) -> Result<(), MeetError> {
        let known = self.peer(owner)?.unwrap_or_default();
        let (waiting, _) = known.waiting(device).ok_or_else(|| MeetError::NothingToAccept(device.clone()))?;
        if waiting.keys.signing_key.fingerprint() != *expected {
            return Err(MeetError::OtherFingerprint { owner: owner.clone(), expected: *expected });
        }
        self.accept(owner, device)
    }

    /// Takes a device's word no more, whoever vouches for it: nothing is sealed to it, and what it signs from now on
    /// is a stranger's.
    ///
    /// # Errors
    /// It is this very device, or that cannot be kept.
    pub fn remove(&mut self, owner: &Recipient, device: &DeviceId) -> Result<(), MeetError> {
        if self.named() == Some((owner, device)) {
            return Err(MeetError::NotOurs);
        }
        let known = self.peer(owner)?.unwrap_or_default();
        let mut peer = Peer::clone(&known);
        if !peer.remove(device) {
            return Ok(());
        }
        let changes = self.sessions.forget(&self.vault, &peer_name(owner, device), None)?;
        Ok(self.keep_peer(owner, &known, peer, changes)?)
    }

    /// Lets the keys of a device before this one, from a backup, vouch for it: whoever trusted that one trusts this
    /// one. Its bundle is a new one.
    ///
    /// # Errors
    /// It has no name yet, the keys are its own, or it cannot be kept.
    pub fn vouch_by_backup(&mut self, restored: &Restored, now: Timestamp) -> Result<(), MeetError> {
        let mut bundle = self.this.bundle.clone().ok_or(MeetError::Unnamed)?;
        if restored.signing_key() == self.signing_key() || *restored.device() == bundle.keys.device_id {
            return Err(MeetError::NotOurs);
        }
        let owner = bundle.keys.owner.clone();
        let known = self.peer(&owner)?.unwrap_or_default();
        let mut peer = Peer::clone(&known);
        peer.pin_former(former(&owner, restored, now));
        self.keep_peer(&owner, &known, peer, Vec::new())?;
        let seq = self.this.seq + 1;
        bundle.keys.seq = seq;
        bundle.signature = self.sign(&bundle.keys.message());
        let signature = restored.sign(&bundle.keys.endorsed());
        bundle.endorsement = Some(Endorsement { by: restored.device().clone(), signature });
        let changes = self.described(This { bundle: Some(bundle), seq, ..self.this.clone() })?;
        Ok(self.finish(changes)?)
    }
}

/// What a device was, by its keys: nothing is sealed to it, and whatever it showed itself is newer.
fn former(owner: &Recipient, restored: &Restored, now: Timestamp) -> KeyBundle {
    let keys = BundleKeys {
        device_id: restored.device().clone(),
        owner: owner.clone(),
        signing_key: restored.signing_key(),
        hpke_key: restored.hpke_key(),
        olm_key: None,
        mode: SealMode::Stateless,
        algs: vec![WrapAlgorithm::Hpke],
        seq: 0,
        created_at: now,
    };
    let signature = restored.sign(&keys.message());
    KeyBundle { keys, signature, did: None, endorsement: None }
}

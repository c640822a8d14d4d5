//! Trust decisions of a person: accepting new keys, removing devices, and proving ownership of an old device from a
//! backup.

use nuncio_core::bundle::{BundleKeys, DeviceEndorsement, KeyBundle, SealMode, WrapAlgorithm};
use nuncio_core::digest::Digest;
use nuncio_core::ids::DeviceId;
use nuncio_core::notification::RelayParty;
use nuncio_core::time::Timestamp;

use super::backup::RestoredKeys;
use super::error::TrustError;
use super::identity::{OwnKeyBundleState, SealIdentity, peer_name};
use super::key_store::KeyStoreError;
use super::safety_number;
use super::trust::{DistrustReason, PeerKeys};

/// A peer device's keys that wait for a person's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingKeys {
    pub bundle: KeyBundle,
    pub why: DistrustReason,
    /// The safety number with the owner if these keys were accepted; `None` for one's own devices.
    pub safety_number: Option<String>,
}

/// A person's decisions about the keys of an identity and its peers.
pub struct KeyDecisionApi<'a> {
    pub(super) identity: &'a mut SealIdentity,
}

impl KeyDecisionApi<'_> {
    /// The keys of `owner` that wait for a decision, as last published.
    pub fn waiting(&mut self, owner: &RelayParty) -> Result<Vec<PendingKeys>, KeyStoreError> {
        let known = self.identity.peer(owner)?.unwrap_or_default();
        let own = self.identity.owner_device().map(|(own, _)| own.clone());
        let ours = match own.as_ref().filter(|own| *own != owner) {
            Some(own) => self.identity.peer(own)?.unwrap_or_default().roots(),
            None => Vec::new(),
        };
        let number = |device: &DeviceId| {
            let mut then = PeerKeys::clone(&known);
            then.accept(device).ok()?;
            let own = own.as_ref().filter(|_| !ours.is_empty())?;
            Some(safety_number::compute((own, &ours), (owner, &then.roots())))
        };
        let waiting = known.all_waiting().map(|(bundle, why)| PendingKeys {
            bundle: bundle.clone(),
            why,
            safety_number: number(&bundle.keys.device_id),
        });
        Ok(waiting.collect())
    }

    /// Records a person's or operator's decision to trust the keys that a device published: pins them and discards
    /// existing sessions.
    pub fn accept(&mut self, owner: &RelayParty, device: &DeviceId) -> Result<(), TrustError> {
        let known = self.identity.peer(owner)?.unwrap_or_default();
        let mut peer = PeerKeys::clone(&known);
        peer.accept(device)?;
        let changes = self.identity.sessions.forget(&self.identity.vault, &peer_name(owner, device), None)?;
        Ok(self.identity.save_peer(owner, &known, peer, changes)?)
    }

    /// Accepts a device by the fingerprint of the signing key that the person compared. Keys published since then are
    /// not accepted.
    pub fn accept_key(&mut self, owner: &RelayParty, device: &DeviceId, expected: &Digest) -> Result<(), TrustError> {
        let known = self.identity.peer(owner)?.unwrap_or_default();
        let (waiting, _) = known.waiting(device).ok_or_else(|| TrustError::NothingToAccept(device.clone()))?;
        if waiting.keys.signing_key.fingerprint() != *expected {
            return Err(TrustError::OtherFingerprint { owner: owner.clone(), expected: *expected });
        }
        self.accept(owner, device)
    }

    /// Stops trusting a device permanently, also if other devices endorse it: nothing is sealed to it, and its messages
    /// are refused.
    pub fn remove(&mut self, owner: &RelayParty, device: &DeviceId) -> Result<(), TrustError> {
        if self.identity.owner_device() == Some((owner, device)) {
            return Err(TrustError::NotOtherOwnDevice);
        }
        let known = self.identity.peer(owner)?.unwrap_or_default();
        let mut peer = PeerKeys::clone(&known);
        if !peer.remove(device) {
            return Ok(());
        }
        let changes = self.identity.sessions.forget(&self.identity.vault, &peer_name(owner, device), None)?;
        Ok(self.identity.save_peer(owner, &known, peer, changes)?)
    }

    /// Signs an endorsement of this device with the keys of an earlier device from a backup, so that peers who trusted
    /// the earlier device trust this one. Publishes a new bundle.
    pub fn endorse_from_backup(&mut self, restored: &RestoredKeys, now: Timestamp) -> Result<(), TrustError> {
        let mut bundle = self.identity.this.bundle.clone().ok_or(TrustError::Unnamed)?;
        if restored.signing_key() == self.identity.signing_key() || *restored.device() == bundle.keys.device_id {
            return Err(TrustError::NotOtherOwnDevice);
        }
        let owner = bundle.keys.owner.clone();
        let known = self.identity.peer(&owner)?.unwrap_or_default();
        let mut peer = PeerKeys::clone(&known);
        peer.pin_former(former(&owner, restored, now));
        self.identity.save_peer(&owner, &known, peer, Vec::new())?;
        let seq = self.identity.this.seq + 1;
        bundle.keys.seq = seq;
        bundle.signature = self.identity.sign(&bundle.keys.message());
        let signature = restored.sign(&bundle.keys.endorsed());
        bundle.endorsement = Some(DeviceEndorsement { by: restored.device().clone(), signature });
        let changes = self.identity.replace_own_state(OwnKeyBundleState {
            bundle: Some(bundle),
            seq,
            ..self.identity.this.clone()
        })?;
        Ok(self.identity.finish(changes)?)
    }
}

/// The bundle of an earlier device, built from its backup. Its sequence number 0 makes every bundle the device itself
/// published newer.
fn former(owner: &RelayParty, restored: &RestoredKeys, now: Timestamp) -> KeyBundle {
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

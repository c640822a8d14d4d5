//! One device of a person, or one agent: its keys and the state of its peers.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use nuncio_core::bundle::{BundleKeys, DeviceEndorsement, KeyBundle, OneTimeKey, SealMode, WrapAlgorithm};
use nuncio_core::conversation::ConversationType;
use nuncio_core::digest::Digest;
use nuncio_core::ids::DeviceId;
use nuncio_core::notification::RelayParty;
use nuncio_core::signature::{PublicKey, Signature, SignatureChecker as _};
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::account::OlmAccount;
use super::backup::RestoredKeys;
use super::decisions::KeyDecisionApi;
use super::did_proof::sign_did_proof;
use super::error::TrustError;
use super::key_store::{KeyStore, KeyStoreError};
use super::safety_number;
use super::secrets::{SealPrivateKeys, StoredSealPrivateKeys};
use super::seen_messages::SeenMessages;
use super::sessions::OlmSessions;
use super::trust::{KeyReviewResult, PeerKeys};
use super::vault::{SealedRecordChange, SealedRecords};
use crate::did::DidUrl;
use crate::keys::SigningKey;
use crate::ledger::DeviceSignatureVerifier;

const SECRETS: &str = "secrets";
const SELF: &str = "self";
/// Number of peers whose state is cached in memory.
const CACHED: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSealIdentity {
    /// Owner and device id, if known. A person's device gets its id at enrolment: see
    /// [`SealIdentity::set_owner_device`].
    pub named: Option<(RelayParty, DeviceId)>,
    /// Whether the identity keeps session state between messages.
    pub mode: SealMode,
    pub now: Timestamp,
}

/// One device of a person, or one agent: its long-term keys, Olm account and sessions, the keys it has pinned and the
/// messages it has opened. Every change is saved before anything that depends on it is returned.
pub struct SealIdentity {
    pub(super) vault: SealedRecords,
    pub(super) secrets: SealPrivateKeys,
    pub(super) this: OwnKeyBundleState,
    /// Olm account; `None` if it must be reloaded from storage, or for a stateless identity.
    pub(super) olm: Option<OlmAccount>,
    pub(super) sessions: OlmSessions,
    pub(super) seen: SeenMessages,
    peers: HashMap<RelayParty, Arc<PeerKeys>>,
}

/// The persistent state of the identity's own key bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OwnKeyBundleState {
    pub(super) mode: SealMode,
    pub(super) bundle: Option<KeyBundle>,
    /// Sequence number of the current bundle. The next bundle gets a larger one.
    pub(super) seq: u64,
}

impl SealIdentity {
    /// Creates an identity with new keys. Fails if the store already has keys.
    pub fn create(store: Arc<dyn KeyStore>, new: &NewSealIdentity) -> Result<Self, KeyStoreError> {
        Self::begin(store, SealPrivateKeys::generate(), new)
    }

    /// Restores long-term keys from a backup. Sessions start again, and peers see a new key bundle. Fails if the store
    /// already has keys.
    pub fn restore(
        store: Arc<dyn KeyStore>,
        restored: RestoredKeys,
        new: &NewSealIdentity,
    ) -> Result<Self, KeyStoreError> {
        Self::begin(store, restored.into_secrets(), new)
    }

    pub(super) fn begin(
        store: Arc<dyn KeyStore>,
        secrets: SealPrivateKeys,
        new: &NewSealIdentity,
    ) -> Result<Self, KeyStoreError> {
        let (vault, key) = SealedRecords::create(store)?;
        let olm = (new.mode == SealMode::Stateful).then(OlmAccount::generate);
        let this = OwnKeyBundleState { mode: new.mode, bundle: None, seq: 0 };
        let (sessions, seen, peers) = Default::default();
        let mut identity = Self { vault, secrets, this, olm, sessions, seen, peers };
        let mut changes = vec![key, identity.vault.put(SECRETS.to_owned(), &identity.secrets.to_record())];
        changes.extend(identity.olm.as_ref().map(|olm| olm.to_record(&identity.vault)));
        match &new.named {
            Some((owner, device)) => identity.publish_bundle(owner.clone(), device.clone(), new.now, changes)?,
            None => {
                changes.push(identity.vault.put(SELF.to_owned(), &identity.this));
                identity.vault.save(changes)?;
            }
        }
        Ok(identity)
    }

    /// Loads a stored identity; `None` if the store is empty.
    pub fn load(store: Arc<dyn KeyStore>) -> Result<Option<Self>, KeyStoreError> {
        let Some(vault) = SealedRecords::load(store)? else { return Ok(None) };
        let missing = |name: &str| KeyStoreError(format!("the record {name:?} is missing"));
        let secrets = vault.get::<StoredSealPrivateKeys>(SECRETS)?.ok_or_else(|| missing(SECRETS))?.into();
        let this: OwnKeyBundleState = vault.get(SELF)?.ok_or_else(|| missing(SELF))?;
        let olm = OlmAccount::load(&vault)?;
        if this.mode == SealMode::Stateful && olm.is_none() {
            return Err(missing("account"));
        }
        let (sessions, seen, peers) = Default::default();
        Ok(Some(Self { vault, secrets, this, olm, sessions, seen, peers }))
    }

    /// Sets the owner and device id, at enrolment or when they change. Publishes a new bundle.
    pub fn set_owner_device(
        &mut self,
        owner: RelayParty,
        device: DeviceId,
        now: Timestamp,
    ) -> Result<(), KeyStoreError> {
        match &self.this.bundle {
            Some(bundle) if (&bundle.keys.owner, &bundle.keys.device_id) == (&owner, &device) => Ok(()),
            _ => self.publish_bundle(owner, device, now, Vec::new()),
        }
    }

    /// Creates, signs and saves a new bundle, together with `changes`.
    fn publish_bundle(
        &mut self,
        owner: RelayParty,
        device: DeviceId,
        now: Timestamp,
        mut changes: Vec<SealedRecordChange>,
    ) -> Result<(), KeyStoreError> {
        let olm_key = self.olm()?.map(|olm| olm.key());
        // At least the time in milliseconds, because an identity restored from a backup does not know its last number.
        let seq = u64::try_from(now.as_millis()).unwrap_or_default().max(self.this.seq + 1);
        let algs = match self.this.mode {
            SealMode::Stateful => vec![WrapAlgorithm::Olm, WrapAlgorithm::Hpke],
            SealMode::Stateless => vec![WrapAlgorithm::Hpke],
        };
        let keys = BundleKeys {
            device_id: device,
            owner,
            signing_key: self.signing_key(),
            hpke_key: self.secrets.hpke_key(),
            olm_key,
            mode: self.this.mode,
            algs,
            seq,
            created_at: now,
        };
        let signature = self.sign(&keys.message());
        let bundle = KeyBundle { keys, signature, did: None, endorsement: None };
        let this = OwnKeyBundleState { bundle: Some(bundle), seq, ..self.this.clone() };
        changes.extend(self.replace_own_state(this)?);
        self.finish(changes)
    }

    /// Replaces the identity's own state in memory and returns the changes to save.
    pub(super) fn replace_own_state(
        &mut self,
        this: OwnKeyBundleState,
    ) -> Result<Vec<SealedRecordChange>, KeyStoreError> {
        let mut changes = vec![self.vault.put(SELF.to_owned(), &this)];
        if let Some(bundle) = &this.bundle {
            let owner = &bundle.keys.owner;
            let peer = match self.peer(owner)? {
                None => PeerKeys::of(bundle.clone()),
                Some(peer) => {
                    let mut peer = PeerKeys::clone(&peer);
                    peer.pin_own(bundle.clone());
                    peer
                }
            };
            changes.push(self.vault.put(format!("peer/{owner}"), &peer));
            self.peers.insert(owner.clone(), Arc::new(peer));
        }
        self.this = this;
        Ok(changes)
    }

    pub(super) fn finish(&mut self, changes: Vec<SealedRecordChange>) -> Result<(), KeyStoreError> {
        let saved = self.vault.save(changes);
        if saved.is_err() {
            // The state in memory differs from the state on disk.
            self.peers.clear();
            if let Some(this) = self.vault.get(SELF)? {
                self.this = this;
            }
        }
        saved
    }

    #[must_use]
    pub fn signing_key(&self) -> PublicKey {
        self.secrets.signing_key()
    }

    /// Signs a message. The message itself must contain a label for its purpose: see
    /// [`nuncio_core::signature::labelled`].
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Signature {
        self.secrets.sign(message)
    }

    /// Whether the identity keeps session state between messages.
    #[must_use]
    pub const fn mode(&self) -> SealMode {
        self.this.mode
    }

    /// The public keys to publish; `None` before the identity has an owner and a device id.
    #[must_use]
    pub const fn bundle(&self) -> Option<&KeyBundle> {
        self.this.bundle.as_ref()
    }

    /// Owner and device id, once they are set.
    #[must_use]
    pub fn owner_device(&self) -> Option<(&RelayParty, &DeviceId)> {
        self.this.bundle.as_ref().map(|bundle| (&bundle.keys.owner, &bundle.keys.device_id))
    }

    /// Adds a DID's signature to the bundle. Replacing an earlier signature makes a bundle with a higher number.
    pub fn add_did_proof(&mut self, by: &DidUrl, key: &SigningKey) -> Result<(), TrustError> {
        let mut bundle = self.this.bundle.clone().ok_or(TrustError::Unnamed)?;
        let mut seq = self.this.seq;
        if bundle.did.as_ref().is_some_and(|before| *before != sign_did_proof(&bundle.keys, by, key)) {
            seq += 1;
            bundle.keys.seq = seq;
            bundle.signature = self.sign(&bundle.keys.message());
        }
        bundle.did = Some(sign_did_proof(&bundle.keys, by, key));
        let changes = self.replace_own_state(OwnKeyBundleState { bundle: Some(bundle), seq, ..self.this.clone() })?;
        Ok(self.finish(changes)?)
    }

    /// Signs an endorsement of another device of the same person, after the person compared its keys.
    ///
    /// # Errors
    /// This identity has no device id yet, or the other device belongs to another person.
    pub fn endorse(&self, other: &KeyBundle) -> Result<DeviceEndorsement, TrustError> {
        let (owner, device) = self.owner_device().ok_or(TrustError::Unnamed)?;
        if *owner != other.keys.owner || other.check(&DeviceSignatureVerifier).is_err() {
            return Err(TrustError::NotOtherOwnDevice);
        }
        Ok(DeviceEndorsement { by: device.clone(), signature: self.sign(&other.keys.endorsed()) })
    }

    /// Adds an endorsement by another device of the same person to the bundle. `by` is that device's signing key.
    pub fn set_endorsement(&mut self, endorsement: DeviceEndorsement, by: &PublicKey) -> Result<(), TrustError> {
        let mut bundle = self.this.bundle.clone().ok_or(TrustError::Unnamed)?;
        if !DeviceSignatureVerifier.holds(by, &bundle.keys.endorsed(), &endorsement.signature) {
            return Err(TrustError::NotOtherOwnDevice);
        }
        bundle.endorsement = Some(endorsement);
        let changes = self.replace_own_state(OwnKeyBundleState { bundle: Some(bundle), ..self.this.clone() })?;
        Ok(self.finish(changes)?)
    }

    /// Creates and saves the one-time keys to publish when `have` are left at the relay, with the fallback key. Returns
    /// none for a stateless identity, or if enough are left and the fallback key is not yet seven days old.
    pub fn one_time_keys(&mut self, have: usize, now: Timestamp) -> Result<Vec<OneTimeKey>, TrustError> {
        let (_, device) = self.owner_device().ok_or(TrustError::Unnamed)?;
        let device = device.clone();
        self.olm()?;
        let Some(olm) = &mut self.olm else { return Ok(Vec::new()) };
        let keys = olm.top_up(&self.secrets, &device, have, now);
        if !keys.is_empty()
            && let Err(error) = self.vault.save(vec![olm.to_record(&self.vault)])
        {
            self.olm = None;
            return Err(error.into());
        }
        Ok(keys)
    }

    /// Reviews the keys that the relay publishes for `owner`. At first contact, correctly signed keys are pinned; with
    /// `expect`, the fingerprint of a signing key from an invite, only the device with that key and those it endorses.
    /// Later, a device is trusted if it signs with its pinned key or a pinned device endorses it. Among one's own
    /// devices only this one is pinned from the start; the others need its endorsement, or a person's decision.
    pub fn review_keys(
        &mut self,
        owner: &RelayParty,
        bundles: &[KeyBundle],
        expect: Option<&Digest>,
    ) -> Result<KeyReviewResult, TrustError> {
        let known = self.peer(owner)?.unwrap_or_default();
        let mut peer = PeerKeys::clone(&known);
        let (review, void) = peer.review_keys(owner, bundles, expect)?;
        let mut changes = Vec::new();
        for device in void {
            let peer = peer_name(owner, &device);
            changes.extend(self.sessions.forget(&self.vault, &peer, None)?);
        }
        self.save_peer(owner, &known, peer, changes)?;
        Ok(review)
    }

    /// Decides on keys in the name of a person or an operator.
    pub const fn decisions(&mut self) -> KeyDecisionApi<'_> {
        KeyDecisionApi { identity: self }
    }

    pub(super) fn save_peer(
        &mut self,
        owner: &RelayParty,
        known: &PeerKeys,
        peer: PeerKeys,
        mut changes: Vec<SealedRecordChange>,
    ) -> Result<(), KeyStoreError> {
        if peer == *known {
            return Ok(());
        }
        changes.push(self.vault.put(format!("peer/{owner}"), &peer));
        self.peers.insert(owner.clone(), Arc::new(peer));
        self.finish(changes)
    }

    pub fn pinned(&mut self, owner: &RelayParty) -> Result<Vec<KeyBundle>, KeyStoreError> {
        Ok(self.peer(owner)?.map(|peer| peer.bundles().cloned().collect()).unwrap_or_default())
    }

    /// The safety number: twelve groups of five digits that are equal on both sides unless messages are intercepted.
    /// `None` before first contact.
    pub fn safety_number(&mut self, owner: &RelayParty) -> Result<Option<String>, KeyStoreError> {
        let Some((own, _)) = self.owner_device() else { return Ok(None) };
        let own = own.clone();
        let (ours, theirs) =
            (self.peer(&own)?.unwrap_or_default().roots(), self.peer(owner)?.unwrap_or_default().roots());
        let nobody = ours.is_empty() || theirs.is_empty() || own == *owner;
        Ok((!nobody).then(|| safety_number::compute((&own, &ours), (owner, &theirs))))
    }

    /// Returns whether a one-time key of the device must be fetched before sealing a message to that device.
    pub fn needs_one_time_key(&self, kind: ConversationType, bundle: &KeyBundle) -> Result<bool, KeyStoreError> {
        let itself = self.owner_device() == Some((&bundle.keys.owner, &bundle.keys.device_id));
        if itself || self.wrap_for(kind, bundle.keys.mode) == WrapAlgorithm::Hpke {
            return Ok(false);
        }
        Ok(!self.sessions.exist(&self.vault, &peer_name(&bundle.keys.owner, &bundle.keys.device_id))?)
    }

    /// Discards the sessions with a device, so that the next message starts a new one. Send
    /// [`PlaintextMessage::rekey`](super::PlaintextMessage::rekey) next.
    pub fn rekey(&mut self, owner: &RelayParty, device: &DeviceId) -> Result<(), KeyStoreError> {
        let peer = peer_name(owner, device);
        let changes = self.sessions.forget(&self.vault, &peer, None)?;
        self.vault.save(changes).inspect_err(|_| self.sessions.uncache(&peer))
    }

    /// The wrap algorithm towards a device of mode `other`: Olm in conversations of two stateful devices, HPKE
    /// otherwise.
    pub(super) fn wrap_for(&self, kind: ConversationType, other: SealMode) -> WrapAlgorithm {
        match (kind, self.this.mode, other) {
            (ConversationType::H2h | ConversationType::H2a, SealMode::Stateful, SealMode::Stateful) => {
                WrapAlgorithm::Olm
            }
            _ => WrapAlgorithm::Hpke,
        }
    }

    pub(super) fn peer(&mut self, owner: &RelayParty) -> Result<Option<Arc<PeerKeys>>, KeyStoreError> {
        if let Some(peer) = self.peers.get(owner) {
            return Ok(Some(Arc::clone(peer)));
        }
        let Some(peer) = self.vault.get::<PeerKeys>(&format!("peer/{owner}"))?.map(Arc::new) else { return Ok(None) };
        if self.peers.len() >= CACHED {
            self.peers.clear();
        }
        self.peers.insert(owner.clone(), Arc::clone(&peer));
        Ok(Some(peer))
    }

    /// The Olm account, reloaded from the vault if needed.
    pub(super) fn olm(&mut self) -> Result<Option<&mut OlmAccount>, KeyStoreError> {
        if self.olm.is_none() && self.this.mode == SealMode::Stateful {
            self.olm = OlmAccount::load(&self.vault)?;
        }
        Ok(self.olm.as_mut())
    }
}

/// Name of a device that is unique among all owners.
pub(super) fn peer_name(owner: &RelayParty, device: &DeviceId) -> String {
    format!("{owner}/{device}")
}

impl fmt::Debug for SealIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealIdentity").field("secrets", &self.secrets).field("this", &self.this).finish_non_exhaustive()
    }
}

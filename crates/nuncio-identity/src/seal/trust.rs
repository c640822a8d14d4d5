//! Pinning of peer keys: trust on first use, and later only keys that a pinned key endorses or a person accepts.

use std::collections::BTreeMap;

use nuncio_core::bundle::{DeviceEndorsement, KeyBundle, SealMode};
use nuncio_core::digest::Digest;
use nuncio_core::ids::DeviceId;
use nuncio_core::notification::RelayParty;
use nuncio_core::signature::{PublicKey, SignatureChecker as _};
use serde::{Deserialize, Serialize};

use super::error::TrustError;
use crate::ledger::DeviceSignatureVerifier;

/// Maximum number of devices per owner.
pub(super) const MAX_DEVICES: usize = 64;

/// Why a device is not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum DistrustReason {
    /// The device is new, and no trusted device endorses it.
    #[error("it is new, and no known device endorses it")]
    NewUnendorsed,
    /// The device signs with another key than before.
    #[error("it signs with another key than before")]
    KeyChanged,
    /// The bundle has a lower sequence number than a known one, or the same number with other keys.
    #[error("an older set of its keys was presented")]
    OldBundle,
    /// The device was stateful and now claims to be stateless.
    #[error("it no longer has forward secrecy")]
    Downgraded,
    /// The bundle's signature is invalid, or the bundle belongs to another owner.
    #[error("its keys are not signed correctly")]
    BadSignature,
    /// The owner of the device removed it.
    #[error("it was removed")]
    Removed,
}

/// A change among trusted keys that is shown to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerKeyChange {
    /// A new device was added, endorsed by a known one.
    Joined { device: DeviceId, by: DeviceId },
    /// A device signs with a new key, endorsed by a known device.
    Replaced { device: DeviceId, by: DeviceId },
    /// A device has new encryption keys, signed by its pinned key.
    Renewed { device: DeviceId },
    /// A device's keys are no longer published.
    Gone { device: DeviceId },
}

/// Result of reviewing the published keys of an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyReviewResult {
    /// Whether no key of the owner was pinned before.
    pub first_contact: bool,
    /// Devices that messages may be sealed to.
    pub trusted: Vec<DeviceId>,
    /// Devices that messages must not be sealed to, and why.
    pub distrusted: Vec<(DeviceId, DistrustReason)>,
    /// Changes among the trusted devices since the last review.
    pub changes: Vec<PeerKeyChange>,
}

/// The pinned and pending devices of one owner.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PeerKeys {
    devices: BTreeMap<DeviceId, PinnedDeviceKeys>,
    /// Devices with published keys that wait for a person's decision.
    waiting: BTreeMap<DeviceId, PendingDeviceKeys>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PinnedDeviceKeys {
    bundle: KeyBundle,
    /// The device that endorses this one; `None` for a root.
    by: Option<DeviceId>,
    /// Whether the device was missing from the last key review.
    #[serde(default)]
    gone: bool,
    /// Whether the owner removed the device: its messages are refused and endorsements of it are ignored. The key stays
    /// known.
    #[serde(default)]
    removed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PendingDeviceKeys {
    bundle: KeyBundle,
    why: DistrustReason,
}

impl PeerKeys {
    /// Keys of this identity's own owner, with this device as the only pinned one.
    pub(super) fn of(bundle: KeyBundle) -> Self {
        let mut peer = Self::default();
        peer.pin_own(bundle);
        peer
    }

    /// Pins the bundle of this device itself.
    pub(super) fn pin_own(&mut self, bundle: KeyBundle) {
        let by = bundle.endorsement.as_ref().map(|endorsement| endorsement.by.clone());
        // This device may have had another device id before.
        self.devices.retain(|_, pin| pin.bundle.keys.signing_key != bundle.keys.signing_key);
        self.pin(bundle, by);
    }

    pub(super) fn bundle(&self, device: &DeviceId) -> Option<&KeyBundle> {
        self.devices.get(device).filter(|pin| !pin.removed).map(|pin| &pin.bundle)
    }

    pub(super) fn bundles(&self) -> impl Iterator<Item = &KeyBundle> {
        self.devices.values().filter(|pin| !pin.removed).map(|pin| &pin.bundle)
    }

    pub(super) fn all_waiting(&self) -> impl Iterator<Item = (&KeyBundle, DistrustReason)> {
        self.waiting.values().map(|waiting| (&waiting.bundle, waiting.why))
    }

    /// Marks a device as removed; returns whether it was known.
    pub(super) fn remove(&mut self, device: &DeviceId) -> bool {
        self.waiting.remove(device);
        self.devices.get_mut(device).map(|pin| pin.removed = true).is_some()
    }

    /// Pins an earlier device whose keys its owner proved to hold, from a backup.
    pub(super) fn pin_former(&mut self, bundle: KeyBundle) {
        let device = bundle.keys.device_id.clone();
        let known = |pin: &PinnedDeviceKeys| pin.bundle.keys.signing_key == bundle.keys.signing_key;
        if !self.devices.get(&device).is_some_and(known) {
            self.waiting.remove(&device);
            self.devices.insert(device, PinnedDeviceKeys { bundle, by: None, gone: true, removed: false });
        }
    }

    pub(super) fn waiting(&self, device: &DeviceId) -> Option<(&KeyBundle, DistrustReason)> {
        self.waiting.get(device).map(|waiting| (&waiting.bundle, waiting.why))
    }

    /// The signing keys that no other device endorses. Devices that endorse each other in a cycle all count as roots.
    pub(super) fn roots(&self) -> Vec<PublicKey> {
        let above = |device: &DeviceId| {
            let by = self.devices.get(device)?.by.as_ref()?;
            self.devices.get_key_value(by).map(|(by, _)| by)
        };
        let is_root = |device: &&DeviceId| {
            let chain = std::iter::successors(above(device), |device| above(device));
            let mut chain = chain.take(self.devices.len()).peekable();
            chain.peek().is_none() || chain.any(|voucher| voucher == *device)
        };
        let roots = self.devices.keys().filter(is_root).filter_map(|device| self.devices.get(device));
        roots.map(|pin| pin.bundle.keys.signing_key).collect()
    }

    /// Pins pending keys on a person's decision.
    pub(super) fn accept(&mut self, device: &DeviceId) -> Result<(), TrustError> {
        let waiting = self.waiting.remove(device).ok_or_else(|| TrustError::NothingToAccept(device.clone()))?;
        // An agent has only one device, so its earlier ones are dropped and no longer enter the safety number.
        if matches!(waiting.bundle.keys.owner, RelayParty::Agent(_)) {
            self.devices.retain(|_, pin| !pin.gone);
        }
        self.pin(waiting.bundle, None);
        Ok(())
    }

    /// Reviews published keys; also returns the devices whose sessions are now void.
    pub(super) fn review_keys(
        &mut self,
        owner: &RelayParty,
        bundles: &[KeyBundle],
        expect: Option<&Digest>,
    ) -> Result<(KeyReviewResult, Vec<DeviceId>), TrustError> {
        if bundles.len() > MAX_DEVICES {
            return Err(TrustError::TooMany(bundles.len()));
        }
        let first_contact = self.devices.is_empty();
        let mut round = KeyReview { peer: self, review: KeyReviewResult::new(first_contact), void: Vec::new() };
        let mut undecided = Vec::new();
        for bundle in bundles {
            let device = &bundle.keys.device_id;
            // A pinned bundle was verified when it was pinned.
            let known = round.peer.bundle(device) == Some(bundle);
            match known || bundle.keys.owner == *owner && bundle.check(&DeviceSignatureVerifier).is_ok() {
                true => undecided.push(bundle),
                false => round.distrust(bundle, DistrustReason::BadSignature),
            }
        }
        if let Some(expected) = expect {
            let fits = |bundle: &KeyBundle| bundle.keys.signing_key.fingerprint() == *expected;
            let found = match first_contact {
                true => undecided.iter().copied().find(|bundle| fits(bundle)),
                false => round.peer.bundles().find(|bundle| fits(bundle)),
            };
            let found =
                found.cloned().ok_or(TrustError::OtherFingerprint { owner: owner.clone(), expected: *expected })?;
            if first_contact {
                round.peer.pin(found, None);
            }
        } else if first_contact {
            // Devices without endorsement become roots. Devices that only endorse each other do not become trusted by
            // that.
            for bundle in undecided.iter().filter(|bundle| bundle.endorsement.is_none()) {
                if round.peer.bundle(&bundle.keys.device_id).is_none() {
                    round.peer.pin((*bundle).clone(), None);
                }
            }
        }
        let mut rest = round.decide_repeatedly(undecided);
        if first_contact && expect.is_none() {
            while let Some(index) = rest.iter().position(|one| round.peer.bundle(&one.keys.device_id).is_none()) {
                round.peer.pin(rest[index].clone(), None);
                rest = round.decide_repeatedly(rest);
            }
        }
        round.close(rest, bundles)?;
        let KeyReview { review, void, .. } = round;
        Ok((review, void))
    }

    fn pin(&mut self, bundle: KeyBundle, by: Option<DeviceId>) {
        self.devices
            .insert(bundle.keys.device_id.clone(), PinnedDeviceKeys { bundle, by, gone: false, removed: false });
    }

    /// Returns the pinned device that endorses the bundle.
    fn voucher(&self, bundle: &KeyBundle) -> Option<DeviceId> {
        let DeviceEndorsement { by, signature } = bundle.endorsement.as_ref()?;
        let key = &self.bundle(by)?.keys.signing_key;
        // A device cannot endorse itself.
        let other = *key != bundle.keys.signing_key;
        (other && DeviceSignatureVerifier.holds(key, &bundle.keys.endorsed(), signature)).then(|| by.clone())
    }
}

impl KeyReviewResult {
    fn new(first_contact: bool) -> Self {
        Self { first_contact, trusted: Vec::new(), distrusted: Vec::new(), changes: Vec::new() }
    }
}

/// State of one key review.
struct KeyReview<'a> {
    peer: &'a mut PeerKeys,
    review: KeyReviewResult,
    void: Vec<DeviceId>,
}

impl KeyReview<'_> {
    /// Decides the open bundles repeatedly until nothing changes, since one device may endorse the next.
    fn decide_repeatedly<'b>(&mut self, mut undecided: Vec<&'b KeyBundle>) -> Vec<&'b KeyBundle> {
        loop {
            let before = undecided.len();
            undecided.retain(|bundle| !self.decide(bundle));
            if undecided.len() == before {
                return undecided;
            }
        }
    }

    /// Trusts or distrusts a bundle; returns false while it is undecided.
    fn decide(&mut self, bundle: &KeyBundle) -> bool {
        let device = bundle.keys.device_id.clone();
        let pin = self.peer.devices.get(&device);
        match pin {
            Some(pin) if pin.bundle.keys.signing_key == bundle.keys.signing_key => {
                if pin.removed {
                    self.distrust(bundle, DistrustReason::Removed);
                    return true;
                }
                let (was, is) = (&pin.bundle.keys, &bundle.keys);
                if is.seq < was.seq || is.seq == was.seq && is != was {
                    self.distrust(bundle, DistrustReason::OldBundle);
                    return true;
                }
                if was.mode == SealMode::Stateful && is.mode == SealMode::Stateless {
                    self.distrust(bundle, DistrustReason::Downgraded);
                    return true;
                }
                if (was.hpke_key, was.olm_key, was.mode) != (is.hpke_key, is.olm_key, is.mode) {
                    self.review.changes.push(PeerKeyChange::Renewed { device: device.clone() });
                }
                if was.olm_key != is.olm_key {
                    self.void.push(device.clone());
                }
                let by = self.peer.voucher(bundle).or_else(|| pin.by.clone());
                self.trust(bundle, by);
                true
            }
            _ => {
                let Some(by) = self.peer.voucher(bundle) else { return false };
                let change = match pin {
                    Some(_) => PeerKeyChange::Replaced { device: device.clone(), by: by.clone() },
                    None => PeerKeyChange::Joined { device: device.clone(), by: by.clone() },
                };
                if !self.review.first_contact {
                    self.review.changes.push(change);
                }
                self.void.push(device);
                self.trust(bundle, Some(by));
                true
            }
        }
    }

    fn trust(&mut self, bundle: &KeyBundle, by: Option<DeviceId>) {
        self.review.trusted.push(bundle.keys.device_id.clone());
        self.peer.pin(bundle.clone(), by);
    }

    fn distrust(&mut self, bundle: &KeyBundle, why: DistrustReason) {
        self.review.distrusted.push((bundle.keys.device_id.clone(), why));
    }

    /// Distrusts the undecided bundles, and marks devices that were not published as gone.
    fn close(&mut self, rest: Vec<&KeyBundle>, shown: &[KeyBundle]) -> Result<(), TrustError> {
        for bundle in rest {
            let known = self.peer.devices.contains_key(&bundle.keys.device_id);
            self.distrust(bundle, if known { DistrustReason::KeyChanged } else { DistrustReason::NewUnendorsed });
        }
        let is_shown = |device: &DeviceId| shown.iter().any(|bundle| bundle.keys.device_id == *device);
        for (device, pin) in &mut self.peer.devices {
            let gone = !is_shown(device);
            if gone && !pin.gone {
                self.review.changes.push(PeerKeyChange::Gone { device: device.clone() });
            }
            pin.gone = gone;
        }
        if self.peer.bundles().count() > MAX_DEVICES {
            self.peer.devices.retain(|_, pin| !pin.gone || pin.removed);
        }
        let distrusted = &self.review.distrusted;
        let waits = |bundle: &&KeyBundle| {
            let why = distrusted.iter().find(|(device, _)| *device == bundle.keys.device_id)?.1;
            let decidable =
                matches!(why, DistrustReason::NewUnendorsed | DistrustReason::KeyChanged | DistrustReason::Downgraded);
            let waiting = PendingDeviceKeys { bundle: (*bundle).clone(), why };
            decidable.then(|| (bundle.keys.device_id.clone(), waiting))
        };
        // Two bundles with the same device id cannot be distinguished by a person, so neither can be accepted.
        let once = |bundle: &&KeyBundle| {
            shown.iter().filter(|other| other.keys.device_id == bundle.keys.device_id).count() == 1
        };
        self.peer.waiting = shown.iter().filter(once).filter_map(|bundle| waits(&bundle)).collect();
        match self.peer.bundles().count() {
            most if most > MAX_DEVICES => Err(TrustError::TooMany(most)),
            _ => Ok(()),
        }
    }
}

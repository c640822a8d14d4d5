//! The public keys by which something is sealed to a device or an agent, signed by itself. Whoever hands
//! them out can neither change them nor how they are to be used.

use std::fmt;
use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::happening::Recipient;
use crate::ids::DeviceId;
use crate::signature::{CheckSignature, PublicKey, Signature, labelled};
use crate::time::Timestamp;

/// How many one-time keys a device has waiting at most.
pub const MAX_ONE_TIME_KEYS: usize = 100;

/// A public X25519 key, written as 43 characters of base64url.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct AgreementKey([u8; 32]);

impl AgreementKey {
    /// The key of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<AgreementKey> for String {
    fn from(key: AgreementKey) -> Self {
        URL_SAFE_NO_PAD.encode(key.0)
    }
}

impl TryFrom<String> for AgreementKey {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or("an X25519 public key is 32 bytes in base64url without padding")
    }
}

impl fmt::Debug for AgreementKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from(*self))
    }
}

/// Whether its holder remembers anything between two messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SealMode {
    /// It does: content keys travel in a double ratchet.
    Stateful,
    /// It does not: content keys are sealed to its one key, and whoever gets that key reads what was sent
    /// before. People are told so.
    Stateless,
}

/// How a content key is wrapped for a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WrapAlgorithm {
    /// In an Olm session.
    #[serde(rename = "olm-v1")]
    Olm,
    /// By HPKE (RFC 9180) to the one key.
    #[serde(rename = "hpke-x25519-hkdfsha256-aes256gcm")]
    Hpke,
}

/// The public keys of a device or an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyBundle {
    /// What is signed.
    #[serde(flatten)]
    pub keys: BundleKeys,
    /// By the signing key inside.
    pub signature: Signature,
    /// By an agent's DID, over the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub did: Option<DidProof>,
    /// By another device of the same person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endorsement: Option<Endorsement>,
}

/// Names a bundle. Device ids are unique per owner only.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BundleId {
    /// The person or agent that published it.
    pub owner: Recipient,
    /// The owner's device.
    pub device: DeviceId,
}

/// What a bundle signs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleKeys {
    /// The device. An agent names its own.
    pub device_id: DeviceId,
    /// Whose it is: `person:NAME` or `agent:ID`.
    pub owner: Recipient,
    /// Checks what it signs; a person's device has enrolled with it.
    pub signing_key: PublicKey,
    /// HPKE seals to it.
    pub hpke_key: AgreementKey,
    /// Names it in Olm; none without memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub olm_key: Option<AgreementKey>,
    /// Whether it remembers.
    pub mode: SealMode,
    /// How content keys may be wrapped for it, best first.
    pub algs: Vec<WrapAlgorithm>,
    /// Grows with each bundle of this device: an old one cannot come back.
    pub seq: u64,
    /// Since when.
    pub created_at: Timestamp,
}

/// An agent's DID vouches for a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DidProof {
    /// The DID.
    pub did: String,
    /// The verification method that signed.
    pub verification_method: String,
    /// Over [`BundleKeys::vouched`], raw bytes in base64url.
    pub signature: String,
}

/// A device vouches for another of the same person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endorsement {
    /// The device that does.
    pub by: DeviceId,
    /// Over [`BundleKeys::endorsed`].
    pub signature: Signature,
}

/// Why a bundle is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BundleRefused {
    /// It is not what it was when it was signed.
    #[error("its signature does not hold under its own signing key")]
    Signature,
    /// The mode needs other keys or algorithms.
    #[error("stateful bundles have an olm_key and list \"olm-v1\" first; stateless ones have neither")]
    Mode,
}

impl BundleKeys {
    /// The owner and device these keys belong to.
    #[must_use]
    pub fn id(&self) -> BundleId {
        BundleId { owner: self.owner.clone(), device: self.device_id.clone() }
    }

    /// The bytes its own key signs.
    #[must_use]
    pub fn message(&self) -> Vec<u8> {
        labelled("nuncio/key-bundle/v1", self)
    }

    /// The bytes a DID signs.
    #[must_use]
    pub fn vouched(&self) -> Vec<u8> {
        labelled("nuncio/key-bundle-did/v1", self)
    }

    /// The bytes another device signs: who this device is, not its keys of today.
    #[must_use]
    pub fn endorsed(&self) -> Vec<u8> {
        labelled("nuncio/device-endorsement/v1", &(&self.owner, &self.device_id, &self.signing_key))
    }
}

impl KeyBundle {
    /// Whether it is as it was signed, and fits its own mode.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self, signatures: &impl CheckSignature) -> Result<(), BundleRefused> {
        let fits = match self.keys.mode {
            SealMode::Stateful => {
                self.keys.olm_key.is_some() && self.keys.algs == [WrapAlgorithm::Olm, WrapAlgorithm::Hpke]
            }
            SealMode::Stateless => self.keys.olm_key.is_none() && self.keys.algs == [WrapAlgorithm::Hpke],
        };
        if !fits {
            return Err(BundleRefused::Mode);
        }
        match signatures.holds(&self.keys.signing_key, &self.keys.message(), &self.signature) {
            true => Ok(()),
            false => Err(BundleRefused::Signature),
        }
    }
}

/// A key for one first message, or the one that is used when those are gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OneTimeKey {
    /// Names it on its device.
    pub key_id: String,
    /// The key.
    pub key: AgreementKey,
    /// Whether it is the one that stays.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fallback: bool,
    /// By the device's signing key, over [`OneTimeKey::message`].
    pub signature: Signature,
}

impl OneTimeKey {
    /// The bytes its device signs.
    #[must_use]
    pub fn message(device: &DeviceId, key_id: &str, key: AgreementKey, fallback: bool) -> Vec<u8> {
        labelled("nuncio/one-time-key/v1", &(device, key_id, key, fallback))
    }

    /// Whether that device signed it.
    #[must_use]
    pub fn holds(&self, device: &DeviceId, signer: &PublicKey, signatures: &impl CheckSignature) -> bool {
        let message = Self::message(device, &self.key_id, self.key, self.fallback);
        self.key_id.len() <= 64 && signatures.holds(signer, &message, &self.signature)
    }
}

/// A person's private keys, sealed with a key only they can derive: it says nothing to whoever has not the passphrase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backup {
    /// The private agreement key of HPKE, sealed; base64.
    pub backup_a: String,
    /// The private signing key, sealed; base64.
    pub backup_b: String,
    /// 32 random bytes; base64.
    pub argon2_salt: String,
    /// How the key that seals them follows from the passphrase.
    pub argon2_params: Argon2Params,
    /// The public half of the agreement key.
    pub public_key: AgreementKey,
    /// The public half of the signing key.
    pub signing_public_key: PublicKey,
    /// The device whose keys they are.
    pub device_id: DeviceId,
}

/// How much work a passphrase costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Argon2Params {
    /// Memory, in KiB.
    pub m: NonZeroU32,
    /// Passes.
    pub t: NonZeroU32,
    /// Lanes.
    pub p: NonZeroU32,
}

impl Argon2Params {
    /// What new backups use.
    pub const RECOMMENDED: Self = Self::of(65_536, 3, 4);
    /// Less is refused: a server that lowered them would guess faster.
    pub const LEAST: Self = Self::of(19_456, 2, 1);
    /// More is refused before it costs anything.
    pub const MOST: Self = Self::of(1_048_576, 16, 16);

    const fn of(m: u32, t: u32, p: u32) -> Self {
        Self { m: at_least_one(m), t: at_least_one(t), p: at_least_one(p) }
    }

    /// Whether it is safe, and not more than anyone should wait for.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        let (least, most) = (Self::LEAST, Self::MOST);
        let fits = |value: NonZeroU32, least, most| (least..=most).contains(&value);
        fits(self.m, least.m, most.m) && fits(self.t, least.t, most.t) && fits(self.p, least.p, most.p)
    }
}

const fn at_least_one(number: u32) -> NonZeroU32 {
    match NonZeroU32::new(number) {
        Some(number) => number,
        None => NonZeroU32::MIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::PersonName;

    fn bundle(mode: SealMode) -> KeyBundle {
        let stateful = mode == SealMode::Stateful;
        KeyBundle {
            keys: BundleKeys {
                device_id: DeviceId::parse("dev_1").unwrap(),
                owner: Recipient::Person(PersonName::parse("ada").unwrap()),
                signing_key: PublicKey::new([9; 32]).unwrap(),
                hpke_key: AgreementKey::new([1; 32]),
                olm_key: stateful.then_some(AgreementKey::new([2; 32])),
                mode,
                algs: match stateful {
                    true => vec![WrapAlgorithm::Olm, WrapAlgorithm::Hpke],
                    false => vec![WrapAlgorithm::Hpke],
                },
                seq: 1,
                created_at: Timestamp::from_millis(0),
            },
            signature: Signature::new([0; 64]),
            did: None,
            endorsement: None,
        }
    }

    #[test]
    fn a_bundle_fits_its_mode_and_its_signature() {
        let yes = |_: &PublicKey, _: &[u8], _: &Signature| true;
        let no = |_: &PublicKey, _: &[u8], _: &Signature| false;
        for mode in [SealMode::Stateful, SealMode::Stateless] {
            assert_eq!(bundle(mode).check(&yes), Ok(()));
            assert_eq!(bundle(mode).check(&no), Err(BundleRefused::Signature));
        }
        let mut stateless = bundle(SealMode::Stateful);
        stateless.keys.mode = SealMode::Stateless;
        assert_eq!(stateless.check(&yes), Err(BundleRefused::Mode));
        let mut bare = bundle(SealMode::Stateful);
        bare.keys.olm_key = None;
        assert_eq!(bare.check(&yes), Err(BundleRefused::Mode));
    }

    #[test]
    fn a_bundle_is_written_flat_and_read_back() {
        let bundle = bundle(SealMode::Stateless);
        let written = serde_json::to_value(&bundle).unwrap();
        assert_eq!(written["owner"], "person:ada");
        assert_eq!(written["algs"][0], "hpke-x25519-hkdfsha256-aes256gcm");
        assert_eq!(serde_json::from_value::<KeyBundle>(written).unwrap(), bundle);
    }
}

//! Signed public keys (key bundles) with which messages are encrypted to a device or an agent. The server that
//! distributes them can change neither the keys nor their mode.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::ids::DeviceId;
use crate::notification::RelayParty;
use crate::signature::{PublicKey, Signature, SignatureChecker, base64_form, decode, labelled};
use crate::time::Timestamp;

/// Upper limit of stored one-time keys per device.
pub const MAX_ONE_TIME_KEYS: usize = 100;

/// A public X25519 key, serialised as 43 characters of base64url.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct X25519PublicKey([u8; 32]);

impl X25519PublicKey {
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

base64_form!(X25519PublicKey, |text| decode(text)
    .map(X25519PublicKey)
    .ok_or_else(|| "an X25519 public key is 32 bytes in base64url without padding".to_owned()));

/// How content keys of messages to a device or agent are wrapped, which depends on whether the holder stores session
/// state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SealMode {
    /// Content keys are sent in a double ratchet (Olm).
    Stateful,
    /// Content keys are sealed to one long-term key; an attacker who gets that key can read earlier messages.
    Stateless,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WrapAlgorithm {
    #[serde(rename = "olm-v1")]
    Olm,
    /// HPKE (RFC 9180) to the recipient's long-term key.
    #[serde(rename = "hpke-x25519-hkdfsha256-aes256gcm")]
    Hpke,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyBundle {
    /// The signed part of the bundle.
    #[serde(flatten)]
    pub keys: BundleKeys,
    /// Signature over the bundle, made with `keys.signing_key`.
    pub signature: Signature,
    /// Signature of the agent's DID over the same keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub did: Option<KeyBundleDidProof>,
    /// Signature of another device of the same person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endorsement: Option<DeviceEndorsement>,
}

/// Identifies a bundle. Device ids are unique per owner only.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyBundleId {
    pub owner: RelayParty,
    pub device: DeviceId,
}

/// The signed content of a key bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleKeys {
    /// Id of the device; agents choose their own.
    pub device_id: DeviceId,
    /// Owner of the keys: `person:NAME` or `agent:ID`.
    pub owner: RelayParty,
    /// Key that verifies the owner's signatures; a person's device is enrolled with this key.
    pub signing_key: PublicKey,
    /// Recipient key for HPKE.
    pub hpke_key: X25519PublicKey,
    /// Identity key for Olm; `None` in stateless mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub olm_key: Option<X25519PublicKey>,
    pub mode: SealMode,
    /// Wrap algorithms in order of preference.
    pub algs: Vec<WrapAlgorithm>,
    /// Number that increases with each key bundle of the device, so that an old bundle cannot be replayed.
    pub seq: u64,
    pub created_at: Timestamp,
}

/// A signature of an agent's DID over its key bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyBundleDidProof {
    pub did: String,
    /// The DID document's verification method that made the signature.
    pub verification_method: String,
    /// Signature over [`BundleKeys::vouched`]; raw bytes in base64url.
    pub signature: String,
}

/// A signature of one device for another device of the same person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceEndorsement {
    /// The device that signed the endorsement.
    pub by: DeviceId,
    /// Signature over [`BundleKeys::endorsed`].
    pub signature: Signature,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyBundleError {
    #[error("its signature is not valid under its own signing key")]
    Signature,
    /// Keys or algorithms of the bundle do not fit its seal mode.
    #[error("stateful bundles have an olm_key and list \"olm-v1\" first; stateless ones have neither")]
    Mode,
}

impl BundleKeys {
    #[must_use]
    pub fn id(&self) -> KeyBundleId {
        KeyBundleId { owner: self.owner.clone(), device: self.device_id.clone() }
    }

    /// The bytes of a key bundle that its own key signs.
    #[must_use]
    pub fn message(&self) -> Vec<u8> {
        labelled("nuncio/key-bundle/v1", self)
    }

    /// The bytes of a key bundle that the agent's DID signs.
    #[must_use]
    pub fn vouched(&self) -> Vec<u8> {
        labelled("nuncio/key-bundle-did/v1", self)
    }

    /// The bytes that another device of the person signs: the device's identity without its replaceable keys.
    #[must_use]
    pub fn endorsed(&self) -> Vec<u8> {
        labelled("nuncio/device-endorsement/v1", &(&self.owner, &self.device_id, &self.signing_key))
    }
}

impl KeyBundle {
    /// Verifies the signature and that the keys fit the mode. The DID's signature and the endorsement are not verified
    /// here.
    pub fn check(&self, signatures: &impl SignatureChecker) -> Result<(), KeyBundleError> {
        let fits = match self.keys.mode {
            SealMode::Stateful => {
                self.keys.olm_key.is_some() && self.keys.algs == [WrapAlgorithm::Olm, WrapAlgorithm::Hpke]
            }
            SealMode::Stateless => self.keys.olm_key.is_none() && self.keys.algs == [WrapAlgorithm::Hpke],
        };
        if !fits {
            return Err(KeyBundleError::Mode);
        }
        match signatures.holds(&self.keys.signing_key, &self.keys.message(), &self.signature) {
            true => Ok(()),
            false => Err(KeyBundleError::Signature),
        }
    }
}

/// A key for the first message of one session, or the fallback key for when all one-time keys are used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OneTimeKey {
    /// Id of the one-time key, unique per device.
    pub key_id: String,
    pub key: X25519PublicKey,
    /// Whether this is the fallback key, which is not removed after use.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fallback: bool,
    /// The device's signature over [`OneTimeKey::message`].
    pub signature: Signature,
}

impl OneTimeKey {
    /// The bytes of a one-time key that the device signs.
    #[must_use]
    pub fn message(device: &DeviceId, key_id: &str, key: X25519PublicKey, fallback: bool) -> Vec<u8> {
        labelled("nuncio/one-time-key/v1", &(device, key_id, key, fallback))
    }

    /// Whether the device's signature of the one-time key is valid; false also for a key id of more than 64 bytes.
    #[must_use]
    pub fn holds(&self, device: &DeviceId, signer: &PublicKey, signatures: &impl SignatureChecker) -> bool {
        let message = Self::message(device, &self.key_id, self.key, self.fallback);
        self.key_id.len() <= 64 && signatures.holds(signer, &message, &self.signature)
    }
}

/// A person's private keys, encrypted with a key derived from their passphrase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyBackup {
    /// Encrypted private HPKE key; base64url without padding.
    pub backup_a: String,
    /// Encrypted private signing key; base64url without padding.
    pub backup_b: String,
    /// Argon2 salt: 32 random bytes, base64url without padding.
    pub argon2_salt: String,
    /// Parameters of the derivation from the passphrase.
    pub argon2_params: Argon2Params,
    /// Public half of `backup_a`.
    pub public_key: X25519PublicKey,
    /// Public half of `backup_b`.
    pub signing_public_key: PublicKey,
    pub device_id: DeviceId,
}

/// Cost parameters of Argon2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Argon2Params {
    /// Argon2 memory, in KiB.
    pub m: NonZeroU32,
    /// Number of Argon2 passes.
    pub t: NonZeroU32,
    /// Number of Argon2 lanes.
    pub p: NonZeroU32,
}

impl Argon2Params {
    /// Argon2 parameters of new backups.
    pub const RECOMMENDED: Self = Self::of(65_536, 3, 4);
    /// Smallest accepted Argon2 parameters: a malicious server could lower them to guess passphrases faster.
    pub const LEAST: Self = Self::of(19_456, 2, 1);
    /// Largest accepted Argon2 parameters; higher ones are refused before the derivation starts.
    pub const MOST: Self = Self::of(1_048_576, 16, 16);

    const fn of(m: u32, t: u32, p: u32) -> Self {
        Self { m: at_least_one(m), t: at_least_one(t), p: at_least_one(p) }
    }

    /// Whether the parameters are within `LEAST` and `MOST`.
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
                owner: RelayParty::Person(PersonName::parse("ada").unwrap()),
                signing_key: PublicKey::new([9; 32]).unwrap(),
                hpke_key: X25519PublicKey::new([1; 32]),
                olm_key: stateful.then_some(X25519PublicKey::new([2; 32])),
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
    fn key_bundle_with_invalid_signature_or_keys_unfit_for_its_mode_is_refused() {
        let yes = |_: &PublicKey, _: &[u8], _: &Signature| true;
        let no = |_: &PublicKey, _: &[u8], _: &Signature| false;
        for mode in [SealMode::Stateful, SealMode::Stateless] {
            assert_eq!(bundle(mode).check(&yes), Ok(()));
            assert_eq!(bundle(mode).check(&no), Err(KeyBundleError::Signature));
        }
        let mut stateless = bundle(SealMode::Stateful);
        stateless.keys.mode = SealMode::Stateless;
        assert_eq!(stateless.check(&yes), Err(KeyBundleError::Mode));
        let mut bare = bundle(SealMode::Stateful);
        bare.keys.olm_key = None;
        assert_eq!(bare.check(&yes), Err(KeyBundleError::Mode));
    }

    #[test]
    fn key_bundle_serialises_as_one_flat_json_object_and_parses_back() {
        let bundle = bundle(SealMode::Stateless);
        let written = serde_json::to_value(&bundle).unwrap();
        assert_eq!(written["owner"], "person:ada");
        assert_eq!(written["algs"][0], "hpke-x25519-hkdfsha256-aes256gcm");
        assert_eq!(serde_json::from_value::<KeyBundle>(written).unwrap(), bundle);
    }
}

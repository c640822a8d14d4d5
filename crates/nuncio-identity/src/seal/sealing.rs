//! Seals messages: one encrypted body, and its content key wrapped for each device.

use std::collections::BTreeSet;

use nuncio_core::bundle::{KeyBundle, OneTimeKey, WrapAlgorithm};
use nuncio_core::conversation::{ConversationType, MAX_ENVELOPE};
use nuncio_core::ids::DeviceId;
use nuncio_core::notification::RelayParty;
use zeroize::Zeroizing;

use super::envelope::{self, MAX_ENTRIES, RecipientKeyEntry, WrappedKey};
use super::error::SealError;
use super::header::PlaintextMessage;
use super::identity::{SealIdentity, peer_name};
use super::vault::SealedRecordChange;
use super::{body, cipher, hpke};
use crate::encoding::base64url;
use crate::jcs::sha256;
use crate::ledger::DeviceSignatureVerifier;

/// A device to which a message is sealed.
#[derive(Debug, Clone, Copy)]
pub struct RecipientDevice<'a> {
    /// The addressed device's keys, which must be pinned.
    pub bundle: &'a KeyBundle,
    /// Required if [`SealIdentity::needs_one_time_key`] returns true.
    pub one_time_key: Option<&'a OneTimeKey>,
}

/// A content key, followed by the hash of the header it belongs to.
pub(super) type ContentKey = Zeroizing<[u8; hpke::WRAPPED]>;

impl SealIdentity {
    /// Seals a message to trusted devices; this device itself is skipped. The envelope may be sent any number of times,
    /// and no ratchet key encrypts two messages.
    ///
    /// # Errors
    /// Nothing was sealed. The error lists the devices that are not trusted, or that need a one-time key.
    pub fn seal(&mut self, plaintext: &PlaintextMessage, to: &[RecipientDevice<'_>]) -> Result<Vec<u8>, SealError> {
        self.seal_and_save(plaintext, to, |_| Vec::new())
    }

    /// Like [`SealIdentity::seal`], and saves the caller's changes in the same write: after a crash, either the
    /// envelope is stored or it was never sealed.
    pub fn seal_and_save(
        &mut self,
        plaintext: &PlaintextMessage,
        to: &[RecipientDevice<'_>],
        also: impl FnOnce(&[u8]) -> Vec<SealedRecordChange>,
    ) -> Result<Vec<u8>, SealError> {
        let (owner, device) = self.owner_device().ok_or(SealError::Unnamed)?;
        let (owner, device) = (owner.clone(), device.clone());
        let header = plaintext.header(&owner, &device);
        header.check_payload(&plaintext.payload).map_err(SealError::Mismatched)?;
        let to = self.check(plaintext.conversation_type, (&owner, &device), to)?;
        let header = header.canonical();
        let hash = sha256(&header);
        let text = Zeroizing::new(plaintext.payload.to_string().into_bytes());
        if text.len() > MAX_ENVELOPE {
            return Err(SealError::TooLarge);
        }
        let key = Zeroizing::new(cipher::random::<32>());
        let body = body::encrypt(&key, cipher::random(), &hash, &text).ok_or(SealError::TooLarge)?;
        let content = content(&key, &hash);
        let (mut entries, mut changes) = (Vec::with_capacity(to.len()), Vec::new());
        let sealed = to.iter().try_for_each(|one| {
            let wrap = match self.wrap_for(plaintext.conversation_type, one.bundle.keys.mode) {
                WrapAlgorithm::Olm => self.wrap_in_session(one, &content, &mut changes)?,
                WrapAlgorithm::Hpke => wrap_to_key(one, &hash, &content)?,
            };
            entries.push(RecipientKeyEntry { device: one.bundle.keys.device_id.clone(), wrap });
            Ok(())
        });
        let sealed = sealed.and_then(|()| {
            let sign = |signed: &envelope::EnvelopeSignedBytes| self.secrets.sign(signed);
            let envelope = envelope::write(&header, &body, &entries, sign).ok_or(SealError::TooLarge)?;
            changes.extend(also(&envelope));
            self.vault.save(changes)?;
            Ok(envelope)
        });
        sealed.inspect_err(|_| {
            // The state in memory is ahead of the state on disk, and nothing was returned.
            to.iter().for_each(|one| {
                self.sessions.uncache(&peer_name(&one.bundle.keys.owner, &one.bundle.keys.device_id));
            });
        })
    }

    /// Removes this device from the recipients and checks the rest: trusted, and no device twice.
    fn check<'a>(
        &mut self,
        kind: ConversationType,
        (owner, device): (&RelayParty, &DeviceId),
        to: &[RecipientDevice<'a>],
    ) -> Result<Vec<RecipientDevice<'a>>, SealError> {
        let itself =
            |one: &RecipientDevice<'_>| (&one.bundle.keys.owner, &one.bundle.keys.device_id) == (owner, device);
        let to: Vec<_> = to.iter().filter(|one| !itself(one)).copied().collect();
        let others: BTreeSet<_> = to.iter().map(|one| &one.bundle.keys.owner).filter(|other| *other != owner).collect();
        match kind {
            _ if to.is_empty() => return Err(SealError::Nobody),
            _ if to.len() > MAX_ENTRIES => return Err(SealError::TooLarge),
            ConversationType::H2h | ConversationType::H2a if others.len() > 1 => {
                return Err(SealError::NotTwo(others.len()));
            }
            _ => {}
        }
        let (mut named, mut untrusted, mut keyless) = (BTreeSet::new(), Vec::new(), Vec::new());
        for one in &to {
            let keys = &one.bundle.keys;
            // In a group, two agents may use the same device id; there the key distinguishes them.
            let key = (kind == ConversationType::Group).then_some(*keys.hpke_key.as_bytes());
            if !named.insert((&keys.device_id, key)) {
                return Err(SealError::Twice(keys.device_id.clone()));
            }
            let known = self.peer(&keys.owner)?;
            if known.is_none_or(|known| known.bundle(&keys.device_id).is_none_or(|pinned| pinned.keys != *keys)) {
                untrusted.push((keys.owner.clone(), keys.device_id.clone()));
            } else if one.one_time_key.is_none() && self.needs_one_time_key(kind, one.bundle)? {
                keyless.push((keys.owner.clone(), keys.device_id.clone()));
            }
        }
        match () {
            () if !untrusted.is_empty() => Err(SealError::Untrusted(untrusted)),
            () if !keyless.is_empty() => Err(SealError::NeedsOneTimeKey(keyless)),
            () => Ok(to),
        }
    }

    fn wrap_in_session(
        &mut self,
        one: &RecipientDevice<'_>,
        content: &ContentKey,
        changes: &mut Vec<SealedRecordChange>,
    ) -> Result<WrappedKey, SealError> {
        let keys = &one.bundle.keys;
        let peer = peer_name(&keys.owner, &keys.device_id);
        // Olm libraries only accept text.
        let plain = Zeroizing::new(base64url(content.as_slice()));
        let bad = || SealError::BadKey(keys.device_id.clone());
        let mut sealed = self.sessions.encrypt(&self.vault, &peer, plain.as_bytes())?;
        if sealed.is_none() {
            let needed = || SealError::NeedsOneTimeKey(vec![(keys.owner.clone(), keys.device_id.clone())]);
            let one_time = one.one_time_key.ok_or_else(needed)?;
            if !one_time.holds(&keys.device_id, &keys.signing_key, &DeviceSignatureVerifier) {
                return Err(SealError::BadOneTimeKey(keys.device_id.clone()));
            }
            let theirs = keys.olm_key.ok_or_else(bad)?;
            self.olm()?;
            let account = &self.olm.as_ref().ok_or_else(bad)?.account;
            let begun = self.sessions.begin(&self.vault, &peer, account, theirs, one_time.key)?;
            changes.extend(begun.ok_or_else(bad)?);
            sealed = self.sessions.encrypt(&self.vault, &peer, plain.as_bytes())?;
        }
        let (kind, ct, change) = sealed.ok_or_else(bad)?;
        changes.push(change);
        Ok(WrappedKey::Olm { kind, ct })
    }
}

fn wrap_to_key(one: &RecipientDevice<'_>, hash: &[u8; 32], content: &ContentKey) -> Result<WrappedKey, SealError> {
    let keys = &one.bundle.keys;
    let wrapped = hpke::wrap(&keys.hpke_key, hash, content, cipher::random());
    let (enc, ct) = wrapped.ok_or_else(|| SealError::BadKey(keys.device_id.clone()))?;
    Ok(WrappedKey::Hpke { kid: hpke::kid(&keys.hpke_key), enc, ct })
}

/// Builds the bytes that are wrapped for each device: the content key and the hash of the header.
pub(super) fn content(key: &[u8; 32], hash: &[u8; 32]) -> ContentKey {
    let mut content = Zeroizing::new([0; hpke::WRAPPED]);
    content[..32].copy_from_slice(key);
    content[32..].copy_from_slice(hash);
    content
}

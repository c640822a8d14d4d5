//! Opens envelopes: verifies the signature, detects replays, unwraps the content key and decrypts the body. Returns
//! nothing unless every check passes.

use std::time::Duration;

use nuncio_core::bundle::{KeyBundle, SealMode, WrapAlgorithm};
use nuncio_core::conversation::{ContentType, MAX_ENVELOPE};
use nuncio_core::ids::DeviceId;
use nuncio_core::json;
use nuncio_core::notification::RelayParty;
use nuncio_core::signature::SignatureChecker as _;
use nuncio_core::time::Timestamp;
use serde_json::Value;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::body;
use super::envelope::{self, UnverifiedEnvelope, WrappedKey};
use super::error::OpenError;
use super::header::{EnvelopeHeader, REKEY, RelayMetadata};
use super::hpke;
use super::identity::{SealIdentity, peer_name};
use super::sealing::ContentKey;
use super::sessions::OlmDecryptError;
use super::vault::SealedRecordChange;
use crate::encoding::base64url_exact;
use crate::ledger::DeviceSignatureVerifier;

/// Maximum lead of the sender's clock. A later date would make the following messages count as too old to open.
const MAX_TIME_AHEAD: Duration = Duration::from_hours(24);

#[derive(Debug, Clone, PartialEq)]
pub struct OpenedMessage {
    /// The signed header of the opened message.
    pub header: EnvelopeHeader,
    pub payload: Value,
    pub sender: RelayParty,
    pub sender_device: DeviceId,
    /// How the content key was wrapped. `Stateless` means no forward secrecy: a later leak of the long-term key reveals
    /// the message. The user interface shows this.
    pub mode: SealMode,
    /// Whether the sender announced a lost session. Messages sent to the sender since its last answer must be sent
    /// again.
    pub rekeyed: bool,
}

/// An unwrapped content key and the state changes that go with it.
struct UnwrappedKey {
    content: ContentKey,
    mode: SealMode,
    /// Name of the Olm session that carried the content key.
    session: Option<String>,
    changes: Vec<SealedRecordChange>,
}

impl SealIdentity {
    /// Opens an envelope; `relay` is the metadata that the relay delivered with it. Before a message is returned, its
    /// replay record is on disk, so it is opened only once.
    ///
    /// # Errors
    /// Nothing was changed. After [`OpenError::UnknownSender`] and [`OpenError::StaleBundle`], fetch and review the
    /// sender's keys and try again; after [`OpenError::SessionLost`], call [`SealIdentity::rekey`].
    pub fn open(&mut self, relay: &RelayMetadata, envelope: &[u8], now: Timestamp) -> Result<OpenedMessage, OpenError> {
        self.open_and_save(relay, envelope, now, |_| Vec::new())
    }

    /// Like [`SealIdentity::open`], and saves the caller's changes in the same write: after a crash, either the message
    /// can still be opened or the caller's changes are stored.
    pub fn open_and_save(
        &mut self,
        relay: &RelayMetadata,
        envelope: &[u8],
        now: Timestamp,
        also: impl FnOnce(&OpenedMessage) -> Vec<SealedRecordChange>,
    ) -> Result<OpenedMessage, OpenError> {
        let own = &self.this.bundle.as_ref().ok_or(OpenError::Unnamed)?.keys;
        let own = (own.device_id.clone(), hpke::kid(&own.hpke_key));
        let envelope = envelope::read(envelope).map_err(OpenError::Malformed)?;
        if let Some(field) = envelope.header.first_difference(relay) {
            return Err(OpenError::Mislabelled { field });
        }
        let pinned = self.signer(&relay.sender, &envelope)?;
        if envelope.header.created_at > now.after(MAX_TIME_AHEAD) {
            return Err(OpenError::FromTheFuture);
        }
        let peer = peer_name(&relay.sender, &envelope.header.sender_device_id);
        let (id, at) = (&envelope.header.client_message_id, envelope.header.created_at);
        // The signature is already verified, and no ratchet key has been consumed yet.
        if self.seen.contains(&self.vault, &peer, id, at)? {
            return Err(OpenError::Replayed);
        }
        let opened = self.unwrap(&own, &pinned, &peer, &envelope).and_then(|unwrapped| {
            let (header, UnwrappedKey { content, mode, session, mut changes }) = (envelope.header, unwrapped);
            let payload = decrypt_payload(&header, &envelope.header_hash, &content, envelope.body)?;
            changes.extend(self.seen.remember(&self.vault, &peer, &header.client_message_id, at)?);
            let rekeyed = header.content_type == ContentType::System && payload["event"] == REKEY && session.is_some();
            if rekeyed {
                changes.extend(self.sessions.forget(&self.vault, &peer, session.as_deref())?);
            }
            let (sender, sender_device) = (relay.sender.clone(), header.sender_device_id.clone());
            let opened = OpenedMessage { header, payload, sender, sender_device, mode, rekeyed };
            changes.extend(also(&opened));
            self.vault.save(changes)?;
            Ok(opened)
        });
        opened.inspect_err(|_| {
            // The state in memory may be ahead of the state on disk.
            self.sessions.uncache(&peer);
            self.seen.uncache(&peer);
            self.olm = None;
        })
    }

    /// Returns the pinned keys of the device that signed the envelope.
    fn signer(&mut self, sender: &RelayParty, envelope: &UnverifiedEnvelope) -> Result<KeyBundle, OpenError> {
        let device = &envelope.header.sender_device_id;
        let unknown = || OpenError::UnknownSender { owner: sender.clone(), device: device.clone() };
        let peer = self.peer(sender)?.ok_or_else(unknown)?;
        let signed = |bundle: &KeyBundle| {
            DeviceSignatureVerifier.holds(&bundle.keys.signing_key, &envelope.signed, &envelope.signature)
        };
        match (peer.bundle(device), peer.waiting(device)) {
            (Some(pinned), _) if signed(pinned) => Ok(pinned.clone()),
            (_, Some((waiting, why))) if signed(waiting) => Err(OpenError::Untrusted { device: device.clone(), why }),
            (Some(_), _) => Err(OpenError::BadSignature),
            (None, _) => Err(unknown()),
        }
    }

    /// Unwraps the content key from the one entry for this device.
    fn unwrap(
        &mut self,
        (device, kid): &(DeviceId, [u8; 32]),
        sender: &KeyBundle,
        peer: &str,
        envelope: &UnverifiedEnvelope,
    ) -> Result<UnwrappedKey, OpenError> {
        let mine = |wrap: &WrappedKey| match wrap {
            WrappedKey::Olm { .. } => true,
            WrappedKey::Hpke { kid: named, .. } => named == kid,
        };
        let mut entries = envelope.entries.iter().filter(|entry| entry.device == *device && mine(&entry.wrap));
        let entry = entries.next().ok_or(OpenError::NotForUs)?;
        if entries.next().is_some() {
            return Err(OpenError::Malformed("two entries of to are for one device".to_owned()));
        }
        match (self.wrap_for(envelope.header.conversation_type, sender.keys.mode), &entry.wrap) {
            (WrapAlgorithm::Hpke, WrappedKey::Hpke { enc, ct, .. }) => {
                let content = hpke::unwrap(self.secrets.agreement_secret(), &envelope.header_hash, enc, ct);
                let content = content.ok_or(OpenError::Tampered)?;
                Ok(UnwrappedKey { content, mode: SealMode::Stateless, session: None, changes: Vec::new() })
            }
            (WrapAlgorithm::Olm, WrappedKey::Olm { kind, ct }) => self.unwrap_in_session(sender, peer, (*kind, ct)),
            (WrapAlgorithm::Olm, WrappedKey::Hpke { .. }) => Err(OpenError::Downgraded),
            (WrapAlgorithm::Hpke, WrappedKey::Olm { .. }) => Err(OpenError::WrongWrap),
        }
    }

    fn unwrap_in_session(
        &mut self,
        sender: &KeyBundle,
        peer: &str,
        message: (u8, &[u8]),
    ) -> Result<UnwrappedKey, OpenError> {
        let device = &sender.keys.device_id;
        let (Some(theirs), Some(_)) = (sender.keys.olm_key, self.olm()?) else { return Err(OpenError::WrongWrap) };
        let Some(olm) = &mut self.olm else { return Err(OpenError::WrongWrap) };
        let read = self.sessions.decrypt(&self.vault, peer, &mut olm.account, theirs, message);
        let read = read.map_err(|unread| match unread {
            OlmDecryptError::Lost => OpenError::SessionLost { device: device.clone() },
            OlmDecryptError::OtherIdentity => OpenError::StaleBundle { device: device.clone() },
            OlmDecryptError::KeyStore(error) => error.into(),
        })?;
        let mut changes = read.changes;
        if read.new {
            changes.push(olm.to_record(&self.vault));
        }
        let content = std::str::from_utf8(&read.plain).ok().and_then(base64url_exact).map(Zeroizing::new);
        let content = content.ok_or(OpenError::Tampered)?;
        Ok(UnwrappedKey { content, mode: SealMode::Stateful, session: Some(read.by), changes })
    }
}

/// Decrypts the payload and checks that it belongs to this header.
fn decrypt_payload(
    header: &EnvelopeHeader,
    hash: &[u8; 32],
    content: &ContentKey,
    body: body::EncryptedBody,
) -> Result<Value, OpenError> {
    let (key, sealed) = content.split_first_chunk::<32>().ok_or(OpenError::Tampered)?;
    if !bool::from(sealed.ct_eq(hash.as_slice())) {
        return Err(OpenError::Tampered);
    }
    let text = body::decrypt(key, hash, body).ok_or(OpenError::Tampered)?;
    let payload = json::read(&text, MAX_ENVELOPE).map_err(|error| OpenError::Malformed(format!("payload: {error}")))?;
    header.check_payload(&payload).map_err(OpenError::Mismatched)?;
    Ok(payload)
}

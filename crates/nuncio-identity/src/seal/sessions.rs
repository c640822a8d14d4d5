//! Olm sessions with devices of others. Both sides may start one at the same time; messages are sent in the session
//! that received last.

use std::collections::HashMap;

use nuncio_core::bundle::X25519PublicKey;
use serde::{Deserialize, Serialize};
use vodozemac::Curve25519PublicKey;
use vodozemac::olm::{Account, OlmMessage, Session, SessionConfig, SessionCreationError, SessionPickle};
use zeroize::Zeroizing;

use super::key_store::KeyStoreError;
use super::vault::{SealedRecordChange, SealedRecords};

/// Maximum number of sessions per device.
const MAX_SESSIONS: usize = 4;
/// Number of devices whose sessions are held in memory.
const CACHED: usize = 1024;

/// Olm sessions by device. Sessions of devices that are not cached are in the vault.
#[derive(Default)]
pub(super) struct OlmSessions {
    /// Cached sessions per device; the session that received a message last comes first.
    cached: HashMap<String, Vec<LoadedOlmSession>>,
}

struct LoadedOlmSession {
    name: String,
    session: Session,
    /// Increases with each received message. The session with the largest value is used to send.
    received: u64,
}

#[derive(Serialize, Deserialize)]
struct StoredOlmSession<P> {
    pickle: P,
    #[serde(rename = "heard")]
    received: u64,
}

pub(super) enum OlmDecryptError {
    /// No session decrypts the message.
    Lost,
    /// The message was sent with another identity key than the known one.
    OtherIdentity,
    KeyStore(KeyStoreError),
}

impl From<KeyStoreError> for OlmDecryptError {
    fn from(error: KeyStoreError) -> Self {
        Self::KeyStore(error)
    }
}

pub(super) struct OlmDecryptedMessage {
    pub(super) plain: Zeroizing<Vec<u8>>,
    /// Name of the session that decrypted the message.
    pub(super) by: String,
    /// Whether the message started a new session. The account must then be stored, because a one-time key may be
    /// consumed.
    pub(super) new: bool,
    pub(super) changes: Vec<SealedRecordChange>,
}

impl OlmSessions {
    pub(super) fn exist(&self, vault: &SealedRecords, peer: &str) -> Result<bool, KeyStoreError> {
        Ok(self.cached.get(peer).is_some_and(|sessions| !sessions.is_empty())
            || !vault.names(&prefix(peer))?.is_empty())
    }

    /// Encrypts in the session that received a message last; `None` if there is no session.
    pub(super) fn encrypt(
        &mut self,
        vault: &SealedRecords,
        peer: &str,
        plain: &[u8],
    ) -> Result<Option<(u8, Vec<u8>, SealedRecordChange)>, KeyStoreError> {
        let Some(sessions) = self.with(vault, peer)?.first_mut() else { return Ok(None) };
        let Ok(message) = sessions.session.encrypt(plain) else { return Ok(None) };
        let (kind, ct) = message.to_parts();
        Ok(Some((u8::from(kind == 1), ct, sessions.to_record(vault))))
    }

    /// Starts a session with a one-time key; `None` if key agreement fails.
    pub(super) fn begin(
        &mut self,
        vault: &SealedRecords,
        peer: &str,
        account: &Account,
        theirs: X25519PublicKey,
        one_time: X25519PublicKey,
    ) -> Result<Option<Vec<SealedRecordChange>>, KeyStoreError> {
        let point = |key: X25519PublicKey| Curve25519PublicKey::from_bytes(*key.as_bytes());
        let session = account.create_outbound_session(SessionConfig::version_1(), point(theirs), point(one_time));
        let Ok(session) = session else { return Ok(None) };
        let (_, changes) = self.add(vault, peer, session)?;
        Ok(Some(changes))
    }

    /// Decrypts a message in its session, or in a new one if it is a pre-key message.
    pub(super) fn decrypt(
        &mut self,
        vault: &SealedRecords,
        peer: &str,
        account: &mut Account,
        theirs: X25519PublicKey,
        (kind, ct): (u8, &[u8]),
    ) -> Result<OlmDecryptedMessage, OlmDecryptError> {
        let message = OlmMessage::from_parts(kind.into(), ct).map_err(|_| OlmDecryptError::Lost)?;
        let theirs = Curve25519PublicKey::from_bytes(*theirs.as_bytes());
        let sessions = self.with(vault, peer)?;
        let received = sessions.iter().map(|sessions| sessions.received).max().unwrap_or_default() + 1;
        let begins = match &message {
            OlmMessage::PreKey(message) if message.identity_key() != theirs => {
                return Err(OlmDecryptError::OtherIdentity);
            }
            OlmMessage::PreKey(message) => Some(name(peer, &message.session_id())),
            OlmMessage::Normal(_) => None,
        };
        let mut could_be = sessions.iter_mut().enumerate();
        let read = could_be.find_map(|(index, sessions)| match &begins {
            Some(name) if *name != sessions.name => None,
            _ => sessions.session.decrypt(&message).ok().map(|plain| (index, plain)),
        });
        if let Some((index, plain)) = read {
            sessions[index].received = received;
            sessions[..=index].rotate_right(1);
            let changes = vec![sessions[0].to_record(vault)];
            return Ok(OlmDecryptedMessage {
                plain: Zeroizing::new(plain),
                by: sessions[0].name.clone(),
                new: false,
                changes,
            });
        }
        match (message, begins) {
            (OlmMessage::PreKey(message), Some(name)) if sessions.iter().all(|sessions| sessions.name != name) => {
                let made = account.create_inbound_session(SessionConfig::version_1(), theirs, &message);
                let made = made.map_err(|error| match error {
                    SessionCreationError::MismatchedIdentityKey(..) => OlmDecryptError::OtherIdentity,
                    _ => OlmDecryptError::Lost,
                })?;
                let (by, changes) = self.add(vault, peer, made.session)?;
                Ok(OlmDecryptedMessage { plain: Zeroizing::new(made.plaintext), by, new: true, changes })
            }
            _ => Err(OlmDecryptError::Lost),
        }
    }

    /// Removes all sessions with a device, except `but`.
    pub(super) fn forget(
        &mut self,
        vault: &SealedRecords,
        peer: &str,
        but: Option<&str>,
    ) -> Result<Vec<SealedRecordChange>, KeyStoreError> {
        // The session `but` is loaded again from the vault after the save.
        self.uncache(peer);
        let names = vault.names(&prefix(peer))?.into_iter();
        Ok(names.filter(|name| but != Some(name)).map(|name| (name, None)).collect())
    }

    /// Drops the cached sessions of a device because they may differ from the stored ones.
    pub(super) fn uncache(&mut self, peer: &str) {
        self.cached.remove(peer);
    }

    fn add(
        &mut self,
        vault: &SealedRecords,
        peer: &str,
        session: Session,
    ) -> Result<(String, Vec<SealedRecordChange>), KeyStoreError> {
        let sessions = self.with(vault, peer)?;
        let received = sessions.iter().map(|sessions| sessions.received).max().unwrap_or_default() + 1;
        let name = name(peer, &session.session_id());
        sessions.insert(0, LoadedOlmSession { name: name.clone(), session, received });
        let mut changes = vec![sessions[0].to_record(vault)];
        changes.extend(sessions.drain(MAX_SESSIONS.min(sessions.len())..).map(|sessions| (sessions.name, None)));
        Ok((name, changes))
    }

    fn with(&mut self, vault: &SealedRecords, peer: &str) -> Result<&mut Vec<LoadedOlmSession>, KeyStoreError> {
        if !self.cached.contains_key(peer) {
            if self.cached.len() >= CACHED {
                self.cached.clear();
            }
            let mut sessions = Vec::new();
            for name in vault.names(&prefix(peer))? {
                if let Some(stored) = vault.get::<StoredOlmSession<SessionPickle>>(&name)? {
                    sessions.push(LoadedOlmSession {
                        name,
                        session: Session::from_pickle(stored.pickle),
                        received: stored.received,
                    });
                }
            }
            sessions.sort_by_key(|sessions| std::cmp::Reverse(sessions.received));
            self.cached.insert(peer.to_owned(), sessions);
        }
        self.cached.get_mut(peer).ok_or_else(|| KeyStoreError("the sessions cannot be loaded".to_owned()))
    }
}

impl LoadedOlmSession {
    fn to_record(&self, vault: &SealedRecords) -> SealedRecordChange {
        vault.put(self.name.clone(), &StoredOlmSession { pickle: self.session.pickle(), received: self.received })
    }
}

fn prefix(peer: &str) -> String {
    format!("session/{peer}/")
}

fn name(peer: &str, session: &str) -> String {
    format!("session/{peer}/{}", session.replace('/', "_").replace('+', "-"))
}

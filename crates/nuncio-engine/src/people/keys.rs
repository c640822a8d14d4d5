//! Public keys of devices and agents.

use nuncio_core::ErrorCode;
use nuncio_core::bundle::{DeviceEndorsement, KeyBundle, KeyBundleId, MAX_ONE_TIME_KEYS, OneTimeKey};
use nuncio_core::ids::{ConversationId, DeviceId, PersonName};
use nuncio_core::notification::RelayParty;
use nuncio_core::signature::{Signature, SignatureChecker as _};
use nuncio_core::time::Timestamp;
use std::sync::Arc;

use crate::access::{AuthenticationMethod, Caller};
use crate::accounts::NotificationService;
use crate::consent_error::ConsentError;
use crate::context::{CommitResultExt as _, EngineContext};
use crate::ed25519::Ed25519Verifier;
use crate::error::EngineError;
use crate::not_found;
use crate::people::PersonService;
use crate::ports::store::{
    AgentAccountStore, Change, Conflict, KeyBundleStore, PersonStore, RelationStore, RelayChange,
};
use crate::relay::{RelayService, agent, member, person};

const CONVERSATIONS_PER_READ: usize = 100;

/// Maximum size of a key backup, in bytes.
const MAX_BACKUP: usize = 16 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyBundleUpload {
    /// New key bundle; `None` leaves the stored one unchanged.
    pub bundle: Option<KeyBundle>,
    /// One-time keys with which others encrypt their first message to the device.
    pub one_time_keys: Vec<OneTimeKey>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyBundleUploadResult {
    pub seq: u64,
    /// Number of unused one-time keys at the server.
    pub one_time_keys: usize,
}

/// Service for public keys of devices and encrypted key backups.
pub struct DeviceKeyService {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) store: Arc<dyn KeyBundleStore>,
    pub(crate) account_store: Arc<dyn AgentAccountStore>,
    pub(crate) person_store: Arc<dyn PersonStore>,
    pub(crate) relation_store: Arc<dyn RelationStore>,
    pub(crate) mailbox: Arc<NotificationService>,
    pub(crate) people: Arc<PersonService>,
    pub(crate) relay: Arc<RelayService>,
}

impl DeviceKeyService {
    /// Stores the keys of the caller's own device or of the calling agent, and notifies conversation partners of a new
    /// bundle.
    pub async fn register_keys(
        &self,
        by: &Caller,
        mut upload: KeyBundleUpload,
    ) -> Result<KeyBundleUploadResult, ConsentError> {
        let me = member(by)?;
        let device = match (&upload.bundle, &by.authentication) {
            (Some(bundle), _) => Some(&bundle.keys.device_id),
            (None, AuthenticationMethod::Device(device)) => Some(device),
            (None, _) => None,
        };
        let known = match device.cloned() {
            Some(device) => self.store.bundle(&KeyBundleId { owner: me.clone(), device }).await?,
            None => self.store.bundles(&me).await?.into_iter().next(),
        };
        // An endorsement covers the signing key, so it survives new message keys.
        if let (Some(bundle), Some(known)) = (&mut upload.bundle, &known)
            && bundle.endorsement.is_none()
            && bundle.keys.signing_key == known.keys.signing_key
        {
            bundle.endorsement.clone_from(&known.endorsement);
        }
        let Some(bundle) = upload.bundle.as_ref().or(known.as_ref()) else {
            return Err(ConsentError::new(ErrorCode::KeysNotFound, "send the bundle first, then one-time keys for it"));
        };
        self.check_bundle(by, &me, bundle).await?;
        let (id, signer) = (bundle.keys.id(), &bundle.keys.signing_key);
        if upload.one_time_keys.len() > MAX_ONE_TIME_KEYS {
            return Err(refused(&format!("send at most {MAX_ONE_TIME_KEYS} one-time keys at once")));
        }
        if let Some(wrong) = upload.one_time_keys.iter().find(|key| !key.holds(&id.device, signer, &Ed25519Verifier)) {
            return Err(refused(&format!("one-time key {:?} is not signed by its device", wrong.key_id)));
        }
        let mut changes: Vec<Change> = Vec::new();
        if known.as_ref() != Some(bundle) {
            changes.push(RelayChange::PutBundle(Box::new(bundle.clone())).into());
            changes.extend(self.relay.key_change_mail(&me).await?);
        }
        if !upload.one_time_keys.is_empty() {
            let keys = upload.one_time_keys;
            changes.push(RelayChange::PutOneTimeKeys { id: id.clone(), keys, most: MAX_ONE_TIME_KEYS }.into());
        }
        if !changes.is_empty() && !self.mailbox.commit_and_notify(changes).await.made_unless(Conflict::Moved)? {
            return Err(refused("its seq is not greater than that of the stored bundle"));
        }
        let one_time_keys = self.store.one_time_keys_left(&id).await?;
        Ok(KeyBundleUploadResult { seq: bundle.keys.seq, one_time_keys })
    }

    async fn check_bundle(&self, by: &Caller, me: &RelayParty, bundle: &KeyBundle) -> Result<(), ConsentError> {
        if bundle.keys.owner != *me {
            return Err(refused(&format!("it belongs to {}, but you are {me}", bundle.keys.owner)));
        }
        if let AuthenticationMethod::Device(device) = &by.authentication {
            if bundle.keys.device_id != *device {
                return Err(refused("a device can publish only its own keys, under its own id"));
            }
            let enrolled = self.person_store.device(device).await?;
            if enrolled.is_none_or(|enrolled| enrolled.key != bundle.keys.signing_key) {
                return Err(refused("its signing key is not the one the device enrolled with"));
            }
        } else if self.person_store.device(&bundle.keys.device_id).await?.is_some() {
            return Err(refused("its device_id is that of a person's device; choose another"));
        }
        bundle.check(&Ed25519Verifier).map_err(|why| refused(&why.to_string()))
    }

    /// Cross-signs another device of the same person.
    pub async fn endorse_device(
        &self,
        by: &Caller,
        device: &DeviceId,
        signature: Signature,
    ) -> Result<KeyBundle, ConsentError> {
        let me = member(by)?;
        let AuthenticationMethod::Device(own) = &by.authentication else {
            return Err(ConsentError::new(
                ErrorCode::Unauthorized,
                "only a person's device can endorse another device",
            ));
        };
        let missing = || not_found::own_key_bundle(device.as_str());
        let id = KeyBundleId { owner: me.clone(), device: device.clone() };
        let bundle = self.store.bundle(&id).await?.ok_or_else(missing)?;
        let signer = self.person_store.device(own).await?.ok_or_else(missing)?;
        if own == device || !Ed25519Verifier.holds(&signer.key, &bundle.keys.endorsed(), &signature) {
            return Err(refused("the endorsement is not signed by another device of yours"));
        }
        let endorsement = DeviceEndorsement { by: own.clone(), signature };
        let endorsed = KeyBundle { endorsement: Some(endorsement.clone()), ..bundle };
        let mut changes: Vec<Change> = vec![RelayChange::EndorseBundle { id, endorsement }.into()];
        changes.extend(self.relay.key_change_mail(&me).await?);
        self.mailbox.commit_and_notify(changes).await?;
        Ok(endorsed)
    }

    /// Key bundles of a person or agent that the caller may see.
    pub async fn keys_of(&self, by: &Caller, owner: &RelayParty) -> Result<Vec<KeyBundle>, ConsentError> {
        self.may_see_keys(by, owner).await?;
        self.keys_of_member(owner).await
    }

    /// Key bundles of all members of a conversation.
    pub async fn keys_of_conversation(&self, by: &Caller, id: &ConversationId) -> Result<Vec<KeyBundle>, ConsentError> {
        let held = self.relay.conversation_for(by, id).await?;
        let mut all = Vec::new();
        for one in &held.conversation.members {
            all.extend(self.keys_of_member(one).await?);
        }
        Ok(all)
    }

    async fn keys_of_member(&self, owner: &RelayParty) -> Result<Vec<KeyBundle>, ConsentError> {
        let mut valid = Vec::new();
        for bundle in self.store.bundles(owner).await? {
            let is_person = person(owner).is_some();
            if !is_person || self.people.valid_device(&bundle.keys.device_id).await?.is_some() {
                valid.push(bundle);
            }
        }
        Ok(valid)
    }

    /// Hands out a one-time key of a device, each only once, or the fallback key.
    pub async fn take_one_time_key(
        &self,
        by: &Caller,
        owner: Option<RelayParty>,
        device: &DeviceId,
    ) -> Result<OneTimeKey, ConsentError> {
        let missing = || not_found::one_time_keys(device.as_str());
        let owner = match owner {
            Some(owner) => owner,
            None => self.only_owner_of(device).await?.ok_or_else(missing)?,
        };
        let id = KeyBundleId { owner, device: device.clone() };
        self.store.bundle(&id).await?.ok_or_else(missing)?;
        self.may_see_keys(by, &id.owner).await.map_err(|_| missing())?;
        loop {
            let key = self.store.one_time_key(&id).await?.ok_or_else(missing)?;
            if key.fallback {
                return Ok(key);
            }
            let take = RelayChange::TakeOneTimeKey { id: id.clone(), key_id: key.key_id.clone() };
            // Another request may have taken the key.
            if self.context.commit_one(take).await.made_unless(Conflict::Missing)? {
                return Ok(key);
            }
        }
    }

    /// The person who owns `device`, or the only agent that has a device with this id.
    async fn only_owner_of(&self, device: &DeviceId) -> Result<Option<RelayParty>, ConsentError> {
        if let Some(enrolled) = self.person_store.device(device).await? {
            return Ok(Some(RelayParty::Person(enrolled.person)));
        }
        let mut owners = self.store.bundle_owners(device, 2).await?;
        match owners.len() {
            0 | 1 => Ok(owners.pop()),
            _ => Err(ConsentError::new(
                ErrorCode::BadRequest,
                format!("several agents have a device {device}; name one with ?owner=agent:ID"),
            )),
        }
    }

    /// Refuses a caller who may not see an owner's keys. People see all, agents see other agents and people with whom
    /// they have a relation or a common conversation. The error does not tell whether the owner exists.
    async fn may_see_keys(&self, by: &Caller, owner: &RelayParty) -> Result<(), ConsentError> {
        let me = member(by)?;
        let there = match owner {
            RelayParty::Person(name) => self.person_store.person(name).await?.is_some(),
            RelayParty::Agent(id) => self.account_store.account(id).await?.is_some(),
        };
        let related = match (agent(&me), person(owner)) {
            (Some(me), Some(name)) => self.relation_store.relation_between(name, me).await?.is_some(),
            _ => true,
        };
        if there && (related || me == *owner || self.share_a_conversation(&me, owner).await?) {
            return Ok(());
        }
        Err(match owner {
            RelayParty::Person(name) => not_found::person_with_keys(name.as_str()).into(),
            RelayParty::Agent(id) => not_found::agent_account(id.as_str()).into(),
        })
    }

    async fn share_a_conversation(&self, me: &RelayParty, other: &RelayParty) -> Result<bool, EngineError> {
        let mut after = None;
        loop {
            let page = self.relay.store.conversations_of(me, after.as_ref(), CONVERSATIONS_PER_READ).await?;
            if page.iter().any(|held| held.conversation.has(other)) {
                return Ok(true);
            }
            match page.last() {
                Some(last) if page.len() == CONVERSATIONS_PER_READ => after = Some(last.conversation.id.clone()),
                _ => return Ok(false),
            }
        }
    }

    /// Stores a person's encrypted key backup of at most 16 KiB, replacing the previous one. Returns the time of the
    /// backup.
    pub async fn put_backup(&self, person: &PersonName, content: String) -> Result<Timestamp, ConsentError> {
        if content.len() > MAX_BACKUP {
            return Err(ConsentError::new(
                ErrorCode::BodyTooLarge,
                format!("a backup must have at most {MAX_BACKUP} bytes"),
            ));
        }
        let at = self.context.now();
        self.context.commit_one(RelayChange::PutBackup { person: person.clone(), content, at }).await?;
        Ok(at)
    }

    /// A person's key backup, and its time.
    pub async fn backup(&self, person: &PersonName) -> Result<(String, Timestamp), ConsentError> {
        self.store.backup(person).await?.ok_or_else(no_backup)
    }

    pub async fn remove_backup(&self, person: &PersonName) -> Result<(), ConsentError> {
        let removed = self.context.commit_one(RelayChange::RemoveBackup(person.clone())).await;
        if removed.made_unless(Conflict::Missing)? { Ok(()) } else { Err(no_backup()) }
    }
}

fn refused(why: &str) -> ConsentError {
    ConsentError::new(ErrorCode::BundleRefused, format!("the keys are not accepted: {why}"))
}

fn no_backup() -> ConsentError {
    ConsentError::new(ErrorCode::BackupNotFound, "you have no backup on this server")
}

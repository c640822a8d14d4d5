//! People and their devices: a device joins with an invite and proves that it holds its key.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::audit::{AuditEvent, AuditEventRecord};
use nuncio_core::bundle::KeyBundleId;
use nuncio_core::digest::Digest;
use nuncio_core::ids::{DeviceId, PersonName};
use nuncio_core::notification::{Notification, RelayParty};
use nuncio_core::person::{Device, DeviceAssertion, EnrolmentAssertion, Invite, MAX_DEVICE_NAME, Person};
use nuncio_core::principal::Principal;
use nuncio_core::signature::{PublicKey, Signature, SignatureChecker as _};
use nuncio_core::time::Timestamp;

use crate::access::{AuthenticationMethod, Caller, use_nonce};
use crate::accounts::{NotificationService, texts};
use crate::consent_error::ConsentError;
use crate::context::{CommitResultExt as _, EngineContext};
use crate::ed25519::Ed25519Verifier;
use crate::error::EngineError;
use crate::not_found;
use crate::ports::store::{AuditChange, Conflict, ConsentChange, PersonStore, RelayChange, StoreError};
use crate::relay::RelayService;

mod keys;
mod signing;

pub use keys::{DeviceKeyService, KeyBundleUpload, KeyBundleUploadResult};
use signing::refused;

const NONCE_LENGTHS: std::ops::RangeInclusive<usize> = 16..=128;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedDeviceInvite {
    pub person: PersonName,
    /// Invite code, returned only here; its digest is stored.
    pub code: String,
    pub expires_at: Timestamp,
}

/// A device's enrolment request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceEnrolmentRequest {
    pub code: String,
    /// Device name chosen by the person.
    pub name: String,
    pub key: PublicKey,
    /// Signature of the device over the [`EnrolmentAssertion`].
    pub signature: Signature,
}

/// Service for people with an account on this server, and their devices.
pub struct PersonService {
    pub(crate) context: Arc<EngineContext>,
    pub(crate) store: Arc<dyn PersonStore>,
    pub(crate) mailbox: Arc<NotificationService>,
    pub(crate) relay: Arc<RelayService>,
}

/// Validity of an invite that a person's own device creates; short, because the person has both devices at hand.
const OWN_INVITE_LASTS: Duration = Duration::from_secs(600);

impl PersonService {
    /// Invites a person, whose account is created if it does not exist, or a further device of a known person.
    pub async fn invite_person(&self, name: PersonName, by: &Caller) -> Result<CreatedDeviceInvite, ConsentError> {
        self.invite_person_for(name, self.context.limits.consent.invite_lasts, by).await
    }

    /// Invites a further device of the calling person, which only one of their devices may do.
    pub async fn invite_own_device(&self, by: &Caller) -> Result<CreatedDeviceInvite, ConsentError> {
        match (&by.principal, &by.authentication) {
            (Principal::Person(name), AuthenticationMethod::Device(_)) => {
                self.invite_person_for(name.clone(), OWN_INVITE_LASTS, by).await
            }
            _ => {
                let message = "only a device can invite another device of its person: send its access token";
                Err(ConsentError::new(ErrorCode::PermissionDenied, message))
            }
        }
    }

    /// Like [`PersonService::invite_person`], with a validity of `lasts`.
    pub async fn invite_person_for(
        &self,
        name: PersonName,
        lasts: Duration,
        by: &Caller,
    ) -> Result<CreatedDeviceInvite, ConsentError> {
        let (rules, now) = (&self.context.limits.consent, self.context.now());
        let open = |invite: &&Invite| invite.used_by.is_none() && invite.expires_at > now;
        if self.store.invites(&name).await?.iter().filter(open).count() >= rules.invites_per_person {
            return Err(ConsentError::limit("open invites of this person", rules.invites_per_person));
        }
        let code = self.context.random_name("inv_");
        let invite = Invite {
            code: Digest::of_bytes(code.as_bytes()),
            person: name.clone(),
            created_at: now,
            expires_at: now.after(lasts),
            used_by: None,
        };
        let expires_at = invite.expires_at;
        let record =
            AuditEventRecord { person: Some(name.clone()), ..self.context.event_record(AuditEvent::PersonInvited, by) };
        let changes = vec![
            ConsentChange::PutPerson(Person { name: name.clone(), created_at: now }).into(),
            ConsentChange::CreateInvite(invite).into(),
            AuditChange::AppendEvent(record).into(),
        ];
        self.context.commit(changes).await?;
        Ok(CreatedDeviceInvite { person: name, code, expires_at })
    }

    /// Enrols a device. Each invite works once, and the device must prove that it holds its key.
    pub async fn enrol_device(&self, new: DeviceEnrolmentRequest) -> Result<Device, ConsentError> {
        let (rules, now) = (&self.context.limits.consent, self.context.now());
        let name = texts::one_line("the device's name", &new.name, MAX_DEVICE_NAME)?;
        let code = Digest::of_bytes(new.code.as_bytes());
        let unknown = || invalid("this server does not know it; copy it completely");
        let invite = self.store.invite(&code).await?.ok_or_else(unknown)?;
        let enrolment = EnrolmentAssertion { invite: code, key: new.key, name: new.name };
        if !Ed25519Verifier.holds(&new.key, &enrolment.message(), &new.signature) {
            let message = "the device did not prove that it has its key: the signature is not valid";
            return Err(ConsentError::new(ErrorCode::DeviceRefused, message));
        }
        let id = DeviceId::parse(&self.context.random_name("dev_"))?;
        let invite = invite.admit(id.clone(), now).map_err(|why| invalid(&why.to_string()))?;
        let person = invite.person.clone();
        let devices = self.store.devices(&person).await?;
        if devices.iter().filter(|device| device.revoked_at.is_none()).count() >= rules.devices_per_person {
            return Err(ConsentError::limit("devices of this person", rules.devices_per_person));
        }
        let device = Device { id, person: person.clone(), name, key: new.key, enrolled_at: now, revoked_at: None };
        let by = Caller::new(Principal::Person(person.clone()));
        let record = AuditEventRecord {
            person: Some(person.clone()),
            device: Some(device.id.clone()),
            ..self.context.event_record(AuditEvent::DeviceEnrolled, &by)
        };
        let changes = vec![
            ConsentChange::Enrol { invite, device: device.clone() }.into(),
            devices_changed(&person, now).into(),
            AuditChange::AppendEvent(record).into(),
        ];
        match self.mailbox.commit_and_notify(changes).await {
            Err(StoreError::Conflict(Conflict::Moved)) => return Err(invalid("it was already used")),
            Err(StoreError::Conflict(Conflict::Exists)) => {
                let message = "another device already uses this key; create a new key for each device";
                return Err(ConsentError::new(ErrorCode::DeviceRefused, message));
            }
            other => other?,
        }
        Ok(device)
    }

    /// All people, ordered by name.
    pub async fn list(&self) -> Result<Vec<Person>, EngineError> {
        Ok(self.store.people().await?)
    }

    /// Devices of a person, oldest first, including revoked ones.
    pub async fn devices(&self, person: &PersonName) -> Result<Vec<Device>, ConsentError> {
        if self.store.person(person).await?.is_none() {
            let message =
                format!("there is no account named {person} on this server; `nuncio user list` shows all accounts");
            return Err(ConsentError::new(ErrorCode::PersonNotFound, message));
        }
        Ok(self.store.devices(person).await?)
    }

    /// Revokes a device: it can no longer act for its person, and its key bundle is removed. The person's devices and
    /// conversation partners are notified.
    pub async fn revoke_device(&self, person: &PersonName, id: &DeviceId, by: &Caller) -> Result<Device, ConsentError> {
        let missing = || not_found::device(person.as_str(), id.as_str());
        let device = self.store.device(id).await?.filter(|device| device.person == *person).ok_or_else(missing)?;
        let at = self.context.now();
        let record = AuditEventRecord {
            person: Some(person.clone()),
            device: Some(id.clone()),
            ..self.context.event_record(AuditEvent::DeviceRevoked, by)
        };
        let mut changes = vec![
            ConsentChange::RevokeDevice { id: id.clone(), at }.into(),
            devices_changed(person, at).into(),
            AuditChange::AppendEvent(record).into(),
        ];
        let owner = RelayParty::Person(person.clone());
        changes.extend(self.relay.key_change_mail(&owner).await?);
        changes.push(RelayChange::RemoveBundle(KeyBundleId { owner, device: id.clone() }).into());
        if !self.mailbox.commit_and_notify(changes).await.made_unless(Conflict::Missing)? {
            return Err(missing().into());
        }
        Ok(Device { revoked_at: Some(at), ..device })
    }

    /// The device, if it may act for its person now.
    pub async fn valid_device(&self, id: &DeviceId) -> Result<Option<Device>, EngineError> {
        Ok(self.store.device(id).await?.filter(|device| device.is_valid_at(self.context.now())))
    }

    /// Verifies a device's signed login assertion: it must be for this server, recent, and not used before.
    pub async fn assert_device(
        &self,
        assertion: &DeviceAssertion,
        signature: &Signature,
        audience: &str,
    ) -> Result<Device, ConsentError> {
        let (rules, now) = (&self.context.limits.consent, self.context.now());
        let no = |why: &str| Err(ConsentError::new(ErrorCode::DeviceRefused, format!("the device is refused: {why}")));
        let device = self.valid_device(&assertion.device_id).await?.ok_or_else(|| refused(&assertion.device_id))?;
        if assertion.audience != audience {
            return no("its signature is for another server");
        }
        if assertion.at.until(now).max(now.until(assertion.at)) > rules.assertion_window {
            return no("the signed time differs too much from this server's time; set the clock and sign again");
        }
        if !NONCE_LENGTHS.contains(&assertion.nonce.len()) {
            return no("the nonce must have 16 to 128 bytes");
        }
        if !Ed25519Verifier.holds(&device.key, &assertion.message(), signature) {
            return no("the signature is not valid under its key");
        }
        let validity = assertion.at..assertion.at.after(rules.assertion_window);
        match use_nonce(&self.context, device.id.as_str(), &assertion.nonce, validity).await? {
            true => Ok(device),
            false => no("the same request was sent before; use a new nonce"),
        }
    }
}

fn devices_changed(person: &PersonName, at: Timestamp) -> ConsentChange {
    let notification = Notification::DevicesChanged { person: person.clone() };
    ConsentChange::PutMail { recipient: RelayParty::Person(person.clone()), at, notification }
}

fn invalid(why: &str) -> ConsentError {
    ConsentError::new(ErrorCode::InviteInvalid, format!("the invite cannot be used: {why}; ask for a new one"))
}

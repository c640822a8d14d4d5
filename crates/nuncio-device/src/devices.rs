//! The person's devices as seen from this one: list, invite, trust and remove.

use std::sync::Arc;

use nuncio_a2h::client::{RelayClient as _, RelayClientError};
use nuncio_a2h::wire::auth::{DeviceInviteRequest, DeviceInviteView, DeviceView};
use nuncio_a2h::wire::keys::EndorsementRequest;
use nuncio_core::ErrorCode;
use nuncio_core::bundle::{BundleKeys, KeyBundle};
use nuncio_core::digest::Digest;
use nuncio_core::ids::DeviceId;
use nuncio_core::invite_link::InviteLink;
use nuncio_core::notification::RelayParty;
use nuncio_core::time::Timestamp;
use serde::Serialize;
use url::Url;

use crate::context::DeviceContext;
use crate::error::DeviceError;
use crate::former_devices::{self, FormerDevice};
use crate::introduction::{DeviceIntroductionSecret, INTRODUCED, INVITING, PendingDeviceInvite};
use crate::known_agents;
use crate::record_store::RecordStore;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OwnDevice {
    pub id: DeviceId,
    /// Device name chosen by the person, sanitised.
    pub name: String,
    pub enrolled_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
    pub this: bool,
    pub standing: OwnDeviceTrust,
    /// Fingerprint of the device's key, which the person compares on both screens: see [`Digest::grouped`].
    pub fingerprint: Digest,
    /// Six digits to compare instead of the fingerprint; set while an invited device waits for confirmation.
    pub number: Option<String>,
}

/// Trust of this device in a device of the same person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnDeviceTrust {
    This,
    /// The device is trusted: its signatures count on this device.
    Trusted,
    /// The device has keys that no trusted device endorses; the person must confirm that it is theirs.
    Waiting,
    /// The device has published no usable keys yet.
    NoKeys,
    Removed,
}

/// Invite for another device of the person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceInvite {
    pub url: Url,
    /// Invite code followed by the introduction. Anyone who has the code can enrol a device for the person, though not
    /// a trusted one.
    pub code: String,
    /// Fingerprint of the relay's key.
    pub fingerprint: Digest,
    pub expires_at: Timestamp,
    /// Link with all of the above for `nuncio device join`.
    pub link: String,
}

/// The person's devices, including this one.
pub struct OwnDeviceService {
    pub(crate) context: Arc<DeviceContext>,
}

impl OwnDeviceService {
    /// The person's devices, oldest first, including removed ones.
    pub async fn list(&self) -> Result<Vec<OwnDevice>, DeviceError> {
        let pinned = self.trusted().await?;
        let waiting = self.context.peer.keys().waiting(&self.context.me()).await?;
        let former = former_devices::all(&self.context.records)?;
        let introduced: Option<DeviceIntroductionSecret> = self.context.records.get(INTRODUCED)?;
        let inviting: Option<PendingDeviceInvite> = self.context.records.get(INVITING)?;
        let inviting = inviting.filter(|inviting| inviting.expires_at > self.context.now());
        let views: Vec<DeviceView> = self.context.relay.get("/users/me/devices").await?;
        let describe = |view: DeviceView| {
            let this = view.id == self.context.identity.device;
            let trusted = pinned.iter().map(|own| &own.keys).find(|keys| keys.device_id == view.id);
            let waiting_keys = waiting.iter().map(|one| &one.bundle.keys).find(|keys| keys.device_id == view.id);
            let gone = former.iter().any(|former| former.id == view.id && former.until.is_some());
            let standing = match (waiting_keys, trusted) {
                _ if this => OwnDeviceTrust::This,
                _ if gone || view.revoked_at.is_some() => OwnDeviceTrust::Removed,
                (Some(_), _) => OwnDeviceTrust::Waiting,
                (None, Some(_)) => OwnDeviceTrust::Trusted,
                (None, None) => OwnDeviceTrust::NoKeys,
            };
            let introduction = match standing {
                OwnDeviceTrust::This => introduced.as_ref(),
                OwnDeviceTrust::Waiting => inviting.as_ref().map(|inviting| &inviting.introduction),
                _ => None,
            };
            let keys: Option<&BundleKeys> = waiting_keys.or(trusted);
            OwnDevice {
                name: nuncio_core::text::plain(&view.name),
                enrolled_at: view.enrolled_at,
                revoked_at: view.revoked_at,
                this,
                standing,
                fingerprint: keys.map_or(view.public_key, |keys| keys.signing_key).fingerprint(),
                number: introduction.zip(keys).map(|(introduction, keys)| introduction.number(keys)),
                id: view.id,
            }
        };
        Ok(views.into_iter().map(describe).collect())
    }

    /// Creates an invite for another device of the person. The invited device trusts this one at once; this device
    /// trusts it after confirmation. Replaces the introduction of an earlier invite.
    pub async fn invite(&self) -> Result<DeviceInvite, DeviceError> {
        let own = self.own_keys().await?;
        let view: DeviceInviteView =
            self.context.relay.send("POST", "/users/me/devices", &DeviceInviteRequest {}).await?;
        let introduction = DeviceIntroductionSecret::new(&own.keys.signing_key, self.context.entropy());
        let code = introduction.behind(&view.code);
        self.context.records.set(INVITING, &PendingDeviceInvite { introduction, expires_at: view.expires_at })?;
        let identity = &self.context.identity;
        // The fingerprint is that of the key pinned at enrolment, not of the key that the relay shows now.
        let fingerprint = identity.server_key.fingerprint();
        let link = InviteLink { server: identity.url.clone(), code, fingerprint };
        let text = link.to_string();
        Ok(DeviceInvite { url: link.server, code: link.code, fingerprint, expires_at: view.expires_at, link: text })
    }

    /// Confirms another device of the person: this device trusts and endorses it. `seen` is the key fingerprint that
    /// the person compared; `None` accepts the key that the relay has.
    ///
    /// # Errors
    /// The device has another key, no such device has keys, or the relay cannot be reached.
    pub async fn trust(&self, device: &DeviceId, seen: Option<&Digest>) -> Result<(), DeviceError> {
        let me = self.context.me();
        let waiting = self.context.peer.keys().waiting(&me).await?;
        if let Some(waiting) = waiting.iter().find(|waiting| waiting.bundle.keys.device_id == *device) {
            let shown = waiting.bundle.keys.signing_key.fingerprint();
            self.context.peer.keys().accept_key(&me, device, seen.unwrap_or(&shown)).await?;
        }
        let pinned = self.context.peer.keys().pinned(&me).await?;
        let unknown = || DeviceError::new(ErrorCode::KeysNotFound, format!("you have no device {device} with keys"));
        let other = pinned.iter().find(|own| own.keys.device_id == *device).ok_or_else(unknown)?;
        if seen.is_some_and(|seen| other.keys.signing_key.fingerprint() != *seen) {
            let message =
                format!("{device} has another key than the one you compared: the connection may be intercepted");
            return Err(DeviceError::new(ErrorCode::DeviceUntrusted, message));
        }
        let body = EndorsementRequest { signature: (self.context.sign)(&other.keys.endorsed()) };
        let path = format!("/users/me/devices/{device}/endorsement");
        self.context.relay.send::<KeyBundle>("POST", &path, &body).await?;
        Ok(self.context.records.save(vec![RecordStore::delete(INVITING)])?)
    }

    /// Removes a lost device. This device stops trusting it at once, even if the relay cannot be reached; signatures
    /// from before still count. The relay ends the lost device's sessions and notifies its peers.
    ///
    /// # Errors
    /// The device to remove is this one or does not exist, or the relay cannot be reached.
    pub async fn remove(&self, device: &DeviceId) -> Result<(), DeviceError> {
        if *device == self.context.identity.device {
            let message = "this is the device itself: remove it from another device of yours, or ask the operator of \
                           the server to run `nuncio user revoke`, and then delete its folder";
            return Err(DeviceError::new(ErrorCode::BadRequest, message));
        }
        let me = self.context.me();
        let pinned = self.context.peer.keys().pinned(&me).await?;
        if let Some(own) = pinned.iter().find(|own| own.keys.device_id == *device) {
            self.limit_in_ledgers(&FormerDevice {
                id: device.clone(),
                key: own.keys.signing_key,
                until: Some(self.context.now()),
            })?;
            self.context.peer.keys().remove_keys(&me, device).await?;
        }
        match self.context.relay.ask("DELETE", &format!("/users/me/devices/{device}"), None).await {
            // The relay no longer has the device, and this device has recorded the removal.
            Err(RelayClientError::Refused { code: ErrorCode::DeviceNotFound, .. })
                if former_devices::all(&self.context.records)?.iter().any(|former| former.id == *device) =>
            {
                Ok(())
            }
            other => other.map(drop).map_err(Into::into),
        }
    }

    /// Limits the validity of a removed device's signatures, in every stored ledger, to the time before its removal.
    fn limit_in_ledgers(&self, former: &FormerDevice) -> Result<(), DeviceError> {
        let _lock = self.context.state_lock();
        let mut changes = vec![former_devices::put(former)];
        for mut known in known_agents::all(&self.context.records)? {
            known.devices.iter_mut().for_each(|device| former.limit(device));
            changes.push(known_agents::put(&known));
        }
        Ok(self.context.records.save(changes)?)
    }

    /// Keys of the person's trusted devices: this one, and devices that the person confirmed or a trusted one endorsed.
    /// Fetches the published keys from the relay first.
    pub(crate) async fn trusted(&self) -> Result<Vec<KeyBundle>, DeviceError> {
        let me = self.context.me();
        // Called only because it fetches the keys from the relay and pins those with an endorsement.
        self.context.peer.keys().safety_number(&me).await?;
        self.trust_inviter(&me).await?;
        Ok(self.context.peer.keys().pinned(&me).await?)
    }

    /// Trusts the device that invited this one, as soon as it has published keys that match the invite.
    pub(crate) async fn trust_inviter(&self, me: &RelayParty) -> Result<(), DeviceError> {
        let Some(introduction) = self.context.records.get::<DeviceIntroductionSecret>(INTRODUCED)? else {
            return Ok(());
        };
        let pinned = self.context.peer.keys().pinned(me).await?;
        let inviter = |bundle: &&KeyBundle| introduction.is_by(&bundle.keys.signing_key);
        if let Some(inviter) = pinned.iter().find(inviter) {
            let by = &inviter.keys.device_id;
            let shown = self.context.relay.keys_of(me).await?;
            let own = shown.iter().find(|own| own.keys.device_id == self.context.identity.device);
            let vouched = own.and_then(|own| own.endorsement.as_ref()).is_some_and(|endorsement| endorsement.by == *by);
            // Both devices trust each other now, so the introduction is no longer needed.
            return if vouched {
                Ok(self.context.records.save(vec![RecordStore::delete(INTRODUCED)])?)
            } else {
                Ok(())
            };
        }
        for waiting in self.context.peer.keys().waiting(me).await? {
            let key = &waiting.bundle.keys.signing_key;
            if introduction.is_by(key) {
                self.context.peer.keys().accept_key(me, &waiting.bundle.keys.device_id, &key.fingerprint()).await?;
            }
        }
        Ok(())
    }

    async fn own_keys(&self) -> Result<KeyBundle, DeviceError> {
        let own = self.context.peer.keys().pinned(&self.context.me()).await?;
        let own = own.into_iter().find(|own| own.keys.device_id == self.context.identity.device);
        own.ok_or_else(|| DeviceError::new(ErrorCode::Internal, "this device does not know its own keys"))
    }
}

//! The person's devices, seen from this one: which there are, a further one, and one that is lost.

use nuncio_a2h::client::RelayError;
use nuncio_a2h::wire::auth::{DeviceView, InviteView};
use nuncio_core::Code;
use nuncio_core::bundle::{BundleKeys, KeyBundle};
use nuncio_core::digest::Digest;
use nuncio_core::happening::Recipient;
use nuncio_core::ids::DeviceId;
use nuncio_core::time::Timestamp;
use serde::Serialize;
use serde_json::json;
use url::Url;

use crate::consent::read;
use crate::device::Device;
use crate::error::DeviceError;
use crate::former::{self, Former};
use crate::introduction::{INTRODUCED, INVITING, Introduction, Inviting};
use crate::records::Records;
use crate::standing;

/// A device of the person's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OwnDevice {
    /// Which.
    pub id: DeviceId,
    /// What the person calls it, without tricks.
    pub name: String,
    /// Since when.
    pub enrolled_at: Timestamp,
    /// Until when, if it was taken away.
    pub revoked_at: Option<Timestamp>,
    /// Whether it is the one that is asked.
    pub this: bool,
    /// How it stands here.
    pub standing: OwnStanding,
    /// The fingerprint of its key, to be compared on its own screen: see [`Digest::grouped`].
    pub fingerprint: Digest,
    /// Six digits to compare instead, where one of the two invited the other and nobody vouched yet.
    pub number: Option<String>,
}

/// How a device of the person's stands with this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnStanding {
    /// It is this one.
    This,
    /// What it signs counts here.
    Trusted,
    /// It has keys that nobody vouched for here: the person says whether it is theirs.
    Waiting,
    /// It brought no keys yet that could be used.
    NoKeys,
    /// It was taken away.
    Removed,
}

/// An invite for a further device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Invite {
    /// Where it enrols.
    pub url: Url,
    /// The code, with what the two devices know of each other behind it. Whoever sees it can become a device of the
    /// person's, though not a trusted one.
    pub code: String,
    /// The fingerprint of the server's key.
    pub fingerprint: Digest,
    /// Until when it is good.
    pub expires_at: Timestamp,
}

impl Device {
    /// The person's devices, oldest first, those taken away too.
    ///
    /// # Errors
    /// The relay cannot be reached.
    pub async fn devices(&self) -> Result<Vec<OwnDevice>, DeviceError> {
        let pinned = self.own_devices().await?;
        let waiting = self.peer().waiting(&self.me()).await?;
        let former = former::all(self.records())?;
        let introduced: Option<Introduction> = self.records().get(INTRODUCED)?;
        let inviting: Option<Inviting> = self.records().get(INVITING)?;
        let inviting = inviting.filter(|inviting| inviting.expires_at > self.now());
        let views: Vec<DeviceView> = read(self.relay().ask("GET", "/users/me/devices", None).await?)?;
        let describe = |view: DeviceView| {
            let this = view.id == self.identity().device;
            let trusted = pinned.iter().map(|own| &own.keys).find(|keys| keys.device_id == view.id);
            let waits = waiting.iter().map(|one| &one.bundle.keys).find(|keys| keys.device_id == view.id);
            let gone = former.iter().any(|former| former.id == view.id && former.until.is_some());
            let standing = match (waits, trusted) {
                _ if this => OwnStanding::This,
                _ if gone || view.revoked_at.is_some() => OwnStanding::Removed,
                (Some(_), _) => OwnStanding::Waiting,
                (None, Some(_)) => OwnStanding::Trusted,
                (None, None) => OwnStanding::NoKeys,
            };
            let introduction = match standing {
                OwnStanding::This => introduced.as_ref(),
                OwnStanding::Waiting => inviting.as_ref().map(|inviting| &inviting.introduction),
                _ => None,
            };
            let keys: Option<&BundleKeys> = waits.or(trusted);
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

    /// Invites a further device of the person's: it trusts this one from the beginning, and waits here for the
    /// person's word. An invite before it introduces nobody any more.
    ///
    /// # Errors
    /// The relay cannot be reached, or too many invites are open.
    pub async fn invite(&self) -> Result<Invite, DeviceError> {
        let own = self.own_keys().await?;
        let view: InviteView = read(self.relay().ask("POST", "/users/me/devices", Some(json!({}))).await?)?;
        let introduction = Introduction::new(&own.keys.signing_key, self.entropy());
        let code = introduction.behind(&view.code);
        self.records().set(INVITING, &Inviting { introduction, expires_at: view.expires_at })?;
        let identity = self.identity();
        // The key that was pinned, not what somebody on the way says now.
        let fingerprint = identity.server_key.fingerprint();
        Ok(Invite { url: identity.url.clone(), code, fingerprint, expires_at: view.expires_at })
    }

    /// The person says that another device is theirs too: this one trusts what it signed, and vouches for it.
    ///
    /// # Errors
    /// There is no such device that waits for it, or the server cannot be reached.
    pub async fn trust(&self, device: &DeviceId) -> Result<(), DeviceError> {
        self.vouch_for(device, None).await
    }

    /// The same, having compared the fingerprint of its key: another key than that is not trusted.
    ///
    /// # Errors
    /// It shows another key, no such device waits for it, or the server cannot be reached.
    pub async fn trust_key(&self, device: &DeviceId, seen: &Digest) -> Result<(), DeviceError> {
        self.vouch_for(device, Some(seen)).await
    }

    async fn vouch_for(&self, device: &DeviceId, seen: Option<&Digest>) -> Result<(), DeviceError> {
        let me = self.me();
        let waiting = self.peer().waiting(&me).await?;
        if let Some(waiting) = waiting.iter().find(|waiting| waiting.bundle.keys.device_id == *device) {
            let shown = waiting.bundle.keys.signing_key.fingerprint();
            self.peer().accept_key(&me, device, seen.unwrap_or(&shown)).await?;
        }
        let pinned = self.peer().pinned(&me).await?;
        let unknown = || DeviceError::new(Code::KeysNotFound, format!("you have no device {device} with keys"));
        let other = pinned.iter().find(|own| own.keys.device_id == *device).ok_or_else(unknown)?;
        if seen.is_some_and(|seen| other.keys.signing_key.fingerprint() != *seen) {
            let message = format!("{device} has another key than the one you compared: somebody may be between");
            return Err(DeviceError::new(Code::DeviceUntrusted, message));
        }
        let body = json!({"signature": (self.signer())(&other.keys.endorsed())});
        self.relay().ask("POST", &format!("/users/me/devices/{device}/endorsement"), Some(body)).await?;
        Ok(self.records().save(vec![Records::gone(INVITING)])?)
    }

    /// Takes a device away that is lost. At once, whatever the relay does, this one takes its word no more; what it
    /// signed in its time still counts. At the relay its sessions end, and those it talks with are told.
    ///
    /// # Errors
    /// It is this very device, there is no such one, or the relay cannot be reached.
    pub async fn remove(&self, device: &DeviceId) -> Result<(), DeviceError> {
        if *device == self.identity().device {
            let message = "this is the device itself: remove it from another device of yours, or ask who runs the \
                           server for `nuncio user revoke`, and then delete its folder";
            return Err(DeviceError::new(Code::BadRequest, message));
        }
        let me = self.me();
        let pinned = self.peer().pinned(&me).await?;
        if let Some(own) = pinned.iter().find(|own| own.keys.device_id == *device) {
            self.take_away(&Former { id: device.clone(), key: own.keys.signing_key, until: Some(self.now()) })?;
            self.peer().remove_keys(&me, device).await?;
        }
        match self.relay().ask("DELETE", &format!("/users/me/devices/{device}"), None).await {
            // It was taken away elsewhere, and was known here.
            Err(RelayError::Refused { code: Code::DeviceNotFound, .. })
                if former::all(self.records())?.iter().any(|former| former.id == *device) =>
            {
                Ok(())
            }
            other => other.map(drop).map_err(Into::into),
        }
    }

    /// From now on it is a device of the past, in every ledger that is known.
    fn take_away(&self, former: &Former) -> Result<(), DeviceError> {
        let _turn = self.turn();
        let mut changes = vec![former::put(former)];
        for mut known in standing::all(self.records())? {
            known.devices.iter_mut().for_each(|device| former.limit(device));
            changes.push(standing::put(&known));
        }
        Ok(self.records().save(changes)?)
    }

    /// The keys of the person's devices that this one trusts: its own, and those it or its person vouched for.
    pub(crate) async fn own_devices(&self) -> Result<Vec<KeyBundle>, DeviceError> {
        let me = self.me();
        // Asks the relay for what it shows; what is not vouched for is not pinned.
        self.peer().safety_number(&me).await?;
        self.meet_inviter(&me).await?;
        Ok(self.peer().pinned(&me).await?)
    }

    /// Trusts the device that invited this one, as soon as it shows its keys: the invite named its key.
    pub(crate) async fn meet_inviter(&self, me: &Recipient) -> Result<(), DeviceError> {
        let Some(introduction) = self.records().get::<Introduction>(INTRODUCED)? else { return Ok(()) };
        let pinned = self.peer().pinned(me).await?;
        let inviter = |bundle: &&KeyBundle| introduction.is_by(&bundle.keys.signing_key);
        if let Some(inviter) = pinned.iter().find(inviter) {
            let by = &inviter.keys.device_id;
            let shown = self.relay_keys(me).await?;
            let own = shown.iter().find(|own| own.keys.device_id == self.identity().device);
            let vouched = own.and_then(|own| own.endorsement.as_ref()).is_some_and(|word| word.by == *by);
            // Both know each other now: there is nothing left to compare.
            return if vouched { Ok(self.records().save(vec![Records::gone(INTRODUCED)])?) } else { Ok(()) };
        }
        for waiting in self.peer().waiting(me).await? {
            let key = &waiting.bundle.keys.signing_key;
            if introduction.is_by(key) {
                self.peer().accept_key(me, &waiting.bundle.keys.device_id, &key.fingerprint()).await?;
            }
        }
        Ok(())
    }

    /// This device's own public keys.
    pub(crate) async fn own_keys(&self) -> Result<KeyBundle, DeviceError> {
        let own = self.peer().pinned(&self.me()).await?;
        let own = own.into_iter().find(|own| own.keys.device_id == self.identity().device);
        own.ok_or_else(|| DeviceError::new(Code::Internal, "this device does not know its own keys"))
    }

    /// Its person.
    pub(crate) fn me(&self) -> Recipient {
        Recipient::Person(self.identity().person.clone())
    }
}

//! A device's keys under a passphrase: kept at the relay and in a file, put back on an empty machine, or used once more
//! to vouch for the device that comes after it.

use std::sync::Arc;

use nuncio_a2h::client::Credentials as _;
use nuncio_a2h::wire::keys::BackupView;
use nuncio_a2h::wire::relation::{RelationView, Status};
use nuncio_core::Code;
use nuncio_core::bundle::{Backup, SealMode};
use nuncio_core::happening::Recipient;
use nuncio_core::ids::DeviceId;
use nuncio_core::signature::{CheckSignature as _, Signature, labelled};
use nuncio_identity::ledger::DeviceSignatures;
use nuncio_identity::seal::backup::{self, Argon2Params, BackupError, Restored};
use nuncio_identity::seal::{NewParty, Party};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::consent::read;
use crate::device::{Device, DeviceConfig, DeviceIdentity, SELF};
use crate::error::DeviceError;
use crate::former::{self, Former};
use crate::records::Records;

/// What a person keeps of a device, as JSON. It says nothing to whoever has not the passphrase but who the device is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupFile {
    /// Who it is, and where.
    pub device: DeviceIdentity,
    /// The person's other devices that it trusts, or did: what they signed counts.
    pub devices: Vec<Former>,
    /// Its keys.
    pub backup: Backup,
    /// By the device itself: nobody can make it log in elsewhere.
    pub signature: Signature,
}

impl BackupFile {
    fn message(device: &DeviceIdentity, devices: &[Former], backup: &Backup) -> Vec<u8> {
        labelled("nuncio/device-backup/v1", &(device, devices, backup))
    }

    /// The keys in it.
    async fn open(&self, passphrase: &str) -> Result<Restored, DeviceError> {
        let restored = open(&self.backup, passphrase).await?;
        let message = Self::message(&self.device, &self.devices, &self.backup);
        let own = *restored.device() == self.device.device
            && DeviceSignatures.holds(&restored.signing_key(), &message, &self.signature);
        if own { Ok(restored) } else { Err(BackupError::Damaged.into()) }
    }
}

impl Device {
    /// Backs up its keys under a passphrase: at the relay, in the place of what was there, and in what is returned.
    ///
    /// # Errors
    /// The passphrase is too short, or the relay cannot be reached.
    pub async fn back_up(&self, passphrase: &str) -> Result<BackupFile, DeviceError> {
        let (keep, passphrase) = (Arc::clone(self.keep()), passphrase.to_owned());
        let sealed = tokio::task::spawn_blocking(move || {
            let party = Party::load(keep)?.ok_or(BackupError::Unnamed)?;
            Ok::<_, DeviceError>(backup::seal(&party, &passphrase, Argon2Params::RECOMMENDED)?)
        });
        let backup = sealed.await.map_err(given_up)??;
        let mut devices = former::all(self.records())?;
        for own in self.own_devices().await? {
            if own.keys.device_id != self.identity().device {
                devices.push(Former { id: own.keys.device_id, key: own.keys.signing_key, until: None });
            }
        }
        self.relay().ask("PUT", "/keys/backup", Some(json!(backup))).await?;
        let signature = (self.signer())(&BackupFile::message(self.identity(), &devices, &backup));
        Ok(BackupFile { device: self.identity().clone(), devices, backup, signature })
    }

    /// Puts a device back on an empty machine: the same to everyone, with a new session to each. What it is allowed is
    /// looked up anew, so that calls are answered again.
    ///
    /// # Errors
    /// A device lives there already, the passphrase is another, or the relay does not let it in: then nothing has
    /// changed.
    pub async fn restore(config: DeviceConfig, file: &BackupFile, passphrase: &str) -> Result<Self, DeviceError> {
        let used = || DeviceError::new(Code::DataDirInUse, "a device lives here already; choose another folder");
        let records = Records::new(Arc::clone(&config.keep));
        if records.get::<DeviceIdentity>(SELF)?.is_some() {
            return Err(used());
        }
        let restored = Arc::new(file.open(passphrase).await?);
        // One that was taken away meanwhile does not come back, and leaves nothing here.
        let by = Arc::clone(&restored);
        file.device.login(&config, Arc::new(move |message| by.sign(message))).token().await?;
        let restored = Arc::into_inner(restored).ok_or_else(|| DeviceError::new(Code::Internal, "keys in use"))?;
        match Party::load(Arc::clone(&config.keep))? {
            // Cut short the last time.
            Some(party) if party.signing_key() == restored.signing_key() => {}
            Some(_) => return Err(used()),
            None => {
                let owner = Recipient::Person(file.device.person.clone());
                let named = Some((owner, file.device.device.clone()));
                let new = NewParty { named, mode: SealMode::Stateful, now: config.clock.now() };
                Party::restore(Arc::clone(&config.keep), restored, &new)?;
            }
        }
        let devices = file.devices.iter().map(former::put);
        records.save(devices.chain([Records::put(SELF, &file.device)]).collect())?;
        let device =
            Self::open(config)?.ok_or_else(|| DeviceError::new(Code::Internal, "the device was forgotten at once"))?;
        device.peer().publish_keys().await?;
        device.look_at_all().await?;
        Ok(device)
    }

    /// Takes up what another device of the person's left at the relay, when there is no other way back to it: its key
    /// vouches for this one, so that whoever trusted it trusts this one. It stays a device until it is removed.
    ///
    /// # Errors
    /// Nothing is backed up, the passphrase is another, or the relay cannot be reached; where the keys do not open,
    /// nothing has changed.
    pub async fn recover(&self, passphrase: &str) -> Result<DeviceId, DeviceError> {
        let kept = self.relay().ask("GET", "/keys/backup", None).await?;
        let BackupView { backup, .. } = read(kept)?;
        let restored = open(&backup, passphrase).await?;
        let before = restored.device().clone();
        if before == self.identity().device {
            let message = "this is the device that was backed up: there is nothing to recover";
            return Err(DeviceError::new(Code::BadRequest, message));
        }
        self.peer().vouch_by_backup(restored).await?;
        self.look_at_all().await?;
        Ok(before)
    }

    /// Looks at everyone the person deals with, as the relay lists them.
    async fn look_at_all(&self) -> Result<(), DeviceError> {
        let mut cursor = String::new();
        loop {
            let mut page = self.relay().ask_page(&format!("/h2a/relations?limit=50{cursor}")).await?;
            let relations: Vec<RelationView> = read(page["data"].take())?;
            for relation in relations.iter().filter(|relation| relation.status != Status::Revoked) {
                // One that cannot be read does not keep the others away.
                if let Err(error) = self.refresh(&relation.agent_id).await {
                    tracing::warn!(agent = %relation.agent_id, %error, "an agent could not be looked up");
                }
            }
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(()),
            }
        }
    }
}

async fn open(backup: &Backup, passphrase: &str) -> Result<Restored, DeviceError> {
    let (backup, passphrase) = (backup.clone(), passphrase.to_owned());
    let opened = tokio::task::spawn_blocking(move || backup::open(&backup, &passphrase));
    Ok(opened.await.map_err(given_up)??)
}

fn given_up(_: tokio::task::JoinError) -> DeviceError {
    DeviceError::new(Code::Internal, "the work on the passphrase was given up")
}

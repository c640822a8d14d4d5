//! Backup of a device's keys, encrypted under a passphrase: stored at the relay and in a file, restored on an empty
//! machine, or used to endorse a new device in place of a lost one.

use std::sync::Arc;

use nuncio_a2h::client::RelayCredentials as _;
use nuncio_a2h::wire::keys::KeyBackupView;
use nuncio_core::ErrorCode;
use nuncio_core::bundle::{KeyBackup, SealMode};
use nuncio_core::ids::DeviceId;
use nuncio_core::notification::RelayParty;
use nuncio_core::signature::{Signature, SignatureChecker as _, labelled};
use nuncio_identity::ledger::DeviceSignatureVerifier;
use nuncio_identity::seal::backup::{self, Argon2Params, KeyBackupError, RestoredKeys};
use nuncio_identity::seal::{NewSealIdentity, SealIdentity};
use serde::{Deserialize, Serialize};

use crate::consent::AgentConsentService;
use crate::context::DeviceContext;
use crate::device::{Device, DeviceDependencies, DeviceIdentity, SELF, folder_in_use};
use crate::devices::OwnDeviceService;
use crate::error::DeviceError;
use crate::former_devices::{self, FormerDevice};
use crate::record_store::RecordStore;

/// Backup of a device as a JSON file. Without the passphrase it reveals only the identities of the person's devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceBackupFile {
    pub device: DeviceIdentity,
    /// The person's other devices that this device trusts or trusted; their signatures in consent ledgers count.
    pub devices: Vec<FormerDevice>,
    pub backup: KeyBackup,
    /// Signature of the device over the other fields, so that a changed file cannot make it log in at another relay.
    pub signature: Signature,
}

impl DeviceBackupFile {
    fn message(device: &DeviceIdentity, devices: &[FormerDevice], backup: &KeyBackup) -> Vec<u8> {
        labelled("nuncio/device-backup/v1", &(device, devices, backup))
    }

    async fn open(&self, passphrase: &str) -> Result<RestoredKeys, DeviceError> {
        let restored = open(&self.backup, passphrase).await?;
        let message = Self::message(&self.device, &self.devices, &self.backup);
        let own = *restored.device() == self.device.device
            && DeviceSignatureVerifier.holds(&restored.signing_key(), &message, &self.signature);
        if own { Ok(restored) } else { Err(KeyBackupError::Damaged.into()) }
    }
}

impl Device {
    /// Restores a device on an empty machine, with the same identity but new sealing sessions; reloads all relations.
    ///
    /// # Errors
    /// The data directory already holds a device, the passphrase is wrong, or the relay refuses the login. Nothing has
    /// been written then.
    pub async fn restore(
        config: DeviceDependencies,
        file: &DeviceBackupFile,
        passphrase: &str,
    ) -> Result<Self, DeviceError> {
        let records = RecordStore::new(Arc::clone(&config.key_store));
        if records.get::<DeviceIdentity>(SELF)?.is_some() {
            return Err(folder_in_use());
        }
        let restored = Arc::new(file.open(passphrase).await?);
        // The relay refuses the login of a revoked device here, before anything is written.
        let by = Arc::clone(&restored);
        file.device.login(&config, Arc::new(move |message| by.sign(message))).token().await?;
        let restored = Arc::into_inner(restored).ok_or_else(|| DeviceError::new(ErrorCode::Internal, "keys in use"))?;
        match SealIdentity::load(Arc::clone(&config.key_store))? {
            // An earlier restore was interrupted after writing the keys.
            Some(seal_identity) if seal_identity.signing_key() == restored.signing_key() => {}
            Some(_) => return Err(folder_in_use()),
            None => {
                let owner = RelayParty::Person(file.device.person.clone());
                let named = Some((owner, file.device.device.clone()));
                let new = NewSealIdentity { named, mode: SealMode::Stateful, now: config.clock.now() };
                SealIdentity::restore(Arc::clone(&config.key_store), restored, &new)?;
            }
        }
        let devices = file.devices.iter().map(former_devices::put);
        records.save(devices.chain([RecordStore::put(SELF, &file.device)]).collect())?;
        let device = Self::open_new(config)?;
        device.peer().keys().publish_keys().await?;
        device.consents().refresh_all().await?;
        Ok(device)
    }
}

/// Creates and uses backups of device keys at the relay.
pub struct DeviceBackupService {
    pub(crate) context: Arc<DeviceContext>,
    pub(crate) own_devices: Arc<OwnDeviceService>,
    pub(crate) consents: Arc<AgentConsentService>,
}

impl DeviceBackupService {
    /// Encrypts the keys under `passphrase`, replaces the backup at the relay and returns the backup as a file.
    pub async fn create(&self, passphrase: &str) -> Result<DeviceBackupFile, DeviceError> {
        let (key_store, passphrase) = (Arc::clone(&self.context.config.key_store), passphrase.to_owned());
        let sealed = tokio::task::spawn_blocking(move || {
            let seal_identity = SealIdentity::load(key_store)?.ok_or(KeyBackupError::Unnamed)?;
            Ok::<_, DeviceError>(backup::seal(&seal_identity, &passphrase, Argon2Params::RECOMMENDED)?)
        });
        let backup = sealed.await.map_err(given_up)??;
        let mut devices = former_devices::all(&self.context.records)?;
        for own in self.own_devices.trusted().await? {
            if own.keys.device_id != self.context.identity.device {
                devices.push(FormerDevice { id: own.keys.device_id, key: own.keys.signing_key, until: None });
            }
        }
        self.context.relay.send::<KeyBackupView>("PUT", "/keys/backup", &backup).await?;
        let signature = (self.context.sign)(&DeviceBackupFile::message(&self.context.identity, &devices, &backup));
        Ok(DeviceBackupFile { device: self.context.identity.clone(), devices, backup, signature })
    }

    /// Replaces a lost device: opens the backup of its keys at the relay and endorses this device with them, so that
    /// peers that trusted the lost device trust this one. The lost device stays listed until it is removed.
    ///
    /// # Errors
    /// There is no backup, the passphrase is wrong, or the relay cannot be reached. If the backup does not open,
    /// nothing has changed.
    pub async fn recover(&self, passphrase: &str) -> Result<DeviceId, DeviceError> {
        let KeyBackupView { backup, .. } = self.context.relay.get("/keys/backup").await?;
        let restored = open(&backup, passphrase).await?;
        let before = restored.device().clone();
        if before == self.context.identity.device {
            let message = "this is the device that was backed up: there is nothing to recover";
            return Err(DeviceError::new(ErrorCode::BadRequest, message));
        }
        self.context.peer.keys().vouch_by_backup(restored).await?;
        self.consents.refresh_all().await?;
        Ok(before)
    }
}

async fn open(backup: &KeyBackup, passphrase: &str) -> Result<RestoredKeys, DeviceError> {
    let (backup, passphrase) = (backup.clone(), passphrase.to_owned());
    let opened = tokio::task::spawn_blocking(move || backup::open(&backup, &passphrase));
    Ok(opened.await.map_err(given_up)??)
}

fn given_up(_: tokio::task::JoinError) -> DeviceError {
    DeviceError::new(ErrorCode::Internal, "key derivation from the passphrase was aborted")
}

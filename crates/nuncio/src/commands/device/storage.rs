//! The key that encrypts a device's stored data: its source, and how the source is changed.
//!
//! `storage-key.json` in the device's folder holds the key, wrapped under another key from elsewhere: from the system
//! keyring, derived from a passphrase, or in a separate file.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anstream::{eprintln, println};
use nuncio_core::ErrorCode;
use nuncio_device::tools::DesktopEnvironment;
use nuncio_device::{Keyring, KeyringError};
use nuncio_engine::ports::entropy::random_name;
use nuncio_identity::seal::{StorageKey, WrappedStorageKey, WrappingKey, WrappingKeySource};
use nuncio_server::SystemEntropy;
use nuncio_store::SqliteKeyStore;
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::commands::Passphrase;
use super::home::{config_error, prepare_folder, text_of};
use super::passphrase::{self, PassphraseUse};
use super::texts::{DeviceTexts, fill};
use super::write_private_file;
use crate::cli::{DeviceHomeOptions, PassphraseSource, StorageKeySource};
use crate::output::{WrongUsageError, fault, show};

/// Name of the file with the wrapped storage key, in the device's folder.
const WRAPPED: &str = "storage-key.json";

/// Name of the file with the encrypted records, in the device's folder.
pub(super) const RECORDS: &str = "keys.db";

/// Opens the records of a device folder. Records that are not encrypted yet are encrypted now.
pub(super) async fn open_records(home: &DeviceHomeOptions, folder: &Path) -> anyhow::Result<SqliteKeyStore> {
    let (records, key, _) = open_with_key(home, folder).await?;
    records.seal_with(key).map_err(|why| fault(ErrorCode::DataDirUnusable, why.0))
}

/// Opens the records, locked for this process, and their storage key.
async fn open_with_key(
    home: &DeviceHomeOptions,
    folder: &Path,
) -> anyhow::Result<(SqliteKeyStore, StorageKey, WrappedStorageKey)> {
    let file = folder.join(RECORDS);
    let records = SqliteKeyStore::open(&file).map_err(|why| match why.0.contains("locked") {
        true => {
            let message = "another process uses this device: stop `nuncio device run` first";
            fault(ErrorCode::DataDirInUse, format!("{}: {message}", folder.display()))
        }
        false => fault(ErrorCode::DataDirUnusable, why.0),
    })?;
    let (key, wrapped) = match read_wrapped(folder)? {
        Some(wrapped) => (unwrap(home, folder, &wrapped).await?, wrapped),
        None if records.is_sealed() => {
            let message = "is missing, and without it the stored data cannot be opened; put it back, or restore the \
                           device from its backup in another folder";
            return Err(locked(&folder.join(WRAPPED), message));
        }
        None => {
            let key = StorageKey::random();
            let (by, source) = default_source(folder).await?;
            let wrapped = store_wrapped(folder, &key, &by, source)?;
            (key, wrapped)
        }
    };
    Ok((records, key, wrapped))
}

fn read_wrapped(folder: &Path) -> anyhow::Result<Option<WrappedStorageKey>> {
    let file = folder.join(WRAPPED);
    let Some(text) = text_of(&file)? else { return Ok(None) };
    serde_json::from_str(&text).map(Some).map_err(|why| locked(&file, &format!("cannot be read: {why}")))
}

fn store_wrapped(
    folder: &Path,
    key: &StorageKey,
    by: &WrappingKey,
    source: WrappingKeySource,
) -> anyhow::Result<WrappedStorageKey> {
    let wrapped = WrappedStorageKey::new(key, by, source);
    let file = folder.join(WRAPPED);
    let write =
        || write_private_file(&file, &serde_json::to_string_pretty(&wrapped)?).and_then(|()| sync_folder(folder));
    write().map_err(|why| config_error(&file, &why))?;
    Ok(wrapped)
}

/// The default source of the storage key: the keyring if there is one, or else a file beside the folder.
async fn default_source(folder: &Path) -> anyhow::Result<(WrappingKey, WrappingKeySource)> {
    match store_in_keyring(folder).await {
        Ok(stored) => return Ok(stored),
        Err(KeyringError::Absent(_)) => {}
        Err(error) => {
            let note = fill(DeviceTexts::of_environment().keyring_unused, &[("why", &error)]);
            eprintln!("{}", note.yellow());
        }
    }
    let folder = std::path::absolute(folder)?;
    // The parent folder may belong to another account; the key file is then written into the device folder.
    let stored = store_in_file(&key_file_beside(&folder)).or_else(|_| store_in_file(&folder.join("storage.key")));
    stored.map_err(|why| config_error(&folder, &why))
}

async fn store_in_keyring(folder: &Path) -> Result<(WrappingKey, WrappingKeySource), KeyringError> {
    let (by, id) = (WrappingKey::random(), random_name(&SystemEntropy, ""));
    let label = format!("Nuncio device in {}", folder.display());
    Keyring::open(&DesktopEnvironment::here()).await?.store(&id, &label, by.to_text().as_bytes()).await?;
    Ok((by, WrappingKeySource::Keyring { id }))
}

/// Writes a new key to a new file. An existing file is never replaced, since it may be the key of other data.
fn store_in_file(path: &Path) -> std::io::Result<(WrappingKey, WrappingKeySource)> {
    let by = WrappingKey::random();
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(by.to_text().as_bytes())?;
    file.sync_all()?;
    sync_folder(path.parent().unwrap_or(Path::new("/")))?;
    Ok((by, WrappingKeySource::File { path: path.to_owned() }))
}

/// Path of a new key file: `~/.nuncio-device.key` for `~/.nuncio-device`, with a random part if that file exists.
fn key_file_beside(folder: &Path) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let beside = |name: String| folder.with_file_name(name);
    let plain = beside(format!("{name}.key"));
    match plain.exists() {
        true => beside(format!("{name}-{}.key", &random_name(&SystemEntropy, "")[..6])),
        false => plain,
    }
}

fn sync_folder(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Gets the wrapping key from its source, and unwraps the storage key.
async fn unwrap(home: &DeviceHomeOptions, folder: &Path, wrapped: &WrappedStorageKey) -> anyhow::Result<StorageKey> {
    let file = folder.join(WRAPPED);
    let (by, invalid, wrong_key) = match &wrapped.source {
        WrappingKeySource::Keyring { id } => {
            let failed = |error: KeyringError| locked(&file, &format!("the key is in the keyring: {error}"));
            let mut keyring = Keyring::open(&DesktopEnvironment::here()).await.map_err(failed)?;
            let found = keyring.load(id).await.map_err(failed)?;
            let text = found.and_then(|bytes| String::from_utf8(bytes).ok());
            let by = text.and_then(|text| WrappingKey::parse(text.trim()));
            let invalid = "the keyring has no valid key for it".to_owned();
            (by, invalid, "the key in the keyring does not open it")
        }
        WrappingKeySource::Passphrase { salt, argon2 } => {
            let passphrase = read_passphrase(home, &file).await?;
            let by = WrappingKey::from_passphrase(&passphrase.0, salt, *argon2);
            let by = by.map_err(|why| locked(&file, &why.to_string()))?;
            (Some(by), String::new(), "the passphrase does not open it")
        }
        WrappingKeySource::File { path } => {
            let path = home.storage_key.as_ref().unwrap_or(path);
            let missing =
                format!("the key file {} is missing; put it back, or name it with --storage-key", path.display());
            let text = text_of(path)?.ok_or_else(|| locked(&file, &missing))?;
            let invalid = format!("{} is not a key file", path.display());
            (WrappingKey::parse(text.trim()), invalid, "the key file does not open it")
        }
    };
    let by = by.ok_or_else(|| locked(&file, &invalid))?;
    wrapped.unwrap_with(&by).ok_or_else(|| locked(&file, wrong_key))
}

/// Reads the storage passphrase, never from a pipe: commands read other passphrases there.
async fn read_passphrase(home: &DeviceHomeOptions, file: &Path) -> anyhow::Result<Passphrase> {
    if home.storage_passphrase.is_none() && !std::io::stdin().is_terminal() {
        let message = "a passphrase opens the stored data: run this in a terminal, or name a file with \
                       --storage-passphrase-file";
        return Err(locked(file, message));
    }
    passphrase::read(home.storage_passphrase.as_deref(), PassphraseUse::Known).await
}

fn locked(file: &Path, why: &str) -> anyhow::Error {
    fault(ErrorCode::StorageLocked, format!("{}: {why}", file.display()))
}

/// Path of the storage key file of a device folder, if its key source is a file.
pub(super) fn key_file(folder: &Path) -> Option<PathBuf> {
    match read_wrapped(folder).ok()??.source {
        WrappingKeySource::File { path } => Some(path),
        WrappingKeySource::Keyring { .. } | WrappingKeySource::Passphrase { .. } => None,
    }
}

/// The source of the storage key of a device folder, as text and as JSON.
pub(super) fn describe(folder: &Path) -> (String, Value) {
    let texts = DeviceTexts::of_environment();
    match read_wrapped(folder).ok().flatten().map(|wrapped| wrapped.source) {
        None => (texts.no_source.to_owned(), Value::Null),
        Some(WrappingKeySource::Keyring { .. }) => (texts.keyring.to_owned(), json!({"source": "keyring"})),
        Some(WrappingKeySource::Passphrase { .. }) => {
            (texts.passphrase_source.to_owned(), json!({"source": "passphrase"}))
        }
        Some(WrappingKeySource::File { path }) => {
            let inside = std::path::absolute(folder).is_ok_and(|folder| path.starts_with(folder));
            let text = if inside { texts.key_file_inside } else { texts.key_file };
            (fill(text, &[("file", &path.display())]), json!({"source": "file", "path": path}))
        }
    }
}

/// Shows the source of the storage key, or changes it if a new source is given.
pub(super) async fn storage(
    home: &DeviceHomeOptions,
    wanted: Option<StorageKeySource>,
    key_file: Option<PathBuf>,
    new_passphrase: &PassphraseSource,
    json: bool,
) -> anyhow::Result<()> {
    if let Some(wanted) = wanted {
        change(home, wanted, key_file, new_passphrase).await?;
    }
    let (text, value) = describe(&super::folder_of(home)?);
    show(json, &json!({"sealed_by": value}), |_| {
        println!("{}", fill(DeviceTexts::of_environment().data_encrypted_with, &[("source", &text.bold())]));
    });
    Ok(())
}

/// Wraps the storage key under a key from another source, and removes the previous wrapping key.
async fn change(
    home: &DeviceHomeOptions,
    wanted: StorageKeySource,
    key_file: Option<PathBuf>,
    new_passphrase: &PassphraseSource,
) -> anyhow::Result<()> {
    let folder = prepare_folder(home)?;
    let (records, key, before) = open_with_key(home, &folder).await?;
    let (by, source) = match wanted {
        StorageKeySource::Keyring => {
            store_in_keyring(&folder).await.map_err(|why| fault(ErrorCode::StorageLocked, why.to_string()))?
        }
        StorageKeySource::Passphrase => {
            let passphrase = new_passphrase.read(PassphraseUse::New).await?;
            WrappingKey::from_new_passphrase(&passphrase.0).map_err(|why| WrongUsageError(why.to_string()))?
        }
        StorageKeySource::File => {
            let folder = std::path::absolute(&folder)?;
            let path = key_file.map_or_else(|| Ok(key_file_beside(&folder)), std::path::absolute)?;
            store_in_file(&path).map_err(|why| config_error(&path, &why))?
        }
    };
    store_wrapped(&folder, &key, &by, source)?;
    records.seal_with(key).map_err(|why| fault(ErrorCode::DataDirUnusable, why.0))?;
    let removed = match before.source {
        WrappingKeySource::Passphrase { .. } => Ok(()),
        WrappingKeySource::File { path } => match std::fs::remove_file(path) {
            // A key file that was moved, and named with --storage-key, stays where it is.
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(|why| why.to_string()),
        },
        WrappingKeySource::Keyring { id } => match Keyring::open(&DesktopEnvironment::here()).await {
            Ok(mut keyring) => keyring.delete(&id).await.map_err(|why| why.to_string()),
            Err(why) => Err(why.to_string()),
        },
    };
    if let Err(why) = removed {
        let note = fill(DeviceTexts::of_environment().previous_key_left, &[("why", &why)]);
        eprintln!("{}", note.yellow());
    }
    Ok(())
}

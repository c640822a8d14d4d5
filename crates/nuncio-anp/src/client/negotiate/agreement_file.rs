//! Agreements on disk, so that a later run of a command reuses them (ANP-06 §10.1). The file is a cache: damaged,
//! expired or oversized content is ignored and replaced, and costs one negotiation.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::cache::{AgreementCacheKey, CachedAgreement, MAX_VALIDITY};

/// Version of the file format; a file with another version is ignored.
const FORMAT: u64 = 1;
const MAX_FILE_BYTES: u64 = 1 << 20;
const MAX_STORED_AGREEMENTS: usize = 128;
/// Larger agreements are not stored.
const MAX_AGREEMENT_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct AgreementFile {
    path: PathBuf,
    /// Serialises the writers of this process.
    write_lock: Mutex<()>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StoredAgreement {
    pub(super) key: AgreementCacheKey,
    pub(super) until: Timestamp,
    pub(super) cached: CachedAgreement,
}

impl AgreementFile {
    /// Uses the file at `path`, which need not exist.
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path, write_lock: Mutex::default() }
    }

    /// The intact, unexpired agreements of the file. A file that other users can access counts as empty, because they
    /// could have changed it.
    pub(super) fn read(&self, now: Timestamp) -> Vec<StoredAgreement> {
        let stored = self.read_bytes().ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        let Some(mut stored) = stored.filter(|stored| stored["format"] == FORMAT) else { return Vec::new() };
        let Value::Array(agreements) = stored["agreements"].take() else { return Vec::new() };
        let agreements = agreements.into_iter().filter_map(|it| serde_json::from_value::<StoredAgreement>(it).ok());
        let mut agreements: Vec<_> = agreements
            .filter(|it| now < it.until && it.until <= now.after(MAX_VALIDITY))
            .filter(|it| it.cached.agreement.result.is_intact())
            .collect();
        // The newest agreements are at the end.
        agreements.drain(..agreements.len().saturating_sub(MAX_STORED_AGREEMENTS));
        agreements
    }

    /// Changes the stored agreements. A file that cannot be written only causes a log entry.
    pub(super) fn change(&self, now: Timestamp, change: impl FnOnce(&mut Vec<StoredAgreement>)) {
        let _turn = self.write_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let mut agreements = self.read(now);
        change(&mut agreements);
        if agreements.is_empty() && !self.path.exists() {
            return;
        }
        if let Err(error) = self.write(&agreements) {
            tracing::warn!(file = %self.path.display(), %error, "agreements cannot be stored");
        }
    }

    fn read_bytes(&self) -> io::Result<Vec<u8>> {
        let file = fs::File::open(&self.path)?;
        let found = file.metadata()?;
        if found.permissions().mode() & 0o077 != 0 || found.len() > MAX_FILE_BYTES {
            return Ok(Vec::new());
        }
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn write(&self, agreements: &[StoredAgreement]) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let limit = usize::try_from(MAX_FILE_BYTES).unwrap_or(usize::MAX) - MAX_AGREEMENT_BYTES;
        let (mut kept, mut size) = (Vec::new(), 0);
        for agreement in agreements.iter().rev().map(|it| json!(it)).take(MAX_STORED_AGREEMENTS) {
            let bytes = agreement.to_string().len();
            if bytes <= MAX_AGREEMENT_BYTES && size + bytes <= limit {
                size += bytes;
                kept.push(agreement);
            }
        }
        kept.reverse();
        // The file is replaced by a rename and created with mode 0600, so that no other user can ever read it.
        let temporary = self.path.with_extension(format!("{}.new", std::process::id()));
        let _ = fs::remove_file(&temporary);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(json!({"format": FORMAT, "agreements": kept}).to_string().as_bytes())?;
        fs::rename(&temporary, &self.path)
    }
}

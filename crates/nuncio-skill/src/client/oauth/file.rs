//! Token store in a file that only its owner can read.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::{OAuthTokenStore, OAuthTokens};

/// Size limit when reading the token file, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// Token store in a file of mode 0600.
#[derive(Debug)]
pub struct FileOAuthTokenStore {
    path: PathBuf,
    /// Serialises writers of the token file.
    write_lock: Mutex<()>,
}

impl FileOAuthTokenStore {
    /// Uses the file at `path`, which need not exist.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self { path, write_lock: Mutex::default() }
    }

    fn read(&self) -> Result<BTreeMap<String, OAuthTokens>, String> {
        let path_text = self.path.display();
        let io_error = |error: std::io::Error| format!("{path_text} cannot be read: {error}");
        let found = match fs::metadata(&self.path) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(io_error(error)),
        };
        if found.permissions().mode() & 0o077 != 0 {
            return Err(format!("{path_text} can be read by others; run `chmod 600` on it, or remove it"));
        }
        if found.len() > MAX_BYTES {
            return Err(format!("{path_text} is larger than {MAX_BYTES} bytes"));
        }
        let text = fs::read(&self.path).map_err(io_error)?;
        serde_json::from_slice(&text)
            .map_err(|_| format!("{path_text} is not a valid token file; remove it and log in again"))
    }

    fn write(&self, all: &BTreeMap<String, OAuthTokens>) -> Result<(), String> {
        let path_text = self.path.display();
        let io_error = |error: std::io::Error| format!("{path_text} cannot be written: {error}");
        if let Some(folder) = self.path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(io_error)?;
        }
        // The file is replaced by a rename, and it is created with mode 0600, so that no other user can ever read it.
        let temporary = self.path.with_extension(format!("{}.new", std::process::id()));
        let _ = fs::remove_file(&temporary);
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary).map_err(io_error)?;
        let text = serde_json::to_vec_pretty(all).map_err(|error| error.to_string())?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(io_error)?;
        fs::rename(&temporary, &self.path).map_err(io_error)
    }
}

impl OAuthTokenStore for FileOAuthTokenStore {
    fn load(&self, key: &str) -> Option<OAuthTokens> {
        self.read().ok()?.remove(key)
    }

    fn save(&self, key: &str, tokens: Option<&OAuthTokens>) -> Result<(), String> {
        let _turn = self.write_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = self.read()?;
        match tokens {
            Some(tokens) => drop(all.insert(key.to_owned(), tokens.clone())),
            None => drop(all.remove(key)),
        }
        self.write(&all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::credential::SecretString;

    fn tokens() -> OAuthTokens {
        OAuthTokens {
            access: SecretString::new("hunter22"),
            expires_at: None,
            refresh: Some(SecretString::new("again")),
            client_id: "me".to_owned(),
            client_secret: None,
        }
    }

    #[test]
    fn tokens_are_stored_in_a_file_that_only_its_owner_can_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nuncio/credentials.json");
        let store = FileOAuthTokenStore::at(path.clone());
        assert_eq!(store.load("a"), None);
        store.save("a", Some(&tokens())).unwrap();
        store.save("b", Some(&tokens())).unwrap();
        assert_eq!(FileOAuthTokenStore::at(path.clone()).load("a"), Some(tokens()));
        let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        store.save("a", None).unwrap();
        assert_eq!((store.load("a"), store.load("b")), (None, Some(tokens())));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn token_file_that_others_can_read_or_that_is_invalid_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials.json");
        let store = FileOAuthTokenStore::at(path.clone());
        store.save("a", Some(&tokens())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(store.load("a"), None);
        assert!(store.save("a", Some(&tokens())).unwrap_err().contains("chmod 600"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "garbage").unwrap();
        assert!(store.save("a", Some(&tokens())).unwrap_err().contains("remove it"));
    }
}

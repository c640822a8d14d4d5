//! Files that only their owner may read, such as keys.

use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nuncio_core::ErrorCode;

use super::private;
use crate::error::OperatorError;

/// The private files below a folder. A name may have one folder in front: `keys/service.json`.
#[derive(Debug, Clone)]
pub(crate) struct PrivateFiles {
    path: PathBuf,
}

impl PrivateFiles {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// The content of a private file; `None` if it does not exist. A file that others may access is an error.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, OperatorError> {
        let failed = |error: std::io::Error| self.broken(name, &error.to_string());
        let mut file = match File::open(self.path.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let mode = file.metadata().map_err(failed)?.permissions().mode();
        if mode & 0o077 != 0 {
            let why = format!("others may read it (mode {:o}); run `chmod 600` on it", mode & 0o777);
            return Err(self.broken(name, &why));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        Ok(Some(bytes))
    }

    /// Writes a file completely: to a temporary file that is moved into place, so that a crash leaves the old content
    /// or the new.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), OperatorError> {
        let failed = |error: std::io::Error| self.broken(name, &error.to_string());
        let path = self.path.join(name);
        let folder = path.parent().unwrap_or(&self.path);
        if !folder.exists() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        }
        let fresh = self.path.join(format!("{name}.new"));
        let mut file = private().create(true).truncate(true).open(&fresh).map_err(failed)?;
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&fresh, &path).map_err(failed)?;
        // A new folder is an entry of its parent, so the parents are synced too, up to the data directory.
        for folder in folder.ancestors().take_while(|folder| folder.starts_with(&self.path)) {
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
        }
        Ok(())
    }

    pub(crate) fn remove(&self, name: &str) -> Result<(), OperatorError> {
        let path = self.path.join(name);
        let folder = path.parent().unwrap_or(&self.path);
        fs::remove_file(&path)
            .and_then(|()| File::open(folder)?.sync_all())
            .map_err(|error| self.broken(name, &error.to_string()))
    }

    /// Removes a folder if nothing is in it.
    pub(crate) fn remove_empty_folder(&self, name: &str) {
        let _ = fs::remove_dir(self.path.join(name));
    }

    /// Names of the files in a folder that end in `ending`, with the ending removed; empty if there is no such folder.
    pub(crate) fn stems(&self, folder: &str, ending: &str) -> Result<Vec<String>, OperatorError> {
        let failed = |error: std::io::Error| self.broken(folder, &error.to_string());
        let entries = match fs::read_dir(self.path.join(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut stems = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            stems.extend(name.to_str().and_then(|name| name.strip_suffix(ending)).map(str::to_owned));
        }
        Ok(stems)
    }

    pub(crate) fn broken(&self, name: &str, why: &str) -> OperatorError {
        OperatorError::new(ErrorCode::DataDirUnusable, format!("{}: {why}", self.path.join(name).display()))
    }
}

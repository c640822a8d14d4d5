//! Where the key that encrypts stored secrets comes from: the data directory, a file elsewhere, or the environment.

use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nuncio_core::ErrorCode;
use nuncio_engine::secret_cipher::KEY_BYTES;

use super::files::PrivateFiles;
use super::{FIRST_SECRET_KEY, SECRET_KEY};
use crate::error::OperatorError;

/// Environment variable with the key in base64.
pub const SECRET_KEY_VARIABLE: &str = "NUNCIO_SECRET_KEY";

#[derive(Clone, Default)]
pub enum SecretKeySource {
    /// The file `secret.key` of the data directory, which is created at first use.
    #[default]
    DataDirectory,
    /// A file of the same form elsewhere (`--secret-key`).
    File(PathBuf),
    /// The key itself, from the environment.
    Given([u8; KEY_BYTES]),
}

impl SecretKeySource {
    /// The source that the operator chose: the file of `--secret-key`, or else the value of [`SECRET_KEY_VARIABLE`]. An
    /// empty value counts as none.
    pub fn chosen(file: Option<&Path>, variable: Option<&str>) -> Result<Self, OperatorError> {
        match (file, variable.map(str::trim).filter(|text| !text.is_empty())) {
            (Some(file), _) => Ok(Self::File(file.to_owned())),
            (None, Some(text)) => Self::decode(text),
            (None, None) => Ok(Self::DataDirectory),
        }
    }

    fn decode(text: &str) -> Result<Self, OperatorError> {
        let key = STANDARD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
        key.map(Self::Given).ok_or_else(|| {
            let message = format!(
                "{SECRET_KEY_VARIABLE} is not a key: it must be 32 bytes in base64, as `base64 -w0 secret.key` prints \
                 them"
            );
            OperatorError::new(ErrorCode::SecretKeyInvalid, message)
        })
    }

    /// The file of a key outside the data directory.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        match self {
            Self::File(file) => Some(file.clone()),
            Self::DataDirectory | Self::Given(_) => None,
        }
    }

    /// Reads a key from outside the data directory; `None` if the key is in it.
    pub(super) fn read(&self) -> Result<Option<[u8; KEY_BYTES]>, OperatorError> {
        match self {
            Self::DataDirectory => Ok(None),
            Self::Given(key) => Ok(Some(*key)),
            Self::File(file) => read_file(file).map(Some),
        }
    }

    /// Reads the key, for a data directory with these files. Creates none.
    pub(crate) fn read_existing(&self, files: &PrivateFiles) -> Result<[u8; KEY_BYTES], OperatorError> {
        if let Some(key) = self.read()? {
            return Ok(key);
        }
        let bytes = match files.read(SECRET_KEY)? {
            Some(bytes) => Some(bytes),
            None => files.read(FIRST_SECRET_KEY)?,
        };
        let bytes = bytes.ok_or_else(|| {
            let message = "the data directory has no secret.key; restore it, or name the key with --secret-key";
            OperatorError::new(ErrorCode::DataDirIncomplete, message)
        })?;
        bytes.try_into().map_err(|_| files.broken(SECRET_KEY, "it does not contain a key of 32 bytes"))
    }
}

fn read_file(file: &Path) -> Result<[u8; KEY_BYTES], OperatorError> {
    let invalid = |why: &str| {
        OperatorError::new(
            ErrorCode::SecretKeyInvalid,
            format!("the secret key {} cannot be used: {why}", file.display()),
        )
    };
    if file.is_dir() {
        return Err(invalid("it is a folder; name the file with the key"));
    }
    let (folder, name) = (file.parent().unwrap_or(Path::new("")), file.file_name());
    let name = name.and_then(|name| name.to_str()).ok_or_else(|| invalid("its name is not text"))?;
    let bytes = PrivateFiles::new(folder).read(name).map_err(|error| invalid(&error.message))?;
    let bytes = bytes.ok_or_else(|| {
        invalid(
            "there is no such file; copy the secret.key of the data directory there, or make a new key for a new store: \
             (umask 077; head -c 32 /dev/urandom > FILE)",
        )
    })?;
    let length = bytes.len();
    bytes.try_into().map_err(|_| invalid(&format!("it has {length} bytes, and a key has {KEY_BYTES}")))
}

impl fmt::Debug for SecretKeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DataDirectory => f.write_str("DataDirectory"),
            Self::File(file) => write!(f, "File({})", file.display()),
            Self::Given(_) => f.write_str("Given"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn refusal(source: Result<SecretKeySource, OperatorError>) -> String {
        let error = source.and_then(|source| source.read()).unwrap_err();
        assert_eq!(error.code, ErrorCode::SecretKeyInvalid);
        error.message
    }

    #[test]
    fn file_takes_precedence_over_the_variable_and_both_over_the_data_directory() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        fs::write(&file, [7; KEY_BYTES]).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let text = format!("{}\n", STANDARD.encode([8; KEY_BYTES]));
        let read = |file, text| SecretKeySource::chosen(file, text).unwrap().read().unwrap();
        assert_eq!(read(Some(file.as_path()), Some(text.as_str())), Some([7; KEY_BYTES]));
        assert_eq!(read(None, Some(text.as_str())), Some([8; KEY_BYTES]));
        assert_eq!(read(None, Some(" ")), None);
        assert_eq!(read(None, None), None);
    }

    #[test]
    fn key_file_that_others_may_read_is_missing_or_has_another_length_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let chosen = || SecretKeySource::chosen(Some(&file), None);
        assert!(refusal(chosen()).contains("there is no such file"));
        fs::write(&file, "private words").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        assert!(refusal(chosen()).contains("chmod 600"));
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let message = refusal(chosen());
        assert!(message.contains("it has 13 bytes") && !message.contains("private words"), "{message}");
        assert!(refusal(SecretKeySource::chosen(Some(folder.path()), None)).contains("folder"));
    }

    #[test]
    fn malformed_variable_is_refused_without_its_content_in_the_error() {
        for text in ["private words", "AAAA", &STANDARD.encode([1; 33])] {
            let message = refusal(SecretKeySource::chosen(None, Some(text)));
            assert!(message.starts_with(SECRET_KEY_VARIABLE) && !message.contains(text), "{message}");
        }
        assert_eq!(format!("{:?}", SecretKeySource::Given([9; KEY_BYTES])), "Given");
    }
}

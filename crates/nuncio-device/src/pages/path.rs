//! Unguessable path below which the device pages are served.

use nuncio_core::opaque_debug;
use nuncio_engine::ports::Entropy;
use nuncio_engine::ports::entropy::random_name;

/// A path that cannot be guessed, such as `/7k2m…`. Browsers send cookies to every port of a host, so the session
/// cookie is limited to this path, and other web servers on the same host do not get it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretPagesPath(String);

impl SecretPagesPath {
    #[must_use]
    pub fn random(entropy: &dyn Entropy) -> Self {
        Self(format!("/{}", random_name(entropy, "")))
    }

    /// Parses a path that [`SecretPagesPath::random`] made.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.strip_prefix('/')?;
        let valid = name.len() == 26 && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        valid.then(|| Self(text.to_owned()))
    }

    /// The path, with a slash at its start and none at its end.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

opaque_debug!(SecretPagesPath);

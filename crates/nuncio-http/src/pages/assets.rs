//! Static files, compiled in.
//!
//! The files are served below a folder named after their common digest. Browsers may therefore cache them for ever, a
//! new build uses a new folder, and script modules import each other by relative names.

use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, header};

use crate::etag::{etag, short_digest, unless_known};

#[derive(Debug, Clone, Copy)]
pub struct Asset {
    pub name: &'static str,
    pub content: &'static str,
}

/// Includes files of the calling crate's folder `assets` as `Asset`s.
#[macro_export]
macro_rules! assets {
    ($($name:literal),* $(,)?) => {
        &[$($crate::pages::assets::Asset {
            name: $name,
            content: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/", $name)),
        }),*]
    };
}

/// Static files that all pages share.
const SHARED: &[Asset] =
    assets!["icon.svg", "base.css", "frame.css", "early.js", "switches.js", "dom.js", "announce.js", "forms.js"];

/// Static files that are served together: those of one crate's pages and the shared ones.
#[derive(Debug)]
pub struct Assets {
    own: &'static [Asset],
    version: LazyLock<String>,
}

impl Assets {
    #[must_use]
    pub const fn new(own: &'static [Asset], version: fn() -> String) -> Self {
        Self { own, version: LazyLock::new(version) }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &'static Asset> {
        SHARED.iter().chain(self.own)
    }

    /// Name of the versioned folder of the assets.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Response with a file; `None` if the folder or name does not match.
    #[must_use]
    pub fn answer(&self, folder: &str, file: &str, asked: &HeaderMap) -> Option<Response> {
        let asset = self.all().find(|asset| asset.name == file && folder == self.version())?;
        let tag = etag(asset.content.as_bytes());
        let content_type = [(header::CONTENT_TYPE, media_type(asset.name))];
        let mut response = unless_known(asked, tag, || (content_type, asset.content).into_response());
        let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
        response.headers_mut().insert(header::CACHE_CONTROL, forever);
        Some(response)
    }
}

/// Name of the versioned folder: the digest of the shared files and of `own`.
#[must_use]
pub fn version(own: &[Asset]) -> String {
    let all = SHARED.iter().chain(own).flat_map(|asset| [asset.name, "\0", asset.content, "\0"]);
    short_digest(all.collect::<String>().as_bytes())
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn asset_check_accepts_the_shared_files_and_reports_inner_html_and_missing_imports() {
        let shared = Assets::new(&[], || version(&[]));
        assert_eq!(shared.faults(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/assets"))), Vec::<String>::new());
        let wild: &[Asset] = &[Asset { name: "wild.js", content: "import \"./nowhere.js\";\nx.innerHTML = 1" }];
        let wild = Assets::new(wild, String::new);
        assert_eq!(wild.faults(Path::new("/nowhere")).len(), 2);
    }
}

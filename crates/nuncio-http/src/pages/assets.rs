//! Static files, compiled in.
//!
//! They are served below a folder named after their common digest. Browsers may therefore cache them for ever, a new
//! build uses a new folder, and modules import each other by relative names.

use std::path::Path;
use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::etag::{etag, has_etag, short_digest};

#[derive(Debug, Clone, Copy)]
pub struct Asset {
    pub name: &'static str,
    pub content: &'static str,
}

/// Includes files of the calling crate's folder `assets`.
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

/// Static files that are served together: those of some pages and the shared ones.
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

    fn all(&self) -> impl Iterator<Item = &'static Asset> {
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
        let mut response = if has_etag(asked, &tag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            ([(header::CONTENT_TYPE, media_type(asset.name))], asset.content).into_response()
        };
        response.headers_mut().insert(header::ETAG, tag);
        let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
        response.headers_mut().insert(header::CACHE_CONTROL, forever);
        Some(response)
    }

    /// Names and contents of all scripts.
    pub fn scripts(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.all().filter(|asset| asset.name.ends_with(".js")).map(|asset| (asset.name, asset.content))
    }

    /// Faults for tests: a file that is not served, or a script that writes markup, evaluates text or loads foreign
    /// code.
    #[must_use]
    pub fn faults(&self, folder: &Path) -> Vec<String> {
        let mut faults = Vec::new();
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for file in files.filter_map(|entry| entry.file_name().into_string().ok()) {
            if !self.all().any(|asset| asset.name == file) {
                faults.push(format!("{file} is not served"));
            }
        }
        for (name, source) in self.scripts() {
            let forbidden = ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"];
            let elsewhere = ["http://", "https://"];
            let found = forbidden.iter().chain(&elsewhere).filter(|word| source.contains(**word));
            faults.extend(found.map(|word| format!("{name} holds {word}")));
            for import in source.lines().filter_map(|line| line.strip_prefix("import ")) {
                let file = import.rsplit('"').nth(1).and_then(|path| path.strip_prefix("./"));
                if !self.all().any(|asset| Some(asset.name) == file) {
                    faults.push(format!("{name} imports {import}"));
                }
            }
        }
        faults
    }
}

/// Name of the versioned folder: the digest of these and the shared files.
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
    use super::*;

    #[test]
    fn shared_files_are_served_and_scripts_use_no_unsafe_code() {
        let shared = Assets::new(&[], || version(&[]));
        assert_eq!(shared.faults(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/assets"))), Vec::<String>::new());
        let wild: &[Asset] = &[Asset { name: "wild.js", content: "import \"./nowhere.js\";\nx.innerHTML = 1" }];
        let wild = Assets::new(wild, String::new);
        assert_eq!(wild.faults(Path::new("/nowhere")).len(), 2);
    }
}

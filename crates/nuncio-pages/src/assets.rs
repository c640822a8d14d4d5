//! Static files, compiled in.
//!
//! They are served below a folder named after the digest of them all, so a browser may keep them for
//! ever, a new build is a new folder, and modules import each other by plain relative names.

use std::path::Path;
use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use ring::digest;

/// A static file.
#[derive(Debug, Clone, Copy)]
pub struct Asset {
    /// Its name.
    pub name: &'static str,
    /// What is in it.
    pub content: &'static str,
}

/// Files of the calling crate's folder `assets`.
#[macro_export]
macro_rules! assets {
    ($($name:literal),* $(,)?) => {
        &[$($crate::assets::Asset {
            name: $name,
            content: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/", $name)),
        }),*]
    };
}

/// What all pages share.
const SHARED: &[Asset] =
    assets!["icon.svg", "base.css", "frame.css", "early.js", "switches.js", "dom.js", "announce.js", "forms.js"];

/// Files that are served together: some pages' own, and those that all pages share.
#[derive(Debug)]
pub struct Assets {
    own: &'static [Asset],
    version: LazyLock<String>,
}

impl Assets {
    /// The files of some pages.
    #[must_use]
    pub const fn new(own: &'static [Asset], version: fn() -> String) -> Self {
        Self { own, version: LazyLock::new(version) }
    }

    fn all(&self) -> impl Iterator<Item = &'static Asset> {
        SHARED.iter().chain(self.own)
    }

    /// The name of the folder they are in.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// A file as an answer; none when there is none of that name in that folder.
    #[must_use]
    pub fn answer(&self, folder: &str, file: &str, asked: &HeaderMap) -> Option<Response> {
        let asset = self.all().find(|asset| asset.name == file && folder == self.version())?;
        let tag = etag(asset.content.as_bytes());
        let mut response = if is_known(asked, &tag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            ([(header::CONTENT_TYPE, media_type(asset.name))], asset.content).into_response()
        };
        response.headers_mut().insert(header::ETAG, tag);
        let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
        response.headers_mut().insert(header::CACHE_CONTROL, forever);
        Some(response)
    }

    /// Every script with its name.
    pub fn scripts(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.all().filter(|asset| asset.name.ends_with(".js")).map(|asset| (asset.name, asset.content))
    }

    /// What is wrong with them, for tests: a file of the folder that is not served, or a script that writes markup,
    /// evaluates text or loads what is not ours.
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

/// The name of the folder for these files and those that all pages share.
#[must_use]
pub fn version(own: &[Asset]) -> String {
    let mut all = digest::Context::new(&digest::SHA256);
    for asset in SHARED.iter().chain(own) {
        all.update(asset.name.as_bytes());
        all.update(&[0]);
        all.update(asset.content.as_bytes());
        all.update(&[0]);
    }
    hex(all.finish().as_ref())
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

/// The tag of some bytes.
///
/// # Panics
/// Never: hex in quotes is a header value.
#[must_use]
pub fn etag(bytes: &[u8]) -> HeaderValue {
    let tag = format!("\"{}\"", hex(digest::digest(&digest::SHA256, bytes).as_ref()));
    HeaderValue::from_str(&tag).expect("hex in quotes is a header value")
}

/// Whether the asker has what carries this tag.
#[must_use]
pub fn is_known(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    known.flat_map(|value| value.split(',')).any(|known| *tag == known.trim().trim_start_matches("W/"))
}

/// The first sixteen bytes: enough to tell any two files apart.
fn hex(digest: &[u8]) -> String {
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shared_file_is_served_and_every_script_is_tame() {
        let shared = Assets::new(&[], || version(&[]));
        assert_eq!(shared.faults(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/assets"))), Vec::<String>::new());
        let wild: &[Asset] = &[Asset { name: "wild.js", content: "import \"./nowhere.js\";\nx.innerHTML = 1" }];
        let wild = Assets::new(wild, String::new);
        assert_eq!(wild.faults(Path::new("/nowhere")).len(), 2);
    }

    #[test]
    fn a_tag_that_is_known_is_recognised_in_a_list() {
        let tag = etag(b"content");
        let mut headers = HeaderMap::new();
        assert!(!is_known(&headers, &tag));
        let list = format!("\"other\", W/{}", tag.to_str().unwrap());
        headers.insert(header::IF_NONE_MATCH, list.parse().unwrap());
        assert!(is_known(&headers, &tag));
    }
}

//! The static files, compiled in.
//!
//! They are served below a folder named after the digest of them all, so a browser may keep them for
//! ever, a new build is a new folder, and modules import each other by plain relative names.

use std::sync::LazyLock;

use ::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use nuncio_core::Code;
use nuncio_engine::EngineError;
use ring::digest;

/// The route of a file.
pub(super) const ROUTE: &str = "/console/assets/{version}/{file}";

/// A static file.
struct Asset {
    name: &'static str,
    content: &'static str,
}

macro_rules! assets {
    ($($name:literal),* $(,)?) => {
        &[$(Asset { name: $name, content: include_str!(concat!("../../assets/", $name)) }),*]
    };
}

const ASSETS: &[Asset] = assets![
    "icon.svg",
    "base.css",
    "layout.css",
    "chat.css",
    "about.css",
    "inbox.css",
    "early.js",
    "main.js",
    "inbox.js",
    "switches.js",
    "page.js",
    "dom.js",
    "event-stream.js",
    "aap.js",
    "conversation.js",
    "chat.js",
    "transcript.js",
    "tool-card.js",
    "settings.js",
    "sessions.js",
    "key.js",
    "announce.js",
];

/// The path of the folder they are in.
pub(super) fn folder() -> &'static str {
    static FOLDER: LazyLock<String> = LazyLock::new(|| format!("/console/assets/{}", version()));
    &FOLDER
}

fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let mut all = digest::Context::new(&digest::SHA256);
        for asset in ASSETS {
            all.update(asset.name.as_bytes());
            all.update(&[0]);
            all.update(asset.content.as_bytes());
            all.update(&[0]);
        }
        hex(all.finish().as_ref())
    });
    &VERSION
}

/// `GET /console/assets/:version/:file`
pub(super) async fn serve(Path((asked, file)): Path<(String, String)>, headers: HeaderMap) -> Response {
    let found = ASSETS.iter().find(|asset| asset.name == file && asked == version());
    let Some(asset) = found else {
        let message = "there is no such file in this version; load the page again";
        return nuncio_aap::refuse(&EngineError::new(Code::NotFound, message));
    };
    let tag = etag(asset.content.as_bytes());
    let mut response = if is_known(&headers, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, media_type(asset.name))], asset.content).into_response()
    };
    response.headers_mut().insert(header::ETAG, tag);
    let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
    response.headers_mut().insert(header::CACHE_CONTROL, forever);
    response
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
pub(super) fn etag(bytes: &[u8]) -> HeaderValue {
    let tag = format!("\"{}\"", hex(digest::digest(&digest::SHA256, bytes).as_ref()));
    HeaderValue::from_str(&tag).expect("hex in quotes is a header value")
}

/// Whether the asker has what carries this tag.
pub(super) fn is_known(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    known.flat_map(|value| value.split(',')).any(|known| *tag == known.trim().trim_start_matches("W/"))
}

/// The first sixteen bytes: enough to tell any two files apart.
fn hex(digest: &[u8]) -> String {
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Every script with its name.
#[cfg(test)]
pub(super) fn scripts() -> impl Iterator<Item = (&'static str, &'static str)> {
    ASSETS.iter().filter(|asset| asset.name.ends_with(".js")).map(|asset| (asset.name, asset.content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_in_the_folder_is_served_and_no_other() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/assets");
        let mut there: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        let mut served: Vec<_> = ASSETS.iter().map(|asset| asset.name.to_owned()).collect();
        there.sort();
        served.sort();
        assert_eq!(served, there);
    }

    #[test]
    fn no_script_writes_markup_or_evaluates_text_and_every_import_is_ours() {
        for (name, source) in scripts() {
            for forbidden in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
                "http://",
                "https://",
            ] {
                assert!(!source.contains(forbidden), "{name} holds {forbidden}");
            }
            for import in source.lines().filter_map(|line| line.strip_prefix("import ")) {
                let file = import.rsplit('"').nth(1).and_then(|path| path.strip_prefix("./")).unwrap();
                assert!(ASSETS.iter().any(|asset| asset.name == file), "{name} imports {file}");
            }
        }
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

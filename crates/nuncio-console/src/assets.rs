//! The static files of the console, compiled in.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::response::Response;
use http::HeaderMap;
use nuncio_core::ErrorCode;
use nuncio_engine::EngineError;
use nuncio_http::pages::assets::{Asset, Assets, version};

pub(super) const ROUTE: &str = "/console/assets/{version}/{file}";

const FILES: &[Asset] = nuncio_http::assets![
    "layout.css",
    "chat.css",
    "about.css",
    "inbox.css",
    "join.css",
    "main.js",
    "inbox.js",
    "join.js",
    "page.js",
    "event-stream.js",
    "aap.js",
    "conversation.js",
    "chat.js",
    "transcript.js",
    "tool-card.js",
    "settings.js",
    "sessions.js",
    "key.js",
    "markdown.js",
    "markdown-inline.js",
    "markdown.css",
    "error.js",
];

pub(super) static ASSETS: Assets = Assets::new(FILES, || version(FILES));

pub(super) fn folder() -> &'static str {
    static FOLDER: LazyLock<String> = LazyLock::new(|| format!("/console/assets/{}", ASSETS.version()));
    &FOLDER
}

/// `GET /console/assets/:version/:file`
pub(super) async fn serve(Path((version, file)): Path<(String, String)>, headers: HeaderMap) -> Response {
    ASSETS.answer(&version, &file, &headers).unwrap_or_else(|| {
        let message = "there is no such file in this version; load the page again";
        nuncio_http::refuse(&EngineError::new(ErrorCode::NotFound, message))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_asset_is_served_and_no_script_writes_markup_or_evaluates_text() {
        let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/assets"));
        assert_eq!(ASSETS.faults(folder), Vec::<String>::new());
    }
}

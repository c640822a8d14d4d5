//! A page as an answer, and the way on from a form.

use askama::Template;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use http::StatusCode;
use nuncio_core::text::printable;

/// A page as an answer. Whatever a peer's text in it would hide or turn around is replaced.
pub fn written(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(html) => (status, Html(printable(html))).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page could not be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// The way on after something was done, so that loading the page again does not do it again.
#[must_use]
pub fn see(path: &str) -> Response {
    Redirect::to(path).into_response()
}

/// A path of ours alone, never an address: a browser takes what stands behind a second stroke, of either kind, for a
/// host.
#[must_use]
pub fn own_path(path: &str) -> &str {
    if path.starts_with("//") || path.starts_with("/\\") { "/" } else { path }
}

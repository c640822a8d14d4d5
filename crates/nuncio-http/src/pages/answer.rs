//! Responses with pages and redirects.

use askama::Template;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use http::StatusCode;
use nuncio_core::text::printable;

/// Renders a page as a response. Invisible and bidirectional control characters in peer texts are replaced.
pub fn written(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(html) => (status, Html(printable(html))).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page could not be rendered");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Redirect (303) after a form, so that reloading the page does not repeat the action.
#[must_use]
pub fn see(path: &str) -> Response {
    Redirect::to(path).into_response()
}

/// Returns the path, or `/` if a browser would read it as another host: `//host` or `/\host`.
#[must_use]
pub fn own_path(path: &str) -> &str {
    if path.starts_with("//") || path.starts_with("/\\") { "/" } else { path }
}

//! `GET /a2h/scopes`: the well-known scopes, for clients without their own copy (A2H §6).

use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use nuncio_http::{etag, unless_known};
use serde_json::json;

use super::{A2hServerState, answer, revalidated};
use crate::wire::Page;
use crate::wire::scope::bundle;

pub(super) async fn list(State(a2h): State<A2hServerState>, headers: HeaderMap) -> Response {
    let page = Page { data: bundle(&a2h.presets), next_cursor: None };
    let tag = etag(json!(page).to_string().as_bytes());
    revalidated(unless_known(&headers, tag, || answer(StatusCode::OK, &page)))
}

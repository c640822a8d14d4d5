//! `GET /a2h/scopes`: the well-known scopes, for clients without their own copy (A2H §6).

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;

use super::{A2hServerState, answer};
use crate::wire::Page;
use crate::wire::scope::bundle;

pub(super) async fn list(State(a2h): State<A2hServerState>) -> Response {
    answer(StatusCode::OK, &Page { data: bundle(&a2h.presets), next_cursor: None })
}

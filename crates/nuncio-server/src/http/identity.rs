//! Who is asking: yields exactly one [`Identity`], which every protocol's routes read.

use ::http::{HeaderMap, header};
use axum::extract::Request;
use nuncio_core::principal::Principal;
use nuncio_engine::{Caller, Identity};

use super::Shared;
use super::request_id::RequestId;
use crate::serve::Exposure;

/// Puts the identity into the request.
pub(super) fn settle(shared: &Shared, request: &mut Request) {
    let mut identity = identify(shared, bearer(request.headers()));
    if let Identity::Known(caller) = &mut identity {
        caller.request = request.extensions().get::<RequestId>().map(|id| id.0.clone());
    }
    request.extensions_mut().insert(identity);
}

fn identify(shared: &Shared, key: Option<&str>) -> Identity {
    let open_to_local = shared.exposure == Exposure::Loopback && !shared.engine.has_keys();
    match key {
        // Clients of open servers send any key, or an empty one; there it means nothing.
        _ if open_to_local => Identity::Known(Caller::new(Principal::Local)),
        Some(key) => shared.engine.caller_by_key(key).map_or(Identity::Invalid, Identity::Known),
        None if shared.exposure == Exposure::Open => Identity::Known(Caller::new(Principal::Anonymous)),
        None => Identity::Missing,
    }
}

/// The key of `Authorization: Bearer KEY`; none when it is empty or of another kind.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, key) = value.split_once(' ')?;
    let key = key.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then_some(key)
}

//! Who is asking: yields exactly one [`Identity`], which every protocol's routes read.

use ::http::{HeaderMap, HeaderValue, header};
use axum::extract::Request;
use axum::response::Response;
use nuncio_core::Code;
use nuncio_core::principal::Principal;
use nuncio_engine::{Caller, EngineError, Identity};

use super::Shared;
use super::request_id::RequestId;
use crate::auth::Checked;
use crate::serve::Exposure;

/// What our own keys begin with. They are never shown to an issuer.
const OWN_KEYS: [&str; 2] = ["nk_", "nsk_"];

/// Nobody can tell at the moment who is asking.
pub(super) struct Unverifiable;

/// Puts the identity into the request if nobody has to be asked; says whether it did.
pub(super) fn settle_at_once(shared: &Shared, request: &mut Request) -> bool {
    let Known::At(identity) = identify(shared, bearer(request.headers())) else { return false };
    put(identity, request);
    true
}

fn put(mut identity: Identity, request: &mut Request) {
    if let Identity::Known(caller) = &mut identity {
        caller.request = request.extensions().get::<RequestId>().map(|id| id.0.clone());
    }
    request.extensions_mut().insert(identity);
}

/// Puts the identity into the request. Whoever cannot be told apart from a stranger counts as one.
pub(super) async fn settle(shared: &Shared, request: &mut Request) -> Result<(), Unverifiable> {
    let (identity, settled) = match identify(shared, bearer(request.headers())) {
        Known::At(identity) => (identity, Ok(())),
        Known::ToPeople(token) => match nuncio_a2h::server::identify(&shared.engine, &*shared.auth.people, token).await
        {
            Ok(Some(shown)) => (Identity::Known(shown.caller), Ok(())),
            Ok(None) => (Identity::Invalid, Ok(())),
            Err(error) => {
                tracing::error!(%error, "an access token cannot be checked");
                (Identity::Invalid, Err(Unverifiable))
            }
        },
        Known::ToIssuers(token) => match shared.auth.issuers.check(token).await {
            Checked::Known(caller) => (Identity::Known(caller), Ok(())),
            Checked::Invalid(why) => {
                tracing::debug!(why, "an access token was refused");
                (Identity::Invalid, Ok(()))
            }
            Checked::Unverifiable(why) => {
                tracing::warn!(why, "an access token cannot be checked");
                (Identity::Invalid, Err(Unverifiable))
            }
        },
    };
    put(identity, request);
    settled
}

/// Who is known at once, and what has to be asked of others.
enum Known<'a> {
    At(Identity),
    /// It is the token of a device or an agent: the store knows whose.
    ToPeople(&'a str),
    ToIssuers(&'a str),
}

fn identify<'a>(shared: &Shared, key: Option<&'a str>) -> Known<'a> {
    if let Some(identity) = key.and_then(|key| shared.auth.dids.by_token(key)) {
        return Known::At(match identity {
            Identity::Known(caller) => Identity::Known(shared.engine.linked(caller)),
            other => other,
        });
    }
    if let Some(token) = key.filter(|key| shared.auth.people.knows(key)) {
        return Known::ToPeople(token);
    }
    let open_to_local = shared.exposure == Exposure::Loopback && !shared.engine.has_keys();
    Known::At(match key {
        Some(key) if is_for_issuers(shared, key) => match shared.auth.issuers.recall(key) {
            Some(caller) => Identity::Known(caller),
            None => return Known::ToIssuers(key),
        },
        // Clients of open servers send any key, or an empty one; there it means nothing.
        _ if open_to_local => Identity::Known(Caller::new(Principal::Local)),
        Some(key) => shared.engine.caller_by_key(key).map_or(Identity::Invalid, Identity::Known),
        None if shared.exposure == Exposure::Open => Identity::Known(Caller::new(Principal::Anonymous)),
        None => Identity::Missing,
    })
}

fn is_for_issuers(shared: &Shared, key: &str) -> bool {
    !shared.auth.issuers.is_empty() && !OWN_KEYS.iter().any(|prefix| key.starts_with(prefix))
}

/// The key of `Authorization: Bearer KEY`; none when it is empty or of another kind.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, key) = value.split_once(' ')?;
    let key = key.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then_some(key)
}

impl Unverifiable {
    /// What the client is told.
    pub(super) fn answer(&self, shared: &Shared, request: &Request) -> Response {
        let message = "the access token cannot be checked now; try again later";
        let error = EngineError::new(Code::IssuerUnavailable, message);
        let mut response = shared.refuse(request.uri().path(), &error);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        response
    }
}

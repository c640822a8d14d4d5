//! Routes of the directory: search and registration.

use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use nuncio_core::principal::Principal;
use nuncio_core::{ErrorCode, json};
use nuncio_engine::EngineError;
use nuncio_engine::directory::{ListingId, not_registered};
use nuncio_http::{CachePolicy, CacheableDocument, QueryParameters, next_link};
use nuncio_identity::Did;
use serde_json::json;
use url::Url;

use super::discover::VARY;
use super::{AnpResult, AnpServerState, error_response, json_response, refuse};
use crate::client::AgentTarget;
use crate::directory::{AgentRegistrationResult, DirectoryEntry, DirectorySearchQuery, PATH, RegistrationPolicy};
use crate::wire::{CollectionPage, RegistrationRequest, canonical};

const MAX_REGISTRATION_BYTES: usize = 16 * 1024;

/// Handles `GET /registry/agents?q=&tag=&capability=&limit=&cursor=`.
pub(super) async fn agents(State(anp): State<AnpServerState>, request: Request) -> Response {
    let asked = QueryParameters::of(request.uri());
    let wanted = match DirectorySearchQuery::read(asked.pairs()) {
        Ok(wanted) => wanted,
        Err(why) => return refuse(&EngineError::new(ErrorCode::BadRequest, why)),
    };
    let found = anp.directory.find(&anp.host, |agent| anp.identities.agent_did(agent), &wanted);
    let address = format!("{}{PATH}", anp.host.base);
    let here = asked.pairs().find(|(name, _)| *name == "cursor").map(|(_, cursor)| cursor);
    let next = found.next_cursor.as_deref().map(|next| asked.at(&address, Some(next)));
    let link = next.as_deref().and_then(next_link);
    let page = CollectionPage::new(asked.at(&address, here), found.items, next);
    let mut response = CacheableDocument::json(canonical(&page), CachePolicy::Public).answer(request.headers(), VARY);
    response.headers_mut().extend(link.map(|link| (header::LINK, link)));
    response
}

impl RegistrationRequest {
    /// Parses the body of a registration, which names the agent.
    fn target(body: &[u8]) -> Result<AgentTarget, EngineError> {
        let wrong = |why: String| EngineError::new(ErrorCode::BadRequest, why);
        let form = "send {\"url\": the address of a description} or {\"did\": the agent's DID}";
        let value = json::read(body, MAX_REGISTRATION_BYTES).map_err(|why| {
            let code = if matches!(why, json::JsonDocumentError::NotJson(_)) {
                ErrorCode::BadJson
            } else {
                ErrorCode::BadRequest
            };
            EngineError::new(code, format!("the body {why}; {form}"))
        })?;
        let registration: Self = serde_json::from_value(value).map_err(|why| wrong(format!("{why}; {form}")))?;
        match (registration.url, registration.did) {
            (Some(url), None) => {
                let mut url = Url::parse(&url).map_err(|why| wrong(format!("url is not a valid address: {why}")))?;
                if url.cannot_be_a_base() || !matches!(url.scheme(), "http" | "https") {
                    return Err(wrong("url must be an http: or https: address".to_owned()));
                }
                url.set_fragment(None);
                Ok(AgentTarget::Description(url))
            }
            (None, Some(did)) => Did::parse(&did).map(AgentTarget::Did).map_err(|why| wrong(format!("did: {why}"))),
            _ => Err(wrong(form.to_owned())),
        }
    }
}

/// Handles `POST /registry/agents`.
pub(super) async fn register(State(anp): State<AnpServerState>, request: Request) -> AnpResult {
    let mut asked = anp.authenticate(request).await?;
    if anp.directory.accepts() != RegistrationPolicy::Anyone
        && let Some(challenge) = asked.challenge.take()
    {
        return Err(challenge);
    }
    let by = asked.caller.take().map_or(Principal::Anonymous, |caller| caller.principal);
    let done = match RegistrationRequest::target(&asked.body) {
        Ok(target) => {
            let directory = anp.directory.clone();
            finished(async move { directory.register(&target, &by).await }).await
        }
        Err(error) => Err(error),
    };
    let mut response = match done {
        Ok(AgentRegistrationResult { entry, listed, is_new }) => {
            let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
            // Only operators see who registered the entry.
            let mut body = DirectoryEntry::new(&entry, &listed, anp.engine.now());
            body.by = None;
            let mut response = json_response(status, &body);
            let location = format!("{}{PATH}/{}", anp.host.base, entry.id());
            response.headers_mut().extend(HeaderValue::try_from(location).ok().map(|at| (header::LOCATION, at)));
            response
        }
        Err(error) => refused(&error),
    };
    response.headers_mut().extend(asked.header);
    Ok(response)
}

/// Handles `DELETE /registry/agents/{id}`.
pub(super) async fn remove(State(anp): State<AnpServerState>, Path(id): Path<String>, request: Request) -> AnpResult {
    let mut asked = anp.authenticate(request).await?;
    if let Some(challenge) = asked.challenge.take() {
        return Err(challenge);
    }
    let by = asked.caller.take().map_or(Principal::Anonymous, |caller| caller.principal);
    let removed = match ListingId::parse(&id) {
        Ok(id) => {
            let directory = anp.directory.clone();
            finished(async move { directory.remove(&id, &by).await }).await
        }
        Err(_) => Err(not_registered(&id)),
    };
    removed.map(|_| asked.answer(None)).map_err(|error| refused(&error))
}

/// Handles `GET /registry/ad.json`.
pub(super) async fn description(State(anp): State<AnpServerState>, headers: HeaderMap) -> Response {
    let did = anp.identities.service_did();
    let name = format!("directory {}", did.as_deref().unwrap_or_default());
    anp.answer_document(&headers, name, "this server has no directory", || {
        let takes = anp.directory.accepts() != RegistrationPolicy::Nobody;
        Some(anp.identities.prove_service(json!(anp.host.directory(did.as_deref(), takes))))
    })
}

/// Completes `work` even if the client disconnects.
async fn finished<T: Send + 'static>(
    work: impl Future<Output = Result<T, EngineError>> + Send + 'static,
) -> Result<T, EngineError> {
    match tokio::spawn(work).await {
        Ok(outcome) => outcome,
        Err(_) => Err(EngineError::new(ErrorCode::Internal, "an internal error occurred; try again")),
    }
}

fn refused(error: &EngineError) -> Response {
    let status = match error.code {
        ErrorCode::RegistrationRefused => StatusCode::FORBIDDEN,
        ErrorCode::NotRegistered => StatusCode::NOT_FOUND,
        ErrorCode::DirectoryFull => StatusCode::TOO_MANY_REQUESTS,
        // The request is well formed, but the agent it names does not qualify.
        ErrorCode::ValidationError
        | ErrorCode::PeerUntrusted
        | ErrorCode::OutboundRefused
        | ErrorCode::AuthRequired => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorCode::EndpointUnreachable => StatusCode::BAD_GATEWAY,
        code => nuncio_http::status(code),
    };
    error_response(status, error)
}

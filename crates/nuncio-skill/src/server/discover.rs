//! Discovery routes: the skill index and the skill descriptors.

use axum::extract::{Request, State};
use http::request::Parts;
use http::{HeaderValue, Method, header};
use nuncio_core::ErrorCode;
use nuncio_core::agent::CapabilityType;
use nuncio_engine::{Caller, CallerCheckResult, EngineError};
use nuncio_http::CachePolicy;
use url::form_urlencoded;

use super::{RequestCheckResult, SkillError, SkillResult, SkillServerState, caller};

/// Default and maximum number of skills on one index page.
const MAX_PAGE_SIZE: usize = 10_000;

/// `Vary` header: request headers that the response depends on.
const VARY: &str = "authorization, x-api-key";

/// Handles `GET /.well-known/skill-sharing?type=&limit=&cursor=`.
pub(super) async fn index(State(skills): State<SkillServerState>, request: Request) -> SkillResult {
    let (head, _) = request.into_parts();
    let query = SkillIndexQuery::read(head.uri.query().unwrap_or_default())?;
    let caller = skills.discovery_caller(&head).await;
    let visible = (caller.is_some() && skills.engine.skills().has_private_skills())
        .then(|| skills.engine.skills().visible_to(caller.as_ref()));
    // Callers who may see hidden skills get an index of their own; all others get the public index.
    let visible = visible.filter(|skills| skills.iter().any(|offered| offered.is_hidden()));
    let page = match (visible, query.limit, &query.cursor) {
        (None, None, None) => skills.public_index(query.kind, MAX_PAGE_SIZE),
        (visible, limit, cursor) => {
            let caching = if visible.is_some() { CachePolicy::Private } else { CachePolicy::Public };
            let visible = visible.unwrap_or_else(|| skills.engine.skills().visible_to(None));
            skills.page(&visible, query.kind, cursor.as_deref(), limit.unwrap_or(MAX_PAGE_SIZE), caching)
        }
    };
    let mut response = page.document.answer(&head.headers, VARY);
    if let Some(next) = page.next {
        let link = format!("<{}{}>; rel=\"next\"", skills.host.base, query.next(&next));
        if let Ok(link) = HeaderValue::try_from(link) {
            response.headers_mut().insert(header::LINK, link);
        }
    }
    Ok(response)
}

/// Handles `GET /skills/{id}.json`.
pub(super) async fn descriptor(skills: &SkillServerState, id: &str, request: Request) -> SkillResult {
    let (head, _) = request.into_parts();
    let caller = skills.discovery_caller(&head).await;
    let offered = skills.engine.skills().skill(caller.as_ref(), id).ok_or_else(|| SkillError::skill_not_found(id))?;
    if !matches!(head.method, Method::GET | Method::HEAD) {
        return Err(SkillError::method("GET, HEAD"));
    }
    Ok(skills.descriptor_document(&offered).answer(&head.headers, VARY))
}

impl SkillServerState {
    /// Caller of a discovery request, identified by a key, a token or a signature. The documents are public, so
    /// invalid credentials count as none.
    async fn discovery_caller(&self, head: &Parts) -> Option<Caller> {
        let by_key = caller(&head.headers, head.extensions.get::<CallerCheckResult>(), &self.engine);
        if let Ok(Some(by_key)) = by_key {
            return Some(by_key);
        }
        match self.custom.check(head, b"").await {
            RequestCheckResult::Known(signer) => Some(signer),
            RequestCheckResult::Absent | RequestCheckResult::Invalid(_) => None,
        }
    }
}

struct SkillIndexQuery {
    kind: Option<CapabilityType>,
    limit: Option<usize>,
    cursor: Option<String>,
}

impl SkillIndexQuery {
    /// Parses the query; unknown parameters are ignored.
    fn read(query: &str) -> Result<Self, EngineError> {
        let mut parsed = Self { kind: None, limit: None, cursor: None };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "type" => {
                    let kind = CapabilityType::parse(&value);
                    parsed.kind = Some(kind.ok_or_else(|| {
                        let words = CapabilityType::ALL.map(CapabilityType::as_str).join(", ");
                        EngineError::new(ErrorCode::BadRequest, format!("`type` is one of {words}"))
                    })?);
                }
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=MAX_PAGE_SIZE).contains(limit));
                    parsed.limit = Some(limit.ok_or_else(|| {
                        EngineError::new(
                            ErrorCode::BadRequest,
                            format!("`limit` must be a number from 1 to {MAX_PAGE_SIZE}"),
                        )
                    })?);
                }
                "cursor" => parsed.cursor = Some(value.into_owned()),
                _ => {}
            }
        }
        Ok(parsed)
    }

    /// URL of the index page that starts at `cursor`.
    fn next(&self, cursor: &str) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        if let Some(kind) = self.kind {
            query.append_pair("type", kind.as_str());
        }
        if let Some(limit) = self.limit {
            query.append_pair("limit", &limit.to_string());
        }
        query.append_pair("cursor", cursor);
        format!("{}?{}", crate::wire::WELL_KNOWN, query.finish())
    }
}

//! Registry route: searches skills of this host and of followed hosts (§4.2).

use std::sync::Arc;

use axum::extract::{Request, State};
use http::header;
use nuncio_core::ErrorCode;
use nuncio_core::edition_cache::EditionCache;
use nuncio_core::time::Timestamp;
use nuncio_engine::EngineError;
use nuncio_engine::skills::PublishedSkill;
use nuncio_http::{CachePolicy, CacheableDocument, QueryParameters, next_link};

use super::{SkillResult, SkillServerState};
use crate::registry::{HostSkillListing, ListedProvider, ListedSkill, RegistryQuery, SkillCatalogue};

const PATH: &str = "/registry/skills";

/// `Vary` header: valid callers get the same response, but a request with an invalid key is refused.
const VARY: &str = "authorization, x-api-key";

/// Own skills count as seen now, rounded to this interval in milliseconds, so that the response is stable.
const LAST_SEEN_ROUNDING_MS: i64 = 60_000;

#[derive(Debug, Default)]
pub(super) struct SkillRegistry {
    pub(super) catalogue: Arc<SkillCatalogue>,
    own: EditionCache<u64, (), HostSkillListing>,
}

impl SkillRegistry {
    /// Creates a registry with the catalogue of other hosts.
    pub(super) fn new(catalogue: Arc<SkillCatalogue>) -> Self {
        Self { catalogue, own: EditionCache::default() }
    }
}

/// Handles `GET /registry/skills?type=&q=&tag=&provider=&limit=&cursor=`.
pub(super) async fn skills(State(skills): State<SkillServerState>, request: Request) -> SkillResult {
    let parameters = QueryParameters::of(request.uri());
    let query = RegistryQuery::read(parameters.pairs()).map_err(|why| EngineError::new(ErrorCode::BadRequest, why))?;
    let found = query.find(&skills.registry.catalogue, &skills.host.base, skills.own_skills());
    let body = serde_json::to_vec(&found).unwrap_or_default();
    let mut response = CacheableDocument::json(body, CachePolicy::Public).answer(request.headers(), VARY);
    if let Some(next) = &found.next_cursor {
        let address = parameters.at(&format!("{}{PATH}", skills.host.base), Some(next));
        response.headers_mut().extend(next_link(&address).map(|link| (header::LINK, link)));
    }
    Ok(response)
}

impl SkillServerState {
    /// Public skills of this host, collected once per change of the agents.
    fn own_skills(&self) -> HostSkillListing {
        let now = self.engine.now().as_millis();
        let this_minute = Timestamp::from_millis(now - now.rem_euclid(LAST_SEEN_ROUNDING_MS));
        let listed = |offered: Arc<PublishedSkill>| {
            let provider = self.descriptor_of(&offered).provider;
            let provider = ListedProvider { name: provider.name, url: provider.url };
            ListedSkill::new(self.host.entry(offered.skill()), provider, offered.skill().tags.clone())
        };
        let own = self.registry.own.get_or_put(self.engine.agents().agents_edition(), (), || {
            HostSkillListing::new(self.engine.skills().visible_to(None).into_iter().map(listed).collect(), this_minute)
        });
        own.seen(this_minute)
    }
}

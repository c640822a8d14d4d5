//! Registry: skills of this host and of followed hosts (§4.2).

use std::sync::{Arc, PoisonError, RwLock};

use axum::extract::{Request, State};
use http::header;
use nuncio_core::Code;
use nuncio_core::time::Timestamp;
use nuncio_engine::EngineError;
use nuncio_http::{CachePolicy, CacheableDocument, QueryParameters, next_link};

use super::{SkillResult, Skills};
use crate::registry::{HostSkills, ListedProvider, ListedSkill, RegistryQuery, SkillCatalogue};

const PATH: &str = "/registry/skills";

/// The response does not depend on the caller, but an invalid key is refused.
const VARY: &str = "authorization, x-api-key";

/// Own skills count as seen now, rounded to this interval in milliseconds, so that the response is stable.
const MINUTE: i64 = 60_000;

/// State of the registry.
#[derive(Debug, Default)]
pub(super) struct Registry {
    pub(super) catalogue: Arc<SkillCatalogue>,
    own: RwLock<Option<(u64, HostSkills)>>,
}

impl Registry {
    /// Creates a registry with the catalogue of other hosts.
    pub(super) fn new(catalogue: Arc<SkillCatalogue>) -> Self {
        Self { catalogue, own: RwLock::default() }
    }
}

/// `GET /registry/skills?type=&q=&tag=&provider=&limit=&cursor=`
pub(super) async fn skills(State(skills): State<Skills>, request: Request) -> SkillResult {
    let asked = QueryParameters::of(request.uri());
    let query = RegistryQuery::read(asked.pairs()).map_err(|why| EngineError::new(Code::BadRequest, why))?;
    let found = query.find(&skills.registry.catalogue, &skills.host.base, skills.own_skills());
    let body = serde_json::to_vec(&found).unwrap_or_default();
    let mut response = CacheableDocument::json(body, CachePolicy::Public).answer(request.headers(), VARY);
    if let Some(next) = &found.next_cursor {
        let address = asked.at(&format!("{}{PATH}", skills.host.base), Some(next));
        response.headers_mut().extend(next_link(&address).map(|link| (header::LINK, link)));
    }
    Ok(response)
}

impl Skills {
    /// Public skills of this host, collected once per change of the agents.
    fn own_skills(&self) -> HostSkills {
        let now = self.engine.now().as_millis();
        let this_minute = Timestamp::from_millis(now - now.rem_euclid(MINUTE));
        // The edition is read before the skills: a change in between makes the cached copy outdated, which the next
        // request corrects.
        let edition = self.engine.agents().agents_edition();
        let kept = self.registry.own.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, host_skills)) = kept.as_ref().filter(|(made_for, _)| *made_for == edition) {
            return host_skills.seen(this_minute);
        }
        drop(kept);
        let listed = self.engine.skills().visible_to(None).into_iter().map(|offered| {
            let provider = self.descriptor_of(&offered).provider;
            let provider = ListedProvider { name: provider.name, url: provider.url };
            ListedSkill::new(self.host.entry(offered.skill()), provider, offered.skill().tags.clone())
        });
        let host_skills = HostSkills::new(listed.collect(), this_minute);
        *self.registry.own.write().unwrap_or_else(PoisonError::into_inner) = Some((edition, host_skills.clone()));
        host_skills
    }
}

//! The registry: skills of this host and of those it follows (§4.2).

use std::sync::{Arc, PoisonError, RwLock};

use axum::extract::{Request, State};
use axum::response::Response;
use http::header;
use nuncio_core::Code;
use nuncio_core::time::Timestamp;
use nuncio_engine::EngineError;
use nuncio_http::{Asked, Caching, Document, next_link};

use super::{SkillError, Skills};
use crate::registry::{Catalogue, ListedProvider, ListedSkill, Shelf, Wanted};

/// Where it is.
const PATH: &str = "/registry/skills";

/// A wrong key is refused, whatever else is answered to everyone alike.
const VARY: &str = "authorization, x-api-key";

/// This host's own skills are seen all the time; the answer stays the same for so long, in milliseconds.
const MINUTE: i64 = 60_000;

/// What the registry knows.
#[derive(Debug, Default)]
pub(super) struct Registry {
    pub(super) catalogue: Arc<Catalogue>,
    own: RwLock<Option<(u64, Shelf)>>,
}

impl Registry {
    /// With what is known of other hosts.
    pub(super) fn new(catalogue: Arc<Catalogue>) -> Self {
        Self { catalogue, own: RwLock::default() }
    }
}

/// `GET /registry/skills?type=&q=&tag=&provider=&limit=&cursor=`
pub(super) async fn skills(State(skills): State<Skills>, request: Request) -> Result<Response, SkillError> {
    let asked = Asked::of(request.uri());
    let wanted = Wanted::read(asked.pairs()).map_err(|why| EngineError::new(Code::BadRequest, why))?;
    let found = skills.registry.catalogue.find(&skills.host.base, skills.own_shelf(), &wanted);
    let body = serde_json::to_vec(&found).unwrap_or_default();
    let mut response = Document::json(body, Caching::Public).answer(request.headers(), VARY);
    if let Some(next) = &found.next_cursor {
        let address = asked.at(&format!("{}{PATH}", skills.host.base), Some(next));
        response.headers_mut().extend(next_link(&address).map(|link| (header::LINK, link)));
    }
    Ok(response)
}

impl Skills {
    /// What this host offers to everyone; made once for each change of the agents.
    fn own_shelf(&self) -> Shelf {
        let now = self.engine.now().as_millis();
        let this_minute = Timestamp::from_millis(now - now.rem_euclid(MINUTE));
        // Read before the skills: a change in between makes the copy old, never wrong for long.
        let edition = self.engine.agents_edition();
        let kept = self.registry.own.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, shelf)) = kept.as_ref().filter(|(made_for, _)| *made_for == edition) {
            return shelf.seen(this_minute);
        }
        drop(kept);
        let listed = self.engine.skills(None).into_iter().map(|offered| {
            let provider = self.descriptor_of(&offered).provider;
            let provider = ListedProvider { name: provider.name, url: provider.url };
            ListedSkill::new(self.host.entry(offered.skill()), provider, offered.skill().tags.clone())
        });
        let shelf = Shelf::new(listed.collect(), this_minute);
        *self.registry.own.write().unwrap_or_else(PoisonError::into_inner) = Some((edition, shelf.clone()));
        shelf
    }
}

//! Pages of the person's agents: requests, grants, verification and revocation.

use std::collections::BTreeMap;
use std::time::Duration;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use http::StatusCode;
use nuncio_core::agent::Sensitivity;
use nuncio_core::digest::Digest;
use nuncio_core::grant::GrantTerm;
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{AgentId, DeviceId, ScopeId};
use nuncio_core::time::Timestamp;
use nuncio_http::pages::sender::{Fields, field};
use nuncio_http::pages::{see, written};
use serde::Deserialize;

use super::frame::{Frame, NavEntry, PageForm, SignedInRequest};
use super::{Pages, wording};
use crate::consent::{AccessRequest, GrantedScopes};
use crate::error::DeviceError;
use crate::known_agents::KnownAgent;

mod change;
mod consent;

use consent::ConsentView;

/// `GET /agents`
#[derive(Template)]
#[template(path = "agents.html")]
struct AgentsPage {
    frame: Frame,
    agents: Vec<AgentRow>,
    wanted: Option<String>,
    found: Vec<FoundAgentRow>,
}

struct AgentRow {
    href: String,
    talk: String,
    name: String,
    id: String,
    /// Labels of the scopes that are granted now.
    allowed: Vec<String>,
    /// Whether a scope is suspended until new consent.
    suspended: bool,
    /// Whether a relation exists that can be revoked.
    has_relation: bool,
    last_used: Option<Timestamp>,
}

/// Agent found by a search at the relay.
struct FoundAgentRow {
    href: String,
    name: String,
    id: String,
    description: Option<String>,
}

/// `GET /agents`
pub(super) async fn list(State(pages): State<Pages>, visit: SignedInRequest) -> Response {
    page(&pages, &visit, None, Vec::new())
}

fn page(pages: &Pages, visit: &SignedInRequest, wanted: Option<String>, found: Vec<FoundAgentRow>) -> Response {
    let known = pages.device.agents().and_then(|known| Ok((known, last_uses(pages)?)));
    let (known, used) = match known {
        Ok(found) => found,
        Err(error) => return visit.failed(&error),
    };
    let agents = known.iter().map(|known| row(pages, visit, known, used.get(&known.agent).copied())).collect();
    written(StatusCode::OK, &AgentsPage { frame: visit.frame(pages, NavEntry::Agents), agents, wanted, found })
}

/// Time of each agent's last successful call on this device.
fn last_uses(pages: &Pages) -> Result<BTreeMap<AgentId, Timestamp>, DeviceError> {
    let ran = pages.device.audit()?.into_iter().filter(|chained| chained.entry.status == "ok");
    Ok(ran.map(|chained| (chained.entry.agent_id, chained.entry.timestamp)).collect())
}

fn row(pages: &Pages, visit: &SignedInRequest, known: &KnownAgent, last_used: Option<Timestamp>) -> AgentRow {
    let (standing, now) = (known.standing(&pages.device.identity().person), pages.device.now());
    let allowed = standing.iter().flat_map(|standing| {
        standing.granted.keys().filter(|scope| known.allows(standing, scope, now)).collect::<Vec<_>>()
    });
    let label = |scope: &ScopeId| wording::label(pages, known, scope, visit.language);
    AgentRow {
        href: visit.to(&format!("/agents/{}", known.agent)),
        talk: visit.to(&format!("/talk/{}", known.agent)),
        name: known.name.clone(),
        id: known.agent.to_string(),
        allowed: allowed.map(label).collect(),
        suspended: standing.as_ref().is_some_and(|standing| !standing.suspended.is_empty()),
        has_relation: standing.is_some(),
        last_used,
    }
}

#[derive(Deserialize)]
pub(super) struct FindQuery {
    #[serde(default)]
    agent: String,
}

/// `GET /agents/find?agent=…`: finds by id or by search terms.
pub(super) async fn find(
    State(pages): State<Pages>,
    Query(wanted): Query<FindQuery>,
    visit: SignedInRequest,
) -> Response {
    let words = wanted.agent.trim();
    if words.is_empty() {
        return see(&visit.to("/agents"));
    }
    if let Ok(agent) = AgentId::parse(words)
        && pages.device.refresh(&agent).await.is_ok()
    {
        return see(&visit.to(&format!("/agents/{agent}")));
    }
    let found = match pages.device.search(words).await {
        Ok(found) => found,
        Err(error) => return visit.failed(&error),
    };
    let found = found.into_iter().map(|found| FoundAgentRow {
        href: visit.to(&format!("/agents/{}", found.id)),
        name: found.name,
        id: found.id.to_string(),
        description: found.description,
    });
    page(&pages, &visit, Some(nuncio_core::text::plain(words)), found.collect())
}

/// `GET /agents/:id`
#[derive(Template)]
#[template(path = "agent.html")]
struct AgentPage {
    frame: Frame,
    ask: ConsentView,
    /// Safety number that the person compares with the agent's owner, in groups of digits.
    number: Vec<String>,
    /// New keys of the agent that the person has not accepted yet.
    new_keys: Vec<NewKeys>,
    /// Whether a relation exists that can be revoked.
    has_relation: bool,
    last_used: Option<Timestamp>,
    happened: String,
    talk: String,
    /// Notice about the result of the previous action.
    news: Option<&'static str>,
    wrong: Option<String>,
}

/// Published keys that differ from the pinned ones.
struct NewKeys {
    device: String,
    fingerprint: String,
    /// Safety number that would result from accepting the new keys.
    number: Vec<String>,
}

/// Splits a safety number into its groups of digits.
fn groups(number: &str) -> Vec<String> {
    number.split_whitespace().map(str::to_owned).collect()
}

#[derive(Default, Deserialize)]
pub(super) struct AgentPageQuery {
    after: Option<String>,
}

/// `GET /agents/:id`
pub(super) async fn show(
    State(pages): State<Pages>,
    Path(id): Path<String>,
    Query(shown): Query<AgentPageQuery>,
    visit: SignedInRequest,
) -> Response {
    let Ok(agent) = AgentId::parse(&id) else { return unknown(&visit) };
    let texts = &visit.text.agent;
    let news: Option<&'static str> = match shown.after.as_deref() {
        Some("allowed") => Some(&texts.was_allowed),
        Some("revoked") => Some(&texts.was_revoked),
        Some("stricter") => Some(&texts.was_set),
        Some("keys") => Some(&texts.was_accepted),
        _ => None,
    };
    one(&pages, &visit, &agent, news, None).await
}

async fn one(
    pages: &Pages,
    visit: &SignedInRequest,
    agent: &AgentId,
    news: Option<&'static str>,
    wrong: Option<String>,
) -> Response {
    let ask = match pages.device.access_request(agent).await {
        Ok(ask) => ask,
        Err(error) => return visit.failed(&error),
    };
    match about(pages, visit, ask, news, wrong).await {
        Ok(page) if page.wrong.is_some() => written(StatusCode::CONFLICT, &page),
        Ok(page) => written(StatusCode::OK, &page),
        Err(error) => visit.failed(&error),
    }
}

async fn about(
    pages: &Pages,
    visit: &SignedInRequest,
    ask: AccessRequest,
    news: Option<&'static str>,
    wrong: Option<String>,
) -> Result<AgentPage, DeviceError> {
    let owner = Recipient::Agent(ask.agent.clone());
    let known = pages.device.agents()?.into_iter().find(|known| known.agent == ask.agent);
    let standing = known.as_ref().and_then(|known| known.standing(&pages.device.identity().person));
    let number = pages.device.peer().safety_number(&owner).await?.unwrap_or_default();
    let new_keys = pages.device.peer().waiting(&owner).await?;
    let new_keys = new_keys.into_iter().map(|new| NewKeys {
        device: new.bundle.keys.device_id.to_string(),
        fingerprint: new.bundle.keys.signing_key.fingerprint().to_string(),
        number: groups(&new.safety_number.unwrap_or_default()),
    });
    Ok(AgentPage {
        frame: visit.frame(pages, NavEntry::Agents),
        number: groups(&number),
        new_keys: new_keys.collect(),
        has_relation: standing.is_some(),
        last_used: last_uses(pages)?.get(&ask.agent).copied(),
        happened: visit.to(&format!("/happened?agent={}", ask.agent)),
        talk: visit.to(&format!("/talk/{}", ask.agent)),
        ask: ConsentView::new(pages, visit, ask, standing.is_some()),
        news,
        wrong,
    })
}

fn unknown(visit: &SignedInRequest) -> Response {
    visit.message(StatusCode::NOT_FOUND, &visit.text.frame.not_found, &visit.text.agent.unknown)
}

/// Renders the page again with an error message.
async fn wrong(pages: &Pages, visit: &SignedInRequest, agent: &AgentId, error: &DeviceError) -> Response {
    one(pages, visit, agent, None, Some(visit.text.trouble(error))).await
}

fn done(visit: &SignedInRequest, agent: &AgentId, what: &str) -> Response {
    see(&visit.to(&format!("/agents/{agent}?after={what}")))
}

/// `POST /agents/:id/allow`: grants the selected scopes for the manifest that was shown.
pub(super) async fn allow(
    State(pages): State<Pages>,
    Path(id): Path<String>,
    PageForm { visit, sent }: PageForm,
) -> Response {
    let Ok(agent) = AgentId::parse(&id) else { return unknown(&visit) };
    let ask = match pages.device.access_request(&agent).await {
        Ok(ask) => ask,
        Err(error) => return visit.failed(&error),
    };
    if field(&sent, "hash") != Some(ask.manifest_hash.to_string().as_str()) {
        return one(&pages, &visit, &agent, None, Some(visit.text.agent.changed_meanwhile.clone())).await;
    }
    let given = given(&ask, &sent, pages.device.now());
    match pages.device.allow(&ask, &given).await {
        Ok(_) => done(&visit, &agent, "allowed"),
        Err(error) => wrong(&pages, &visit, &agent, &error).await,
    }
}

/// Selected scopes, limited to the requested ones.
fn given(ask: &AccessRequest, sent: &Fields, now: Timestamp) -> GrantedScopes {
    let on = |scope: &ScopeId| sent.iter().any(|(name, value)| name == "scope" && value == scope.as_str());
    let chosen = ask.scopes.iter().filter(|scope| on(&scope.id));
    chosen
        .map(|scope| {
            let span = |seconds| GrantTerm::Until(now.after(Duration::from_secs(seconds)));
            let term = match field(sent, &format!("term {}", scope.id)) {
                Some("once") => GrantTerm::Once,
                Some("hour") => span(3600),
                Some("day") => span(24 * 3600),
                Some("month") => span(30 * 24 * 3600),
                Some("keep") => scope.term.unwrap_or(GrantTerm::UntilRevoked),
                _ => GrantTerm::UntilRevoked,
            };
            (scope.id.clone(), term)
        })
        .collect()
}

/// `POST /agents/:id/revoke`
pub(super) async fn revoke(
    State(pages): State<Pages>,
    Path(id): Path<String>,
    PageForm { visit, .. }: PageForm,
) -> Response {
    let Ok(agent) = AgentId::parse(&id) else { return unknown(&visit) };
    match pages.device.revoke(&agent).await {
        Ok(()) => done(&visit, &agent, "revoked"),
        Err(error) => wrong(&pages, &visit, &agent, &error).await,
    }
}

/// `POST /agents/:id/stricter`: raises the sensitivity of a scope for this agent.
pub(super) async fn stricter(
    State(pages): State<Pages>,
    Path(id): Path<String>,
    PageForm { visit, sent }: PageForm,
) -> Response {
    let Ok(agent) = AgentId::parse(&id) else { return unknown(&visit) };
    let scope = field(&sent, "scope").and_then(|text| ScopeId::parse(text).ok());
    let level = match field(&sent, "level") {
        Some("medium") => Some(Sensitivity::Medium),
        Some("high") => Some(Sensitivity::High),
        _ => None,
    };
    let Some(scope) = scope else { return unknown(&visit) };
    match pages.device.set_stricter(&agent, &scope, level) {
        Ok(()) => done(&visit, &agent, "stricter"),
        Err(error) => visit.failed(&error),
    }
}

/// `POST /agents/:id/keys`: accepts new keys of the agent.
pub(super) async fn accept_keys(
    State(pages): State<Pages>,
    Path(id): Path<String>,
    PageForm { visit, sent }: PageForm,
) -> Response {
    let Ok(agent) = AgentId::parse(&id) else { return unknown(&visit) };
    let device = field(&sent, "device").and_then(|text| DeviceId::parse(text).ok());
    let seen = field(&sent, "fingerprint").and_then(Digest::parse);
    let Some((device, seen)) = device.zip(seen) else { return unknown(&visit) };
    // The fingerprint shown on the page is accepted, not one that arrived meanwhile.
    let accepted = pages.device.peer().accept_key(&Recipient::Agent(agent.clone()), &device, &seen).await;
    match accepted {
        Ok(()) => done(&visit, &agent, "keys"),
        Err(error) => visit.failed(&error.into()),
    }
}

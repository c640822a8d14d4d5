//! Pages of agents: access requests, grants, verification and revocation.

use std::collections::BTreeMap;
use std::time::Duration;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use http::StatusCode;
use nuncio_core::agent::Sensitivity;
use nuncio_core::digest::Digest;
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::{AgentId, DeviceId, ScopeId};
use nuncio_core::notification::RelayParty;
use nuncio_core::time::Timestamp;
use nuncio_http::pages::sender::{FormFields, field};
use nuncio_http::pages::{see, written};
use serde::Deserialize;

use super::frame::{CompletedActionQuery, NavEntry, PageFrame, SignedInForm, SignedInRequest};
use super::{DevicePages, wording};
use crate::consent::{AccessRequest, GrantedScopes};
use crate::error::DeviceError;
use crate::known_agents::KnownAgent;

mod change;
mod consent;

use consent::ConsentView;

#[derive(Template)]
#[template(path = "agents.html")]
struct AgentsPage {
    frame: PageFrame,
    agents: Vec<AgentRow>,
    search: Option<String>,
    found: Vec<FoundAgentRow>,
}

struct AgentRow {
    href: String,
    talk: String,
    name: String,
    id: String,
    /// Labels of the scopes that are granted now.
    allowed: Vec<String>,
    /// Whether any granted scope is suspended until new consent.
    suspended: bool,
    /// Whether the person has a relation with the agent, which can be revoked.
    has_relation: bool,
    last_used: Option<Timestamp>,
}

struct FoundAgentRow {
    href: String,
    name: String,
    id: String,
    description: Option<String>,
}

/// `GET /agents`: page with the agents that this device knows.
pub(super) async fn list(State(pages): State<DevicePages>, visit: SignedInRequest) -> Response {
    visit.respond(list_page(&pages, &visit, None, Vec::new()))
}

/// Renders the page with the known agents, and after a search also the found ones.
fn list_page(
    pages: &DevicePages,
    visit: &SignedInRequest,
    search: Option<String>,
    found: Vec<FoundAgentRow>,
) -> Result<Response, DeviceError> {
    let (known, used) = (pages.device.consents().agents()?, last_uses(pages)?);
    let agents = known.iter().map(|known| row(pages, visit, known, used.get(&known.agent).copied())).collect();
    Ok(written(StatusCode::OK, &AgentsPage { frame: visit.frame(pages, NavEntry::Agents), agents, search, found }))
}

/// Time of each agent's last successful call on this device.
fn last_uses(pages: &DevicePages) -> Result<BTreeMap<AgentId, Timestamp>, DeviceError> {
    let ran = pages.device.audit().entries()?.into_iter().filter(|chained| chained.entry.status == "ok");
    Ok(ran.map(|chained| (chained.entry.agent_id, chained.entry.timestamp)).collect())
}

fn row(pages: &DevicePages, visit: &SignedInRequest, known: &KnownAgent, last_used: Option<Timestamp>) -> AgentRow {
    let (standing, now) = (known.standing(&pages.device.identity().person), pages.device.context().now());
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
pub(super) struct AgentSearchQuery {
    #[serde(default)]
    agent: String,
}

/// `GET /agents/find?agent=…`: finds agents by id or by search terms.
pub(super) async fn find(
    State(pages): State<DevicePages>,
    Query(query): Query<AgentSearchQuery>,
    visit: SignedInRequest,
) -> Response {
    let terms = query.agent.trim();
    if terms.is_empty() {
        return see(&visit.to("/agents"));
    }
    if let Ok(agent) = AgentId::parse(terms)
        && pages.device.consents().refresh(&agent).await.is_ok()
    {
        return see(&visit.to(&format!("/agents/{agent}")));
    }
    visit.respond(search_page(&pages, &visit, terms).await)
}

async fn search_page(pages: &DevicePages, visit: &SignedInRequest, terms: &str) -> Result<Response, DeviceError> {
    let found = pages.device.consents().search(terms).await?;
    let found = found.into_iter().map(|found| FoundAgentRow {
        href: visit.to(&format!("/agents/{}", found.id)),
        name: found.name,
        id: found.id.to_string(),
        description: found.description,
    });
    list_page(pages, visit, Some(nuncio_core::text::plain(terms)), found.collect())
}

#[derive(Template)]
#[template(path = "agent.html")]
struct AgentPage {
    frame: PageFrame,
    ask: ConsentView,
    /// Safety number that the person compares with the agent's owner, in groups of digits.
    number: Vec<String>,
    /// New keys of the agent that the person has not accepted yet.
    new_keys: Vec<ChangedAgentKeys>,
    /// Whether the person has a relation with the agent, which can be revoked.
    has_relation: bool,
    last_used: Option<Timestamp>,
    happened: String,
    talk: String,
    /// Notice about the result of the previous action.
    news: Option<&'static str>,
    wrong: Option<String>,
}

/// Published keys of an agent that differ from the pinned ones.
struct ChangedAgentKeys {
    device: String,
    fingerprint: String,
    /// Safety number that would result from accepting the new keys.
    number: Vec<String>,
}

/// Splits a safety number into its groups of digits.
fn groups(number: &str) -> Vec<String> {
    number.split_whitespace().map(str::to_owned).collect()
}

/// `GET /agents/:id`: page of one agent.
pub(super) async fn show(
    State(pages): State<DevicePages>,
    Path(id): Path<String>,
    Query(shown): Query<CompletedActionQuery>,
    visit: SignedInRequest,
) -> Response {
    let Ok(agent) = AgentId::parse(&id) else { return unknown(&visit) };
    let texts = &visit.text.agent;
    let news: Option<&'static str> = match shown.after.as_deref() {
        Some("allowed") => Some(&texts.was_allowed),
        Some("nothing") => Some(&texts.was_nothing),
        Some("revoked") => Some(&texts.was_revoked),
        Some("stricter") => Some(&texts.was_set),
        Some("keys") => Some(&texts.was_accepted),
        _ => None,
    };
    visit.respond(agent_page(&pages, &visit, &agent, news, None).await)
}

/// Renders the page of an agent, with a notice or an error message about the previous action.
async fn agent_page(
    pages: &DevicePages,
    visit: &SignedInRequest,
    agent: &AgentId,
    news: Option<&'static str>,
    wrong: Option<String>,
) -> Result<Response, DeviceError> {
    let ask = pages.device.consents().access_request(agent).await?;
    let owner = RelayParty::Agent(ask.agent.clone());
    let known = pages.device.consents().agents()?.into_iter().find(|known| known.agent == ask.agent);
    let standing = known.as_ref().and_then(|known| known.standing(&pages.device.identity().person));
    let number = pages.device.peer().keys().safety_number(&owner).await?.unwrap_or_default();
    let new_keys = pages.device.peer().keys().waiting(&owner).await?;
    let new_keys = new_keys.into_iter().map(|new| ChangedAgentKeys {
        device: new.bundle.keys.device_id.to_string(),
        fingerprint: new.bundle.keys.signing_key.fingerprint().to_string(),
        number: groups(&new.safety_number.unwrap_or_default()),
    });
    let status = if wrong.is_some() { StatusCode::CONFLICT } else { StatusCode::OK };
    let page = AgentPage {
        frame: visit.frame(pages, NavEntry::Agents),
        number: groups(&number),
        new_keys: new_keys.collect(),
        has_relation: standing.is_some(),
        last_used: last_uses(pages)?.get(&ask.agent).copied(),
        happened: visit.to(&format!("/happened?agent={}", ask.agent)),
        talk: visit.to(&format!("/talk/{}", ask.agent)),
        ask: ConsentView::new(visit, ask, standing.is_some()),
        news,
        wrong,
    };
    Ok(written(status, &page))
}

pub(super) fn unknown(visit: &SignedInRequest) -> Response {
    visit.message(StatusCode::NOT_FOUND, &visit.text.frame.not_found, &visit.text.agent.unknown)
}

/// Redirects to the page of the agent after an action, or renders the page with the error message of the action.
async fn finish(
    pages: &DevicePages,
    visit: &SignedInRequest,
    agent: &AgentId,
    action: &str,
    result: Result<(), DeviceError>,
) -> Response {
    match result {
        Ok(()) => redirect_after(visit, agent, action),
        Err(error) => visit.respond(agent_page(pages, visit, agent, None, Some(visit.text.trouble(&error))).await),
    }
}

fn redirect_after(visit: &SignedInRequest, agent: &AgentId, action: &str) -> Response {
    see(&visit.to(&format!("/agents/{agent}?after={action}")))
}

/// `POST /agents/:id/allow`: grants the selected scopes for the manifest that was shown.
pub(super) async fn allow(State(pages): State<DevicePages>, Path(id): Path<String>, form: SignedInForm) -> Response {
    let Ok(agent) = AgentId::parse(&id) else { return unknown(&form.visit) };
    let ask = match pages.device.consents().access_request(&agent).await {
        Ok(ask) => ask,
        Err(error) => return form.visit.failed(&error),
    };
    if field(&form.sent, "hash") != Some(ask.manifest_hash.to_string().as_str()) {
        let changed = Some(form.visit.text.agent.changed_meanwhile.clone());
        return form.visit.respond(agent_page(&pages, &form.visit, &agent, None, changed).await);
    }
    let granted = granted_scopes(&ask, &form.sent, pages.device.context().now());
    let allowed = pages.device.consents().allow(&ask, &granted).await.map(drop);
    let action = if granted.is_empty() { "nothing" } else { "allowed" };
    finish(&pages, &form.visit, &agent, action, allowed).await
}

/// Scopes that the person selected in the form, with their terms; scopes that were not requested are ignored.
fn granted_scopes(ask: &AccessRequest, sent: &FormFields, now: Timestamp) -> GrantedScopes {
    let is_selected = |scope: &ScopeId| sent.iter().any(|(name, value)| name == "scope" && value == scope.as_str());
    let selected = ask.scopes.iter().filter(|scope| is_selected(&scope.id));
    selected
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

/// `POST /agents/:id/revoke`: revokes all grants of the agent.
pub(super) async fn revoke(State(pages): State<DevicePages>, Path(id): Path<String>, form: SignedInForm) -> Response {
    let Ok(agent) = AgentId::parse(&id) else { return unknown(&form.visit) };
    let revoked = pages.device.consents().revoke(&agent).await;
    finish(&pages, &form.visit, &agent, "revoked", revoked).await
}

/// `POST /agents/:id/stricter`: raises the sensitivity of a scope for this agent.
pub(super) async fn stricter(State(pages): State<DevicePages>, Path(id): Path<String>, form: SignedInForm) -> Response {
    let Ok(agent) = AgentId::parse(&id) else { return unknown(&form.visit) };
    let scope = field(&form.sent, "scope").and_then(|text| ScopeId::parse(text).ok());
    let level = match field(&form.sent, "level") {
        Some("medium") => Some(Sensitivity::Medium),
        Some("high") => Some(Sensitivity::High),
        _ => None,
    };
    let Some(scope) = scope else { return unknown(&form.visit) };
    let set = pages.device.consents().set_stricter(&agent, &scope, level);
    form.visit.respond(set.map(|()| redirect_after(&form.visit, &agent, "stricter")))
}

/// `POST /agents/:id/keys`: accepts new keys of the agent.
pub(super) async fn accept_keys(
    State(pages): State<DevicePages>,
    Path(id): Path<String>,
    form: SignedInForm,
) -> Response {
    let Ok(agent) = AgentId::parse(&id) else { return unknown(&form.visit) };
    let device = field(&form.sent, "device").and_then(|text| DeviceId::parse(text).ok());
    let seen = field(&form.sent, "fingerprint").and_then(Digest::parse);
    let Some((device, seen)) = device.zip(seen) else { return unknown(&form.visit) };
    // Only the fingerprint shown on the page is accepted, not a key that arrived meanwhile.
    let accepted = pages.device.peer().keys().accept_key(&RelayParty::Agent(agent.clone()), &device, &seen).await;
    form.visit.respond(accepted.map(|()| redirect_after(&form.visit, &agent, "keys")).map_err(DeviceError::from))
}

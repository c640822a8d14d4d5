//! `/a2h/h2a/relations`: a person's grants to an agent (A2H §2.4).

use axum::extract::{Request, State};
use http::{StatusCode, header};
use nuncio_core::ids::{PersonName, RelationId};
use nuncio_core::notification::RelayParty;
use nuncio_core::person::Device;
use nuncio_core::relation::Relation;
use nuncio_engine::EngineError;
use nuncio_engine::consent::NewRelation;
use nuncio_engine::not_found;

use super::{A2hResult, A2hServerState, PagedListQuery, PathParam, answer, caller, created, data, page, participant};
use crate::lift;
use crate::wire::relation::{ConsentRequest, LedgerDevice, LedgerPage, RelationView, RevokeRelationRequest};

/// `POST /a2h/h2a/relations`: grants scopes to an agent for the first time.
pub(super) async fn establish(State(a2h): State<A2hServerState>, request: Request) -> A2hResult {
    let by = caller(&request)?;
    let body: ConsentRequest = lift::strict(&a2h.body(request).await?)?;
    let agent =
        body.agent_id.clone().ok_or_else(|| lift::wrong("agent_id is missing: the agent that gets the permissions"))?;
    let relation =
        a2h.engine.consent().establish_relation(&by, NewRelation { agent, consent: lift::consent(body)? }).await?;
    Ok(created(&format!("/a2h/h2a/relations/{}", relation.id), a2h.relation_view(&relation)))
}

/// `PATCH /a2h/h2a/relations/{id}`: replaces the grants of a relation.
pub(super) async fn change(State(a2h): State<A2hServerState>, PathParam(id): PathParam, request: Request) -> A2hResult {
    let by = caller(&request)?;
    let id = relation_id(&id)?;
    let body: ConsentRequest = lift::strict(&a2h.body(request).await?)?;
    if let Some(agent) = &body.agent_id
        && a2h.engine.consent().relation(&by, &id).await?.agent != *agent
    {
        return Err(lift::wrong("agent_id is not the agent of this relation; leave it out").into());
    }
    let relation = a2h.engine.consent().change_relation(&by, &id, lift::consent(body)?).await?;
    Ok(data(StatusCode::OK, a2h.relation_view(&relation)))
}

/// `DELETE /a2h/h2a/relations/{id}`: revokes a relation with a signed ledger entry.
pub(super) async fn revoke(State(a2h): State<A2hServerState>, PathParam(id): PathParam, request: Request) -> A2hResult {
    let by = caller(&request)?;
    let id = relation_id(&id)?;
    // Without a body the response contains the ledger entry to sign.
    let body: RevokeRelationRequest = match request.headers().contains_key(header::CONTENT_TYPE) {
        true => lift::strict(&a2h.body(request).await?)?,
        false => RevokeRelationRequest::default(),
    };
    let relation = a2h.engine.consent().revoke_relation(&by, &id, body.entry.as_ref()).await?;
    Ok(data(StatusCode::OK, a2h.relation_view(&relation)))
}

/// `GET /a2h/h2a/relations?cursor=&limit=`: all relations of the calling person, or the active ones of the calling
/// agent.
pub(super) async fn list(State(a2h): State<A2hServerState>, request: Request) -> A2hResult {
    let wanted = PagedListQuery::of(&request)?;
    let (caller, _) = participant(&request)?;
    let (limit, view) = (wanted.limit, |relation: &Relation| a2h.relation_view(relation));
    match caller {
        RelayParty::Person(person) => {
            let after = wanted.cursor(|text| RelationId::parse(text).ok())?;
            let found = a2h.engine.consent().relations(&person, after.as_ref(), limit + 1).await?;
            Ok(page(found, limit, view, |relation| relation.id.to_string()))
        }
        RelayParty::Agent(agent) => {
            let after = wanted.cursor(|text| PersonName::parse(text).ok())?;
            let found = a2h.engine.consent().agent_relations(&agent, after.as_ref(), limit + 1).await?;
            Ok(page(found, limit, view, |relation| relation.person.to_string()))
        }
    }
}

/// `GET /a2h/h2a/relations/{id}`, for the person and the agent of the relation.
pub(super) async fn show(State(a2h): State<A2hServerState>, PathParam(id): PathParam, request: Request) -> A2hResult {
    let relation = a2h.engine.consent().relation(&caller(&request)?, &relation_id(&id)?).await?;
    Ok(data(StatusCode::OK, a2h.relation_view(&relation)))
}

/// `GET /a2h/h2a/relations/{id}/ledger?cursor=&limit=`, for the person and the agent of the relation.
pub(super) async fn ledger(State(a2h): State<A2hServerState>, PathParam(id): PathParam, request: Request) -> A2hResult {
    let wanted = PagedListQuery::of(&request)?;
    let after = wanted.cursor(|text| text.parse::<u64>().ok())?.unwrap_or(0);
    let mut found =
        a2h.engine.consent().ledger(&caller(&request)?, &relation_id(&id)?, after, wanted.limit + 1).await?;
    let more = found.entries.len() > wanted.limit;
    found.entries.truncate(wanted.limit);
    let next_cursor = found.entries.last().filter(|_| more).map(|entry| entry.seq.to_string());
    let devices = found.devices.into_iter().map(device).collect();
    Ok(answer(StatusCode::OK, &LedgerPage { data: found.entries, next_cursor, devices }))
}

fn device(device: Device) -> LedgerDevice {
    LedgerDevice {
        id: device.id,
        user_id: device.person,
        public_key: device.key,
        enrolled_at: device.enrolled_at,
        revoked_at: device.revoked_at,
    }
}

fn relation_id(text: &str) -> Result<RelationId, EngineError> {
    RelationId::parse(text).map_err(|_| not_found::relation(text))
}

impl A2hServerState {
    fn relation_view(&self, relation: &Relation) -> RelationView {
        RelationView::of(relation, self.engine.now())
    }
}

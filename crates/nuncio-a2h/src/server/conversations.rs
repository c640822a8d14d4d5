//! `/a2h/conversations`: conversations and their members.

use axum::extract::{Request, State};
use http::{HeaderValue, StatusCode, header};
use nuncio_core::Code;
use nuncio_core::happening::Recipient;
use nuncio_core::ids::ConversationId;
use nuncio_engine::EngineError;
use nuncio_engine::ports::store::relay::MemberView;
use nuncio_engine::relay::NewConversation;

use super::{A2h, A2hResult, ListQuery, PathParam, data, page, party};
use crate::lift;
use crate::wire::conversation::{ConversationPatch, ConversationView, LeftView, Member, OpenRequest};

/// `GET /a2h/conversations?cursor=&limit=`
pub(super) async fn list(State(a2h): State<A2h>, request: Request) -> A2hResult {
    let wanted = ListQuery::of(&request)?;
    let after = wanted.cursor(|text| ConversationId::parse(text).ok())?;
    let (_, by) = party(&request)?;
    let found = a2h.engine.relay().conversations(&by, after.as_ref(), wanted.limit + 1).await?;
    Ok(page(found, wanted.limit, |held| view(held.clone()), |held| held.conversation.id.to_string()))
}

/// `POST /a2h/conversations`: creates one, or returns the existing one of two members.
pub(super) async fn open(State(a2h): State<A2h>, request: Request) -> A2hResult {
    let (_, by) = party(&request)?;
    let body: OpenRequest = lift::strict(&a2h.body(request).await?)?;
    let with = body.with.into_iter().map(Recipient::from).collect();
    let (held, new) = a2h.engine.relay().open_conversation(&by, NewConversation { kind: body.kind, with }).await?;
    let place = HeaderValue::try_from(format!("/a2h/conversations/{}", held.conversation.id)).ok();
    let mut response = data(if new { StatusCode::CREATED } else { StatusCode::OK }, view(held));
    response.headers_mut().extend(place.filter(|_| new).map(|place| (header::LOCATION, place)));
    Ok(response)
}

/// `GET /a2h/conversations/{id}`
pub(super) async fn show(State(a2h): State<A2h>, PathParam(id): PathParam<String>, request: Request) -> A2hResult {
    let (_, by) = party(&request)?;
    let held = a2h.engine.relay().conversation_for(&by, &conversation_id(&id)?).await?;
    Ok(data(StatusCode::OK, view(held)))
}

/// `PATCH /a2h/conversations/{id}`: sets the read position, or changes the members of a group.
pub(super) async fn change(State(a2h): State<A2h>, PathParam(id): PathParam<String>, request: Request) -> A2hResult {
    let (me, by) = party(&request)?;
    let id = conversation_id(&id)?;
    let body: ConversationPatch = lift::strict(&a2h.body(request).await?)?;
    let held = match body {
        ConversationPatch { read_seq: Some(seq), add: None, remove: None } => {
            a2h.engine.relay().read_conversation(&by, &id, seq).await?
        }
        ConversationPatch { read_seq: None, add, remove } if add.is_some() || remove.is_some() => {
            let all = |members: Option<Vec<Member>>| -> Vec<_> {
                members.unwrap_or_default().into_iter().map(Recipient::from).collect()
            };
            let (add, remove) = (all(add), all(remove));
            if remove.contains(&me) {
                return Err(lift::wrong("whoever leaves a group sends DELETE to it; remove takes out others").into());
            }
            a2h.engine.relay().change_members(&by, &id, &add, &remove).await?;
            a2h.engine.relay().conversation_for(&by, &id).await?
        }
        _ => return Err(lift::wrong("send read_seq alone, or add and remove: who takes part in a group").into()),
    };
    Ok(data(StatusCode::OK, view(held)))
}

/// `DELETE /a2h/conversations/{id}`: the caller leaves the group.
pub(super) async fn leave(State(a2h): State<A2h>, PathParam(id): PathParam<String>, request: Request) -> A2hResult {
    let (me, by) = party(&request)?;
    let id = conversation_id(&id)?;
    a2h.engine.relay().change_members(&by, &id, &[], &[me]).await?;
    Ok(data(StatusCode::OK, LeftView { id }))
}

/// Parses the conversation id of a path; an invalid id is an unknown conversation.
pub(super) fn conversation_id(text: &str) -> Result<ConversationId, EngineError> {
    let missing = |_| EngineError::new(Code::ConversationNotFound, "you take part in no such conversation");
    ConversationId::parse(text).map_err(missing)
}

fn view(held: MemberView) -> ConversationView {
    let MemberView { conversation, last_seq, read_seq } = held;
    ConversationView {
        id: conversation.id,
        kind: conversation.kind,
        members: conversation.members.into_iter().map(Member::from).collect(),
        created_by: conversation.created_by.into(),
        created_at: conversation.created_at,
        last_seq,
        read_seq,
    }
}

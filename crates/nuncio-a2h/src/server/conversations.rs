//! `/a2h/conversations`: conversations and their members.

use axum::extract::{Request, State};
use http::StatusCode;
use nuncio_core::ids::ConversationId;
use nuncio_core::notification::RelayParty;
use nuncio_engine::EngineError;
use nuncio_engine::not_found;
use nuncio_engine::ports::store::relay::MemberConversation;
use nuncio_engine::relay::NewConversation;

use super::{A2hResult, A2hServerState, PagedListQuery, PathParam, created, data, page, participant};
use crate::lift;
use crate::wire::conversation::{
    ConversationMember, ConversationPatch, ConversationView, LeftConversationView, OpenConversationRequest,
};

/// `GET /a2h/conversations?cursor=&limit=`: conversations of the caller.
pub(super) async fn list(State(a2h): State<A2hServerState>, request: Request) -> A2hResult {
    let wanted = PagedListQuery::of(&request)?;
    let after = wanted.cursor(|text| ConversationId::parse(text).ok())?;
    let (_, by) = participant(&request)?;
    let found = a2h.engine.relay().conversations(&by, after.as_ref(), wanted.limit + 1).await?;
    let cursor = |membership: &MemberConversation| membership.conversation.id.to_string();
    Ok(page(found, wanted.limit, |membership| view(membership.clone()), cursor))
}

/// `POST /a2h/conversations`: creates a conversation, or returns the existing one between the same two members.
pub(super) async fn open(State(a2h): State<A2hServerState>, request: Request) -> A2hResult {
    let (_, by) = participant(&request)?;
    let body: OpenConversationRequest = lift::strict(&a2h.body(request).await?)?;
    let with = body.with.into_iter().map(RelayParty::from).collect();
    let (membership, new) =
        a2h.engine.relay().open_conversation(&by, NewConversation { kind: body.kind, with }).await?;
    let path = format!("/a2h/conversations/{}", membership.conversation.id);
    Ok(if new { created(&path, view(membership)) } else { data(StatusCode::OK, view(membership)) })
}

/// `GET /a2h/conversations/{id}`: a conversation of the caller.
pub(super) async fn show(State(a2h): State<A2hServerState>, PathParam(id): PathParam, request: Request) -> A2hResult {
    let (_, by) = participant(&request)?;
    let membership = a2h.engine.relay().conversation_for(&by, &conversation_id(&id)?).await?;
    Ok(data(StatusCode::OK, view(membership)))
}

/// `PATCH /a2h/conversations/{id}`: sets the read position, or changes the members of a group.
pub(super) async fn change(State(a2h): State<A2hServerState>, PathParam(id): PathParam, request: Request) -> A2hResult {
    let (me, by) = participant(&request)?;
    let id = conversation_id(&id)?;
    let body: ConversationPatch = lift::strict(&a2h.body(request).await?)?;
    let membership = match body {
        ConversationPatch { read_seq: Some(seq), add: None, remove: None } => {
            a2h.engine.relay().read_conversation(&by, &id, seq).await?
        }
        ConversationPatch { read_seq: None, add, remove } if add.is_some() || remove.is_some() => {
            let all = |members: Option<Vec<ConversationMember>>| -> Vec<_> {
                members.unwrap_or_default().into_iter().map(RelayParty::from).collect()
            };
            let (add, remove) = (all(add), all(remove));
            if remove.contains(&me) {
                return Err(lift::wrong("to leave a group, send DELETE to it; remove is for other members").into());
            }
            a2h.engine.relay().change_members(&by, &id, &add, &remove).await?;
            a2h.engine.relay().conversation_for(&by, &id).await?
        }
        _ => return Err(lift::wrong("send read_seq alone, or add and remove to change the members of a group").into()),
    };
    Ok(data(StatusCode::OK, view(membership)))
}

/// `DELETE /a2h/conversations/{id}`: the caller leaves the group.
pub(super) async fn leave(State(a2h): State<A2hServerState>, PathParam(id): PathParam, request: Request) -> A2hResult {
    let (me, by) = participant(&request)?;
    let id = conversation_id(&id)?;
    a2h.engine.relay().change_members(&by, &id, &[], &[me]).await?;
    Ok(data(StatusCode::OK, LeftConversationView { id }))
}

/// Parses the conversation id of a path; an invalid id gives the same error as an unknown conversation.
pub(super) fn conversation_id(text: &str) -> Result<ConversationId, EngineError> {
    ConversationId::parse(text).map_err(|_| not_found::conversation(text))
}

fn view(membership: MemberConversation) -> ConversationView {
    let MemberConversation { conversation, last_seq, read_seq } = membership;
    ConversationView {
        id: conversation.id,
        kind: conversation.kind,
        members: conversation.members.into_iter().map(ConversationMember::from).collect(),
        created_by: conversation.created_by.into(),
        created_at: conversation.created_at,
        last_seq,
        read_seq,
    }
}

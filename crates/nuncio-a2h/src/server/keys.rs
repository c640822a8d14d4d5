//! `/a2h/keys` and key uploads: public keys of devices and agents, which senders use to seal messages.

use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use nuncio_core::ErrorCode;
use nuncio_core::bundle::{KeyBackup, KeyBundle};
use nuncio_core::ids::{DeviceId, PersonName};
use nuncio_core::notification::RelayParty;
use nuncio_core::principal::Principal;
use nuncio_engine::not_found;
use nuncio_engine::people::KeyBundleUploadResult;
use nuncio_engine::{AuthenticationMethod, Caller, EngineError};

use super::agents::agent_id;
use super::conversations::conversation_id;
use super::{A2hResult, A2hServerState, PagedListQuery, PathParam, answer, data, participant, person};
use crate::error::A2hError;
use crate::lift;
use crate::wire::Page;
use crate::wire::keys::{EndorsementRequest, KeyBackupView, PublishedKeysStatus, RegisterKeysRequest};

/// `POST /a2h/agents/{id}/keys/register`: stores keys of the calling agent.
pub(super) async fn register_agent(
    State(a2h): State<A2hServerState>,
    PathParam(id): PathParam,
    request: Request,
) -> A2hResult {
    let (_, by) = itself(&request, &id)?;
    a2h.register(&by, request).await
}

/// `POST /a2h/users/me/devices/{id}/keys`: stores keys of the calling device.
pub(super) async fn register_device(
    State(a2h): State<A2hServerState>,
    PathParam(id): PathParam,
    request: Request,
) -> A2hResult {
    let (_, by) = person(&request)?;
    match &by.authentication {
        AuthenticationMethod::Device(own) if own.as_str() == id => a2h.register(&by, request).await,
        _ => Err(A2hError::new(
            ErrorCode::PermissionDenied,
            "a device can publish only its own keys; use the token of that device",
        )),
    }
}

/// `POST /a2h/users/me/devices/{id}/endorsement`: the calling device endorses another device of the same person.
pub(super) async fn endorse(
    State(a2h): State<A2hServerState>,
    PathParam(id): PathParam,
    request: Request,
) -> A2hResult {
    let (_, by) = person(&request)?;
    let id = DeviceId::parse(&id).map_err(|_| not_found::own_key_bundle(&id))?;
    let body: EndorsementRequest = lift::strict(&a2h.body(request).await?)?;
    Ok(data(StatusCode::OK, a2h.engine.device_keys().endorse_device(&by, &id, body.signature).await?))
}

/// `GET /a2h/keys/agents/{id}`: public keys of an agent.
pub(super) async fn of_agent(
    State(a2h): State<A2hServerState>,
    PathParam(id): PathParam,
    request: Request,
) -> A2hResult {
    let (_, by) = participant(&request)?;
    Ok(bundle_list(a2h.engine.device_keys().keys_of(&by, &RelayParty::Agent(agent_id(&id)?)).await?))
}

/// `GET /a2h/keys/users/{name}/devices`: public keys of a person's devices.
pub(super) async fn of_person(
    State(a2h): State<A2hServerState>,
    PathParam(name): PathParam,
    request: Request,
) -> A2hResult {
    let (_, by) = participant(&request)?;
    let name = PersonName::parse(&name).map_err(|_| not_found::person_with_keys(&name))?;
    Ok(bundle_list(a2h.engine.device_keys().keys_of(&by, &RelayParty::Person(name)).await?))
}

/// `GET /a2h/keys/groups/{conversation_id}`: keys of all members of a conversation.
pub(super) async fn of_conversation(
    State(a2h): State<A2hServerState>,
    PathParam(id): PathParam,
    request: Request,
) -> A2hResult {
    let (_, by) = participant(&request)?;
    Ok(bundle_list(a2h.engine.device_keys().keys_of_conversation(&by, &conversation_id(&id)?).await?))
}

/// `POST /a2h/keys/devices/{device_id}/one-time-key?owner=`: returns a key that no one else gets, or the fallback key
/// if none is left. `owner` is `person:NAME` or `agent:ID`.
pub(super) async fn take_one(
    State(a2h): State<A2hServerState>,
    PathParam(id): PathParam,
    request: Request,
) -> A2hResult {
    let (_, by) = participant(&request)?;
    let owner = PagedListQuery::of(&request)?.text("owner").map(recipient).transpose()?;
    let id = DeviceId::parse(&id).map_err(|_| not_found::one_time_keys(&id))?;
    Ok(data(StatusCode::OK, a2h.engine.device_keys().take_one_time_key(&by, owner, &id).await?))
}

/// `POST` and `PUT /a2h/keys/backup`: stores the person's key backup in place of the previous one.
pub(super) async fn back_up(State(a2h): State<A2hServerState>, request: Request) -> A2hResult {
    let (name, _) = person(&request)?;
    let backup = lift::backup(&a2h.body(request).await?)?;
    let content = serde_json::to_string(&backup).map_err(|why| A2hError::new(ErrorCode::Internal, why.to_string()))?;
    let updated_at = a2h.engine.device_keys().put_backup(&name, content).await?;
    Ok(data(StatusCode::OK, KeyBackupView { backup, updated_at }))
}

/// `GET /a2h/keys/backup`: the person's key backup.
pub(super) async fn backup(State(a2h): State<A2hServerState>, request: Request) -> A2hResult {
    let (name, _) = person(&request)?;
    let (content, updated_at) = a2h.engine.device_keys().backup(&name).await?;
    let unreadable =
        |why: serde_json::Error| A2hError::new(ErrorCode::Internal, format!("the backup is unreadable: {why}"));
    let backup: KeyBackup = serde_json::from_str(&content).map_err(unreadable)?;
    Ok(data(StatusCode::OK, KeyBackupView { backup, updated_at }))
}

/// `DELETE /a2h/keys/backup`: deletes the person's key backup.
pub(super) async fn forget_backup(State(a2h): State<A2hServerState>, request: Request) -> A2hResult {
    let (name, _) = person(&request)?;
    a2h.engine.device_keys().remove_backup(&name).await?;
    Ok(data(StatusCode::OK, serde_json::json!({})))
}

/// Requires that the agent named in the path calls with its own token.
pub(super) fn itself(request: &Request, id: &str) -> Result<(RelayParty, Caller), EngineError> {
    let (me, by) = participant(request)?;
    let id = agent_id(id)?;
    match me == RelayParty::Agent(id) && by.authentication == AuthenticationMethod::AgentToken {
        true => Ok((me, by)),
        false => Err(EngineError::new(
            ErrorCode::PermissionDenied,
            "only the agent itself may send this request, with its own token",
        )),
    }
}

fn recipient(text: &str) -> Result<RelayParty, EngineError> {
    let parsed = Principal::parse(text).and_then(|principal| RelayParty::try_from(principal).ok());
    parsed.ok_or_else(|| EngineError::new(ErrorCode::BadRequest, "owner must be person:NAME or agent:ID"))
}

fn bundle_list(bundles: Vec<KeyBundle>) -> Response {
    answer(StatusCode::OK, &Page { data: bundles, next_cursor: None })
}

impl A2hServerState {
    async fn register(&self, by: &Caller, request: Request) -> A2hResult {
        let body: RegisterKeysRequest = lift::strict(&self.body(request).await?)?;
        let KeyBundleUploadResult { seq, one_time_keys } =
            self.engine.device_keys().register_keys(by, lift::keys(body)?).await?;
        Ok(data(StatusCode::OK, PublishedKeysStatus { seq, one_time_keys }))
    }
}

//! `/a2h/users/me`: the calling person and their devices.

use axum::extract::{Request, State};
use http::StatusCode;
use nuncio_core::ids::DeviceId;
use nuncio_engine::AuthenticationMethod;
use nuncio_engine::not_found;

use super::{A2hResult, A2hServerState, PathParam, answer, data, person};
use crate::lift;
use crate::wire::Page;
use crate::wire::auth::{CurrentUserView, DeviceInviteRequest, DeviceInviteView, DeviceView};

/// `GET /a2h/users/me`: name of the calling person, and the calling device.
pub(super) async fn me(request: Request) -> A2hResult {
    let (user_id, caller) = person(&request)?;
    let device_id = match caller.authentication {
        AuthenticationMethod::Device(id) => Some(id),
        _ => None,
    };
    Ok(data(StatusCode::OK, CurrentUserView { user_id, device_id }))
}

/// `GET /a2h/users/me/devices`: devices of the calling person.
pub(super) async fn devices(State(a2h): State<A2hServerState>, request: Request) -> A2hResult {
    let (name, _) = person(&request)?;
    let devices = a2h.engine.people().devices(&name).await?.into_iter().map(DeviceView::from).collect();
    Ok(answer(StatusCode::OK, &Page { data: devices, next_cursor: None }))
}

/// `POST /a2h/users/me/devices`: creates an invite for another device of the same person.
pub(super) async fn invite_device(State(a2h): State<A2hServerState>, request: Request) -> A2hResult {
    let (_, caller) = person(&request)?;
    let DeviceInviteRequest {} = lift::strict(&a2h.body(request).await?)?;
    let invite = a2h.engine.people().invite_own_device(&caller).await?;
    let view = DeviceInviteView {
        user: invite.person,
        code: invite.code,
        expires_at: invite.expires_at,
        server: a2h.tokens.audience().to_owned(),
        fingerprint: a2h.tokens.key().fingerprint().to_string(),
    };
    Ok(data(StatusCode::CREATED, view))
}

/// `DELETE /a2h/users/me/devices/{id}`: revokes a device.
pub(super) async fn revoke_device(
    State(a2h): State<A2hServerState>,
    PathParam(id): PathParam,
    request: Request,
) -> A2hResult {
    let (name, caller) = person(&request)?;
    let id = DeviceId::parse(&id).map_err(|_| not_found::device(name.as_str(), &id))?;
    let device = a2h.engine.people().revoke_device(&name, &id, &caller).await?;
    Ok(data(StatusCode::OK, DeviceView::from(device)))
}

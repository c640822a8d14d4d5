//! `/a2h/users/me`: the calling person and their devices.

use std::time::Duration;

use axum::extract::{Request, State};
use http::StatusCode;
use nuncio_core::Code;
use nuncio_core::ids::DeviceId;
use nuncio_engine::AuthenticationMethod;

use super::{A2hResult, A2hServerState, PathParam, answer, data, person};
use crate::error::A2hError;
use crate::lift;
use crate::wire::Page;
use crate::wire::auth::{DeviceView, InviteRequest, InviteView, MeView};

/// Validity of an invite that a person's own device creates; short, because the person has both devices at hand.
const INVITE_LASTS: Duration = Duration::from_secs(600);

/// `GET /a2h/users/me`: name of the calling person, and the calling device.
pub(super) async fn me(request: Request) -> A2hResult {
    let (user_id, caller) = person(&request)?;
    let device_id = match caller.authentication {
        AuthenticationMethod::Device(id) => Some(id),
        _ => None,
    };
    Ok(data(StatusCode::OK, MeView { user_id, device_id }))
}

/// `GET /a2h/users/me/devices`: devices of the calling person.
pub(super) async fn devices(State(a2h): State<A2hServerState>, request: Request) -> A2hResult {
    let (name, _) = person(&request)?;
    let devices = a2h.engine.people().devices(&name).await?.into_iter().map(DeviceView::from).collect();
    Ok(answer(StatusCode::OK, &Page { data: devices, next_cursor: None }))
}

/// `POST /a2h/users/me/devices`: creates an invite for another device of the same person.
pub(super) async fn invite_device(State(a2h): State<A2hServerState>, request: Request) -> A2hResult {
    let (name, caller) = person(&request)?;
    if !matches!(caller.authentication, AuthenticationMethod::Device(_)) {
        return Err(A2hError::new(Code::PermissionDenied, "a device invites another, with its own token"));
    }
    let InviteRequest {} = lift::strict(&a2h.body(request).await?)?;
    let invite = a2h.engine.people().invite_person_for(name, INVITE_LASTS, &caller).await?;
    let view = InviteView {
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
    let id = DeviceId::parse(&id).map_err(|_| A2hError::new(Code::DeviceNotFound, "you have no such device"))?;
    let device = a2h.engine.people().revoke_device(&name, &id, &caller).await?;
    Ok(data(StatusCode::OK, DeviceView::from(device)))
}

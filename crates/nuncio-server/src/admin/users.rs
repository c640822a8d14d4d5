//! Admin commands about people: invites and devices.

use std::time::Duration;

use nuncio_core::ids::{DeviceId, PersonName};
use nuncio_core::invite_link::InviteLink;
use nuncio_core::person::Device;
use nuncio_core::principal::Principal;
use nuncio_core::signature::PublicKey;
use nuncio_engine::{Caller, Engine};
use url::Url;

use super::replies::{UserInfo, UserInvitation, UserList};
use crate::error::OperatorError;

/// The server for which invites are made.
#[derive(Debug, Clone)]
pub(crate) struct InviteServerIdentity {
    pub(crate) key: PublicKey,
    /// The enrolment URL; `None` while no server runs.
    pub(crate) url: Option<String>,
}

/// Invites a person, or another device of a person.
pub(super) async fn invite(
    engine: &Engine,
    origin: &InviteServerIdentity,
    name: PersonName,
    seconds: Option<u64>,
) -> Result<UserInvitation, OperatorError> {
    let invite = match seconds.map(Duration::from_secs) {
        Some(lasts) => engine.people().invite_person_for(name, lasts, &operator()).await?,
        None => engine.people().invite_person(name, &operator()).await?,
    };
    let fingerprint = origin.key.fingerprint();
    let server = origin.url.as_deref().and_then(|url| Url::parse(url).ok());
    let link = server.map(|server| InviteLink { server, code: invite.code.clone(), fingerprint });
    Ok(UserInvitation {
        user: invite.person,
        code: invite.code,
        expires_at: invite.expires_at,
        server: origin.url.clone(),
        fingerprint,
        link: link.map(|link| link.to_string()),
    })
}

/// Lists the people with an account and the number of their valid devices.
pub(super) async fn list(engine: &Engine) -> Result<UserList, OperatorError> {
    let mut users = Vec::new();
    for person in engine.people().list().await? {
        let devices = engine.people().devices(&person.name).await?;
        let valid = devices.iter().filter(|device| device.revoked_at.is_none()).count();
        users.push(UserInfo { name: person.name, since: person.created_at, devices: valid });
    }
    Ok(UserList { users })
}

pub(super) async fn revoke(
    engine: &Engine,
    name: &PersonName,
    device: Option<&DeviceId>,
) -> Result<Vec<Device>, OperatorError> {
    if let Some(id) = device {
        return Ok(vec![engine.people().revoke_device(name, id, &operator()).await?]);
    }
    let mut revoked = Vec::new();
    for device in engine.people().devices(name).await?.iter().filter(|device| device.revoked_at.is_none()) {
        revoked.push(engine.people().revoke_device(name, &device.id, &operator()).await?);
    }
    Ok(revoked)
}

fn operator() -> Caller {
    Caller::new(Principal::Operator)
}

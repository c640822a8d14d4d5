//! Admin commands about people: invites and devices.

use std::time::Duration;

use nuncio_core::ids::{DeviceId, PersonName};
use nuncio_core::principal::Principal;
use nuncio_core::signature::PublicKey;
use nuncio_engine::consent::ConsentError;
use nuncio_engine::{Caller, Engine};
use serde_json::{Value, json};

use crate::error::StartError;

#[derive(Debug, Clone)]
pub(crate) struct InviteOrigin {
    pub(crate) key: PublicKey,
    /// The enrolment URL; `None` while no server runs.
    pub(crate) url: Option<String>,
}

/// Invites a person, or another device of a person.
pub(super) async fn invite(
    engine: &Engine,
    host: &InviteOrigin,
    name: PersonName,
    seconds: Option<u64>,
) -> Result<Value, StartError> {
    let invited = match seconds.map(Duration::from_secs) {
        Some(lasts) => engine.people().invite_person_for(name, lasts, &operator()).await,
        None => engine.people().invite_person(name, &operator()).await,
    };
    let invite = invited.map_err(refused)?;
    Ok(json!({
        "user": invite.person,
        "code": invite.code,
        "expires_at": invite.expires_at,
        "server": host.url,
        "fingerprint": host.key.fingerprint(),
    }))
}

/// Everyone with an account, with the number of their devices.
pub(super) async fn list(engine: &Engine) -> Result<Value, StartError> {
    let mut users = Vec::new();
    for person in engine.people().list().await? {
        let devices = engine.people().devices(&person.name).await.map_err(refused)?;
        let valid = devices.iter().filter(|device| device.revoked_at.is_none()).count();
        users.push(json!({"name": person.name, "since": person.created_at, "devices": valid}));
    }
    Ok(json!({"users": users}))
}

pub(super) async fn devices(engine: &Engine, name: &PersonName) -> Result<Value, StartError> {
    Ok(json!({"devices": engine.people().devices(name).await.map_err(refused)?}))
}

pub(super) async fn revoke(engine: &Engine, name: &PersonName, device: Option<&DeviceId>) -> Result<Value, StartError> {
    let mut revoked = Vec::new();
    match device {
        Some(id) => revoked.push(engine.people().revoke_device(name, id, &operator()).await.map_err(refused)?),
        None => {
            let devices = engine.people().devices(name).await.map_err(refused)?;
            for device in devices.into_iter().filter(|device| device.revoked_at.is_none()) {
                revoked.push(engine.people().revoke_device(name, &device.id, &operator()).await.map_err(refused)?);
            }
        }
    }
    Ok(json!({"revoked": revoked}))
}

fn operator() -> Caller {
    Caller::new(Principal::Operator)
}

fn refused(error: ConsentError) -> StartError {
    StartError::new(error.code, error.message)
}

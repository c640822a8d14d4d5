//! A device comes to a person: by an invite's code, and only at the server whose key the invite names.

use nuncio_core::Code;
use nuncio_core::digest::Digest;
use nuncio_core::ids::{DeviceId, PersonName};
use nuncio_core::person::Enrolment;
use nuncio_core::signature::PublicKey;
use nuncio_engine::ports::Fetch;
use nuncio_engine::ports::fetch::Trust;
use serde_json::json;
use url::Url;

use super::who::{Sign, ask};
use super::{RelayError, read};
use crate::wire::auth::{EnrolledView, KeysView, ServerView};

/// An invite, as it was given to a person.
#[derive(Debug, Clone)]
pub struct Invitation {
    /// The server.
    pub url: Url,
    /// Whether whoever runs this named it.
    pub trust: Trust,
    /// The code.
    pub code: String,
    /// The fingerprint of the server's key, where the invite names it: the server must have that key.
    pub fingerprint: Option<Digest>,
}

/// A device that was let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enrolled {
    /// Whose it is.
    pub person: PersonName,
    /// Its name.
    pub device: DeviceId,
    /// What it signs for to get in again.
    pub audience: String,
    /// The key the server signs tokens with, to be pinned.
    pub server_key: PublicKey,
}

/// Brings a device in.
///
/// # Errors
/// It was not let in, or the server is not the one the invite names.
pub async fn enrol(
    fetch: &dyn Fetch,
    invitation: &Invitation,
    name: &str,
    key: PublicKey,
    sign: &Sign,
) -> Result<Enrolled, RelayError> {
    let other = |message: &str| RelayError::Refused { code: Code::PeerUntrusted, message: message.to_owned() };
    let is_other = |server: &ServerView| {
        invitation.fingerprint.is_some_and(|expected| server.public_key.fingerprint() != expected)
    };
    // Before the code is used up: it works once.
    let shown: KeysView = read::read(ask(fetch, &invitation.url, invitation.trust, "/auth/keys", None).await?)?;
    if is_other(&shown.server) {
        return Err(other(
            "the server's key is not the one the invite names: somebody stands between, or it was mistyped",
        ));
    }
    let enrolment = Enrolment { invite: Digest::of_bytes(invitation.code.as_bytes()), key, name: name.to_owned() };
    let body = json!({
        "code": invitation.code, "device_name": name,
        "public_key": key, "signature": sign(&enrolment.message()),
    });
    let answer = ask(fetch, &invitation.url, invitation.trust, "/auth/enroll", Some(&body)).await?;
    let EnrolledView { device, server, .. } = read::read(answer)?;
    if device.public_key != key {
        return Err(other("the server let another key in than this device's: somebody stands between"));
    }
    if is_other(&server) {
        return Err(other("the server's key is not the one the invite names: somebody stands between"));
    }
    let (audience, server_key) = (server.audience, server.public_key);
    Ok(Enrolled { person: device.user_id, device: device.id, audience, server_key })
}

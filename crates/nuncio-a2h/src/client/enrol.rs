//! Enrols a device with an invite code at a server, after a check of the server's key.

use nuncio_core::ErrorCode;
use nuncio_core::digest::Digest;
use nuncio_core::ids::{DeviceId, PersonName};
use nuncio_core::person::EnrolmentAssertion;
use nuncio_core::signature::PublicKey;
use nuncio_engine::ports::Fetch;
use nuncio_engine::ports::fetch::AddressTrust;
use url::Url;

use super::relay_identity::{SignFn, ask};
use super::{RelayClientError, read};
use crate::wire::auth::{EnrollRequest, EnrollResponse, ServerIdentityView, ServerKeysView};

/// Invite to enrol a device, as given to a person.
#[derive(Debug, Clone)]
pub struct DeviceInvitation {
    pub url: Url,
    /// Whether the operator of this program configured the server's address; private addresses are then allowed.
    pub trust: AddressTrust,
    pub code: String,
    /// Expected fingerprint of the server's key, if the invite names it.
    pub fingerprint: Option<Digest>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnrolledDevice {
    pub person: PersonName,
    pub device: DeviceId,
    /// Server name that the device includes in its login signatures.
    pub audience: String,
    /// Key with which the server signs tokens; pinned by the device.
    pub server_key: PublicKey,
}

/// Enrols a device; fails if the server refuses or does not have the key that the invite names.
pub async fn enrol(
    fetch: &dyn Fetch,
    invitation: &DeviceInvitation,
    name: &str,
    key: PublicKey,
    sign: &SignFn,
) -> Result<EnrolledDevice, RelayClientError> {
    let other =
        |message: &str| RelayClientError::Refused { code: ErrorCode::PeerUntrusted, message: message.to_owned() };
    let is_other = |server: &ServerIdentityView| {
        invitation.fingerprint.is_some_and(|expected| server.public_key.fingerprint() != expected)
    };
    // The server key is checked before the invite code is sent, because the code works only once.
    let shown: ServerKeysView = read::read(ask(fetch, &invitation.url, invitation.trust, "/auth/keys", None).await?)?;
    if is_other(&shown.server) {
        return Err(other(
            "the server's key differs from the key in the invite: the connection is intercepted, or the fingerprint was mistyped",
        ));
    }
    let enrolment =
        EnrolmentAssertion { invite: Digest::of_bytes(invitation.code.as_bytes()), key, name: name.to_owned() };
    let request = EnrollRequest {
        code: invitation.code.clone(),
        device_name: name.to_owned(),
        public_key: key,
        signature: sign(&enrolment.message()),
    };
    let body = Some(read::body(&request));
    let answer = ask(fetch, &invitation.url, invitation.trust, "/auth/enroll", body).await?;
    let EnrollResponse { device, server, .. } = read::read(answer)?;
    if device.public_key != key {
        return Err(other("the server enrolled another key than this device's: the connection is intercepted"));
    }
    if is_other(&server) {
        return Err(other("the server's key differs from the key in the invite: the connection is intercepted"));
    }
    let (audience, server_key) = (server.audience, server.public_key);
    Ok(EnrolledDevice { person: device.user_id, device: device.id, audience, server_key })
}

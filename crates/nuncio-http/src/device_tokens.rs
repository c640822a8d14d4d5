//! Access tokens of people's devices and of agents' accounts.

use std::fmt;

use nuncio_core::ids::{DeviceId, PersonName};
use nuncio_core::person::Device;
use nuncio_core::principal::Principal;
use nuncio_core::signature::PublicKey;
use nuncio_core::time::Timestamp;
use nuncio_engine::{AuthenticationMethod, Caller, Engine, EngineError};
use serde_json::Value;

/// Issues and verifies the access tokens of people's devices.
pub trait DeviceTokenIssuer: fmt::Debug + Send + Sync {
    /// Issues a token to a device that proved possession of its key.
    fn issue(&self, device: &Device) -> IssuedDeviceToken;
    /// Holder of a token; `None` unless this server issued it and it is valid now.
    fn read(&self, token: &str) -> Option<DeviceTokenHolder>;
    /// Audience that devices sign for: this server's URL.
    fn audience(&self) -> &str;
    /// Public key that verifies the tokens.
    fn key(&self) -> PublicKey;
    /// Public key of the tokens as a JWK (RFC 7517).
    fn jwk(&self) -> Value;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedDeviceToken {
    pub token: String,
    pub expires_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceTokenHolder {
    pub person: PersonName,
    pub device: DeviceId,
    pub expires_at: Timestamp,
}

/// Authenticated caller; `expires_at` is `None` for tokens without an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthenticatedTokenCaller {
    pub caller: Caller,
    pub expires_at: Option<Timestamp>,
}

/// Identifies the holder of an agent's token or a device's token; `None` if it is invalid or the device is revoked.
pub async fn identify(
    engine: &Engine,
    tokens: &dyn DeviceTokenIssuer,
    token: &str,
) -> Result<Option<AuthenticatedTokenCaller>, EngineError> {
    if let Some(caller) = engine.accounts().authenticate_agent_token(token).await? {
        return Ok(Some(AuthenticatedTokenCaller { caller, expires_at: None }));
    }
    let Some(holder) = tokens.read(token) else { return Ok(None) };
    let device = engine.people().valid_device(&holder.device).await?.filter(|device| device.person == holder.person);
    Ok(device.map(|device| {
        let authentication = AuthenticationMethod::Device(device.id);
        let person = Some(device.person.clone());
        let caller = Caller { authentication, person, ..Caller::new(Principal::Person(device.person)) };
        AuthenticatedTokenCaller { caller, expires_at: Some(holder.expires_at) }
    }))
}

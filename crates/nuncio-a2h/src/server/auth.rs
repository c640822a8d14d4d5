//! `/a2h/auth`: enrolment of devices by invite, and new tokens by signature.

use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use nuncio_core::person::Device;
use nuncio_core::principal::Principal;
use nuncio_engine::EngineError;
use nuncio_engine::people::DeviceEnrolmentRequest;
use nuncio_http::{CallerReporter, CredentialLocation};

use super::{A2hResult, A2hServerState, MAX_BODY, data};
use crate::lift;
use crate::wire::auth::{EnrollRequest, EnrollResponse, ServerIdentityView, ServerKeysView, TokenRequest, TokenView};

/// `POST /a2h/auth/enroll`: enrols a device with an invite code.
pub(super) async fn enroll(State(a2h): State<A2hServerState>, request: Request) -> A2hResult {
    let report = request.extensions().get::<CallerReporter>().cloned();
    let body: EnrollRequest = lift::strict(&a2h.signed_body(request).await?)?;
    let new = DeviceEnrolmentRequest {
        code: body.code,
        name: body.device_name,
        key: body.public_key,
        signature: body.signature,
    };
    let device = a2h.engine.people().enrol_device(new).await?;
    identified(report, &device)?;
    let token = a2h.token_for(&device);
    let view = EnrollResponse { device: device.into(), token, server: a2h.server_view() };
    Ok(data(StatusCode::CREATED, view))
}

/// `POST /a2h/auth/token`: issues an access token to a device that signed the request.
pub(super) async fn token(State(a2h): State<A2hServerState>, request: Request) -> A2hResult {
    let report = request.extensions().get::<CallerReporter>().cloned();
    let body: TokenRequest = lift::strict(&a2h.signed_body(request).await?)?;
    let device = a2h.engine.people().assert_device(&body.assertion(), &body.signature, a2h.tokens.audience()).await?;
    identified(report, &device)?;
    Ok(data(StatusCode::OK, a2h.token_for(&device)))
}

/// `GET /a2h/auth/keys`: the server's identity for devices, and the keys that verify its tokens.
pub(super) async fn keys(State(a2h): State<A2hServerState>) -> Response {
    data(StatusCode::OK, ServerKeysView { server: a2h.server_view(), keys: vec![a2h.tokens.jwk()] })
}

/// Counts the request for the device's person in rate limits and metrics.
fn identified(report: Option<CallerReporter>, device: &Device) -> Result<(), EngineError> {
    report.map_or(Ok(()), |CallerReporter(observer)| observer.identified(&Principal::Person(device.person.clone())))
}

impl A2hServerState {
    /// Reads a request body that contains the credential, such as a signature.
    async fn signed_body(&self, request: Request) -> Result<Bytes, EngineError> {
        self.read(request, MAX_BODY, CredentialLocation::Body).await
    }

    fn token_for(&self, device: &Device) -> TokenView {
        let made = self.tokens.issue(device);
        TokenView {
            access_token: made.token,
            token_type: "Bearer".to_owned(),
            expires_in: self.engine.now().until(made.expires_at).as_secs(),
            expires_at: made.expires_at,
        }
    }

    fn server_view(&self) -> ServerIdentityView {
        let key = self.tokens.key();
        ServerIdentityView {
            audience: self.tokens.audience().to_owned(),
            public_key: key,
            fingerprint: key.fingerprint().to_string(),
        }
    }
}

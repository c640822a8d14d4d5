//! Reads the JSON bodies of AAP requests.

use axum::extract::Request;
use nuncio_core::ErrorCode;
use nuncio_core::digest::Digest;
use nuncio_engine::EngineError;
use nuncio_engine::converse::IdempotencyKey;
use nuncio_http::{CredentialLocation, idempotency_key, is_json};
use serde_json::Value;

use super::AapServerState;

/// Returns the JSON body, and the request's idempotency key with the digest of the body.
pub(super) async fn read(
    aap: &AapServerState,
    request: Request,
) -> Result<(Value, Option<IdempotencyKey>), EngineError> {
    let (parts, body) = request.into_parts();
    is_json(&parts.headers)?;
    let key = idempotency_key(&parts.headers)?;
    let bytes = aap.bodies.read(&aap.engine, &parts.extensions, body, CredentialLocation::Header).await?;
    // `serde_json` limits nesting to 128 levels.
    let value = serde_json::from_slice(&bytes)
        .map_err(|error| EngineError::new(ErrorCode::BadJson, format!("the body is not JSON: {error}")))?;
    let idempotency = key.map(|key| IdempotencyKey { key: key.to_owned(), body: Digest::of_bytes(&bytes) });
    Ok((value, idempotency))
}

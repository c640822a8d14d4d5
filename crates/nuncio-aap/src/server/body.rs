//! Reading a request's body as JSON.

use axum::extract::Request;
use nuncio_core::Code;
use nuncio_core::digest::Digest;
use nuncio_engine::EngineError;
use nuncio_engine::converse::Idempotency;
use nuncio_http::{CredentialPlace, idempotency_key, is_json};
use serde_json::Value;

use super::Aap;

/// The body as JSON, and the request's idempotency key with the body's digest.
pub(super) async fn read(aap: &Aap, request: Request) -> Result<(Value, Option<Idempotency>), EngineError> {
    let (parts, body) = request.into_parts();
    is_json(&parts.headers)?;
    let key = idempotency_key(&parts.headers)?;
    let bytes = aap.bodies.read(&aap.engine, &parts.extensions, body, CredentialPlace::Header).await?;
    // The parser itself stops at 128 levels.
    let value = serde_json::from_slice(&bytes)
        .map_err(|error| EngineError::new(Code::BadJson, format!("the body is not JSON: {error}")))?;
    let idempotency = key.map(|key| Idempotency { key: key.to_owned(), body: Digest::of_bytes(&bytes) });
    Ok((value, idempotency))
}

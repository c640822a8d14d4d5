//! Reading a request's body: declared as JSON, of bounded size, in bounded time.

use axum::body::Body;
use axum::extract::Request;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body_util::BodyExt as _;
use nuncio_core::Code;
use nuncio_core::digest::Digest;
use nuncio_engine::EngineError;
use nuncio_engine::converse::Idempotency;
use serde_json::Value;

use super::Aap;

/// How many times the limit is read before a body that is too large is cut off.
const PATIENCE: usize = 8;

/// The body as JSON, and the request's idempotency key with the body's digest.
pub(super) async fn read(aap: &Aap, request: Request) -> Result<(Value, Option<Idempotency>), EngineError> {
    let (parts, body) = request.into_parts();
    check_type(&parts.headers)?;
    let key = idempotency_key(&parts.headers)?;
    let deadline = aap.engine.now().after(aap.body_time);
    let bytes = tokio::select! {
        read = collect(body, aap.max_body) => read?,
        () = aap.engine.clock().sleep_until(deadline) => {
            let message = format!("the body did not arrive within {} seconds", aap.body_time.as_secs());
            return Err(EngineError::new(Code::RequestTimeout, message));
        }
    };
    // The parser itself stops at 128 levels.
    let value = serde_json::from_slice(&bytes)
        .map_err(|error| EngineError::new(Code::BadJson, format!("the body is not JSON: {error}")))?;
    let idempotency = key.map(|key| Idempotency { key, body: Digest::of_bytes(&bytes) });
    Ok((value, idempotency))
}

/// Reads the body up to the limit. What is beyond it is read and thrown away, up to a point: a client
/// that is still sending would otherwise see a broken connection instead of the answer.
async fn collect(mut body: Body, limit: usize) -> Result<Bytes, EngineError> {
    let mut bytes = BytesMut::new();
    let mut length = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| EngineError::new(Code::BadRequest, "the body did not arrive whole"))?;
        let Ok(data) = frame.into_data() else { continue };
        length = length.saturating_add(data.len());
        if length <= limit {
            bytes.extend_from_slice(&data);
        } else if length > limit.saturating_mul(PATIENCE) {
            break;
        }
    }
    if length > limit {
        return Err(EngineError::new(Code::BodyTooLarge, format!("the body is larger than {limit} bytes")));
    }
    Ok(bytes.freeze())
}

fn check_type(headers: &HeaderMap) -> Result<(), EngineError> {
    let declared = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = declared.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json")) {
        return Ok(());
    }
    let found = if declared.is_empty() { "no Content-Type" } else { declared };
    let message = format!("send the body as `Content-Type: application/json`; found {found}");
    Err(EngineError::new(Code::UnsupportedMediaType, message))
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, EngineError> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    match value.to_str() {
        Ok(key) if !key.is_empty() && key.len() <= 255 => Ok(Some(key.to_owned())),
        _ => Err(EngineError::new(Code::BadHeader, "Idempotency-Key must be 1 to 255 visible ASCII characters")),
    }
}

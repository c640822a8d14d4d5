//! Errors in AAP's shape: `{"error": what was wrong and what to do, "code": a stable code}`.

use nuncio_engine::EngineError;
use serde_json::{Value, json};

/// The body of an error.
pub(crate) fn body(error: &EngineError) -> Value {
    json!({"error": error.message, "code": error.code})
}

//! Error bodies of AAP: `{"error": message, "code": stable code}`.

use nuncio_engine::EngineError;
use serde_json::{Value, json};

pub(crate) fn body(error: &EngineError) -> Value {
    json!({"error": error.message, "code": error.code})
}

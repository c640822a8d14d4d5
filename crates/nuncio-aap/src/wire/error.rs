//! Error responses.

use nuncio_core::ErrorCode;
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorBody<'a> {
    pub error: &'a str,
    /// Stable code for programs, a Nuncio extension.
    pub code: ErrorCode,
}

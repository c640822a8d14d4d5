//! `direct.send`: body and result (P3 §6).

use nuncio_core::time::Timestamp;
use serde::Serialize;

/// Body of a message that Nuncio sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DirectMessageBody {
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to_message_id: Option<String>,
}

/// Result of a message that was stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DirectMessageReceipt {
    /// Always true; a refused message has an error instead.
    pub accepted: bool,
    pub message_id: String,
    pub operation_id: String,
    pub target_did: Option<String>,
    pub accepted_at: Timestamp,
}

//! Tool calls and their answers as they travel, sealed, between agent and device (§3). The server never
//! reads them.

use nuncio_core::ids::{CallId, ScopeId, ToolName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a message with `content_type = "artifact"` holds.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Payload {
    /// An artifact.
    Artifact {
        /// The artifact.
        artifact: Artifact,
    },
}

/// The two artifacts of this half of the protocol; `subtype` alone tells them apart.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub enum Artifact {
    /// An agent calls a tool; `msg_subtype` is `artifact_tool_call`.
    ToolCall(ToolCall),
    /// The device answers; `msg_subtype` is `artifact_response`.
    ToolResponse(ToolResponse),
}

impl Artifact {
    /// The subtype in clear that goes with it. Version 1 adds none of its own.
    #[must_use]
    pub const fn msg_subtype(&self) -> &'static str {
        match self {
            Self::ToolCall(_) => "artifact_tool_call",
            Self::ToolResponse(_) => "artifact_response",
        }
    }
}

/// §3.1.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct ToolCall {
    /// Names the call.
    pub call_id: CallId,
    /// Which tool.
    pub tool_name: ToolName,
    /// With what.
    pub arguments: Value,
    /// Under which scope, as the agent says; the manifest decides.
    pub permission_scope: ScopeId,
    /// How long it may take, once it may begin.
    pub timeout_ms: u64,
}

/// §3.2.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct ToolResponse {
    /// Which call.
    pub call_id: CallId,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What became of a call (§3.3).
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Outcome {
    /// It ran.
    Ok {
        /// What came of it.
        result: Value,
    },
    /// It failed.
    Error {
        /// How.
        error_code: ErrorCode,
        /// In words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// It was not run.
    Denied {
        /// Why.
        reason: Reason,
    },
}

/// How a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub enum ErrorCode {
    /// At run time, or by the platform.
    #[serde(rename = "TOOL_PLATFORM_ERROR")]
    PlatformError,
    /// The arguments do not fit the schema.
    #[serde(rename = "TOOL_INVALID_ARGUMENTS")]
    InvalidArguments,
    /// The device has no such thing.
    #[serde(rename = "TOOL_UNAVAILABLE")]
    Unavailable,
}

/// Why a call was not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The person said no.
    UserRefused,
    /// The scope is not allowed.
    ScopeNotGranted,
    /// The manifest has no such tool.
    ToolNotDeclared,
    /// The person did not answer in time.
    UserTimeout,
    /// There are no tool calls in groups in version 1.
    ToolNotSupportedInGroup,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn round_trip(value: &Value) -> Payload {
        let payload: Payload = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(&serde_json::to_value(&payload).unwrap(), value);
        payload
    }

    /// The seed's §3.1 and §3.2.
    #[test]
    fn a_call_and_its_answer_are_written_as_the_seed_has_them() {
        let call = round_trip(&json!({"type": "artifact", "artifact": {
            "subtype": "tool_call", "call_id": "call_abc123", "tool_name": "read_file",
            "arguments": {"path": "/Users/alice/notes.md"}, "permission_scope": "filesystem:read", "timeout_ms": 5000,
        }}));
        let Payload::Artifact { artifact } = call;
        assert_eq!(artifact.msg_subtype(), "artifact_tool_call");
        let answer = round_trip(&json!({"type": "artifact", "artifact": {
            "subtype": "tool_response", "call_id": "call_abc123", "status": "ok",
            "result": {"content": "...file content..."},
        }}));
        let Payload::Artifact { artifact } = answer;
        assert_eq!(artifact.msg_subtype(), "artifact_response");
    }

    /// The seed's §3.3, row by row.
    #[test]
    fn every_status_has_its_word() {
        for code in ["TOOL_PLATFORM_ERROR", "TOOL_INVALID_ARGUMENTS", "TOOL_UNAVAILABLE"] {
            round_trip(&json!({"type": "artifact", "artifact": {
                "subtype": "tool_response", "call_id": "call_1", "status": "error", "error_code": code,
            }}));
        }
        for reason in
            ["user_refused", "scope_not_granted", "tool_not_declared", "user_timeout", "tool_not_supported_in_group"]
        {
            round_trip(&json!({"type": "artifact", "artifact": {
                "subtype": "tool_response", "call_id": "call_1", "status": "denied", "reason": reason,
            }}));
        }
        for wrong in ["tool_update", "TOOL_CALL"] {
            let value = json!({"type": "artifact", "artifact": {"subtype": wrong, "call_id": "call_1"}});
            assert!(serde_json::from_value::<Payload>(value).is_err(), "{wrong}");
        }
    }
}

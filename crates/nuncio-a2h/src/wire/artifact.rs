//! Tool calls and responses, sealed between agent and device (§3). The server never reads them.

use nuncio_core::ids::{CallId, ScopeId, ToolName};
use nuncio_core::string_enum;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Payload of a message with `content_type = "artifact"`.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ArtifactPayload {
    Artifact { artifact: Artifact },
}

/// Artifacts of this part of the protocol, distinguished by `subtype`.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub enum Artifact {
    /// Call of a tool by an agent; `msg_subtype` is `artifact_tool_call`.
    ToolCall(ToolCall),
    /// Response of a device; `msg_subtype` is `artifact_response`.
    ToolResponse(ToolResponse),
}

/// A tool call (A2H §3.1).
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct ToolCall {
    pub call_id: CallId,
    pub tool_name: ToolName,
    pub arguments: Value,
    /// Scope claimed by the agent; the manifest decides.
    pub permission_scope: ScopeId,
    /// Run time that the tool gets once the call may start, in milliseconds.
    pub timeout_ms: u64,
}

/// The response to a tool call (A2H §3.2).
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct ToolResponse {
    pub call_id: CallId,
    #[serde(flatten)]
    pub outcome: ToolOutcome,
}

/// Outcome of a call (§3.3).
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum ToolOutcome {
    Ok {
        result: Value,
    },
    Error {
        error_code: ToolErrorCode,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    Denied {
        reason: DenialReason,
    },
}

string_enum! {
    pub enum ToolErrorCode {
        /// Failure at run time or of the platform.
        PlatformError = "TOOL_PLATFORM_ERROR",
        /// The arguments do not match the schema.
        InvalidArguments = "TOOL_INVALID_ARGUMENTS",
        /// The device lacks what the tool needs.
        Unavailable = "TOOL_UNAVAILABLE",
    }
}

string_enum! {
    pub enum DenialReason {
        UserRefused = "user_refused",
        ScopeNotGranted = "scope_not_granted",
        /// The manifest has no such tool.
        ToolNotDeclared = "tool_not_declared",
        UserTimeout = "user_timeout",
        /// Version 1 has no tool calls in groups.
        ToolNotSupportedInGroup = "tool_not_supported_in_group",
    }
}

#[cfg(test)]
mod tests {
    use nuncio_core::conversation::MsgSubtype;
    use serde_json::json;

    use super::*;

    fn round_trip(value: &Value) -> ArtifactPayload {
        let payload: ArtifactPayload = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(&serde_json::to_value(&payload).unwrap(), value);
        payload
    }

    /// Examples of specification §3.1 and §3.2.
    #[test]
    fn tool_call_and_response_round_trip_as_in_the_specification() {
        let call = round_trip(&json!({"type": "artifact", "artifact": {
            "subtype": "tool_call", "call_id": "call_abc123", "tool_name": "read_file",
            "arguments": {"path": "/Users/alice/notes.md"}, "permission_scope": "filesystem:read", "timeout_ms": 5000,
        }}));
        let ArtifactPayload::Artifact { artifact } = call;
        assert!(matches!(artifact, Artifact::ToolCall(_)));
        assert_eq!(json!(MsgSubtype::ArtifactToolCall), "artifact_tool_call");
        let answer = round_trip(&json!({"type": "artifact", "artifact": {
            "subtype": "tool_response", "call_id": "call_abc123", "status": "ok",
            "result": {"content": "...file content..."},
        }}));
        let ArtifactPayload::Artifact { artifact } = answer;
        assert!(matches!(artifact, Artifact::ToolResponse(_)));
        assert_eq!(json!(MsgSubtype::ArtifactResponse), "artifact_response");
    }

    /// Every row of the status table in A2H §3.3.
    #[test]
    fn every_tool_status_round_trips_and_unknown_subtypes_are_refused() {
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
            assert!(serde_json::from_value::<ArtifactPayload>(value).is_err(), "{wrong}");
        }
    }
}

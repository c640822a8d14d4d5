//! Tool calls and responses, sealed between agent and device (A2H §3), so that the server cannot read them.

use nuncio_core::call_source::CallSource;
use nuncio_core::ids::{CallId, ScopeId, ToolName};
use nuncio_core::string_enum;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Payload of a message with `content_type = "artifact"`.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ArtifactPayload {
    Artifact { artifact: Artifact },
}

/// Artifacts that A2H defines, distinguished by `subtype`.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub enum Artifact {
    /// Tool call by an agent; the message's `msg_subtype` is `artifact_tool_call`.
    ToolCall(ToolCall),
    /// Response of a device to a tool call; the message's `msg_subtype` is `artifact_response`.
    ToolResponse(ToolResponse),
}

/// A tool call (A2H §3.1).
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct ToolCall {
    pub call_id: CallId,
    pub tool_name: ToolName,
    pub arguments: Value,
    /// Scope named by the agent; a device refuses the call unless the manifest gives the tool the same scope.
    pub permission_scope: ScopeId,
    /// Limit of the tool's run time once the call may start, in milliseconds.
    pub timeout_ms: u64,
    /// Caller and conversation behind the call; an addition to A2H that other devices ignore.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "readable_source")]
    pub source: Option<CallSource>,
}

/// Reads the source of a call; a member of that name with another form counts as none.
fn readable_source<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<CallSource>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).ok())
}

/// A tool call that cannot be read, but names its id, so that it can be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MalformedToolCall {
    pub call_id: CallId,
    pub why: String,
    /// Set if the call is well formed JSON, but names a tool or a scope that no manifest can declare.
    pub denial: Option<DenialReason>,
}

impl MalformedToolCall {
    /// Reads a payload that says it is a tool call; `None` if it is none, is well formed or has no valid id.
    #[must_use]
    pub fn read(payload: &Value) -> Option<Self> {
        let artifact = &payload["artifact"];
        if payload["type"] != "artifact" || artifact["subtype"] != "tool_call" {
            return None;
        }
        let call_id = CallId::parse(artifact["call_id"].as_str()?).ok()?;
        // Each member is checked by itself, because an error of the whole call does not name the member at fault.
        ["tool_name", "arguments", "permission_scope", "timeout_ms"].into_iter().find_map(|member| {
            let value = artifact.get(member);
            let why = value.map_or_else(|| Some("is missing".to_owned()), |value| fault(member, value))?;
            let denial = match member {
                "tool_name" => Some(DenialReason::ToolNotDeclared),
                "permission_scope" => Some(DenialReason::ScopeNotGranted),
                _ => None,
            };
            let denial = denial.filter(|_| value.is_some_and(Value::is_string));
            Some(Self { call_id: call_id.clone(), why: format!("artifact.{member} {why}"), denial })
        })
    }
}

/// Fault of a member of a tool call, if it has one.
fn fault(member: &str, value: &Value) -> Option<String> {
    let error = match member {
        "tool_name" => ToolName::deserialize(value).err(),
        "permission_scope" => ScopeId::deserialize(value).err(),
        "timeout_ms" => u64::deserialize(value).err(),
        _ => None,
    };
    error.map(|why| format!("is not valid: {why}"))
}

/// The response to a tool call (A2H §3.2).
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct ToolResponse {
    pub call_id: CallId,
    #[serde(flatten)]
    pub outcome: ToolOutcome,
}

/// Outcome of a tool call (A2H §3.3).
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
        /// The tool or the platform failed while the call ran.
        PlatformError = "TOOL_PLATFORM_ERROR",
        /// The arguments do not match the tool's schema.
        InvalidArguments = "TOOL_INVALID_ARGUMENTS",
        /// The device cannot run the tool, for example because it has no such tool or the call is too late.
        Unavailable = "TOOL_UNAVAILABLE",
    }
}

string_enum! {
    pub enum DenialReason {
        UserRefused = "user_refused",
        ScopeNotGranted = "scope_not_granted",
        /// The agent's manifest has no such tool.
        ToolNotDeclared = "tool_not_declared",
        UserTimeout = "user_timeout",
        /// Tool calls in group conversations are not part of version 1.
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

    /// The JSON is from the examples in A2H §3.1 and §3.2.
    #[test]
    fn tool_call_and_response_examples_of_the_specification_round_trip() {
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

    #[test]
    fn malformed_call_with_an_id_yields_its_id_and_the_faulty_member() {
        let good = json!({"type": "artifact", "artifact": {
            "subtype": "tool_call", "call_id": "call_1", "tool_name": "read_file", "arguments": {},
            "permission_scope": "filesystem:read", "timeout_ms": 5000,
        }});
        assert_eq!(MalformedToolCall::read(&good), None);
        for (member, value, denial) in [
            ("tool_name", json!(1), None),
            ("tool_name", json!("no spaces"), Some(DenialReason::ToolNotDeclared)),
            ("permission_scope", json!(null), None),
            ("permission_scope", json!(""), Some(DenialReason::ScopeNotGranted)),
            ("timeout_ms", json!("5000"), None),
            ("timeout_ms", json!(-1), None),
        ] {
            let mut wrong = good.clone();
            wrong["artifact"][member] = value;
            assert!(serde_json::from_value::<ArtifactPayload>(wrong.clone()).is_err(), "{wrong}");
            let malformed = MalformedToolCall::read(&wrong).unwrap();
            assert!(malformed.call_id.as_str() == "call_1" && malformed.why.contains(member), "{malformed:?}");
            assert_eq!(malformed.denial, denial, "{malformed:?}");
        }
        for member in ["tool_name", "arguments", "permission_scope", "timeout_ms"] {
            let mut wrong = good.clone();
            wrong["artifact"].as_object_mut().unwrap().shift_remove(member);
            assert!(MalformedToolCall::read(&wrong).unwrap().why.contains(member));
        }
        let mut nameless = good.clone();
        nameless["artifact"]["call_id"] = json!(7);
        assert_eq!(MalformedToolCall::read(&nameless), None, "there is nothing to answer to");
        assert_eq!(MalformedToolCall::read(&json!({"type": "text", "text": "hi"})), None);
    }

    #[test]
    fn source_of_a_call_round_trips_and_a_malformed_source_is_ignored() {
        let call = |source: Value| {
            json!({"type": "artifact", "artifact": {
                "subtype": "tool_call", "call_id": "call_1", "tool_name": "read_file", "arguments": {},
                "permission_scope": "filesystem:read", "timeout_ms": 5000, "source": source,
            }})
        };
        round_trip(&call(json!({"caller": "key:key_1", "app": "notes", "conversation": "ses_1"})));
        round_trip(&call(json!({"caller": "local"})));
        for other in [json!("notes"), json!(null), json!({"app": 1})] {
            let payload = serde_json::from_value(call(other)).unwrap();
            let ArtifactPayload::Artifact { artifact: Artifact::ToolCall(call) } = payload else { panic!("a call") };
            assert_eq!(call.source, None);
        }
    }

    /// Covers every row of the status table in A2H §3.3.
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

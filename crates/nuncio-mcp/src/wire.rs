//! JSON-RPC messages of MCP: <https://modelcontextprotocol.io/specification/2026-07-28/basic>

use nuncio_core::json;
use serde_json::{Map, Value, json};

/// The revision without sessions.
pub(crate) const STATELESS_REVISION: &str = "2026-07-28";
/// Revisions that begin with `initialize`, the newest first.
pub(crate) const SESSION_REVISIONS: [&str; 2] = ["2025-11-25", "2025-06-18"];

/// Members of `_meta` that the specification defines.
pub(crate) mod meta {
    pub(crate) const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    pub(crate) const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    pub(crate) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    pub(crate) const PROGRESS_TOKEN: &str = "progressToken";
    pub(crate) const TRACEPARENT: &str = "traceparent";
}

pub(crate) mod error_code {
    pub(crate) const PARSE_ERROR: i64 = -32700;
    pub(crate) const INVALID_REQUEST: i64 = -32600;
    pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
    pub(crate) const INVALID_PARAMS: i64 = -32602;
    pub(crate) const HEADER_MISMATCH: i64 = -32020;
    pub(crate) const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
}

pub(crate) type JsonObject = Map<String, Value>;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ClientMessage {
    Request(McpRequest),
    Notification {
        method: String,
        params: JsonObject,
    },
    /// Response to a request of the server, with the result or the error.
    Response {
        id: Value,
        response: Value,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct McpRequest {
    /// A string or an integer, repeated in the response.
    pub(crate) id: Value,
    pub(crate) method: String,
    pub(crate) params: JsonObject,
}

/// Error object of a JSON-RPC response.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct McpError {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

impl McpError {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(crate) fn with_data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }
}

/// A body that is not a message, with the id of the request if that could be read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UnreadableMessage {
    pub(crate) id: Option<Value>,
    pub(crate) error: Box<McpError>,
}

impl ClientMessage {
    pub(crate) fn read(body: &[u8]) -> Result<Self, UnreadableMessage> {
        let unreadable = |id, code, message: &str| {
            let error = Box::new(McpError::new(code, message));
            UnreadableMessage { id, error }
        };
        let value = json::read(body, body.len())
            .map_err(|error| unreadable(None, error_code::PARSE_ERROR, &format!("the body {error}")))?;
        let Value::Object(mut members) = value else {
            let message = "the body must be one JSON-RPC message; batches are not part of this revision";
            return Err(unreadable(None, error_code::INVALID_REQUEST, message));
        };
        let id = members.shift_remove("id");
        let known_id = id.clone().filter(is_id);
        let invalid = |message| unreadable(known_id.clone(), error_code::INVALID_REQUEST, message);
        if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(invalid("`jsonrpc` must be \"2.0\""));
        }
        if id.is_some() && known_id.is_none() {
            return Err(invalid("`id` must be a string or an integer"));
        }
        let method = match members.shift_remove("method") {
            Some(Value::String(method)) => method,
            Some(_) => return Err(invalid("`method` must be a string")),
            None => {
                let response = members.shift_remove("result").or_else(|| members.shift_remove("error"));
                return match (known_id, response) {
                    (Some(id), Some(response)) => Ok(Self::Response { id, response }),
                    (known_id, _) => Err(unreadable(known_id, error_code::INVALID_REQUEST, "`method` is missing")),
                };
            }
        };
        let params = match members.shift_remove("params") {
            None => JsonObject::new(),
            Some(Value::Object(params)) => params,
            Some(_) => return Err(unreadable(known_id, error_code::INVALID_PARAMS, "`params` must be an object")),
        };
        Ok(match id {
            Some(id) => Self::Request(McpRequest { id, method, params }),
            None => Self::Notification { method, params },
        })
    }
}

/// Whether a value can be an id of a request or of its progress.
pub(crate) fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_i64() || id.is_u64()
}

pub(crate) fn result_message(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// An error response; without an id if the request could not be read.
pub(crate) fn error_message(id: Option<&Value>, error: &McpError) -> Value {
    let mut object = json!({"code": error.code, "message": error.message});
    if let Some(data) = &error.data {
        object["data"] = data.clone();
    }
    match id {
        Some(id) => json!({"jsonrpc": "2.0", "id": id, "error": object}),
        None => json!({"jsonrpc": "2.0", "error": object}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_messages_are_recognised_by_their_members() {
        let read = |text: &str| ClientMessage::read(text.as_bytes()).unwrap();
        let request = read(r#"{"jsonrpc":"2.0","id":"a","method":"m","params":{"x":1}}"#);
        let params = json!({"x": 1}).as_object().unwrap().clone();
        assert_eq!(request, ClientMessage::Request(McpRequest { id: json!("a"), method: "m".into(), params }));
        let notification = ClientMessage::Notification { method: "n".into(), params: JsonObject::new() };
        assert_eq!(read(r#"{"jsonrpc":"2.0","method":"n"}"#), notification);
        let response = ClientMessage::Response { id: json!(1), response: json!({}) };
        assert_eq!(read(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), response);
    }

    #[test]
    fn malformed_message_gets_its_error_code_and_its_id_if_that_is_readable() {
        for (body, id, code) in [
            ("", Value::Null, -32700),
            ("{", Value::Null, -32700),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#, Value::Null, -32700),
            ("[]", Value::Null, -32600),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"m"}]"#, Value::Null, -32600),
            (r#"{"id":1,"method":"m"}"#, json!(1), -32600),
            (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, Value::Null, -32600),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#, Value::Null, -32600),
            (r#"{"jsonrpc":"2.0","id":[1],"method":"m"}"#, Value::Null, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, json!(1), -32600),
            (r#"{"jsonrpc":"2.0","id":1}"#, json!(1), -32600),
            (r#"{"jsonrpc":"2.0","result":{}}"#, Value::Null, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[]}"#, json!(1), -32602),
        ] {
            let unreadable = ClientMessage::read(body.as_bytes()).unwrap_err();
            let found = (unreadable.id.unwrap_or_default(), unreadable.error.code);
            assert_eq!(found, (id, code), "{body}");
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(ClientMessage::read(deep.as_bytes()).unwrap_err().error.code, -32700);
    }
}

//! Output lines of a `process` brain.

use nuncio_core::ids::{CallId, ToolName};
use nuncio_core::turn::{StopReason, TokenUsage};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::runners::process::printable;

/// Length limit of a quoted malformed line, in characters.
const MAX_QUOTED_CHARACTERS: usize = 200;

/// Output line of the program: a JSON object with one key.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ProcessOutputLine {
    Text(String),
    Thinking(String),
    Tool(OutputLineToolCall),
    Usage(TokenUsage),
    /// End of the step, with its stop reason.
    #[serde(deserialize_with = "stop")]
    Stop(StopReason),
    /// Failure of the step, with an error message.
    Error(String),
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OutputLineToolCall {
    /// Call id chosen by the program.
    #[serde(default)]
    pub(super) id: Option<CallId>,
    pub(super) name: ToolName,
    #[serde(default)]
    pub(super) input: Map<String, Value>,
}

/// Parses an output line. The error text says what is wrong with the line and quotes its beginning.
pub(super) fn read(line: &[u8]) -> Result<ProcessOutputLine, String> {
    serde_json::from_slice(line).map_err(|error| {
        let text = printable(String::from_utf8_lossy(line).trim());
        let shown: String = text.chars().take(MAX_QUOTED_CHARACTERS).collect();
        format!("{error}: {shown}")
    })
}

/// Refuses the stop reason `error`, because errors have their own line with a message.
fn stop<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StopReason, D::Error> {
    match StopReason::deserialize(deserializer)? {
        StopReason::Error => Err(serde::de::Error::custom("write {\"error\": \"why\"} instead")),
        reason => Ok(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_kind_of_process_output_line_is_parsed() {
        let read = |line: Value| read(line.to_string().as_bytes()).unwrap();
        assert_eq!(read(json!({"text": "hi"})), ProcessOutputLine::Text("hi".into()));
        assert_eq!(read(json!({"thinking": "hm"})), ProcessOutputLine::Thinking("hm".into()));
        assert_eq!(read(json!({"stop": "max_tokens"})), ProcessOutputLine::Stop(StopReason::MaxTokens));
        assert_eq!(read(json!({"error": "no"})), ProcessOutputLine::Error("no".into()));
        let usage = TokenUsage { input_tokens: 1, output_tokens: 2 };
        assert_eq!(read(json!({"usage": {"inputTokens": 1, "outputTokens": 2}})), ProcessOutputLine::Usage(usage));
        let name = ToolName::parse("add").unwrap();
        let bare = OutputLineToolCall { id: None, name: name.clone(), input: Map::new() };
        assert_eq!(read(json!({"tool": {"name": "add"}})), ProcessOutputLine::Tool(bare));
        let whole =
            OutputLineToolCall { id: CallId::parse("1").ok(), name, input: Map::from_iter([("a".into(), json!(1))]) };
        assert_eq!(
            read(json!({"tool": {"id": "1", "name": "add", "input": {"a": 1}}})),
            ProcessOutputLine::Tool(whole)
        );
    }

    #[test]
    fn malformed_process_output_line_error_quotes_the_line() {
        for (line, complaint) in [
            ("hello", "expected value"),
            ("{}", "expected value"),
            (r#"{"txt":"a"}"#, "unknown variant `txt`, expected one of `text`"),
            (r#"{"text":"a","stop":"end_turn"}"#, "expected"),
            (r#"{"text":1}"#, "invalid type: integer"),
            (r#"{"tool":{"name":"no way"}}"#, "is not a tool name"),
            (r#"{"tool":{"name":"a","arguments":{}}}"#, "unknown field `arguments`"),
            (r#"{"tool":{"name":"a","input":[]}}"#, "invalid type: sequence"),
            (r#"{"stop":"error"}"#, "write {\"error\""),
            (r#"{"stop":"now"}"#, "unknown variant `now`"),
        ] {
            let why = read(line.as_bytes()).unwrap_err();
            assert!(why.contains(complaint) && why.ends_with(line), "{why}");
        }
        assert!(read(b"{\"text\":\"\xff\"}").unwrap_err().contains("{\"text\":\""));
    }
}

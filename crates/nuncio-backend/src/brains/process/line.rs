//! One line of a thinking program.

use nuncio_core::ids::{CallId, ToolName};
use nuncio_core::turn::{StopReason, Usage};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::runners::process::printable;

/// How much of a line that is none is repeated.
const SHOWN: usize = 200;

/// What a line says: one object with one key.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// A piece of text.
    Text(String),
    /// A piece of thinking.
    Thinking(String),
    /// A call of a tool.
    Tool(Call),
    /// What was counted.
    Usage(Usage),
    /// It is done, and why.
    #[serde(deserialize_with = "stop")]
    Stop(StopReason),
    /// It cannot go on.
    Error(String),
}

/// A call of a tool.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    /// The id the program gave, if any.
    #[serde(default)]
    pub(super) id: Option<CallId>,
    /// The tool.
    pub(super) name: ToolName,
    /// Its arguments.
    #[serde(default)]
    pub(super) input: Map<String, Value>,
}

/// Reads a line, or says what is wrong with it as the end of a sentence.
pub(super) fn read(line: &[u8]) -> Result<Line, String> {
    serde_json::from_slice(line).map_err(|error| {
        let text = printable(String::from_utf8_lossy(line).trim());
        let shown: String = text.chars().take(SHOWN).collect();
        format!("what cannot be read ({error}): {shown}")
    })
}

/// A step does not end with `error`: that is a line of its own, with a reason.
fn stop<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StopReason, D::Error> {
    match StopReason::deserialize(deserializer)? {
        StopReason::Error => Err(serde::de::Error::custom("say {\"error\": \"why\"} instead")),
        reason => Ok(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_line_says_one_thing() {
        let read = |line: Value| read(line.to_string().as_bytes()).unwrap();
        assert_eq!(read(json!({"text": "hi"})), Line::Text("hi".into()));
        assert_eq!(read(json!({"thinking": "hm"})), Line::Thinking("hm".into()));
        assert_eq!(read(json!({"stop": "max_tokens"})), Line::Stop(StopReason::MaxTokens));
        assert_eq!(read(json!({"error": "no"})), Line::Error("no".into()));
        let usage = Usage { input_tokens: 1, output_tokens: 2 };
        assert_eq!(read(json!({"usage": {"inputTokens": 1, "outputTokens": 2}})), Line::Usage(usage));
        let name = ToolName::parse("add").unwrap();
        let bare = Call { id: None, name: name.clone(), input: Map::new() };
        assert_eq!(read(json!({"tool": {"name": "add"}})), Line::Tool(bare));
        let whole = Call { id: CallId::parse("1").ok(), name, input: Map::from_iter([("a".into(), json!(1))]) };
        assert_eq!(read(json!({"tool": {"id": "1", "name": "add", "input": {"a": 1}}})), Line::Tool(whole));
    }

    #[test]
    fn what_is_no_line_is_said() {
        for (line, complaint) in [
            ("hello", "expected value"),
            ("{}", "expected value"),
            (r#"{"txt":"a"}"#, "unknown variant `txt`, expected one of `text`"),
            (r#"{"text":"a","stop":"end_turn"}"#, "expected"),
            (r#"{"text":1}"#, "invalid type: integer"),
            (r#"{"tool":{"name":"no way"}}"#, "is not a tool name"),
            (r#"{"tool":{"name":"a","arguments":{}}}"#, "unknown field `arguments`"),
            (r#"{"tool":{"name":"a","input":[]}}"#, "invalid type: sequence"),
            (r#"{"stop":"error"}"#, "say {\"error\""),
            (r#"{"stop":"now"}"#, "unknown variant `now`"),
        ] {
            let why = read(line.as_bytes()).unwrap_err();
            assert!(why.contains(complaint) && why.ends_with(line), "{why}");
        }
        assert!(read(b"{\"text\":\"\xff\"}").unwrap_err().contains("what cannot be read"));
    }
}

//! Assembles a model's tool calls from interleaved stream fragments.

use std::collections::HashMap;

use nuncio_core::ids::CallId;
use nuncio_core::message::UnknownMessageFields;
use serde_json::{Map, Value};

/// Maximum number of tool calls per step of a model.
const MAX_CALLS: usize = 256;
/// Limit in bytes of the arguments of all tool calls in one step.
const MAX_ARGUMENTS: usize = 4 * 1024 * 1024;

/// Fragment of a streamed tool call.
#[derive(Debug, Default)]
pub(super) struct ToolCallFragment {
    /// Index of the call; some servers omit the index or repeat one for all calls.
    pub(super) index: Option<u64>,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    /// Part of the JSON text of the call's arguments.
    pub(super) arguments: Option<String>,
    /// Complete arguments, from servers that do not stream them.
    pub(super) whole: Option<Map<String, Value>>,
    /// Data of the provider that later requests must send back with the call.
    pub(super) extra: UnknownMessageFields,
}

#[derive(Debug, PartialEq)]
pub(super) struct CompleteToolCall {
    /// Call id from the server; `None` if the server sent none or used it for several calls.
    pub(super) id: Option<CallId>,
    pub(super) name: String,
    /// Arguments, or their text if it is not a JSON object.
    pub(super) input: Result<Map<String, Value>, String>,
    pub(super) extra: UnknownMessageFields,
}

/// Assembles the tool calls of one step, in the order they began.
#[derive(Debug, Default)]
pub(super) struct ToolCallAssembler {
    calls: Vec<PartialToolCall>,
    /// Position in `calls` of the current call of each index.
    by_index: HashMap<u64, usize>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct PartialToolCall {
    id: Option<String>,
    name: String,
    arguments: String,
    whole: Option<Map<String, Value>>,
    extra: UnknownMessageFields,
}

impl ToolCallAssembler {
    pub(super) fn add(&mut self, fragment: ToolCallFragment) -> Result<(), String> {
        let ToolCallFragment { index, id, name, arguments, whole, extra } = fragment;
        let id = id.filter(|id| !id.is_empty());
        let name = name.filter(|name| !name.is_empty());
        let arguments = arguments.unwrap_or_default();
        let known = match index {
            Some(index) => self.by_index.get(&index).copied(),
            None if name.is_some() && id.is_none() => None,
            None => self.calls.len().checked_sub(1),
        };
        // Another id means another call, even with the same index.
        let known = known.filter(|position| match (&self.calls[*position].id, &id) {
            (Some(before), Some(now)) => before == now,
            _ => true,
        });
        let position = match known {
            Some(position) => position,
            None if self.calls.len() >= MAX_CALLS => return Err(format!("more than {MAX_CALLS} tool calls at once")),
            None => {
                self.calls.push(PartialToolCall::default());
                self.calls.len() - 1
            }
        };
        if let Some(index) = index {
            self.by_index.insert(index, position);
        }
        self.bytes += arguments.len();
        if self.bytes > MAX_ARGUMENTS {
            return Err(format!("tool calls with more than {MAX_ARGUMENTS} bytes of arguments"));
        }
        let call = &mut self.calls[position];
        call.id = call.id.take().or(id);
        // Some servers repeat the name in every fragment.
        if call.name.is_empty() {
            call.name = name.unwrap_or_default();
        }
        call.arguments.push_str(&arguments);
        call.whole = call.whole.take().or(whole);
        call.extra.extend(extra);
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub(super) fn finish(self) -> Vec<CompleteToolCall> {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for id in self.calls.iter().filter_map(|call| call.id.clone()) {
            *counts.entry(id).or_default() += 1;
        }
        let finish = |call: PartialToolCall| CompleteToolCall {
            id: call.id.filter(|id| counts[id] == 1).and_then(|id| CallId::parse(&id).ok()),
            name: call.name,
            input: input(call.arguments, call.whole),
            extra: call.extra,
        };
        self.calls.into_iter().map(finish).collect()
    }
}

/// Parses the arguments of a call; the error is their text if it is not a JSON object. If the text is empty, the
/// arguments are `whole`, or none.
fn input(text: String, whole: Option<Map<String, Value>>) -> Result<Map<String, Value>, String> {
    if text.trim().is_empty() {
        return Ok(whole.unwrap_or_default());
    }
    match serde_json::from_str(&text) {
        Ok(Value::Object(input)) => Ok(input),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) | Err(_) => Err(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn piece(index: Option<u64>, id: &str, name: &str, arguments: &str) -> ToolCallFragment {
        let some = |text: &str| Some(text.to_owned());
        ToolCallFragment {
            index,
            id: some(id),
            name: some(name),
            arguments: some(arguments),
            ..ToolCallFragment::default()
        }
    }

    fn finished(pieces: Vec<ToolCallFragment>) -> Vec<(Option<String>, String, Result<Value, String>)> {
        let mut calls = ToolCallAssembler::default();
        pieces.into_iter().for_each(|piece| calls.add(piece).unwrap());
        let show =
            |call: CompleteToolCall| (call.id.map(|id| id.to_string()), call.name, call.input.map(Value::Object));
        calls.finish().into_iter().map(show).collect()
    }

    fn call(id: &str, name: &str, input: Value) -> (Option<String>, String, Result<Value, String>) {
        (Some(id.to_owned()).filter(|id| !id.is_empty()), name.to_owned(), Ok(input))
    }

    #[test]
    fn call_fragments_are_assembled_by_index() {
        let pieces = vec![
            piece(Some(0), "a", "add", ""),
            piece(Some(1), "b", "look", "{\"q\""),
            piece(Some(0), "", "", "{\"x\":"),
            piece(Some(1), "", "", ":\"y\"}"),
            piece(Some(0), "", "add", "1}"),
            piece(Some(2), "c", "rest", ""),
        ];
        let expected =
            [call("a", "add", json!({"x": 1})), call("b", "look", json!({"q": "y"})), call("c", "rest", json!({}))];
        assert_eq!(finished(pieces), expected);
    }

    #[test]
    fn calls_are_separated_despite_missing_or_repeated_indexes() {
        // Servers that send the same index for all calls, no index, or neither index nor id.
        let same = vec![piece(Some(0), "a", "one", "{}"), piece(Some(0), "b", "two", "{"), piece(Some(0), "", "", "}")];
        assert_eq!(finished(same), [call("a", "one", json!({})), call("b", "two", json!({}))]);
        let none = vec![piece(None, "a", "one", "{"), piece(None, "", "", "}"), piece(None, "b", "two", "{}")];
        assert_eq!(finished(none), [call("a", "one", json!({})), call("b", "two", json!({}))]);
        let nameless = vec![piece(None, "", "one", "{"), piece(None, "", "", "}"), piece(None, "", "two", "{}")];
        assert_eq!(finished(nameless), [call("", "one", json!({})), call("", "two", json!({}))]);
    }

    #[test]
    fn call_ids_that_the_server_used_twice_are_removed_from_their_calls() {
        let pieces = vec![
            piece(Some(0), "x", "one", "{}"),
            piece(Some(1), "x", "two", "null"),
            piece(Some(2), "y", "three", " "),
        ];
        let expected = [call("", "one", json!({})), call("", "two", json!({})), call("y", "three", json!({}))];
        assert_eq!(finished(pieces), expected);
    }

    #[test]
    fn arguments_that_are_not_a_json_object_are_kept_as_text() {
        for text in ["{\"a\":", "[1]", "7", "{} {}"] {
            assert_eq!(finished(vec![piece(Some(0), "x", "one", text)])[0].2, Err(text.to_owned()));
        }
    }

    #[test]
    fn more_than_256_calls_or_4_mib_of_arguments_are_refused() {
        let mut calls = ToolCallAssembler::default();
        for index in 0..256 {
            calls.add(piece(Some(index), &index.to_string(), "n", "")).unwrap();
        }
        assert!(calls.add(piece(Some(256), "256", "n", "")).unwrap_err().contains("256"));
        let mut calls = ToolCallAssembler::default();
        let fault = (0..10).find_map(|_| calls.add(piece(Some(0), "a", "n", &"x".repeat(1 << 20))).err()).unwrap();
        assert!(fault.contains("4194304"));
    }
}

//! Tool calls as they arrive: in fragments, several side by side.

use std::collections::{HashMap, HashSet};

use nuncio_core::ids::CallId;
use nuncio_core::message::Extra;
use serde_json::{Map, Value};

/// How many calls one step may make.
const MAX_CALLS: usize = 256;
/// How long their arguments may be together.
const MAX_ARGUMENTS: usize = 4 * 1024 * 1024;

/// A piece of a call.
#[derive(Debug, Default)]
pub(super) struct Fragment {
    /// Which call it belongs to; some servers do not say, or say the same of all.
    pub(super) index: Option<u64>,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    /// A piece of the arguments' text.
    pub(super) arguments: Option<String>,
    /// The arguments at once.
    pub(super) whole: Option<Map<String, Value>>,
    /// What is to go back with the call.
    pub(super) extra: Extra,
}

/// A call that is complete.
#[derive(Debug, PartialEq)]
pub(super) struct Called {
    /// The id the server gave, unless it gave it twice.
    pub(super) id: Option<CallId>,
    pub(super) name: String,
    /// The arguments, or the text that should have been some.
    pub(super) input: Result<Map<String, Value>, String>,
    pub(super) extra: Extra,
}

/// The calls of one step, in the order they were begun.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Open>,
    /// Which call an index means now.
    places: HashMap<u64, usize>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Open {
    id: Option<String>,
    name: String,
    arguments: String,
    whole: Option<Map<String, Value>>,
    extra: Extra,
}

impl Calls {
    pub(super) fn add(&mut self, fragment: Fragment) -> Result<(), String> {
        let Fragment { index, id, name, arguments, whole, extra } = fragment;
        let id = id.filter(|id| !id.is_empty());
        let name = name.filter(|name| !name.is_empty());
        let arguments = arguments.unwrap_or_default();
        let known = match index {
            Some(index) => self.places.get(&index).copied(),
            None if name.is_some() && id.is_none() => None,
            None => self.calls.len().checked_sub(1),
        };
        // Another id is another call, whatever the index says.
        let known = known.filter(|place| match (&self.calls[*place].id, &id) {
            (Some(before), Some(now)) => before == now,
            _ => true,
        });
        let place = match known {
            Some(place) => place,
            None if self.calls.len() >= MAX_CALLS => return Err(format!("more than {MAX_CALLS} tool calls at once")),
            None => {
                self.calls.push(Open::default());
                self.calls.len() - 1
            }
        };
        if let Some(index) = index {
            self.places.insert(index, place);
        }
        self.bytes += arguments.len();
        if self.bytes > MAX_ARGUMENTS {
            return Err(format!("tool calls with more than {MAX_ARGUMENTS} bytes of arguments"));
        }
        let call = &mut self.calls[place];
        call.id = call.id.take().or(id);
        // Some servers repeat the name with every fragment.
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

    pub(super) fn finish(self) -> Vec<Called> {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for id in self.calls.iter().filter_map(|call| call.id.clone()) {
            *counts.entry(id).or_default() += 1;
        }
        let doubled: HashSet<String> = counts.into_iter().filter(|(_, count)| *count > 1).map(|(id, _)| id).collect();
        let finish = |call: Open| Called {
            id: call.id.filter(|id| !doubled.contains(id)).and_then(|id| CallId::parse(&id).ok()),
            name: call.name,
            input: input(call.arguments, call.whole),
            extra: call.extra,
        };
        self.calls.into_iter().map(finish).collect()
    }
}

/// No text means no arguments.
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

    fn piece(index: Option<u64>, id: &str, name: &str, arguments: &str) -> Fragment {
        let some = |text: &str| Some(text.to_owned());
        Fragment { index, id: some(id), name: some(name), arguments: some(arguments), ..Fragment::default() }
    }

    fn finished(pieces: Vec<Fragment>) -> Vec<(Option<String>, String, Result<Value, String>)> {
        let mut calls = Calls::default();
        pieces.into_iter().for_each(|piece| calls.add(piece).unwrap());
        let show = |call: Called| (call.id.map(|id| id.to_string()), call.name, call.input.map(Value::Object));
        calls.finish().into_iter().map(show).collect()
    }

    fn call(id: &str, name: &str, input: Value) -> (Option<String>, String, Result<Value, String>) {
        (Some(id.to_owned()).filter(|id| !id.is_empty()), name.to_owned(), Ok(input))
    }

    #[test]
    fn fragments_find_their_call_by_index() {
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
    fn servers_that_number_badly_are_understood() {
        // All with the same index; none at all; none at all and no ids.
        let same = vec![piece(Some(0), "a", "one", "{}"), piece(Some(0), "b", "two", "{"), piece(Some(0), "", "", "}")];
        assert_eq!(finished(same), [call("a", "one", json!({})), call("b", "two", json!({}))]);
        let none = vec![piece(None, "a", "one", "{"), piece(None, "", "", "}"), piece(None, "b", "two", "{}")];
        assert_eq!(finished(none), [call("a", "one", json!({})), call("b", "two", json!({}))]);
        let nameless = vec![piece(None, "", "one", "{"), piece(None, "", "", "}"), piece(None, "", "two", "{}")];
        assert_eq!(finished(nameless), [call("", "one", json!({})), call("", "two", json!({}))]);
    }

    #[test]
    fn an_id_given_twice_is_none() {
        let pieces = vec![
            piece(Some(0), "x", "one", "{}"),
            piece(Some(1), "x", "two", "null"),
            piece(Some(2), "y", "three", " "),
        ];
        let expected = [call("", "one", json!({})), call("", "two", json!({})), call("y", "three", json!({}))];
        assert_eq!(finished(pieces), expected);
    }

    #[test]
    fn what_is_no_object_is_kept_as_it_came() {
        for text in ["{\"a\":", "[1]", "7", "{} {}"] {
            assert_eq!(finished(vec![piece(Some(0), "x", "one", text)])[0].2, Err(text.to_owned()));
        }
    }

    #[test]
    fn there_is_an_end_to_calls_and_arguments() {
        let mut calls = Calls::default();
        for index in 0..256 {
            calls.add(piece(Some(index), &index.to_string(), "n", "")).unwrap();
        }
        assert!(calls.add(piece(Some(256), "256", "n", "")).unwrap_err().contains("256"));
        let mut calls = Calls::default();
        let fault = (0..10).find_map(|_| calls.add(piece(Some(0), "a", "n", &"x".repeat(1 << 20))).err()).unwrap();
        assert!(fault.contains("4194304"));
    }
}

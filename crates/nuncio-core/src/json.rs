//! Parsing of untrusted JSON: size and depth are limited before parsing, and repeated names are refused.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::schema::MAX_DEPTH;

/// Limit of values in a JSON document. One parsed value takes up to 360 bytes of memory, however short its text.
pub const MAX_VALUES: usize = 250_000;

/// Limit of reported repeated names per JSON document.
const MAX_REPEATED: usize = 200;

/// Why a JSON document was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonDocumentError {
    #[error("must not have more than {most} bytes")]
    TooLarge {
        /// Size limit of the document, in bytes.
        most: usize,
        found: usize,
    },
    /// The document nests deeper than [`MAX_DEPTH`].
    #[error("must not nest deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// The document has more than [`MAX_VALUES`] values.
    #[error("must not contain more than {MAX_VALUES} values")]
    TooManyValues,
    #[error("must be JSON: {0}")]
    NotJson(String),
    /// JSON pointers of names that are repeated in their object.
    #[error("{} must not be repeated", .0.join(", "))]
    Repeated(Vec<String>),
}

/// Parses a JSON document within the limits. A name that is repeated in an object is an error.
pub fn read(document: &[u8], max_bytes: usize) -> Result<Value, JsonDocumentError> {
    if document.len() > max_bytes {
        return Err(JsonDocumentError::TooLarge { most: max_bytes, found: document.len() });
    }
    if is_too_deep(document) {
        return Err(JsonDocumentError::TooDeep);
    }
    if count_values(document) > MAX_VALUES {
        return Err(JsonDocumentError::TooManyValues);
    }
    let repeated = RefCell::new(Vec::new());
    let mut reader = serde_json::Deserializer::from_slice(document);
    let read = StrictValueSeed { pointer: JsonPointer::Root, repeated: &repeated }.deserialize(&mut reader);
    let read = read.and_then(|value| reader.end().map(|()| value));
    let value = read.map_err(|error| JsonDocumentError::NotJson(error.to_string()))?;
    let repeated = repeated.into_inner();
    if repeated.is_empty() { Ok(value) } else { Err(JsonDocumentError::Repeated(repeated)) }
}

/// A content type without parameters such as the character set.
#[must_use]
pub fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// Whether the content type is `application/json` or `application/…+json`; parameters are ignored.
#[must_use]
pub fn is_json(content_type: &str) -> bool {
    let (kind, subtype) = essence(content_type).split_once('/').unwrap_or_default();
    let suffixed =
        |subtype: &str| subtype.rsplit_once('+').is_some_and(|(name, suffix)| !name.is_empty() && suffix == "json");
    kind.eq_ignore_ascii_case("application")
        && (subtype.eq_ignore_ascii_case("json") || suffixed(&subtype.to_ascii_lowercase()))
}

/// Appends `name` to a JSON pointer.
#[must_use]
pub fn pointer(path: &str, name: &str) -> String {
    format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// A position in a JSON document, formatted as a JSON pointer only when needed.
#[derive(Debug, Clone, Copy)]
pub enum JsonPointer<'a> {
    /// The whole JSON document.
    Root,
    /// A field of the object at the inner position.
    Field(&'a JsonPointer<'a>, &'a str),
    /// An item of the array at the inner position.
    Item(&'a JsonPointer<'a>, usize),
}

impl JsonPointer<'_> {
    #[must_use]
    pub fn pointer(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Field(above, name) => pointer(&above.pointer(), name),
            Self::Item(above, number) => format!("{}/{number}", above.pointer()),
        }
    }
}

/// Whether brackets outside strings nest deeper than [`MAX_DEPTH`]. Scans without recursion or parsing.
#[must_use]
pub fn is_too_deep(document: &[u8]) -> bool {
    // A scalar inside the innermost bracket counts as one more level.
    structure(document).any(|(_, depth)| depth >= MAX_DEPTH)
}

/// Recursion limit of `serde_json`.
const PARSER_DEPTH: usize = 128;

/// Upper bound of the number of JSON values, counted without parsing: every value except the first follows a bracket or
/// a comma. Values deeper than the parser's limit are not counted, because parsing stops there.
#[must_use]
pub fn count_values(document: &[u8]) -> usize {
    let mut count = 1;
    for (byte, depth) in structure(document) {
        count += usize::from(matches!(byte, b'{' | b'[' | b','));
        if depth > PARSER_DEPTH {
            break;
        }
    }
    count
}

/// The brackets and commas of a JSON text outside strings, each with the nesting depth after it.
fn structure(document: &[u8]) -> impl Iterator<Item = (u8, usize)> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    document.iter().filter_map(move |byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            b',' if !in_string => {}
            _ => return None,
        }
        (!in_string && matches!(byte, b'{' | b'[' | b'}' | b']' | b',')).then_some((*byte, depth))
    })
}

/// Builds a JSON value and records every repeated name with its position.
struct StrictValueSeed<'a> {
    pointer: JsonPointer<'a>,
    repeated: &'a RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for StrictValueSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictValueSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number is out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(StrictValueSeed {
            pointer: JsonPointer::Item(&self.pointer, list.len()),
            repeated: self.repeated,
        })? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let pointer = JsonPointer::Field(&self.pointer, &name);
            let value = members.next_value_seed(StrictValueSeed { pointer, repeated: self.repeated })?;
            if map.contains_key(&name) && self.repeated.borrow().len() < MAX_REPEATED {
                self.repeated.borrow_mut().push(pointer.pointer());
            }
            map.insert(name, value);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(document: &str) -> JsonDocumentError {
        read(document.as_bytes(), 1000).unwrap_err()
    }

    #[test]
    fn all_repeated_json_member_names_are_reported_with_pointers() {
        let found = wrong(r#"{"a":1,"a":2,"b":[{"x/y":1,"x/y":2}],"c~":{"d":0,"e":{},"d":1}}"#);
        assert_eq!(found, JsonDocumentError::Repeated(["/a", "/b/0/x~1y", "/c~0/d"].map(str::to_owned).to_vec()));
        // Names are compared after unescaping.
        assert_eq!(wrong(r#"{"a":1,"\u0061":2}"#).to_string(), "/a must not be repeated");
    }

    #[test]
    fn json_beyond_size_depth_or_value_count_limit_is_refused() {
        assert_eq!(wrong(&"x".repeat(1001)), JsonDocumentError::TooLarge { most: 1000, found: 1001 });
        assert_eq!(wrong(&"[".repeat(200)), JsonDocumentError::TooDeep);
        let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        assert!(read(deep(MAX_DEPTH - 1).as_bytes(), 1000).is_ok());
        assert!(read(deep(MAX_DEPTH).as_bytes(), 1000).is_err());
        let many = |count: usize| format!("[{}0]", "0,".repeat(count - 2));
        assert!(read(many(MAX_VALUES).as_bytes(), usize::MAX).is_ok());
        assert_eq!(read(many(MAX_VALUES + 1).as_bytes(), usize::MAX), Err(JsonDocumentError::TooManyValues));
        let brackets_in_text = format!(r#"["\"{}"]"#, "[".repeat(100));
        assert!(read(brackets_in_text.as_bytes(), 1000).is_ok());
    }

    #[test]
    fn count_values_is_at_least_the_number_of_parsed_values() {
        fn values(value: &Value) -> usize {
            1 + match value {
                Value::Array(items) => items.iter().map(values).sum(),
                Value::Object(members) => members.values().map(values).sum(),
                _ => 0,
            }
        }
        for text in ["1", "\"a,[{\\\",\"", "[]", "{}", "[1,2,3]", r#"{"a":[{"":0},{"b":{}}],"c":"x,y"}"#, "[[],[[]]]"] {
            let counted = count_values(text.as_bytes());
            assert!(counted >= values(&serde_json::from_str(text).unwrap()), "{text}: {counted}");
        }
    }

    #[test]
    fn count_values_stops_at_the_maximum_nesting_depth() {
        let deep = "[".repeat(100_000);
        assert!(serde_json::from_str::<Value>(&deep).is_err());
        assert_eq!(count_values(deep.as_bytes()), 130);
    }

    #[test]
    fn malformed_json_is_refused_and_large_integers_are_exact() {
        for bad in ["", "{", "{\"a\":}", "[1,]", "nul", "1 2", "\u{feff}{}", "1e999", "\"\\ud800\""] {
            assert!(matches!(wrong(bad), JsonDocumentError::NotJson(_)), "{bad}");
        }
        assert!(read(b"\"\xff\"", 1000).is_err());
        let big = read(b"[18446744073709551615, -9223372036854775808, 9007199254740993]", 1000).unwrap();
        assert_eq!(big.to_string(), "[18446744073709551615,-9223372036854775808,9007199254740993]");
    }

    #[test]
    fn only_json_content_types_are_recognised() {
        for good in ["application/json", "Application/JSON; charset=utf-8", "application/problem+json"] {
            assert!(is_json(good), "{good}");
        }
        for bad in
            ["", "text/json", "application/jsonp", "application/+json", "json", "text/plain", "application/x-json"]
        {
            assert!(!is_json(bad), "{bad}");
        }
    }
}

//! Digests that independent programs compute alike: SHA-256 over RFC 8785 canonical JSON.

use std::fmt;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::string_form::string_form;

/// A SHA-256 digest, serialised as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Digest([u8; 32]);

impl Digest {
    /// Previous hash of the first link of a hash chain.
    pub const ZERO: Self = Self([0; 32]);

    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Digest of the JSON value's canonical form.
    #[must_use]
    pub fn of_json(value: &Value) -> Self {
        let mut text = Vec::with_capacity(128);
        write_canonical(value, &mut text);
        Self::of_bytes(&text)
    }

    /// A digest that another program computed.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    #[must_use]
    pub fn parse(hex: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if hex.len() != 2 * bytes.len() {
            return None;
        }
        HEXLOWER_PERMISSIVE.decode_mut(hex.as_bytes(), &mut bytes).ok()?;
        Some(Self(bytes))
    }

    /// The digest's hex digits in eight groups of eight, for comparison by people.
    #[must_use]
    pub fn grouped(&self) -> String {
        let hex = self.to_string();
        hex.as_bytes().chunks(8).map(String::from_utf8_lossy).collect::<Vec<_>>().join(" ")
    }
}

/// The RFC 8785 canonical JSON of a value.
#[must_use]
pub fn canonical(value: &impl Serialize) -> Vec<u8> {
    serde_json_canonicalizer::to_vec(value).expect("a JSON value always has a canonical form")
}

/// Writes the canonical form of a JSON value; faster than the general serializer for integers and ASCII names.
fn write_canonical(value: &Value, text: &mut Vec<u8>) {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => write_plain(value, text),
        Value::Number(number) => match number.as_i64() {
            // Up to 2^53 an integer and its double have the same text.
            Some(whole) if whole.unsigned_abs() <= 1 << 53 => write_plain(value, text),
            _ => text.extend(canonical(number)),
        },
        Value::Array(items) => {
            text.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                write_canonical(item, text);
            }
            text.push(b']');
        }
        Value::Object(map) => {
            // RFC 8785 sorts names by UTF-16 units, which equals byte order for ASCII names.
            if map.keys().any(|name| !name.is_ascii()) {
                return text.extend(canonical(value));
            }
            let mut members: Vec<_> = map.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            text.push(b'{');
            for (index, (name, item)) in members.into_iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                write_plain(name, text);
                text.push(b':');
                write_canonical(item, text);
            }
            text.push(b'}');
        }
    }
}

fn write_plain(value: &(impl Serialize + ?Sized), text: &mut Vec<u8>) {
    serde_json::to_writer(text, value).expect("writing into memory does not fail");
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut hex = [0; 64];
        f.write_str(HEXLOWER.encode_mut_str(&self.0, &mut hex))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

string_form!(Digest, |text| Digest::parse(text).ok_or_else(|| format!("{text:?} is not a SHA-256 digest in hex")));

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn write_canonical_gives_the_same_bytes_as_the_canonical_serializer() {
        let large = 1_i64 << 53;
        for value in [
            json!({"b": [1, -2, 0, large, large + 1, -large - 1, u64::MAX, i64::MIN, 1.0, 0.1, 1e300, -0.0, 5e-324], "a": {}}),
            json!({"é": 1, "z": [[], null, true], "\u{10000}": 2, "\u{e000}": 3, "": ""}),
            json!({"q\"\\/\u{8}\u{c}\n\r\t\u{1}\u{7f}\u{2028}": "q\"\\/\u{8}\u{c}\n\r\t\u{1}\u{7f}\u{2028}😀"}),
            json!("x"),
        ] {
            let mut text = Vec::new();
            write_canonical(&value, &mut text);
            assert_eq!(String::from_utf8(text).unwrap(), String::from_utf8(canonical(&value)).unwrap());
        }
    }

    #[test]
    fn json_digest_equals_the_digest_stored_by_an_earlier_version() {
        let value = json!({"z": {"b": [1, 2.5, null], "a": true}, "a": "ü", "m": {}});
        let stored = "d92ef379062ab75d633bf3af7883bbfd5a78dc9a3d90abb24c9382401de45b70";
        assert_eq!(Digest::of_json(&value).to_string(), stored);
    }

    proptest! {
        #[test]
        fn json_digest_is_the_same_for_every_order_of_keys(value in nested_json(), seed in any::<u64>()) {
            let shuffled = shuffle_keys(&value, &mut seed.clone());
            prop_assert_eq!(Digest::of_json(&value), Digest::of_json(&shuffled));
        }
    }

    fn nested_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<i64>().prop_map(Value::from), "[a-zé]{0,3}".prop_map(Value::from)];
        leaf.prop_recursive(3, 24, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[a-zé\u{10000}]{0,3}", inner), 0..6)
                    .prop_map(|members| { Value::Object(members.into_iter().collect()) }),
            ]
        })
    }

    /// The same value with the members of every object inserted in another order.
    fn shuffle_keys(value: &Value, seed: &mut u64) -> Value {
        match value {
            Value::Object(map) => {
                let mut members: Vec<_> =
                    map.iter().map(|(key, item)| (key.clone(), shuffle_keys(item, seed))).collect();
                for index in (1..members.len()).rev() {
                    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    members.swap(index, usize::try_from(*seed >> 33).unwrap() % (index + 1));
                }
                Value::Object(members.into_iter().collect())
            }
            Value::Array(items) => items.iter().map(|item| shuffle_keys(item, seed)).collect(),
            other => other.clone(),
        }
    }

    #[test]
    fn json_digest_ignores_key_order_and_round_trips_through_hex() {
        let one = Digest::of_json(&json!({"a": 1.0, "b": "ü"}));
        assert_eq!(one, Digest::of_json(&json!({"b": "ü", "a": 1})));
        assert_eq!(Digest::parse(&one.to_string()), Some(one));
        assert_eq!(Digest::parse(&one.to_string().to_uppercase()), Some(one));
        assert_eq!(one.to_string(), one.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        for bad in ["zz", &"g".repeat(64), &"0".repeat(63), &"0".repeat(65), &"0".repeat(66), &"ü".repeat(32)] {
            assert_eq!(Digest::parse(bad), None, "{bad}");
        }
    }
}

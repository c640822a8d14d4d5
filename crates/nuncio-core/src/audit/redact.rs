//! Removal of a person from an audit record: every mention is replaced by a pseudonym, the rest is unchanged.

use serde_json::Value;

use crate::ids::PersonName;
use crate::principal::Principal;

/// JSON fields of an audit record that mean the person if their value is the person's name or a name of their keys.
const PERSON_FIELDS: [&str; 4] = ["person", "subject", "device", "user"];

/// The person to remove from audit records, and the pseudonym that replaces them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonRedaction {
    pub name: PersonName,
    pub pseudonym: PersonName,
    /// All principals of this person, such as linked DIDs. API keys have random ids and stay.
    pub principals: Vec<Principal>,
    /// Names of the person's keys, which appear in the records of their creation.
    pub key_names: Vec<String>,
}

impl PersonRedaction {
    /// The audit record with the person replaced by the pseudonym; `None` if it does not mention them or is not JSON.
    #[must_use]
    pub fn of_text(&self, record: &str) -> Option<String> {
        let mut value: Value = serde_json::from_str(record).ok()?;
        self.replace(&mut value, "").then(|| value.to_string())
    }

    fn replace(&self, value: &mut Value, key: &str) -> bool {
        match value {
            Value::String(text) => {
                let is_name = *text == self.name.as_str() || self.key_names.contains(text);
                let by = if PERSON_FIELDS.contains(&key) && is_name {
                    self.pseudonym.to_string()
                } else if self.principals.iter().any(|principal| *text == principal.to_string()) {
                    Principal::Person(self.pseudonym.clone()).to_string()
                } else {
                    return false;
                };
                *text = by;
                true
            }
            // `fold` visits every item; `any` would stop at the first.
            Value::Array(items) => items.iter_mut().fold(false, |any, item| self.replace(item, key) | any),
            Value::Object(fields) => fields.iter_mut().fold(false, |any, (key, field)| self.replace(field, key) | any),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redaction_replaces_a_person_but_not_equal_agent_and_tool_names() {
        let name = |text| PersonName::parse(text).unwrap();
        let redaction = PersonRedaction {
            name: name("ada"),
            pseudonym: name("forgotten-1"),
            principals: vec![Principal::Person(name("ada")), Principal::Did("did:wba:x:ada".to_owned())],
            key_names: vec!["ada's phone".to_owned()],
        };
        assert_eq!(redaction.of_text(r#"{"subject":"ada's phone"}"#).unwrap(), r#"{"subject":"forgotten-1"}"#);
        let record =
            r#"{"agent":"ada","by":["person:ada","policy"],"caller":"did:wba:x:ada","person":"ada","tool":"ada"}"#;
        let without = r#"{"agent":"ada","by":["person:forgotten-1","policy"],"caller":"person:forgotten-1","person":"forgotten-1","tool":"ada"}"#;
        assert_eq!(redaction.of_text(record).unwrap(), without);
        assert_eq!(redaction.of_text(r#"{"caller":"person:adam","person":"bob"}"#), None);
        assert_eq!(redaction.of_text("no JSON"), None);
    }
}

//! What the record of a call refers to in other records: the rule that gave the permission, the approval, and the
//! sealed messages by which the call went to a person's device. Each reference carries a hash, so the records of
//! server, ledger, relay and device prove each other.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::{ApprovalId, GrantId, MessageId, RelationId};

/// The references of one record. Fields are in the order of their names, so that their JSON is canonical as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct References {
    /// The approval that was asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approval: Option<ApprovalReference>,
    /// The messages that carried the call; several if the device could not open the first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub messages: Vec<MessageReference>,
    /// What gave the caller the permission; none if nothing did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rule: Option<Rule>,
}

impl References {
    /// Whether there are none, as in records of earlier versions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// An approval as it was when the call used it, or was refused by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalReference {
    /// The digest of the approval's canonical JSON.
    pub hash: Digest,
    /// Its id.
    pub id: ApprovalId,
}

/// A message at a relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageReference {
    /// The digest of the sealed envelope's bytes.
    pub envelope: Digest,
    /// Its id at the relay.
    pub id: MessageId,
}

/// An entry of a grant ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerReference {
    /// Its hash, which covers the entries before it.
    pub hash: Digest,
    /// The relation the ledger belongs to.
    pub relation: RelationId,
    /// Its number.
    pub seq: u64,
}

/// What gave a caller the permission that a tool needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "by")]
pub enum Rule {
    /// The tool needs no permission.
    NoScope,
    /// `local` and operators have all permissions.
    Local,
    /// The key was created with it.
    Key,
    /// The access token names it.
    Token,
    /// The operator's settings give it.
    Settings,
    /// An operator's grant.
    Grant {
        /// The grant.
        grant: GrantId,
        /// The digest of the grant's canonical JSON.
        hash: Digest,
    },
    /// A person's consent: the last entry of the ledger when the call was decided.
    Ledger(LedgerReference),
    /// The person's device knows the consent; it was given at another relay.
    OtherRelay,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::canonical;

    #[test]
    fn json_is_canonical_and_is_read_back() {
        let ledger = LedgerReference { hash: Digest::ZERO, relation: RelationId::parse("rel_1").unwrap(), seq: 3 };
        let grant = Rule::Grant { grant: GrantId::parse("grant_1").unwrap(), hash: Digest::ZERO };
        let rules = [Rule::NoScope, Rule::Local, Rule::Key, Rule::Token, Rule::Settings, Rule::OtherRelay];
        for rule in rules.into_iter().chain([grant, Rule::Ledger(ledger)]) {
            let references = References {
                approval: Some(ApprovalReference { hash: Digest::ZERO, id: ApprovalId::parse("apr_1").unwrap() }),
                messages: vec![MessageReference { envelope: Digest::ZERO, id: MessageId::parse("msg_1-1").unwrap() }],
                rule: Some(rule),
            };
            let text = serde_json::to_string(&references).unwrap();
            assert_eq!(text.as_bytes(), canonical(&references));
            assert_eq!(serde_json::from_str::<References>(&text).unwrap(), references);
        }
        assert!(References::default().is_empty());
    }
}

//! References from a call's audit record to other records: the source of the permission, the approval, and the sealed
//! messages that carried the call to a device. Each reference contains a hash, so that the records of server, ledger,
//! relay and device confirm each other.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::{ApprovalId, GrantId, MessageId, RelationId};

/// References of one audit record. Fields are in alphabetical order, so that the serialised JSON is canonical.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AuditReferences {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approval: Option<ApprovalReference>,
    /// The messages that carried the call; more than one if the device could not decrypt the first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub messages: Vec<SealedMessageReference>,
    /// Source of the caller's permission; `None` if the caller had none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rule: Option<PermissionSource>,
}

impl AuditReferences {
    /// Whether the record has no references, as in records of earlier versions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Reference to an approval in the state in which it allowed or refused the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalReference {
    /// Digest of the approval's canonical JSON.
    pub hash: Digest,
    pub id: ApprovalId,
}

/// Reference to a sealed message stored at a relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedMessageReference {
    /// Digest of the envelope's bytes.
    pub envelope: Digest,
    pub id: MessageId,
}

/// Reference to an entry of a consent ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerReference {
    /// Hash of the ledger entry, which covers all earlier entries of the ledger.
    pub hash: Digest,
    /// The relation that the ledger belongs to.
    pub relation: RelationId,
    pub seq: u64,
}

/// The source of the permission under which a tool was called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "by")]
pub enum PermissionSource {
    NoScope,
    /// The caller is `local` or an operator, who have all permissions.
    Local,
    /// The permission came from the scopes of the caller's API key.
    Key,
    /// The permission came from the scopes of the caller's access token.
    Token,
    /// The permission came from a grant in the operator's settings file.
    Settings,
    Grant {
        grant: GrantId,
        /// Digest of the grant's canonical JSON.
        hash: Digest,
    },
    /// The permission came from a person's consent: the last ledger entry at the time of the decision.
    Ledger(LedgerReference),
    /// The permission came from consent given at another relay, which only the person's device knows.
    OtherRelay,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::canonical;

    #[test]
    fn audit_references_serialise_to_canonical_json_and_parse_back() {
        let ledger = LedgerReference { hash: Digest::ZERO, relation: RelationId::parse("rel_1").unwrap(), seq: 3 };
        let grant = PermissionSource::Grant { grant: GrantId::parse("grant_1").unwrap(), hash: Digest::ZERO };
        let rules = [
            PermissionSource::NoScope,
            PermissionSource::Local,
            PermissionSource::Key,
            PermissionSource::Token,
            PermissionSource::Settings,
            PermissionSource::OtherRelay,
        ];
        for rule in rules.into_iter().chain([grant, PermissionSource::Ledger(ledger)]) {
            let references = AuditReferences {
                approval: Some(ApprovalReference { hash: Digest::ZERO, id: ApprovalId::parse("apr_1").unwrap() }),
                messages: vec![SealedMessageReference {
                    envelope: Digest::ZERO,
                    id: MessageId::parse("msg_1-1").unwrap(),
                }],
                rule: Some(rule),
            };
            let text = serde_json::to_string(&references).unwrap();
            assert_eq!(text.as_bytes(), canonical(&references));
            assert_eq!(serde_json::from_str::<AuditReferences>(&text).unwrap(), references);
        }
        assert!(AuditReferences::default().is_empty());
    }
}

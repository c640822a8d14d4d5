//! Lists audit records, newest first, by agent, tool, caller and time.

use std::collections::HashMap;

use nuncio_core::audit::StoredAuditLink;
use nuncio_core::ids::KeyId;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AuditChainService, RECORDS_PER_READ};
use crate::error::EngineError;

/// Conditions that a listed audit record meets; an absent one is always met.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditFilter {
    pub agent: Option<String>,
    pub tool: Option<String>,
    /// A principal, the id or name of a key, the name of a person, or an operating-system account.
    pub caller: Option<String>,
    /// Earliest time of the record.
    pub since: Option<Timestamp>,
}

/// A stored audit record, parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedAuditRecord {
    pub stored: StoredAuditLink,
    /// The record; `None` if it is not JSON.
    pub record: Option<Value>,
    /// Name of the caller's key, if the caller has a key with a name.
    pub caller_name: Option<String>,
    /// Name of the key that the record is about, if its subject is the id of a key with a name.
    pub subject_name: Option<String>,
}

impl AuditChainService {
    /// At most `limit` audit records that meet the filter, newest first.
    pub async fn list_newest(&self, filter: &AuditFilter, limit: usize) -> Result<Vec<ListedAuditRecord>, EngineError> {
        let names = self.key_names().await?;
        let (mut found, mut before) = (Vec::new(), u64::MAX);
        while found.len() < limit {
            let links = self.store.audit_links_before(before, RECORDS_PER_READ).await?;
            let Some(oldest) = links.last() else { break };
            before = oldest.number;
            let page: Vec<_> = links.into_iter().map(|link| parse(link, &names)).collect();
            // Records of parallel calls may be out of order by a moment, so a whole page must be too old.
            let is_too_old = page.iter().all(|listed| filter.since.is_some_and(|since| time_of(listed) < Some(since)));
            found.extend(page.into_iter().filter(|listed| filter.admits(listed)).take(limit - found.len()));
            if is_too_old {
                break;
            }
        }
        Ok(found)
    }

    /// At most `limit` audit records with a number above `after`, oldest first, that meet the filter.
    pub async fn list_after(
        &self,
        after: u64,
        filter: &AuditFilter,
        limit: usize,
    ) -> Result<Vec<ListedAuditRecord>, EngineError> {
        let names = self.key_names().await?;
        let (mut found, mut after) = (Vec::new(), after);
        while found.len() < limit {
            let links = self.store.audit_links(after, RECORDS_PER_READ).await?;
            let Some(newest) = links.last() else { break };
            after = newest.number;
            let page = links.into_iter().map(|link| parse(link, &names));
            found.extend(page.filter(|listed| filter.admits(listed)).take(limit - found.len()));
        }
        Ok(found)
    }

    async fn key_names(&self) -> Result<HashMap<KeyId, String>, EngineError> {
        let keys = self.access.keys().await?;
        Ok(keys.into_iter().filter_map(|key| Some((key.id, key.name?))).collect())
    }
}

fn parse(stored: StoredAuditLink, names: &HashMap<KeyId, String>) -> ListedAuditRecord {
    let record: Option<Value> = serde_json::from_str(&stored.link.record).ok();
    let caller_name = match record.as_ref().and_then(caller_of).and_then(Principal::parse) {
        Some(Principal::Key(id)) => names.get(&id).cloned(),
        _ => None,
    };
    let subject = record.as_ref().and_then(|record| KeyId::parse(record["subject"].as_str()?).ok());
    let subject_name = subject.and_then(|id| names.get(&id).cloned());
    ListedAuditRecord { stored, record, caller_name, subject_name }
}

/// The caller of a tool call, or the principal that made a change.
fn caller_of(record: &Value) -> Option<&str> {
    record["caller"].as_str().or_else(|| record["by"].as_str())
}

fn time_of(listed: &ListedAuditRecord) -> Option<Timestamp> {
    let record = listed.record.as_ref()?;
    ["ended_at", "at"].into_iter().find_map(|key| Timestamp::deserialize(&record[key]).ok())
}

impl AuditFilter {
    fn admits(&self, listed: &ListedAuditRecord) -> bool {
        let field = |key: &str| listed.record.as_ref().and_then(|record| record[key].as_str());
        let is = |wanted: &Option<String>, key: &str| wanted.as_deref().is_none_or(|wanted| field(key) == Some(wanted));
        is(&self.agent, "agent")
            && is(&self.tool, "tool")
            && self.since.is_none_or(|since| time_of(listed) >= Some(since))
            && self.caller.as_deref().is_none_or(|wanted| {
                let caller = listed.record.as_ref().and_then(caller_of);
                let named = ["key:", "person:", "agent:"].into_iter();
                caller == Some(wanted)
                    || named.filter_map(|kind| caller?.strip_prefix(kind)).any(|name| name == wanted)
                    || listed.caller_name.as_deref() == Some(wanted)
                    || field("account") == Some(wanted)
            })
    }
}

#[cfg(test)]
mod tests {
    use nuncio_core::audit::{AuditChainId, AuditChainLink};
    use nuncio_core::digest::Digest;
    use serde_json::json;

    use super::*;

    fn listed(record: &Value) -> ListedAuditRecord {
        let link = AuditChainLink {
            seq: 1,
            record: record.to_string(),
            previous: Digest::ZERO,
            hash: Digest::ZERO,
            redaction: None,
        };
        parse(
            StoredAuditLink { number: 1, chain: AuditChainId::MAIN, link },
            &HashMap::from([(KeyId::parse("key_1").unwrap(), "phone".to_owned())]),
        )
    }

    fn caller(text: &str) -> AuditFilter {
        AuditFilter { caller: Some(text.to_owned()), ..AuditFilter::default() }
    }

    #[test]
    fn caller_filter_accepts_a_principal_a_key_id_a_key_name_and_an_account() {
        let call = listed(&json!({"caller": "key:key_1", "agent": "hotel", "tool": "add"}));
        assert_eq!(call.caller_name.as_deref(), Some("phone"));
        for text in ["key:key_1", "key_1", "phone"] {
            assert!(caller(text).admits(&call), "{text}");
        }
        let order = listed(&json!({"by": "local", "account": "ada", "happened": "operator_ordered"}));
        assert!(caller("local").admits(&order) && caller("ada").admits(&order));
        for text in ["key", "key:", "phone2", "", "anonymous"] {
            assert!(!caller(text).admits(&call) && !caller(text).admits(&order), "{text}");
        }
    }

    #[test]
    fn filters_apply_together_and_unreadable_records_meet_none() {
        let call = listed(&json!({
            "caller": "local", "agent": "hotel", "tool": "add", "ended_at": "2026-01-02T00:00:00.000Z",
        }));
        let since = |text: &str| Some(Timestamp::try_from(text.to_owned()).unwrap());
        let filter = AuditFilter {
            agent: Some("hotel".to_owned()),
            tool: Some("add".to_owned()),
            caller: Some("local".to_owned()),
            since: since("2026-01-02T00:00:00Z"),
        };
        assert!(filter.admits(&call));
        for other in [
            AuditFilter { agent: Some("desk".to_owned()), ..filter.clone() },
            AuditFilter { tool: Some("sub".to_owned()), ..filter.clone() },
            AuditFilter { since: since("2026-01-02T00:00:01Z"), ..filter.clone() },
        ] {
            assert!(!other.admits(&call), "{other:?}");
        }
        let unreadable = ListedAuditRecord { record: None, ..call };
        assert!(!filter.admits(&unreadable) && AuditFilter::default().admits(&unreadable));
    }
}

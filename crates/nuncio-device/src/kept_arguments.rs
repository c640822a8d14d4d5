//! Arguments of ended calls, for a person who wants to see them later. They are kept only while the person's switch is
//! on, encrypted like every record of the device, outside the audit log, for as long as the log's entries.

use nuncio_core::ids::MessageId;
use nuncio_core::time::Timestamp;
use nuncio_identity::seal::{KeyStoreError, SealedRecordChange};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::audit::AUDIT_RETENTION;
use crate::record_store::RecordStore;

/// Name of the record with the switch; without it the switch is off.
const SWITCH: &str = "keep-arguments";
const PREFIX: &str = "arguments/";

#[derive(Debug, Serialize, Deserialize)]
struct StoredCallArguments {
    arguments: Value,
    at: Timestamp,
}

pub(crate) fn is_on(records: &RecordStore) -> Result<bool, KeyStoreError> {
    Ok(records.get(SWITCH)?.unwrap_or(false))
}

pub(crate) fn switch_on(records: &RecordStore) -> Result<(), KeyStoreError> {
    records.set(SWITCH, &true)
}

/// Turns the switch off and deletes all kept arguments.
pub(crate) fn switch_off(records: &RecordStore) -> Result<(), KeyStoreError> {
    let mut changes: Vec<_> = records.names(PREFIX)?.iter().map(|name| RecordStore::delete(name)).collect();
    changes.push(RecordStore::delete(SWITCH));
    records.save(changes)
}

/// Change that keeps the arguments of a call, by the message that carried it; `None` while the switch is off.
pub(crate) fn keep(
    records: &RecordStore,
    message: &MessageId,
    arguments: &Value,
    now: Timestamp,
) -> Result<Option<SealedRecordChange>, KeyStoreError> {
    if arguments.is_null() || !is_on(records)? {
        return Ok(None);
    }
    let kept = StoredCallArguments { arguments: arguments.clone(), at: now };
    Ok(Some(RecordStore::put(&format!("{PREFIX}{message}"), &kept)))
}

/// The kept arguments of a call, unless their time is over.
pub(crate) fn load(records: &RecordStore, message: &MessageId, now: Timestamp) -> Result<Option<Value>, KeyStoreError> {
    let kept: Option<StoredCallArguments> = records.get(&format!("{PREFIX}{message}"))?;
    Ok(kept.filter(|kept| now < kept.at.after(AUDIT_RETENTION)).map(|kept| kept.arguments))
}

/// Changes that delete arguments whose time is over.
pub(crate) fn forget(records: &RecordStore, now: Timestamp) -> Result<Vec<SealedRecordChange>, KeyStoreError> {
    let mut gone = Vec::new();
    for (name, kept) in records.all::<StoredCallArguments>(PREFIX)? {
        // An unreadable record is deleted too.
        if kept.is_ok_and(|kept| now < kept.at.after(AUDIT_RETENTION)) {
            continue;
        }
        gone.push(RecordStore::delete(&name));
    }
    Ok(gone)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nuncio_identity::seal::MemoryKeyStore;
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_kept_for_thirty_days_only_while_the_switch_is_on() {
        let records = RecordStore::new(Arc::new(MemoryKeyStore::new()));
        let message = MessageId::parse("msg_1").unwrap();
        let (day, arguments) = (Timestamp::from_millis(0), json!({"path": "a"}));
        assert_eq!(keep(&records, &message, &arguments, day).unwrap(), None, "off by default");
        switch_on(&records).unwrap();
        records.save(keep(&records, &message, &arguments, day).unwrap().into_iter().collect()).unwrap();
        let last = day.after(AUDIT_RETENTION).before(std::time::Duration::from_millis(1));
        assert_eq!(load(&records, &message, last).unwrap(), Some(arguments.clone()));
        assert_eq!(forget(&records, last).unwrap(), Vec::new());
        assert_eq!(load(&records, &message, day.after(AUDIT_RETENTION)).unwrap(), None);
        assert_eq!(forget(&records, day.after(AUDIT_RETENTION)).unwrap().len(), 1);
        switch_off(&records).unwrap();
        assert_eq!(load(&records, &message, day).unwrap(), None, "switching off deletes them");
        assert!(!is_on(&records).unwrap());
    }
}

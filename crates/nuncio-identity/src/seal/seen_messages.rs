//! Replay record of opened messages: the ids of the last few hundred per device, and a time floor for everything older.

use std::collections::{HashMap, HashSet, VecDeque};

use nuncio_core::ids::ClientMessageId;
use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::key_store::KeyStoreError;
use super::vault::{SealedRecordChange, SealedRecords};
use crate::encoding::{base64url, base64url_exact};
use crate::jcs::sha256;

/// Message ids per stored record. Opening a message rewrites one record.
const PER_RECORD: usize = 32;
/// Records per device. The last one is still growing, so at least 480 ids are remembered.
const MAX_RECORDS: usize = 16;
/// Number of devices whose opened messages are cached in memory.
const CACHED: usize = 1024;

/// Opened messages by device. Records of devices that are not cached are in the vault.
#[derive(Default)]
pub(super) struct SeenMessages {
    cached: HashMap<String, DeviceSeenMessages>,
}

#[derive(Default)]
struct DeviceSeenMessages {
    /// Stored records with their numbers, oldest first; only the last one grows.
    records: VecDeque<(u64, SeenMessagesRecord)>,
    names: HashSet<[u8; 16]>,
    floor: Option<i64>,
}

#[derive(Default, Clone, Serialize, Deserialize)]
struct SeenMessagesRecord {
    /// Messages sealed at or before this time (milliseconds) are refused.
    floor: Option<i64>,
    /// Latest sealing time of the messages in this record, in milliseconds.
    latest: Option<i64>,
    /// Truncated hashes of the ids of opened messages.
    names: Vec<String>,
}

fn short(id: &ClientMessageId) -> [u8; 16] {
    let [first, _] = *sha256(id.as_str().as_bytes()).as_chunks::<16>().0 else {
        unreachable!("a SHA-256 has two halves")
    };
    first
}

impl SeenMessages {
    /// Returns whether a message was opened before, or was sealed at or before the time floor.
    pub(super) fn contains(
        &mut self,
        vault: &SealedRecords,
        peer: &str,
        id: &ClientMessageId,
        at: Timestamp,
    ) -> Result<bool, KeyStoreError> {
        let device = self.with(vault, peer)?;
        Ok(device.floor.is_some_and(|floor| at.as_millis() <= floor) || device.names.contains(&short(id)))
    }

    /// Records a message and returns the changes to save.
    pub(super) fn remember(
        &mut self,
        vault: &SealedRecords,
        peer: &str,
        id: &ClientMessageId,
        at: Timestamp,
    ) -> Result<Vec<SealedRecordChange>, KeyStoreError> {
        let device = self.with(vault, peer)?;
        let mut changes = Vec::new();
        if device.records.back().is_none_or(|(_, record)| record.names.len() >= PER_RECORD) {
            let number = device.records.back().map_or(0, |(number, _)| number + 1);
            device.records.push_back((number, SeenMessagesRecord::default()));
        }
        if device.records.len() > MAX_RECORDS
            && let Some((number, gone)) = device.records.pop_front()
        {
            changes.push((name(peer, number), None));
            device.floor = device.floor.max(gone.latest);
            for name in gone.names.iter().filter_map(|name| base64url_exact(name)) {
                device.names.remove(&name);
            }
        }
        device.names.insert(short(id));
        if let Some((number, record)) = device.records.back_mut() {
            record.floor = device.floor;
            record.latest = record.latest.max(Some(at.as_millis()));
            record.names.push(base64url(&short(id)));
            changes.push(vault.put(name(peer, *number), record));
        }
        Ok(changes)
    }

    /// Drops the cached record of a device because it may differ from the stored one.
    pub(super) fn uncache(&mut self, peer: &str) {
        self.cached.remove(peer);
    }

    fn with(&mut self, vault: &SealedRecords, peer: &str) -> Result<&mut DeviceSeenMessages, KeyStoreError> {
        if !self.cached.contains_key(peer) {
            if self.cached.len() >= CACHED {
                self.cached.clear();
            }
            let mut device = DeviceSeenMessages::default();
            let prefix = format!("seen/{peer}/");
            let mut numbers: Vec<u64> =
                vault.names(&prefix)?.iter().filter_map(|name| name.strip_prefix(&prefix)?.parse().ok()).collect();
            numbers.sort_unstable();
            for number in numbers {
                if let Some(record) = vault.get::<SeenMessagesRecord>(&name(peer, number))? {
                    device.floor = device.floor.max(record.floor);
                    device.names.extend(record.names.iter().filter_map(|name| base64url_exact(name)));
                    device.records.push_back((number, record));
                }
            }
            self.cached.insert(peer.to_owned(), device);
        }
        self.cached.get_mut(peer).ok_or_else(|| KeyStoreError("the replay record cannot be loaded".to_owned()))
    }
}

fn name(peer: &str, number: u64) -> String {
    format!("seen/{peer}/{number}")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::seal::MemoryKeyStore;

    #[test]
    fn messages_evicted_from_the_replay_record_are_still_refused() {
        let (vault, change) = SealedRecords::create(Arc::new(MemoryKeyStore::new())).unwrap();
        vault.save(vec![change]).unwrap();
        let mut seen = SeenMessages::default();
        let id = |number: i64| ClientMessageId::parse(&format!("m{number}")).unwrap();
        let at = Timestamp::from_millis;
        for number in 0..2000 {
            // Reloads from the vault from time to time.
            if number % 97 == 0 {
                seen = SeenMessages::default();
            }
            assert!(!seen.contains(&vault, "p/d", &id(number), at(number)).unwrap(), "{number}");
            let changes = seen.remember(&vault, "p/d", &id(number), at(number)).unwrap();
            assert!(changes.len() <= 2);
            vault.save(changes).unwrap();
        }
        for number in 0..2000 {
            assert!(seen.contains(&vault, "p/d", &id(number), at(number)).unwrap(), "{number}");
        }
        assert!(!seen.contains(&vault, "p/d", &id(2000), at(1999)).unwrap());
        assert!(!seen.contains(&vault, "p/other", &id(1), at(1)).unwrap());
        assert_eq!(vault.names("seen/").unwrap().len(), MAX_RECORDS);
    }
}

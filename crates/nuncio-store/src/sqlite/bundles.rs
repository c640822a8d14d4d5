//! Public key bundles, one-time keys and key backups.

use async_trait::async_trait;
use nuncio_core::bundle::{DeviceEndorsement, KeyBundle, KeyBundleId, OneTimeKey};
use nuncio_core::ids::{DeviceId, PersonName};
use nuncio_core::notification::RelayParty;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::{Conflict, KeyBundleStore, StoreError};
use rusqlite::{Connection, Row, params};

use super::SqliteStore;
use super::problem::SqlError;
use super::rows::{self, all, execute, execute_or, exists, first, run, to_integer, to_json, to_limit};

pub(super) fn put(connection: &Connection, bundle: &KeyBundle) -> Result<(), SqlError> {
    let (keys, id) = (&bundle.keys, bundle.keys.id());
    let [owner, device] = columns(&id);
    if let Some(before) = one(connection, &id)?.map(|bundle| bundle.keys) {
        if before.seq >= keys.seq {
            return Err(Conflict::Moved.into());
        }
        if before.olm_key != keys.olm_key {
            let sql = "DELETE FROM one_time_keys WHERE owner = ?1 AND device = ?2";
            execute(connection, sql, params![owner, device])?;
        }
    }
    execute(
        connection,
        "INSERT INTO key_bundles (owner, device, seq, content) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (owner, device) DO UPDATE SET seq = excluded.seq, content = excluded.content",
        params![owner, device, to_integer(keys.seq)?, to_json(bundle)?],
    )?;
    if matches!(keys.owner, RelayParty::Agent(_)) {
        let sql = "DELETE FROM key_bundles WHERE owner = ?1 AND device <> ?2";
        execute(connection, sql, params![owner, device])?;
    }
    Ok(())
}

fn columns(id: &KeyBundleId) -> [String; 2] {
    [id.owner.to_string(), id.device.to_string()]
}

pub(super) fn endorse(
    connection: &Connection,
    id: &KeyBundleId,
    endorsement: &DeviceEndorsement,
) -> Result<(), SqlError> {
    let before = one(connection, id)?.ok_or(Conflict::Missing)?;
    let endorsed = KeyBundle { endorsement: Some(endorsement.clone()), ..before };
    let [owner, device] = columns(id);
    let sql = "UPDATE key_bundles SET content = ?3 WHERE owner = ?1 AND device = ?2";
    run(connection, sql, params![owner, device, to_json(&endorsed)?])
}

pub(super) fn put_one_time(
    connection: &Connection,
    id: &KeyBundleId,
    keys: &[OneTimeKey],
    most: usize,
) -> Result<(), SqlError> {
    let [owner, device] = columns(id);
    for key in keys {
        let added = execute(
            connection,
            "INSERT INTO one_time_keys (owner, device, key_id, fallback, content) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (owner, device, key_id) DO NOTHING",
            params![owner, device, key.key_id, key.fallback, to_json(key)?],
        )
        .map_err(|problem| problem.of_no_owner(Conflict::Missing))?;
        if added > 0 && key.fallback {
            let sql = "DELETE FROM one_time_keys WHERE owner = ?1 AND device = ?2 AND fallback = 1 AND key_id <> ?3";
            execute(connection, sql, params![owner, device, key.key_id])?;
        }
    }
    run(
        connection,
        "DELETE FROM one_time_keys WHERE place IN
         (SELECT place FROM one_time_keys WHERE owner = ?1 AND device = ?2 AND fallback = 0
          ORDER BY place DESC LIMIT -1 OFFSET ?3)",
        params![owner, device, to_limit(most)],
    )
}

/// Removes a one-time key that is handed out; a fallback key stays.
pub(super) fn take_one_time(connection: &Connection, id: &KeyBundleId, key_id: &str) -> Result<(), SqlError> {
    let [owner, device] = columns(id);
    let key = params![owner, device, key_id];
    let sql = "DELETE FROM one_time_keys WHERE owner = ?1 AND device = ?2 AND key_id = ?3 AND fallback = 0";
    if execute(connection, sql, key)? > 0 {
        return Ok(());
    }
    let sql = "SELECT 1 FROM one_time_keys WHERE owner = ?1 AND device = ?2 AND key_id = ?3";
    if exists(connection, sql, key)? { Ok(()) } else { Err(Conflict::Missing.into()) }
}

/// Removes a bundle; its one-time keys are deleted with it.
pub(super) fn remove(connection: &Connection, id: &KeyBundleId) -> Result<(), SqlError> {
    run(connection, "DELETE FROM key_bundles WHERE owner = ?1 AND device = ?2", columns(id))
}

pub(super) fn put_backup(
    connection: &Connection,
    person: &PersonName,
    content: &str,
    at: Timestamp,
) -> Result<(), SqlError> {
    run(
        connection,
        "INSERT INTO key_backups (person, at, content) VALUES (?1, ?2, ?3)
         ON CONFLICT (person) DO UPDATE SET at = excluded.at, content = excluded.content",
        params![person.as_str(), at.as_millis(), content],
    )
}

pub(super) fn remove_backup(connection: &Connection, person: &PersonName) -> Result<(), SqlError> {
    execute_or(Conflict::Missing, connection, "DELETE FROM key_backups WHERE person = ?1", [person.as_str()])
}

fn one(connection: &Connection, id: &KeyBundleId) -> Result<Option<KeyBundle>, SqlError> {
    let sql = "SELECT content FROM key_bundles WHERE owner = ?1 AND device = ?2";
    first(connection, sql, columns(id), rows::json_row)
}

#[async_trait]
impl KeyBundleStore for SqliteStore {
    async fn bundle(&self, id: &KeyBundleId) -> Result<Option<KeyBundle>, StoreError> {
        self.readers.point(|connection| one(connection, id))
    }

    async fn bundles(&self, owner: &RelayParty) -> Result<Vec<KeyBundle>, StoreError> {
        let sql = "SELECT content FROM key_bundles WHERE owner = ?1 ORDER BY device";
        self.readers.all(sql, [owner.to_string()], rows::json_row).await
    }

    async fn bundle_owners(&self, device: &DeviceId, limit: usize) -> Result<Vec<RelayParty>, StoreError> {
        let sql = "SELECT content FROM key_bundles WHERE device = ?1 ORDER BY owner LIMIT ?2";
        let read = |row: &Row<'_>| rows::json_row(row).map(|bundle: KeyBundle| bundle.keys.owner);
        self.readers.point(|connection| all(connection, sql, params![device.as_str(), to_limit(limit)], read))
    }

    async fn one_time_key(&self, id: &KeyBundleId) -> Result<Option<OneTimeKey>, StoreError> {
        let sql = "SELECT content FROM one_time_keys WHERE owner = ?1 AND device = ?2 ORDER BY fallback, place LIMIT 1";
        self.readers.first(sql, columns(id), rows::json_row)
    }

    async fn one_time_keys_left(&self, id: &KeyBundleId) -> Result<usize, StoreError> {
        let sql = "SELECT count(*) FROM one_time_keys WHERE owner = ?1 AND device = ?2 AND fallback = 0";
        let left = self.readers.first(sql, columns(id), |row| rows::number(row, 0))?.unwrap_or(0);
        Ok(usize::try_from(left).unwrap_or(usize::MAX))
    }

    async fn backup(&self, person: &PersonName) -> Result<Option<(String, Timestamp)>, StoreError> {
        let sql = "SELECT content, at FROM key_backups WHERE person = ?1";
        let read = |row: &Row<'_>| Ok((row.get(0)?, rows::moment(row, 1)?));
        Ok(self.readers.all(sql, [person.to_string()], read).await?.pop())
    }
}

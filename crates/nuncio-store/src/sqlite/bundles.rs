//! The public keys things are sealed to, and what people keep of their own.

use nuncio_core::bundle::{Endorsement, KeyBundle, OneTimeKey};
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{DeviceId, PersonName};
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::Conflict;
use rusqlite::{Connection, params};

use super::problem::Problem;
use super::rows::{self, all, execute, execute_or, first, to_integer, to_json, to_limit};

pub(super) fn put(connection: &Connection, bundle: &KeyBundle) -> Result<(), Problem> {
    let keys = &bundle.keys;
    let (device, owner) = (keys.device_id.as_str(), keys.owner.to_string());
    if let Some(before) = one(connection, &keys.device_id)?.map(|bundle| bundle.keys) {
        if before.owner != keys.owner {
            return Err(Conflict::Exists.into());
        }
        if before.seq >= keys.seq {
            return Err(Conflict::Moved.into());
        }
        if before.olm_key != keys.olm_key {
            execute(connection, "DELETE FROM one_time_keys WHERE device = ?1", [device])?;
        }
    }
    execute(
        connection,
        "INSERT INTO key_bundles (device, owner, seq, content) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (device) DO UPDATE SET seq = excluded.seq, content = excluded.content",
        params![device, owner, to_integer(keys.seq)?, to_json(bundle)?],
    )?;
    if matches!(keys.owner, Recipient::Agent(_)) {
        let sql = "DELETE FROM key_bundles WHERE owner = ?1 AND device <> ?2";
        execute(connection, sql, params![owner, device])?;
    }
    Ok(())
}

pub(super) fn endorse(connection: &Connection, device: &DeviceId, endorsement: &Endorsement) -> Result<(), Problem> {
    let before = one(connection, device)?.ok_or(Conflict::Missing)?;
    let endorsed = KeyBundle { endorsement: Some(endorsement.clone()), ..before };
    let sql = "UPDATE key_bundles SET content = ?2 WHERE device = ?1";
    execute(connection, sql, params![device.as_str(), to_json(&endorsed)?])?;
    Ok(())
}

pub(super) fn put_one_time(
    connection: &Connection,
    device: &DeviceId,
    keys: &[OneTimeKey],
    most: usize,
) -> Result<(), Problem> {
    for key in keys {
        let added = execute(
            connection,
            "INSERT INTO one_time_keys (device, key_id, fallback, content) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (device, key_id) DO NOTHING",
            params![device.as_str(), key.key_id, key.fallback, to_json(key)?],
        )
        .map_err(|problem| problem.of_no_owner(Conflict::Missing))?;
        if added > 0 && key.fallback {
            let sql = "DELETE FROM one_time_keys WHERE device = ?1 AND fallback = 1 AND key_id <> ?2";
            execute(connection, sql, params![device.as_str(), key.key_id])?;
        }
    }
    execute(
        connection,
        "DELETE FROM one_time_keys WHERE place IN
         (SELECT place FROM one_time_keys WHERE device = ?1 AND fallback = 0 ORDER BY place DESC LIMIT -1 OFFSET ?2)",
        params![device.as_str(), to_limit(most)],
    )?;
    Ok(())
}

/// A fallback key stays when it is handed out.
pub(super) fn take_one_time(connection: &Connection, device: &DeviceId, key_id: &str) -> Result<(), Problem> {
    let key = params![device.as_str(), key_id];
    let sql = "DELETE FROM one_time_keys WHERE device = ?1 AND key_id = ?2 AND fallback = 0";
    if execute(connection, sql, key)? > 0 {
        return Ok(());
    }
    let sql = "SELECT 1 FROM one_time_keys WHERE device = ?1 AND key_id = ?2";
    Ok(first(connection, sql, key, |_| Ok(()))?.ok_or(Conflict::Missing)?)
}

/// Its one-time keys go with it.
pub(super) fn remove(connection: &Connection, device: &DeviceId) -> Result<(), Problem> {
    execute(connection, "DELETE FROM key_bundles WHERE device = ?1", [device.as_str()])?;
    Ok(())
}

pub(super) fn put_backup(
    connection: &Connection,
    person: &PersonName,
    content: &str,
    at: Timestamp,
) -> Result<(), Problem> {
    execute(
        connection,
        "INSERT INTO key_backups (person, at, content) VALUES (?1, ?2, ?3)
         ON CONFLICT (person) DO UPDATE SET at = excluded.at, content = excluded.content",
        params![person.as_str(), at.as_millis(), content],
    )?;
    Ok(())
}

pub(super) fn remove_backup(connection: &Connection, person: &PersonName) -> Result<(), Problem> {
    execute_or(Conflict::Missing, connection, "DELETE FROM key_backups WHERE person = ?1", [person.as_str()])
}

pub(super) fn one(connection: &Connection, device: &DeviceId) -> Result<Option<KeyBundle>, Problem> {
    let sql = "SELECT content FROM key_bundles WHERE device = ?1";
    first(connection, sql, [device.as_str()], |row| rows::json(row, 0))
}

pub(super) fn of(connection: &Connection, owner: &Recipient) -> Result<Vec<KeyBundle>, Problem> {
    let sql = "SELECT content FROM key_bundles WHERE owner = ?1 ORDER BY device";
    all(connection, sql, [owner.to_string()], |row| rows::json(row, 0))
}

pub(super) fn one_time(connection: &Connection, device: &DeviceId) -> Result<Option<OneTimeKey>, Problem> {
    let sql = "SELECT content FROM one_time_keys WHERE device = ?1 ORDER BY fallback, place LIMIT 1";
    first(connection, sql, [device.as_str()], |row| rows::json(row, 0))
}

pub(super) fn one_time_left(connection: &Connection, device: &DeviceId) -> Result<usize, Problem> {
    let sql = "SELECT count(*) FROM one_time_keys WHERE device = ?1 AND fallback = 0";
    let left = first(connection, sql, [device.as_str()], |row| rows::number(row, 0))?.unwrap_or(0);
    Ok(usize::try_from(left).unwrap_or(usize::MAX))
}

pub(super) fn backup(connection: &Connection, person: &PersonName) -> Result<Option<(String, Timestamp)>, Problem> {
    let sql = "SELECT content, at FROM key_backups WHERE person = ?1";
    first(connection, sql, [person.as_str()], |row| Ok((row.get(0)?, rows::moment(row, 1)?)))
}

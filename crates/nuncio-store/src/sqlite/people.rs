//! People, invites, devices and used nonces.

use async_trait::async_trait;
use nuncio_core::digest::Digest;
use nuncio_core::ids::{DeviceId, PersonName};
use nuncio_core::person::{Device, Invite, Person};
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::{Conflict, PersonStore, StoreError};
use rusqlite::{Connection, Row, params};

use super::SqliteStore;
use super::problem::SqlError;
use super::rows::{self, execute, execute_or, run};

/// Maximum number of expired nonces that each insert of a nonce deletes.
const NONCES_PER_INSERT: i64 = 16;

const INVITE: &str = "code, person, created_at, expires_at, used_by";
const DEVICE: &str = "id, person, name, key, enrolled_at, revoked_at";

pub(super) fn put(connection: &Connection, person: &Person) -> Result<(), SqlError> {
    run(
        connection,
        "INSERT INTO people (name, created_at) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING",
        params![person.name.as_str(), person.created_at.as_millis()],
    )
}

pub(super) fn invite(connection: &Connection, invite: &Invite) -> Result<(), SqlError> {
    execute_or(
        Conflict::Exists,
        connection,
        "INSERT INTO invites (code, person, created_at, expires_at, used_by) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (code) DO NOTHING",
        params![
            invite.code.to_string(),
            invite.person.as_str(),
            invite.created_at.as_millis(),
            invite.expires_at.as_millis(),
            invite.used_by.as_ref().map(DeviceId::as_str)
        ],
    )
    .map_err(|problem| problem.of_no_owner(Conflict::Missing))
}

pub(super) fn enrol(connection: &Connection, invite: &Invite, device: &Device) -> Result<(), SqlError> {
    execute_or(
        Conflict::Moved,
        connection,
        "UPDATE invites SET used_by = ?2 WHERE code = ?1 AND used_by IS NULL",
        params![invite.code.to_string(), device.id.as_str()],
    )?;
    execute_or(
        Conflict::Exists,
        connection,
        "INSERT INTO devices (id, person, name, key, enrolled_at, revoked_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT DO NOTHING",
        params![
            device.id.as_str(),
            device.person.as_str(),
            device.name,
            device.key.to_string(),
            device.enrolled_at.as_millis(),
            device.revoked_at.map(Timestamp::as_millis)
        ],
    )
}

pub(super) fn revoke(connection: &Connection, id: &DeviceId, at: Timestamp) -> Result<(), SqlError> {
    let sql = "UPDATE devices SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL";
    execute_or(Conflict::Missing, connection, sql, params![id.as_str(), at.as_millis()])
}

pub(super) fn use_nonce(
    connection: &Connection,
    digest: &Digest,
    now: Timestamp,
    kept_until: Timestamp,
) -> Result<(), SqlError> {
    execute(
        connection,
        "DELETE FROM nonces WHERE digest IN (SELECT digest FROM nonces WHERE kept_until <= ?1 LIMIT ?2)",
        params![now.as_millis(), NONCES_PER_INSERT],
    )?;
    execute_or(
        Conflict::Exists,
        connection,
        "INSERT INTO nonces (digest, kept_until) VALUES (?1, ?2) ON CONFLICT (digest) DO NOTHING",
        params![digest.to_string(), kept_until.as_millis()],
    )
}

#[async_trait]
impl PersonStore for SqliteStore {
    async fn person(&self, name: &PersonName) -> Result<Option<Person>, StoreError> {
        self.readers.first("SELECT name, created_at FROM people WHERE name = ?1", [name.as_str()], read_person)
    }

    async fn people(&self) -> Result<Vec<Person>, StoreError> {
        self.readers.all("SELECT name, created_at FROM people ORDER BY name", [], read_person).await
    }

    async fn invite(&self, code: &Digest) -> Result<Option<Invite>, StoreError> {
        self.readers.first(&format!("SELECT {INVITE} FROM invites WHERE code = ?1"), [code.to_string()], read_invite)
    }

    async fn invites(&self, person: &PersonName) -> Result<Vec<Invite>, StoreError> {
        let sql = format!("SELECT {INVITE} FROM invites WHERE person = ?1 ORDER BY created_at, code");
        self.readers.all(sql, [person.to_string()], read_invite).await
    }

    async fn device(&self, id: &DeviceId) -> Result<Option<Device>, StoreError> {
        self.readers.first(&format!("SELECT {DEVICE} FROM devices WHERE id = ?1"), [id.as_str()], read_device)
    }

    async fn devices(&self, person: &PersonName) -> Result<Vec<Device>, StoreError> {
        let sql = format!("SELECT {DEVICE} FROM devices WHERE person = ?1 ORDER BY enrolled_at, id");
        self.readers.all(sql, [person.to_string()], read_device).await
    }
}

fn read_person(row: &Row<'_>) -> Result<Person, SqlError> {
    Ok(Person { name: rows::text_form(row, 0)?, created_at: rows::moment(row, 1)? })
}

fn read_invite(row: &Row<'_>) -> Result<Invite, SqlError> {
    Ok(Invite {
        code: rows::digest(row, 0)?,
        person: rows::text_form(row, 1)?,
        created_at: rows::moment(row, 2)?,
        expires_at: rows::moment(row, 3)?,
        used_by: rows::optional(row, 4, rows::text_form)?,
    })
}

fn read_device(row: &Row<'_>) -> Result<Device, SqlError> {
    Ok(Device {
        id: rows::text_form(row, 0)?,
        person: rows::text_form(row, 1)?,
        name: row.get(2)?,
        key: rows::text_form(row, 3)?,
        enrolled_at: rows::moment(row, 4)?,
        revoked_at: rows::optional(row, 5, rows::moment)?,
    })
}

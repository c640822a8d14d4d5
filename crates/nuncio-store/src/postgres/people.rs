//! People, invites, devices and used nonces.

use async_trait::async_trait;
use nuncio_core::digest::Digest;
use nuncio_core::ids::{DeviceId, PersonName};
use nuncio_core::person::{Device, Invite, Person};
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::{Conflict, PersonStore, StoreError};
use tokio_postgres::Row;

use super::PostgresStore;
use super::problem::SqlError;
use super::rows;
use super::writes::{SqlWrite, Translated, Writes, params};

/// Maximum number of expired nonces that each insert of a nonce deletes.
const NONCES_PER_INSERT: i64 = 16;

const INVITE: &str = "code, person, created_at, expires_at, used_by";
const DEVICE: &str = "id, person, name, key, enrolled_at, revoked_at";

pub(super) fn put(person: &Person, out: &mut Writes) -> Translated {
    out.push(SqlWrite::any(
        "INSERT INTO people (name, created_at) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
        params![person.name.as_str(), person.created_at],
    ));
    Ok(())
}

pub(super) fn invite(invite: &Invite, out: &mut Writes) -> Translated {
    let create = SqlWrite::one_or(
        Conflict::Exists,
        "INSERT INTO invites (code, person, created_at, expires_at, used_by) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (code) DO NOTHING",
        params![
            invite.code.to_string(),
            invite.person.as_str(),
            invite.created_at,
            invite.expires_at,
            invite.used_by.as_ref().map(DeviceId::as_str)
        ],
    );
    out.push(create.of_no_owner(Conflict::Missing));
    Ok(())
}

pub(super) fn enrol(invite: &Invite, device: &Device, out: &mut Writes) -> Translated {
    out.push(SqlWrite::one_or(
        Conflict::Moved,
        "UPDATE invites SET used_by = $2 WHERE code = $1 AND used_by IS NULL",
        params![invite.code.to_string(), device.id.as_str()],
    ));
    out.push(SqlWrite::one_or(
        Conflict::Exists,
        "INSERT INTO devices (id, person, name, key, enrolled_at, revoked_at) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT DO NOTHING",
        params![
            device.id.as_str(),
            device.person.as_str(),
            &device.name,
            device.key.to_string(),
            device.enrolled_at,
            device.revoked_at
        ],
    ));
    Ok(())
}

pub(super) fn revoke(id: &DeviceId, at: Timestamp, out: &mut Writes) -> Translated {
    let sql = "UPDATE devices SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL";
    out.push(SqlWrite::one_or(Conflict::Missing, sql, params![id.as_str(), at]));
    Ok(())
}

pub(super) fn use_nonce(digest: &Digest, now: Timestamp, kept_until: Timestamp, out: &mut Writes) -> Translated {
    // Rows that another transaction deletes are skipped.
    out.push(SqlWrite::any(
        "DELETE FROM nonces WHERE digest IN
             (SELECT digest FROM nonces WHERE kept_until <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED)",
        params![now, NONCES_PER_INSERT],
    ));
    out.push(SqlWrite::one_or(
        Conflict::Exists,
        "INSERT INTO nonces (digest, kept_until) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING",
        params![digest.to_string(), kept_until],
    ));
    Ok(())
}

#[async_trait]
impl PersonStore for PostgresStore {
    async fn person(&self, name: &PersonName) -> Result<Option<Person>, StoreError> {
        let sql = "SELECT name, created_at FROM people WHERE name = $1";
        self.readers.first(sql, params![name.as_str()], read_person).await
    }

    async fn people(&self) -> Result<Vec<Person>, StoreError> {
        self.readers.all("SELECT name, created_at FROM people ORDER BY name", Vec::new(), read_person).await
    }

    async fn invite(&self, code: &Digest) -> Result<Option<Invite>, StoreError> {
        let sql = format!("SELECT {INVITE} FROM invites WHERE code = $1");
        self.readers.first(&sql, params![code.to_string()], read_invite).await
    }

    async fn invites(&self, person: &PersonName) -> Result<Vec<Invite>, StoreError> {
        let sql = format!("SELECT {INVITE} FROM invites WHERE person = $1 ORDER BY created_at, code");
        self.readers.all(&sql, params![person.as_str()], read_invite).await
    }

    async fn device(&self, id: &DeviceId) -> Result<Option<Device>, StoreError> {
        let sql = format!("SELECT {DEVICE} FROM devices WHERE id = $1");
        self.readers.first(&sql, params![id.as_str()], read_device).await
    }

    async fn devices(&self, person: &PersonName) -> Result<Vec<Device>, StoreError> {
        let sql = format!("SELECT {DEVICE} FROM devices WHERE person = $1 ORDER BY enrolled_at, id");
        self.readers.all(&sql, params![person.as_str()], read_device).await
    }
}

fn read_person(row: &Row) -> Result<Person, SqlError> {
    Ok(Person { name: rows::text_form(row, 0)?, created_at: rows::moment(row, 1)? })
}

fn read_invite(row: &Row) -> Result<Invite, SqlError> {
    Ok(Invite {
        code: rows::digest(row, 0)?,
        person: rows::text_form(row, 1)?,
        created_at: rows::moment(row, 2)?,
        expires_at: rows::moment(row, 3)?,
        used_by: rows::optional(row, 4, rows::text_form)?,
    })
}

fn read_device(row: &Row) -> Result<Device, SqlError> {
    Ok(Device {
        id: rows::text_form(row, 0)?,
        person: rows::text_form(row, 1)?,
        name: rows::get(row, 2)?,
        key: rows::text_form(row, 3)?,
        enrolled_at: rows::moment(row, 4)?,
        revoked_at: rows::optional(row, 5, rows::moment)?,
    })
}

//! API keys, grants of operators, and links of principals to people.

use async_trait::async_trait;
use nuncio_core::digest::Digest;
use nuncio_core::grant::Grant;
use nuncio_core::ids::{GrantId, PersonName};
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::{
    AccessChange, AccessStore, ApiKey, Conflict, KeyKind, PersonLink, PreviousSecret, StoreError,
};
use rusqlite::{Connection, Row, params};

use super::problem::SqlError;
use super::rows::{self, execute_or, run, to_integer, to_json};
use super::{SqliteStore, relations};

pub(super) fn apply(connection: &Connection, change: &AccessChange) -> Result<(), SqlError> {
    match change {
        AccessChange::CreateKey(key) => create_key(connection, key),
        AccessChange::RevokeKey { id, at } => {
            let sql = "UPDATE api_keys SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL";
            execute_or(Conflict::Missing, connection, sql, params![id.as_str(), at.as_millis()])
        }
        AccessChange::RotateKey { key, replaced } => rotate_key(connection, key, replaced),
        AccessChange::CreateGrant(grant) => execute_or(
            Conflict::Exists,
            connection,
            "INSERT INTO grants (id, given_at, content) VALUES (?1, ?2, ?3) ON CONFLICT (id) DO NOTHING",
            params![grant.id.as_str(), grant.given_at.as_millis(), to_json(grant)?],
        ),
        AccessChange::RevokeGrant(id) => remove_grant_or(Conflict::Missing, connection, id),
        AccessChange::UseGrant(id) => match remove_grant_or(Conflict::GrantUsed, connection, id) {
            // The grant may be a person's consent instead of an operator's grant.
            Err(SqlError::Conflict(Conflict::GrantUsed)) => relations::use_once(connection, id),
            other => other,
        },
        AccessChange::LinkPerson(link) => run(
            connection,
            "INSERT INTO links (principal, person, since) VALUES (?1, ?2, ?3)
             ON CONFLICT (principal) DO UPDATE SET person = excluded.person, since = excluded.since",
            params![link.principal.to_string(), link.person.as_str(), link.since.as_millis()],
        ),
        AccessChange::UnlinkPerson(principal) => {
            let sql = "DELETE FROM links WHERE principal = ?1";
            execute_or(Conflict::Missing, connection, sql, [principal.to_string()])
        }
    }
}

fn remove_grant_or(conflict: Conflict, connection: &Connection, id: &GrantId) -> Result<(), SqlError> {
    execute_or(conflict, connection, "DELETE FROM grants WHERE id = ?1", [id.as_str()])
}

fn create_key(connection: &Connection, key: &ApiKey) -> Result<(), SqlError> {
    execute_or(
        Conflict::Exists,
        connection,
        "INSERT INTO api_keys (id, name, digest, scopes, person, created_at, revoked_at, sealed, role, rotated_at,
           expires_at, lifetime_seconds, previous_digest, previous_sealed, previous_until)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15) ON CONFLICT (id) DO NOTHING",
        params![
            key.id.as_str(),
            key.name,
            key.digest.to_string(),
            to_json(&key.scopes)?,
            key.person.as_ref().map(PersonName::as_str),
            key.created_at.as_millis(),
            key.revoked_at.map(Timestamp::as_millis),
            sealed(&key.kind),
            key.role.as_str(),
            key.rotated_at.map(Timestamp::as_millis),
            key.expires_at.map(Timestamp::as_millis),
            key.lifetime_seconds.map(to_integer).transpose()?,
            key.previous.as_ref().map(|previous| previous.digest.to_string()),
            key.previous.as_ref().and_then(|previous| sealed(&previous.kind)),
            key.previous.as_ref().map(|previous| previous.until.as_millis()),
        ],
    )
}

fn rotate_key(connection: &Connection, key: &ApiKey, replaced: &Digest) -> Result<(), SqlError> {
    execute_or(
        Conflict::Moved,
        connection,
        "UPDATE api_keys SET digest = ?3, sealed = ?4, rotated_at = ?5, expires_at = ?6, lifetime_seconds = ?7,
           previous_digest = ?8, previous_sealed = ?9, previous_until = ?10
         WHERE id = ?1 AND digest = ?2 AND revoked_at IS NULL",
        params![
            key.id.as_str(),
            replaced.to_string(),
            key.digest.to_string(),
            sealed(&key.kind),
            key.rotated_at.map(Timestamp::as_millis),
            key.expires_at.map(Timestamp::as_millis),
            key.lifetime_seconds.map(to_integer).transpose()?,
            key.previous.as_ref().map(|previous| previous.digest.to_string()),
            key.previous.as_ref().and_then(|previous| sealed(&previous.kind)),
            key.previous.as_ref().map(|previous| previous.until.as_millis()),
        ],
    )
}

fn sealed(kind: &KeyKind) -> Option<&str> {
    match kind {
        KeyKind::Bearer => None,
        KeyKind::Signing { sealed } => Some(sealed),
    }
}

fn kind(sealed: Option<String>) -> KeyKind {
    sealed.map_or(KeyKind::Bearer, |sealed| KeyKind::Signing { sealed })
}

#[async_trait]
impl AccessStore for SqliteStore {
    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        self.readers.list(keys).await
    }

    async fn grants(&self) -> Result<Vec<Grant>, StoreError> {
        self.readers.all("SELECT content FROM grants ORDER BY given_at, id", [], rows::json_row).await
    }

    async fn links(&self) -> Result<Vec<PersonLink>, StoreError> {
        let read = |row: &Row<'_>| {
            let (principal, person) = (rows::text_form(row, 0)?, rows::text_form(row, 1)?);
            Ok(PersonLink { principal, person, since: rows::moment(row, 2)? })
        };
        self.readers.all("SELECT principal, person, since FROM links ORDER BY principal", [], read).await
    }
}

pub(super) fn keys(connection: &Connection) -> Result<Vec<ApiKey>, SqlError> {
    let sql = "SELECT id, name, digest, scopes, person, created_at, revoked_at, sealed, role, rotated_at, expires_at,
           lifetime_seconds, previous_digest, previous_sealed, previous_until
         FROM api_keys ORDER BY created_at, id";
    rows::all(connection, sql, [], read_key)
}

fn read_key(row: &Row<'_>) -> Result<ApiKey, SqlError> {
    Ok(ApiKey {
        id: rows::text_form(row, 0)?,
        name: row.get(1)?,
        digest: rows::digest(row, 2)?,
        scopes: rows::json(row, 3)?,
        person: rows::optional(row, 4, rows::text_form)?,
        created_at: rows::moment(row, 5)?,
        revoked_at: rows::optional(row, 6, rows::moment)?,
        kind: kind(row.get(7)?),
        rotated_at: rows::optional(row, 9, rows::moment)?,
        expires_at: rows::optional(row, 10, rows::moment)?,
        lifetime_seconds: rows::optional(row, 11, rows::number)?,
        previous: match (rows::optional(row, 12, rows::digest)?, rows::optional(row, 14, rows::moment)?) {
            (Some(digest), Some(until)) => Some(PreviousSecret { digest, kind: kind(row.get(13)?), until }),
            _ => None,
        },
        role: rows::text_form(row, 8)?,
    })
}

//! API keys.

use nuncio_core::ids::{KeyId, PersonName};
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::{ApiKey, Conflict, KeyKind, KeyRole};
use rusqlite::{Connection, Row, params};

use super::problem::Problem;
use super::rows::{self, execute_or, to_json};

pub(super) fn create(connection: &Connection, key: &ApiKey) -> Result<(), Problem> {
    execute_or(
        Conflict::Exists,
        connection,
        "INSERT INTO api_keys (id, name, digest, scopes, person, created_at, revoked_at, sealed, role)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (id) DO NOTHING",
        params![
            key.id.as_str(),
            key.name,
            key.digest.to_string(),
            to_json(&key.scopes)?,
            key.person.as_ref().map(PersonName::as_str),
            key.created_at.as_millis(),
            key.revoked_at.map(Timestamp::as_millis),
            match &key.kind {
                KeyKind::Bearer => None,
                KeyKind::Signing { sealed } => Some(sealed),
            },
            match key.role {
                KeyRole::App => "app",
                KeyRole::AppWithMetrics => "app_with_metrics",
                KeyRole::Operator => "operator",
            },
        ],
    )
}

pub(super) fn revoke(connection: &Connection, id: &KeyId, at: Timestamp) -> Result<(), Problem> {
    execute_or(
        Conflict::Missing,
        connection,
        "UPDATE api_keys SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL",
        params![id.as_str(), at.as_millis()],
    )
}

pub(super) fn all(connection: &Connection) -> Result<Vec<ApiKey>, Problem> {
    rows::all(
        connection,
        "SELECT id, name, digest, scopes, person, created_at, revoked_at, sealed, role
         FROM api_keys ORDER BY created_at, id",
        [],
        read,
    )
}

fn read(row: &Row<'_>) -> Result<ApiKey, Problem> {
    Ok(ApiKey {
        id: rows::parsed(row, 0, |text| KeyId::parse(text).ok())?,
        name: row.get(1)?,
        digest: rows::digest(row, 2)?,
        scopes: rows::json(row, 3)?,
        person: rows::optional(row, 4, |row, column| rows::parsed(row, column, |text| PersonName::parse(text).ok()))?,
        created_at: rows::moment(row, 5)?,
        revoked_at: rows::optional(row, 6, rows::moment)?,
        kind: row.get::<_, Option<String>>(7)?.map_or(KeyKind::Bearer, |sealed| KeyKind::Signing { sealed }),
        role: rows::parsed(row, 8, |text| match text {
            "app" => Some(KeyRole::App),
            "app_with_metrics" => Some(KeyRole::AppWithMetrics),
            "operator" => Some(KeyRole::Operator),
            _ => None,
        })?,
    })
}

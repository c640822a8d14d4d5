//! API keys, grants of operators, and links of principals to people.

use async_trait::async_trait;
use nuncio_core::digest::Digest;
use nuncio_core::grant::Grant;
use nuncio_core::ids::PersonName;
use nuncio_engine::ports::store::{
    AccessChange, AccessStore, ApiKey, Conflict, KeyKind, PersonLink, PreviousSecret, StoreError,
};
use tokio_postgres::Row;

use super::PostgresStore;
use super::problem::SqlError;
use super::rows::{self, to_integer, to_json};
use super::writes::{SqlWrite, Translated, Writes, params};

pub(super) fn translate(change: &AccessChange, out: &mut Writes) -> Translated {
    out.push(match change {
        AccessChange::CreateKey(key) => create_key(key)?,
        AccessChange::RevokeKey { id, at } => {
            let sql = "UPDATE api_keys SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL";
            SqlWrite::one_or(Conflict::Missing, sql, params![id.as_str(), *at])
        }
        AccessChange::RotateKey { key, replaced } => rotate_key(key, replaced)?,
        AccessChange::CreateGrant(grant) => SqlWrite::one_or(
            Conflict::Exists,
            "INSERT INTO grants (id, given_at, content) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING",
            params![grant.id.as_str(), grant.given_at, to_json(grant)?],
        ),
        AccessChange::RevokeGrant(id) => {
            SqlWrite::one_or(Conflict::Missing, "DELETE FROM grants WHERE id = $1", params![id.as_str()])
        }
        // The grant may be a person's consent for one time instead of an operator's grant.
        AccessChange::UseGrant(id) => SqlWrite::one_or(
            Conflict::GrantUsed,
            "WITH granted AS (DELETE FROM grants WHERE id = $1 RETURNING 1),
                  consent AS (DELETE FROM consents WHERE id = $1 AND once = 1
                                  AND NOT EXISTS (SELECT 1 FROM grants WHERE id = $1) RETURNING relation),
                  moved AS (UPDATE relations SET revision = revision + 1
                                WHERE id = (SELECT relation FROM consent) RETURNING 1)
             SELECT 1 FROM granted UNION ALL SELECT 1 FROM moved",
            params![id.as_str()],
        ),
        AccessChange::LinkPerson(link) => SqlWrite::any(
            "INSERT INTO links (principal, person, since) VALUES ($1, $2, $3)
             ON CONFLICT (principal) DO UPDATE SET person = excluded.person, since = excluded.since",
            params![link.principal.to_string(), link.person.as_str(), link.since],
        ),
        AccessChange::UnlinkPerson(principal) => {
            let sql = "DELETE FROM links WHERE principal = $1";
            SqlWrite::one_or(Conflict::Missing, sql, params![principal.to_string()])
        }
    });
    Ok(())
}

fn create_key(key: &ApiKey) -> Result<SqlWrite, SqlError> {
    Ok(SqlWrite::one_or(
        Conflict::Exists,
        "INSERT INTO api_keys (id, name, digest, scopes, person, created_at, revoked_at, sealed, role, rotated_at,
           expires_at, lifetime_seconds, previous_digest, previous_sealed, previous_until)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) ON CONFLICT (id) DO NOTHING",
        params![
            key.id.as_str(),
            key.name.as_ref(),
            key.digest.to_string(),
            to_json(&key.scopes)?,
            key.person.as_ref().map(PersonName::as_str),
            key.created_at,
            key.revoked_at,
            sealed(&key.kind),
            key.role.as_str(),
            key.rotated_at,
            key.expires_at,
            key.lifetime_seconds.map(to_integer).transpose()?,
            key.previous.as_ref().map(|previous| previous.digest.to_string()),
            key.previous.as_ref().and_then(|previous| sealed(&previous.kind)),
            key.previous.as_ref().map(|previous| previous.until),
        ],
    ))
}

fn rotate_key(key: &ApiKey, replaced: &Digest) -> Result<SqlWrite, SqlError> {
    Ok(SqlWrite::one_or(
        Conflict::Moved,
        "UPDATE api_keys SET digest = $3, sealed = $4, rotated_at = $5, expires_at = $6, lifetime_seconds = $7,
           previous_digest = $8, previous_sealed = $9, previous_until = $10
         WHERE id = $1 AND digest = $2 AND revoked_at IS NULL",
        params![
            key.id.as_str(),
            replaced.to_string(),
            key.digest.to_string(),
            sealed(&key.kind),
            key.rotated_at,
            key.expires_at,
            key.lifetime_seconds.map(to_integer).transpose()?,
            key.previous.as_ref().map(|previous| previous.digest.to_string()),
            key.previous.as_ref().and_then(|previous| sealed(&previous.kind)),
            key.previous.as_ref().map(|previous| previous.until),
        ],
    ))
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
impl AccessStore for PostgresStore {
    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        let sql =
            "SELECT id, name, digest, scopes, person, created_at, revoked_at, sealed, role, rotated_at, expires_at,
               lifetime_seconds, previous_digest, previous_sealed, previous_until
             FROM api_keys ORDER BY created_at, id";
        self.readers.all(sql, Vec::new(), read_key).await
    }

    async fn grants(&self) -> Result<Vec<Grant>, StoreError> {
        self.readers.all("SELECT content FROM grants ORDER BY given_at, id", Vec::new(), rows::json_row).await
    }

    async fn links(&self) -> Result<Vec<PersonLink>, StoreError> {
        let read = |row: &Row| {
            let (principal, person) = (rows::text_form(row, 0)?, rows::text_form(row, 1)?);
            Ok(PersonLink { principal, person, since: rows::moment(row, 2)? })
        };
        self.readers.all("SELECT principal, person, since FROM links ORDER BY principal", Vec::new(), read).await
    }
}

fn read_key(row: &Row) -> Result<ApiKey, SqlError> {
    Ok(ApiKey {
        id: rows::text_form(row, 0)?,
        name: rows::get(row, 1)?,
        digest: rows::digest(row, 2)?,
        scopes: rows::json(row, 3)?,
        person: rows::optional(row, 4, rows::text_form)?,
        created_at: rows::moment(row, 5)?,
        revoked_at: rows::optional(row, 6, rows::moment)?,
        kind: kind(rows::get(row, 7)?),
        rotated_at: rows::optional(row, 9, rows::moment)?,
        expires_at: rows::optional(row, 10, rows::moment)?,
        lifetime_seconds: rows::optional(row, 11, rows::number)?,
        previous: match (rows::optional(row, 12, rows::digest)?, rows::optional(row, 14, rows::moment)?) {
            (Some(digest), Some(until)) => Some(PreviousSecret { digest, kind: kind(rows::get(row, 13)?), until }),
            _ => None,
        },
        role: rows::text_form(row, 8)?,
    })
}

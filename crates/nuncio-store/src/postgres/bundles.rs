//! Public key bundles, one-time keys and key backups.

use async_trait::async_trait;
use nuncio_core::bundle::{DeviceEndorsement, KeyBundle, KeyBundleId, OneTimeKey};
use nuncio_core::ids::{DeviceId, PersonName};
use nuncio_core::notification::RelayParty;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::{Conflict, KeyBundleStore, StoreError};
use tokio_postgres::Row;

use super::PostgresStore;
use super::rows::{self, to_integer, to_json, to_limit};
use super::writes::{SqlValue, SqlWrite, Translated, Writes, params};

pub(super) fn put(bundle: &KeyBundle, out: &mut Writes) -> Translated {
    let (keys, id) = (&bundle.keys, bundle.keys.id());
    let [owner, device] = columns(&id);
    // The row stays locked, so that the next statements see the bundle that this one replaces.
    let sql = "SELECT 1 FROM key_bundles WHERE owner = $1 AND device = $2 FOR UPDATE";
    out.push(SqlWrite::any(sql, params![&owner, &device]));
    // One-time keys of another identity key are useless.
    out.push(SqlWrite::any(
        "DELETE FROM one_time_keys AS keys USING key_bundles AS bundle
         WHERE keys.owner = $1 AND keys.device = $2 AND bundle.owner = $1 AND bundle.device = $2
           AND (bundle.content::JSON -> 'olm_key')::TEXT IS DISTINCT FROM ($3::TEXT::JSON -> 'olm_key')::TEXT",
        params![&owner, &device, to_json(bundle)?],
    ));
    out.push(SqlWrite::one_or(
        Conflict::Moved,
        "INSERT INTO key_bundles (owner, device, seq, content) VALUES ($1, $2, $3, $4)
         ON CONFLICT (owner, device) DO UPDATE SET seq = excluded.seq, content = excluded.content
         WHERE key_bundles.seq < excluded.seq",
        params![&owner, &device, to_integer(keys.seq)?, to_json(bundle)?],
    ));
    if matches!(keys.owner, RelayParty::Agent(_)) {
        let sql = "DELETE FROM key_bundles WHERE owner = $1 AND device <> $2";
        out.push(SqlWrite::any(sql, params![owner, device]));
    }
    Ok(())
}

fn columns(id: &KeyBundleId) -> [String; 2] {
    [id.owner.to_string(), id.device.to_string()]
}

fn values(id: &KeyBundleId) -> Vec<SqlValue> {
    columns(id).map(SqlValue::from).into()
}

pub(super) fn endorse(id: &KeyBundleId, endorsement: &DeviceEndorsement, out: &mut Writes) -> Translated {
    let [owner, device] = columns(id);
    out.push(SqlWrite::one_or(
        Conflict::Missing,
        "UPDATE key_bundles SET content = (content::JSONB || jsonb_build_object('endorsement', $3::TEXT::JSONB))::TEXT
         WHERE owner = $1 AND device = $2",
        params![owner, device, to_json(endorsement)?],
    ));
    Ok(())
}

pub(super) fn put_one_time(id: &KeyBundleId, keys: &[OneTimeKey], most: usize, out: &mut Writes) -> Translated {
    let [owner, device] = columns(id);
    for key in keys {
        // A new fallback key replaces the previous one.
        let put = SqlWrite::any(
            "WITH added AS (
                 INSERT INTO one_time_keys (owner, device, key_id, fallback, content) VALUES ($1, $2, $3, $4, $5)
                 ON CONFLICT (owner, device, key_id) DO NOTHING RETURNING fallback)
             DELETE FROM one_time_keys WHERE owner = $1 AND device = $2 AND fallback = 1 AND key_id <> $3
               AND EXISTS (SELECT 1 FROM added WHERE fallback = 1)",
            params![&owner, &device, key.key_id.as_str(), key.fallback, to_json(key)?],
        );
        out.push(put.of_no_owner(Conflict::Missing));
    }
    out.push(SqlWrite::any(
        "DELETE FROM one_time_keys WHERE place IN
         (SELECT place FROM one_time_keys WHERE owner = $1 AND device = $2 AND fallback = 0
          ORDER BY place DESC OFFSET $3)",
        params![owner, device, to_limit(most)],
    ));
    Ok(())
}

/// Removes a one-time key that is handed out; a fallback key stays.
pub(super) fn take_one_time(id: &KeyBundleId, key_id: &str, out: &mut Writes) -> Translated {
    let [owner, device] = columns(id);
    out.push(SqlWrite::one_or(
        Conflict::Missing,
        "WITH taken AS (DELETE FROM one_time_keys
                        WHERE owner = $1 AND device = $2 AND key_id = $3 AND fallback = 0 RETURNING 1)
         SELECT 1 FROM taken
         UNION ALL SELECT 1 FROM one_time_keys WHERE owner = $1 AND device = $2 AND key_id = $3 AND fallback = 1",
        params![owner, device, key_id],
    ));
    Ok(())
}

/// Removes a bundle; its one-time keys are deleted with it.
pub(super) fn remove(id: &KeyBundleId, out: &mut Writes) -> Translated {
    out.push(SqlWrite::any("DELETE FROM key_bundles WHERE owner = $1 AND device = $2", values(id)));
    Ok(())
}

pub(super) fn put_backup(person: &PersonName, content: &str, at: Timestamp, out: &mut Writes) -> Translated {
    out.push(SqlWrite::any(
        "INSERT INTO key_backups (person, at, content) VALUES ($1, $2, $3)
         ON CONFLICT (person) DO UPDATE SET at = excluded.at, content = excluded.content",
        params![person.as_str(), at, content],
    ));
    Ok(())
}

pub(super) fn remove_backup(person: &PersonName, out: &mut Writes) -> Translated {
    let sql = "DELETE FROM key_backups WHERE person = $1";
    out.push(SqlWrite::one_or(Conflict::Missing, sql, params![person.as_str()]));
    Ok(())
}

#[async_trait]
impl KeyBundleStore for PostgresStore {
    async fn bundle(&self, id: &KeyBundleId) -> Result<Option<KeyBundle>, StoreError> {
        let sql = "SELECT content FROM key_bundles WHERE owner = $1 AND device = $2";
        self.readers.first(sql, values(id), rows::json_row).await
    }

    async fn bundles(&self, owner: &RelayParty) -> Result<Vec<KeyBundle>, StoreError> {
        let sql = "SELECT content FROM key_bundles WHERE owner = $1 ORDER BY device";
        self.readers.all(sql, params![owner.to_string()], rows::json_row).await
    }

    async fn bundle_owners(&self, device: &DeviceId, limit: usize) -> Result<Vec<RelayParty>, StoreError> {
        let sql = "SELECT content FROM key_bundles WHERE device = $1 ORDER BY owner LIMIT $2";
        let read = |row: &Row| rows::json_row(row).map(|bundle: KeyBundle| bundle.keys.owner);
        self.readers.few(sql, params![device.as_str(), to_limit(limit)], read).await
    }

    async fn one_time_key(&self, id: &KeyBundleId) -> Result<Option<OneTimeKey>, StoreError> {
        let sql = "SELECT content FROM one_time_keys WHERE owner = $1 AND device = $2 ORDER BY fallback, place LIMIT 1";
        self.readers.first(sql, values(id), rows::json_row).await
    }

    async fn one_time_keys_left(&self, id: &KeyBundleId) -> Result<usize, StoreError> {
        let sql = "SELECT count(*) FROM one_time_keys WHERE owner = $1 AND device = $2 AND fallback = 0";
        let left = self.readers.first(sql, values(id), |row| rows::number(row, 0)).await?.unwrap_or(0);
        Ok(usize::try_from(left).unwrap_or(usize::MAX))
    }

    async fn backup(&self, person: &PersonName) -> Result<Option<(String, Timestamp)>, StoreError> {
        let sql = "SELECT content, at FROM key_backups WHERE person = $1";
        let read = |row: &Row| Ok((rows::get(row, 0)?, rows::moment(row, 1)?));
        Ok(self.readers.all(sql, params![person.as_str()], read).await?.pop())
    }
}

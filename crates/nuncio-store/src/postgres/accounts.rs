//! Agents' accounts, and every version of their manifests.

use async_trait::async_trait;
use nuncio_core::account::{AccountOwner, AgentAccount, PublishedManifest};
use nuncio_core::digest::Digest;
use nuncio_core::ids::AgentId;
use nuncio_engine::ports::store::{AgentAccountStore, Conflict, StoreError};
use nuncio_judge::name_history::ManifestNameHistory;
use tokio_postgres::Row;

use super::PostgresStore;
use super::problem::SqlError;
use super::rows::{self, clamped, text_or_empty, to_integer, to_json, to_limit};
use super::writes::{CounterRow, SqlValue, SqlWrite, Translated, Writes, params};

const COLUMNS: &str = "content, manifest_version, manifest_hash, revision";
const ACCOUNT_EXISTS: &str = "SELECT 1 FROM accounts WHERE id = $1";

pub(super) fn create(account: &AgentAccount, words: &str, out: &mut Writes) -> Translated {
    let sql = "INSERT INTO accounts
        (id, owner, public, token, created_at, manifest_version, manifest_hash, revision, words, content)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING";
    out.push(SqlWrite::one_or(
        Conflict::Exists,
        sql,
        params![
            account.id.as_str(),
            account.owner.to_string(),
            account.public,
            account.token.as_ref().map(|token| token.digest.to_string()),
            account.created_at,
            to_integer(account.manifest_version)?,
            account.manifest_hash.map(|hash| hash.to_string()),
            to_integer(account.revision)?,
            words,
            to_json(account)?
        ],
    ));
    Ok(())
}

pub(super) fn update(account: &AgentAccount, words: &str, out: &mut Writes) -> Translated {
    let update = SqlWrite::found_or(
        Conflict::Moved,
        Conflict::Missing,
        ACCOUNT_EXISTS,
        "UPDATE accounts SET owner = $2, public = $3, token = $4, manifest_version = $5, manifest_hash = $6,
         revision = $7::BIGINT, words = $8, content = $9 WHERE id = $1 AND revision = $7::BIGINT - 1",
        params![
            account.id.as_str(),
            account.owner.to_string(),
            account.public,
            account.token.as_ref().map(|token| token.digest.to_string()),
            to_integer(account.manifest_version)?,
            account.manifest_hash.map(|hash| hash.to_string()),
            to_integer(account.revision)?,
            words,
            to_json(account)?
        ],
    );
    out.push(update.counting(CounterRow::Account(account.id.to_string())));
    Ok(())
}

pub(super) fn publish(
    account: &AgentAccount,
    words: &str,
    version: &PublishedManifest,
    name_history: &ManifestNameHistory,
    out: &mut Writes,
) -> Translated {
    update(account, words, out)?;
    let bare = PublishedManifest { manifest: None, ..version.clone() };
    out.push(SqlWrite::one_or(
        Conflict::Exists,
        "INSERT INTO manifests (agent, version, hash, content, manifest) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (agent, version) DO NOTHING",
        params![
            version.agent.as_str(),
            to_integer(version.version)?,
            version.hash.map(|hash| hash.to_string()),
            to_json(&bare)?,
            version.manifest.as_deref()
        ],
    ));
    out.push(SqlWrite::any(
        "INSERT INTO lineages (agent, content) VALUES ($1, $2)
         ON CONFLICT (agent) DO UPDATE SET content = excluded.content",
        params![version.agent.as_str(), to_json(name_history)?],
    ));
    Ok(())
}

/// Increments the account's revision, so that concurrent changes conflict. `Missing` if there is no account, `Moved`
/// unless its manifest is at `version`, if given.
pub(super) fn touch(agent: &AgentId, version: Option<u64>, out: &mut Writes) -> Translated {
    let touch = SqlWrite::found_or(
        Conflict::Moved,
        Conflict::Missing,
        ACCOUNT_EXISTS,
        "UPDATE accounts SET revision = revision + 1
         WHERE id = $1 AND ($2::BIGINT IS NULL OR manifest_version = $2)",
        params![agent.as_str(), version.map(to_integer).transpose()?],
    );
    out.push(touch.counting(CounterRow::Account(agent.to_string())));
    Ok(())
}

#[async_trait]
impl AgentAccountStore for PostgresStore {
    async fn account(&self, id: &AgentId) -> Result<Option<AgentAccount>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM accounts WHERE id = $1");
        self.readers.first(&sql, params![id.as_str()], read).await
    }

    async fn account_by_token(&self, token: &Digest) -> Result<Option<AgentAccount>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM accounts WHERE token = $1");
        self.readers.first(&sql, params![token.to_string()], read).await
    }

    async fn accounts_of(
        &self,
        owner: &AccountOwner,
        after: Option<&AgentId>,
        limit: usize,
    ) -> Result<Vec<AgentAccount>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM accounts WHERE owner = $1 AND id > $2 ORDER BY id LIMIT $3");
        self.readers.all(&sql, params![owner.to_string(), text_or_empty(after), to_limit(limit)], read).await
    }

    async fn public_accounts(
        &self,
        words: &[String],
        after: Option<&AgentId>,
        limit: usize,
    ) -> Result<Vec<AgentAccount>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM accounts WHERE public = 1 AND id > $1
             AND NOT EXISTS (SELECT 1 FROM unnest($3::TEXT[]) AS word WHERE position(word IN words) = 0)
             ORDER BY id LIMIT $2"
        );
        let params = params![text_or_empty(after), to_limit(limit), SqlValue::Texts(words.to_vec())];
        self.readers.all(&sql, params, read).await
    }

    async fn name_history(&self, agent: &AgentId) -> Result<Option<ManifestNameHistory>, StoreError> {
        let sql = "SELECT content FROM lineages WHERE agent = $1";
        Ok(self.readers.all(sql, params![agent.as_str()], rows::json_row).await?.pop())
    }

    async fn manifest(&self, agent: &AgentId, version: u64) -> Result<Option<PublishedManifest>, StoreError> {
        let Ok(version) = to_integer(version) else { return Ok(None) };
        let sql = "SELECT content, manifest FROM manifests WHERE agent = $1 AND version = $2";
        Ok(self.readers.all(sql, params![agent.as_str(), version], read_version).await?.pop())
    }

    async fn manifests(
        &self,
        agent: &AgentId,
        before: u64,
        limit: usize,
    ) -> Result<Vec<PublishedManifest>, StoreError> {
        let sql =
            "SELECT content, manifest FROM manifests WHERE agent = $1 AND version < $2 ORDER BY version DESC LIMIT $3";
        self.readers.all(sql, params![agent.as_str(), clamped(before), to_limit(limit)], read_version).await
    }
}

fn read(row: &Row) -> Result<AgentAccount, SqlError> {
    Ok(AgentAccount {
        manifest_version: rows::number(row, 1)?,
        manifest_hash: rows::optional(row, 2, rows::digest)?,
        revision: rows::number(row, 3)?,
        ..rows::json(row, 0)?
    })
}

fn read_version(row: &Row) -> Result<PublishedManifest, SqlError> {
    Ok(PublishedManifest { manifest: rows::get(row, 1)?, ..rows::json(row, 0)? })
}

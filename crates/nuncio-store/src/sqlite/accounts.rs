//! Agents' accounts, and every version of their manifests.

use async_trait::async_trait;
use nuncio_core::account::{AccountOwner, AgentAccount, PublishedManifest};
use nuncio_core::digest::Digest;
use nuncio_core::ids::AgentId;
use nuncio_engine::ports::store::{AgentAccountStore, Conflict, StoreError};
use nuncio_judge::name_history::ManifestNameHistory;
use rusqlite::{Connection, Row, params, params_from_iter};

use super::SqliteStore;
use super::problem::SqlError;
use super::rows::{self, clamped, execute_or, run, text_or_empty, to_integer, to_json, to_limit, update_or};

const COLUMNS: &str = "content, manifest_version, manifest_hash, revision";

pub(super) fn create(connection: &Connection, account: &AgentAccount, words: &str) -> Result<(), SqlError> {
    let sql = "INSERT INTO accounts
        (id, owner, public, token, created_at, manifest_version, manifest_hash, revision, words, content)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING";
    execute_or(
        Conflict::Exists,
        connection,
        sql,
        params![
            account.id.as_str(),
            account.owner.to_string(),
            account.public,
            account.token.as_ref().map(|token| token.digest.to_string()),
            account.created_at.as_millis(),
            to_integer(account.manifest_version)?,
            account.manifest_hash.map(|hash| hash.to_string()),
            to_integer(account.revision)?,
            words,
            to_json(account)?
        ],
    )
}

pub(super) fn update(connection: &Connection, account: &AgentAccount, words: &str) -> Result<(), SqlError> {
    update_or(
        Conflict::Moved,
        connection,
        ("accounts", account.id.as_str()),
        "UPDATE accounts SET owner = ?2, public = ?3, token = ?4, manifest_version = ?5, manifest_hash = ?6,
         revision = ?7, words = ?8, content = ?9 WHERE id = ?1 AND revision = ?7 - 1",
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
    )
}

pub(super) fn publish(
    connection: &Connection,
    account: &AgentAccount,
    words: &str,
    version: &PublishedManifest,
    name_history: &ManifestNameHistory,
) -> Result<(), SqlError> {
    update(connection, account, words)?;
    let bare = PublishedManifest { manifest: None, ..version.clone() };
    execute_or(
        Conflict::Exists,
        connection,
        "INSERT INTO manifests (agent, version, hash, content, manifest) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (agent, version) DO NOTHING",
        params![
            version.agent.as_str(),
            to_integer(version.version)?,
            version.hash.map(|hash| hash.to_string()),
            to_json(&bare)?,
            version.manifest
        ],
    )?;
    run(
        connection,
        "INSERT INTO lineages (agent, content) VALUES (?1, ?2)
         ON CONFLICT (agent) DO UPDATE SET content = excluded.content",
        params![version.agent.as_str(), to_json(name_history)?],
    )
}

/// Increments the account's revision, so that concurrent changes conflict. `Missing` if there is no account, `Moved`
/// unless its manifest is at `version`, if given.
pub(super) fn touch(connection: &Connection, agent: &AgentId, version: Option<u64>) -> Result<(), SqlError> {
    let version = version.map(to_integer).transpose()?;
    let sql = "UPDATE accounts SET revision = revision + 1 WHERE id = ?1 AND (?2 IS NULL OR manifest_version = ?2)";
    update_or(Conflict::Moved, connection, ("accounts", agent.as_str()), sql, params![agent.as_str(), version])
}

#[async_trait]
impl AgentAccountStore for SqliteStore {
    async fn account(&self, id: &AgentId) -> Result<Option<AgentAccount>, StoreError> {
        self.readers.first(&format!("SELECT {COLUMNS} FROM accounts WHERE id = ?1"), [id.as_str()], read)
    }

    async fn account_by_token(&self, token: &Digest) -> Result<Option<AgentAccount>, StoreError> {
        self.readers.first(&format!("SELECT {COLUMNS} FROM accounts WHERE token = ?1"), [token.to_string()], read)
    }

    async fn accounts_of(
        &self,
        owner: &AccountOwner,
        after: Option<&AgentId>,
        limit: usize,
    ) -> Result<Vec<AgentAccount>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM accounts WHERE owner = ?1 AND id > ?2 ORDER BY id LIMIT ?3");
        self.readers.all(sql, (owner.to_string(), text_or_empty(after), to_limit(limit)), read).await
    }

    async fn public_accounts(
        &self,
        words: &[String],
        after: Option<&AgentId>,
        limit: usize,
    ) -> Result<Vec<AgentAccount>, StoreError> {
        let matching: String = (0..words.len()).map(|n| format!(" AND instr(words, ?{}) > 0", n + 3)).collect();
        let sql = format!("SELECT {COLUMNS} FROM accounts WHERE public = 1 AND id > ?1{matching} ORDER BY id LIMIT ?2");
        let params = [&[text_or_empty(after), to_limit(limit).to_string()], words].concat();
        self.readers.all(sql, params_from_iter(params), read).await
    }

    async fn name_history(&self, agent: &AgentId) -> Result<Option<ManifestNameHistory>, StoreError> {
        let params = [agent.to_string()];
        Ok(self.readers.all("SELECT content FROM lineages WHERE agent = ?1", params, rows::json_row).await?.pop())
    }

    async fn manifest(&self, agent: &AgentId, version: u64) -> Result<Option<PublishedManifest>, StoreError> {
        let Ok(version) = to_integer(version) else { return Ok(None) };
        let sql = "SELECT content, manifest FROM manifests WHERE agent = ?1 AND version = ?2";
        Ok(self.readers.all(sql, (agent.to_string(), version), read_version).await?.pop())
    }

    async fn manifests(
        &self,
        agent: &AgentId,
        before: u64,
        limit: usize,
    ) -> Result<Vec<PublishedManifest>, StoreError> {
        let sql =
            "SELECT content, manifest FROM manifests WHERE agent = ?1 AND version < ?2 ORDER BY version DESC LIMIT ?3";
        self.readers.all(sql, (agent.to_string(), clamped(before), to_limit(limit)), read_version).await
    }
}

fn read(row: &Row<'_>) -> Result<AgentAccount, SqlError> {
    Ok(AgentAccount {
        manifest_version: rows::number(row, 1)?,
        manifest_hash: rows::optional(row, 2, rows::digest)?,
        revision: rows::number(row, 3)?,
        ..rows::json(row, 0)?
    })
}

fn read_version(row: &Row<'_>) -> Result<PublishedManifest, SqlError> {
    Ok(PublishedManifest { manifest: row.get(1)?, ..rows::json(row, 0)? })
}

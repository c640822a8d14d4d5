//! Relations and ledgers.

use async_trait::async_trait;
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::{AgentId, GrantId, PersonName, RelationId};
use nuncio_core::ledger::LedgerEntry;
use nuncio_core::relation::{Relation, ScopeGrant};
use nuncio_engine::ports::store::{Conflict, RelationStore, StoreError};
use rusqlite::{Connection, Row, params};

use super::problem::SqlError;
use super::rows::{self, clamped, execute_or, first, run, text_or_empty, to_integer, to_json, to_limit, update_or};
use super::{SqliteStore, accounts};

/// SQL that selects a relation with its grants as one JSON array.
const RELATION: &str = "SELECT relations.content, relations.revision,
    (SELECT json_group_array(json(consents.content) ORDER BY consents.scope)
     FROM consents WHERE consents.relation = relations.id) FROM relations";

pub(super) fn create(connection: &Connection, relation: &Relation, manifest_version: u64) -> Result<(), SqlError> {
    accounts::touch(connection, &relation.agent, Some(manifest_version))?;
    execute_or(
        Conflict::Exists,
        connection,
        "INSERT INTO relations (id, person, agent, active, created_at, revision, content)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING",
        params![
            relation.id.as_str(),
            relation.person.as_str(),
            relation.agent.as_str(),
            relation.is_active(),
            relation.created_at.as_millis(),
            to_integer(relation.revision)?,
            bare(relation)?
        ],
    )
    .map_err(|problem| problem.of_no_owner(Conflict::Missing))?;
    put_grants(connection, relation)
}

pub(super) fn move_on(
    connection: &Connection,
    from: u64,
    relation: &Relation,
    manifest_version: Option<u64>,
) -> Result<(), SqlError> {
    let id = relation.id.as_str();
    update_or(
        Conflict::Moved,
        connection,
        ("relations", id),
        "UPDATE relations SET active = ?3, revision = ?4, content = ?5 WHERE id = ?1 AND revision = ?2",
        params![id, to_integer(from)?, relation.is_active(), to_integer(relation.revision)?, bare(relation)?],
    )?;
    accounts::touch(connection, &relation.agent, manifest_version)?;
    run(connection, "DELETE FROM consents WHERE relation = ?1", [id])?;
    put_grants(connection, relation)
}

fn put_grants(connection: &Connection, relation: &Relation) -> Result<(), SqlError> {
    for grant in &relation.grants {
        execute_or(
            Conflict::Exists,
            connection,
            "INSERT INTO consents (id, relation, scope, once, content) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO NOTHING",
            params![
                grant.id.as_str(),
                relation.id.as_str(),
                grant.scope.as_str(),
                grant.term == GrantTerm::Once,
                to_json(grant)?
            ],
        )?;
    }
    Ok(())
}

/// Uses up a one-time grant of a relation and increments the relation's revision. `GrantUsed` if there is none.
pub(super) fn use_once(connection: &Connection, grant: &GrantId) -> Result<(), SqlError> {
    execute_or(
        Conflict::GrantUsed,
        connection,
        "UPDATE relations SET revision = revision + 1
         WHERE id = (SELECT relation FROM consents WHERE id = ?1 AND once = 1)",
        [grant.as_str()],
    )?;
    execute_or(Conflict::GrantUsed, connection, "DELETE FROM consents WHERE id = ?1", [grant.as_str()])
}

pub(super) fn append(connection: &Connection, entry: &LedgerEntry) -> Result<(), SqlError> {
    let sql = "SELECT COALESCE(max(seq), 0) FROM ledger WHERE relation = ?1";
    let last = first(connection, sql, [entry.relation_id.as_str()], |row| rows::number(row, 0))?.unwrap_or(0);
    if entry.seq != last + 1 {
        return Err(Conflict::Moved.into());
    }
    run(
        connection,
        "INSERT INTO ledger (relation, seq, entry) VALUES (?1, ?2, ?3)",
        params![entry.relation_id.as_str(), to_integer(entry.seq)?, to_json(entry)?],
    )
    .map_err(|problem| problem.of_no_owner(Conflict::Missing))
}

#[async_trait]
impl RelationStore for SqliteStore {
    async fn relation(&self, id: &RelationId) -> Result<Option<Relation>, StoreError> {
        self.readers.first(&format!("{RELATION} WHERE id = ?1"), [id.as_str()], read)
    }

    async fn relation_between(&self, person: &PersonName, agent: &AgentId) -> Result<Option<Relation>, StoreError> {
        let sql = format!("{RELATION} WHERE agent = ?1 AND person = ?2 AND active = 1");
        self.readers.first(&sql, params![agent.as_str(), person.as_str()], read)
    }

    async fn relations_of(
        &self,
        person: &PersonName,
        after: Option<&RelationId>,
        limit: usize,
    ) -> Result<Vec<Relation>, StoreError> {
        let sql = format!("{RELATION} WHERE person = ?1 AND id > ?2 ORDER BY id LIMIT ?3");
        self.readers.all(sql, (person.to_string(), text_or_empty(after), to_limit(limit)), read).await
    }

    async fn relations_with(
        &self,
        agent: &AgentId,
        after: Option<&PersonName>,
        limit: usize,
    ) -> Result<Vec<Relation>, StoreError> {
        let sql = format!("{RELATION} WHERE agent = ?1 AND active = 1 AND person > ?2 ORDER BY person LIMIT ?3");
        self.readers.all(sql, (agent.to_string(), text_or_empty(after), to_limit(limit)), read).await
    }

    async fn active_relations(&self, agent: Option<&AgentId>) -> Result<Vec<Relation>, StoreError> {
        match agent {
            Some(agent) => {
                let sql = format!("{RELATION} WHERE agent = ?1 AND active = 1 ORDER BY person");
                self.readers.all(sql, [agent.to_string()], read).await
            }
            None => self.readers.all(format!("{RELATION} WHERE active = 1 ORDER BY person, agent"), [], read).await,
        }
    }

    async fn ledger(&self, relation: &RelationId, after: u64, limit: usize) -> Result<Vec<LedgerEntry>, StoreError> {
        let sql = "SELECT entry FROM ledger WHERE relation = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
        self.readers.all(sql, (relation.to_string(), clamped(after), to_limit(limit)), rows::json_row).await
    }
}

fn read(row: &Row<'_>) -> Result<Relation, SqlError> {
    let grants: Vec<ScopeGrant> = rows::json(row, 2)?;
    Ok(Relation { revision: rows::number(row, 1)?, grants, ..rows::json(row, 0)? })
}

fn bare(relation: &Relation) -> Result<String, SqlError> {
    Ok(to_json(&Relation { grants: Vec::new(), ..relation.clone() })?)
}

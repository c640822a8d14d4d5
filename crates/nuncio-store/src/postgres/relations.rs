//! Relations and ledgers.

use async_trait::async_trait;
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::{AgentId, PersonName, RelationId};
use nuncio_core::ledger::LedgerEntry;
use nuncio_core::relation::{Relation, ScopeGrant};
use nuncio_engine::ports::store::{Conflict, RelationStore, StoreError};
use tokio_postgres::Row;

use super::problem::SqlError;
use super::rows::{self, clamped, text_or_empty, to_integer, to_json, to_limit};
use super::writes::{SqlWrite, Translated, Writes, params};
use super::{PostgresStore, accounts};

/// SQL that selects a relation with its grants as one JSON array.
const RELATION: &str = "SELECT relations.content, relations.revision,
    (SELECT '[' || COALESCE(string_agg(consents.content, ',' ORDER BY consents.scope), '') || ']'
     FROM consents WHERE consents.relation = relations.id) FROM relations";

pub(super) fn create(relation: &Relation, manifest_version: u64, out: &mut Writes) -> Translated {
    accounts::touch(&relation.agent, Some(manifest_version), out)?;
    let create = SqlWrite::one_or(
        Conflict::Exists,
        "INSERT INTO relations (id, person, agent, active, created_at, revision, content)
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
        params![
            relation.id.as_str(),
            relation.person.as_str(),
            relation.agent.as_str(),
            relation.is_active(),
            relation.created_at,
            to_integer(relation.revision)?,
            bare(relation)?
        ],
    );
    out.push(create.of_no_owner(Conflict::Missing));
    put_grants(relation, out)
}

pub(super) fn move_on(from: u64, relation: &Relation, manifest_version: Option<u64>, out: &mut Writes) -> Translated {
    let id = relation.id.as_str();
    out.push(SqlWrite::found_or(
        Conflict::Moved,
        Conflict::Missing,
        "SELECT 1 FROM relations WHERE id = $1",
        "UPDATE relations SET active = $3, revision = $4, content = $5 WHERE id = $1 AND revision = $2",
        params![id, to_integer(from)?, relation.is_active(), to_integer(relation.revision)?, bare(relation)?],
    ));
    accounts::touch(&relation.agent, manifest_version, out)?;
    out.push(SqlWrite::any("DELETE FROM consents WHERE relation = $1", params![id]));
    put_grants(relation, out)
}

fn put_grants(relation: &Relation, out: &mut Writes) -> Translated {
    for grant in &relation.grants {
        out.push(SqlWrite::one_or(
            Conflict::Exists,
            "INSERT INTO consents (id, relation, scope, once, content) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT DO NOTHING",
            params![
                grant.id.as_str(),
                relation.id.as_str(),
                grant.scope.as_str(),
                grant.term == GrantTerm::Once,
                to_json(grant)?
            ],
        ));
    }
    Ok(())
}

pub(super) fn append(entry: &LedgerEntry, out: &mut Writes) -> Translated {
    let append = SqlWrite::one_or(
        Conflict::Moved,
        "INSERT INTO ledger (relation, seq, entry) SELECT $1::TEXT, $2::BIGINT, $3::TEXT
         WHERE $2::BIGINT = 1 + (SELECT COALESCE(max(seq), 0) FROM ledger WHERE relation = $1)
         ON CONFLICT (relation, seq) DO NOTHING",
        params![entry.relation_id.as_str(), to_integer(entry.seq)?, to_json(entry)?],
    );
    out.push(append.of_no_owner(Conflict::Missing));
    Ok(())
}

#[async_trait]
impl RelationStore for PostgresStore {
    async fn relation(&self, id: &RelationId) -> Result<Option<Relation>, StoreError> {
        self.readers.first(&format!("{RELATION} WHERE id = $1"), params![id.as_str()], read).await
    }

    async fn relation_between(&self, person: &PersonName, agent: &AgentId) -> Result<Option<Relation>, StoreError> {
        let sql = format!("{RELATION} WHERE agent = $1 AND person = $2 AND active = 1");
        self.readers.first(&sql, params![agent.as_str(), person.as_str()], read).await
    }

    async fn relations_of(
        &self,
        person: &PersonName,
        after: Option<&RelationId>,
        limit: usize,
    ) -> Result<Vec<Relation>, StoreError> {
        let sql = format!("{RELATION} WHERE person = $1 AND id > $2 ORDER BY id LIMIT $3");
        self.readers.all(&sql, params![person.as_str(), text_or_empty(after), to_limit(limit)], read).await
    }

    async fn relations_with(
        &self,
        agent: &AgentId,
        after: Option<&PersonName>,
        limit: usize,
    ) -> Result<Vec<Relation>, StoreError> {
        let sql = format!("{RELATION} WHERE agent = $1 AND active = 1 AND person > $2 ORDER BY person LIMIT $3");
        self.readers.all(&sql, params![agent.as_str(), text_or_empty(after), to_limit(limit)], read).await
    }

    async fn active_relations(&self, agent: Option<&AgentId>) -> Result<Vec<Relation>, StoreError> {
        match agent {
            Some(agent) => {
                let sql = format!("{RELATION} WHERE agent = $1 AND active = 1 ORDER BY person");
                self.readers.all(&sql, params![agent.as_str()], read).await
            }
            None => {
                let sql = format!("{RELATION} WHERE active = 1 ORDER BY person, agent");
                self.readers.all(&sql, Vec::new(), read).await
            }
        }
    }

    async fn ledger(&self, relation: &RelationId, after: u64, limit: usize) -> Result<Vec<LedgerEntry>, StoreError> {
        let sql = "SELECT entry FROM ledger WHERE relation = $1 AND seq > $2 ORDER BY seq LIMIT $3";
        let params = params![relation.as_str(), clamped(after), to_limit(limit)];
        self.readers.all(sql, params, rows::json_row).await
    }
}

fn read(row: &Row) -> Result<Relation, SqlError> {
    let grants: Vec<ScopeGrant> = rows::json(row, 2)?;
    Ok(Relation { revision: rows::number(row, 1)?, grants, ..rows::json(row, 0)? })
}

fn bare(relation: &Relation) -> Result<String, SqlError> {
    Ok(to_json(&Relation { grants: Vec::new(), ..relation.clone() })?)
}

//! Directory listings of agents on other hosts, and followed domains with their offers.

use async_trait::async_trait;
use nuncio_engine::directory::DirectoryListing;
use nuncio_engine::follow::{FollowedDomain, ServerOrigin};
use nuncio_engine::ports::store::{AgentDirectoryChange, AgentDirectoryStore, Conflict, StoreError};
use tokio_postgres::Row;

use super::PostgresStore;
use super::problem::SqlError;
use super::rows::{self, to_integer};
use super::writes::{SqlWrite, Translated, Writes, params};

pub(super) fn translate(change: &AgentDirectoryChange, out: &mut Writes) -> Translated {
    out.push(match change {
        AgentDirectoryChange::Follow(domain) => {
            let sql =
                "INSERT INTO followed (domain, followed_by, since, last_seen, next_visit, failures, listed, problem)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (domain) DO NOTHING";
            write_followed(Conflict::Exists, sql, domain)?
        }
        AgentDirectoryChange::UpdateFollowed { followed, offers } => {
            return update_followed(followed, offers.as_deref(), out);
        }
        AgentDirectoryChange::Unfollow(domain) => {
            SqlWrite::one_or(Conflict::Missing, "DELETE FROM followed WHERE domain = $1", params![domain.as_str()])
        }
        AgentDirectoryChange::PutListing { entry, description } => put_listing(entry, description),
        AgentDirectoryChange::UpdateListing(entry) => {
            let sql = "UPDATE directory SET did = $2, registrant = $3, since = $4, verified = $5, next_check = $6,
                 failures = $7, problem = $8 WHERE id = $1";
            let row = params![
                entry.id().as_str(),
                &entry.did,
                entry.by.to_string(),
                entry.since,
                entry.verified,
                entry.next_check,
                entry.failures,
                entry.problem.as_ref(),
            ];
            SqlWrite::one_or(Conflict::Missing, sql, row)
        }
        AgentDirectoryChange::RemoveListing(id) => {
            SqlWrite::one_or(Conflict::Missing, "DELETE FROM directory WHERE id = $1", params![id.as_str()])
        }
    });
    Ok(())
}

fn put_listing(entry: &DirectoryListing, description: &str) -> SqlWrite {
    let sql = "INSERT INTO directory
         (id, url, did, registrant, since, verified, next_check, failures, problem, description)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         ON CONFLICT (id) DO UPDATE SET url = excluded.url, did = excluded.did, registrant = excluded.registrant,
         since = excluded.since, verified = excluded.verified, next_check = excluded.next_check,
         failures = excluded.failures, problem = excluded.problem, description = excluded.description";
    let row = params![
        entry.id().as_str(),
        entry.url.as_str(),
        &entry.did,
        entry.by.to_string(),
        entry.since,
        entry.verified,
        entry.next_check,
        entry.failures,
        entry.problem.as_ref(),
        description,
    ];
    SqlWrite::any(sql, row)
}

fn update_followed(followed: &FollowedDomain, offers: Option<&str>, out: &mut Writes) -> Translated {
    let sql = "UPDATE followed SET followed_by = $2, since = $3, last_seen = $4, next_visit = $5, failures = $6,
         listed = $7, problem = $8 WHERE domain = $1";
    out.push(write_followed(Conflict::Missing, sql, followed)?);
    let Some(offers) = offers else { return Ok(()) };
    let sql = "INSERT INTO followed_offers (domain, offers) VALUES ($1, $2)
         ON CONFLICT (domain) DO UPDATE SET offers = excluded.offers";
    out.push(SqlWrite::any(sql, params![followed.domain.as_str(), offers]));
    Ok(())
}

fn write_followed(conflict: Conflict, sql: &'static str, followed: &FollowedDomain) -> Result<SqlWrite, SqlError> {
    let row = params![
        followed.domain.as_str(),
        followed.by.as_str(),
        followed.since,
        followed.last_seen,
        followed.next_visit,
        followed.failures,
        to_integer(followed.listed)?,
        followed.problem.as_ref(),
    ];
    Ok(SqlWrite::one_or(conflict, sql, row))
}

#[async_trait]
impl AgentDirectoryStore for PostgresStore {
    async fn followed(&self) -> Result<Vec<FollowedDomain>, StoreError> {
        let sql = "SELECT domain, followed_by, since, last_seen, next_visit, failures, listed, problem FROM followed
             ORDER BY domain";
        self.readers.all(sql, Vec::new(), read_followed).await
    }

    async fn followed_domain(
        &self,
        domain: &ServerOrigin,
    ) -> Result<Option<(FollowedDomain, Option<String>)>, StoreError> {
        let sql = "SELECT domain, followed_by, since, last_seen, next_visit, failures, listed, problem,
             (SELECT offers FROM followed_offers AS kept WHERE kept.domain = followed.domain)
             FROM followed WHERE domain = $1";
        let read = |row: &Row| Ok((read_followed(row)?, rows::get(row, 8)?));
        Ok(self.readers.all(sql, params![domain.as_str()], read).await?.pop())
    }

    async fn directory(&self) -> Result<Vec<(DirectoryListing, String)>, StoreError> {
        let sql = "SELECT url, did, registrant, since, verified, next_check, failures, problem, description
             FROM directory ORDER BY id";
        self.readers.all(sql, Vec::new(), |row| Ok((read_listing(row)?, rows::get(row, 8)?))).await
    }
}

fn read_followed(row: &Row) -> Result<FollowedDomain, SqlError> {
    Ok(FollowedDomain {
        domain: rows::text_form(row, 0)?,
        by: rows::text_form(row, 1)?,
        since: rows::moment(row, 2)?,
        last_seen: rows::optional(row, 3, rows::moment)?,
        next_visit: rows::moment(row, 4)?,
        failures: rows::small(row, 5)?,
        listed: rows::number(row, 6)?,
        problem: rows::get(row, 7)?,
    })
}

fn read_listing(row: &Row) -> Result<DirectoryListing, SqlError> {
    Ok(DirectoryListing {
        url: rows::text_form(row, 0)?,
        did: rows::get(row, 1)?,
        by: rows::text_form(row, 2)?,
        since: rows::moment(row, 3)?,
        verified: rows::moment(row, 4)?,
        next_check: rows::moment(row, 5)?,
        failures: rows::small(row, 6)?,
        problem: rows::get(row, 7)?,
    })
}

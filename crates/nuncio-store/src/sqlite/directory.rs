//! Directory listings of agents on other hosts, and followed domains with their offers.

use async_trait::async_trait;
use nuncio_core::time::Timestamp;
use nuncio_engine::directory::DirectoryListing;
use nuncio_engine::follow::{FollowedDomain, ServerOrigin};
use nuncio_engine::ports::store::{AgentDirectoryChange, AgentDirectoryStore, Conflict, StoreError};
use rusqlite::{Connection, Row, params};

use super::SqliteStore;
use super::problem::SqlError;
use super::rows::{self, execute_or, run, to_integer};

pub(super) fn apply(connection: &Connection, change: &AgentDirectoryChange) -> Result<(), SqlError> {
    match change {
        AgentDirectoryChange::Follow(domain) => {
            let sql =
                "INSERT INTO followed (domain, followed_by, since, last_seen, next_visit, failures, listed, problem)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (domain) DO NOTHING";
            write_followed(Conflict::Exists, connection, sql, domain)
        }
        AgentDirectoryChange::UpdateFollowed { followed, offers } => {
            update_followed(connection, followed, offers.as_deref())
        }
        AgentDirectoryChange::Unfollow(domain) => {
            execute_or(Conflict::Missing, connection, "DELETE FROM followed WHERE domain = ?1", [domain.as_str()])
        }
        AgentDirectoryChange::PutListing { entry, description } => put_listing(connection, entry, description),
        AgentDirectoryChange::UpdateListing(entry) => {
            let sql = "UPDATE directory SET did = ?2, registrant = ?3, since = ?4, verified = ?5, next_check = ?6,
                 failures = ?7, problem = ?8 WHERE id = ?1";
            let id = entry.id();
            let row = params![
                id.as_str(),
                entry.did,
                entry.by.to_string(),
                entry.since.as_millis(),
                entry.verified.as_millis(),
                entry.next_check.as_millis(),
                entry.failures,
                entry.problem,
            ];
            execute_or(Conflict::Missing, connection, sql, row)
        }
        AgentDirectoryChange::RemoveListing(id) => {
            execute_or(Conflict::Missing, connection, "DELETE FROM directory WHERE id = ?1", [id.as_str()])
        }
    }
}

fn put_listing(connection: &Connection, entry: &DirectoryListing, description: &str) -> Result<(), SqlError> {
    let sql = "INSERT INTO directory
         (id, url, did, registrant, since, verified, next_check, failures, problem, description)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
         ON CONFLICT (id) DO UPDATE SET url = excluded.url, did = excluded.did, registrant = excluded.registrant,
         since = excluded.since, verified = excluded.verified, next_check = excluded.next_check,
         failures = excluded.failures, problem = excluded.problem, description = excluded.description";
    let id = entry.id();
    let row = params![
        id.as_str(),
        entry.url.as_str(),
        entry.did,
        entry.by.to_string(),
        entry.since.as_millis(),
        entry.verified.as_millis(),
        entry.next_check.as_millis(),
        entry.failures,
        entry.problem,
        description,
    ];
    run(connection, sql, row)
}

fn update_followed(connection: &Connection, followed: &FollowedDomain, offers: Option<&str>) -> Result<(), SqlError> {
    let sql = "UPDATE followed SET followed_by = ?2, since = ?3, last_seen = ?4, next_visit = ?5, failures = ?6,
         listed = ?7, problem = ?8 WHERE domain = ?1";
    write_followed(Conflict::Missing, connection, sql, followed)?;
    let Some(offers) = offers else { return Ok(()) };
    let sql = "INSERT INTO followed_offers (domain, offers) VALUES (?1, ?2)
         ON CONFLICT (domain) DO UPDATE SET offers = excluded.offers";
    run(connection, sql, params![followed.domain.as_str(), offers])
}

fn write_followed(
    conflict: Conflict,
    connection: &Connection,
    sql: &str,
    followed: &FollowedDomain,
) -> Result<(), SqlError> {
    let row = params![
        followed.domain.as_str(),
        followed.by.as_str(),
        followed.since.as_millis(),
        followed.last_seen.map(Timestamp::as_millis),
        followed.next_visit.as_millis(),
        followed.failures,
        to_integer(followed.listed)?,
        followed.problem,
    ];
    execute_or(conflict, connection, sql, row)
}

#[async_trait]
impl AgentDirectoryStore for SqliteStore {
    async fn followed(&self) -> Result<Vec<FollowedDomain>, StoreError> {
        let sql = "SELECT domain, followed_by, since, last_seen, next_visit, failures, listed, problem FROM followed
             ORDER BY domain";
        self.readers.all(sql, [], read_followed).await
    }

    async fn followed_domain(
        &self,
        domain: &ServerOrigin,
    ) -> Result<Option<(FollowedDomain, Option<String>)>, StoreError> {
        let sql = "SELECT domain, followed_by, since, last_seen, next_visit, failures, listed, problem,
             (SELECT offers FROM followed_offers AS kept WHERE kept.domain = followed.domain)
             FROM followed WHERE domain = ?1";
        let read = |row: &Row<'_>| Ok((read_followed(row)?, row.get(8)?));
        Ok(self.readers.all(sql, [domain.to_string()], read).await?.pop())
    }

    async fn directory(&self) -> Result<Vec<(DirectoryListing, String)>, StoreError> {
        let sql = "SELECT url, did, registrant, since, verified, next_check, failures, problem, description
             FROM directory ORDER BY id";
        self.readers.all(sql, [], |row| Ok((read_listing(row)?, row.get(8)?))).await
    }
}

fn read_followed(row: &Row<'_>) -> Result<FollowedDomain, SqlError> {
    Ok(FollowedDomain {
        domain: rows::text_form(row, 0)?,
        by: rows::text_form(row, 1)?,
        since: rows::moment(row, 2)?,
        last_seen: rows::optional(row, 3, rows::moment)?,
        next_visit: rows::moment(row, 4)?,
        failures: row.get(5)?,
        listed: rows::number(row, 6)?,
        problem: row.get(7)?,
    })
}

fn read_listing(row: &Row<'_>) -> Result<DirectoryListing, SqlError> {
    Ok(DirectoryListing {
        url: rows::text_form(row, 0)?,
        did: row.get(1)?,
        by: rows::text_form(row, 2)?,
        since: rows::moment(row, 3)?,
        verified: rows::moment(row, 4)?,
        next_check: rows::moment(row, 5)?,
        failures: row.get(6)?,
        problem: row.get(7)?,
    })
}

//! Directory listings of agents on other hosts.

use nuncio_engine::directory::{DirectoryListing, ListingId};
use nuncio_engine::ports::store::Conflict;
use rusqlite::{Connection, Row, params};

use super::problem::SqlProblem;
use super::rows::{self, all, execute_or, run};

pub(super) fn put(connection: &Connection, entry: &DirectoryListing, description: &str) -> Result<(), SqlProblem> {
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

pub(super) fn update(connection: &Connection, entry: &DirectoryListing) -> Result<(), SqlProblem> {
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

pub(super) fn remove(connection: &Connection, id: &ListingId) -> Result<(), SqlProblem> {
    execute_or(Conflict::Missing, connection, "DELETE FROM directory WHERE id = ?1", [id.as_str()])
}

pub(super) fn every(connection: &Connection) -> Result<Vec<(DirectoryListing, String)>, SqlProblem> {
    let sql = "SELECT url, did, registrant, since, verified, next_check, failures, problem, description
         FROM directory ORDER BY id";
    all(connection, sql, [], |row| Ok((read(row)?, row.get(8)?)))
}

fn read(row: &Row<'_>) -> Result<DirectoryListing, SqlProblem> {
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

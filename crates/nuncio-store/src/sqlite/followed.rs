//! Followed domains and their offers.

use nuncio_engine::follow::{Domain, FollowedDomain};
use nuncio_engine::ports::store::Conflict;
use rusqlite::{Connection, Row, params};

use super::problem::SqlProblem;
use super::rows::{self, all, execute, execute_or, first, to_integer};

const COLUMNS: &str = "domain, followed_by, since, last_seen, next_visit, failures, listed, problem";

pub(super) fn create(connection: &Connection, followed: &FollowedDomain) -> Result<(), SqlProblem> {
    let sql = "INSERT INTO followed (domain, followed_by, since, last_seen, next_visit, failures, listed, problem)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (domain) DO NOTHING";
    write(Conflict::Exists, connection, sql, followed)
}

pub(super) fn update(
    connection: &Connection,
    followed: &FollowedDomain,
    offers: Option<&str>,
) -> Result<(), SqlProblem> {
    let sql = "UPDATE followed SET followed_by = ?2, since = ?3, last_seen = ?4, next_visit = ?5, failures = ?6,
         listed = ?7, problem = ?8 WHERE domain = ?1";
    write(Conflict::Missing, connection, sql, followed)?;
    if let Some(offers) = offers {
        execute(
            connection,
            "INSERT INTO followed_offers (domain, offers) VALUES (?1, ?2)
             ON CONFLICT (domain) DO UPDATE SET offers = excluded.offers",
            params![followed.domain.as_str(), offers],
        )?;
    }
    Ok(())
}

fn write(conflict: Conflict, connection: &Connection, sql: &str, followed: &FollowedDomain) -> Result<(), SqlProblem> {
    execute_or(
        conflict,
        connection,
        sql,
        params![
            followed.domain.as_str(),
            followed.by.as_str(),
            followed.since.as_millis(),
            followed.last_seen.map(nuncio_core::time::Timestamp::as_millis),
            followed.next_visit.as_millis(),
            followed.failures,
            to_integer(followed.listed)?,
            followed.problem,
        ],
    )
}

pub(super) fn remove(connection: &Connection, domain: &Domain) -> Result<(), SqlProblem> {
    execute_or(Conflict::Missing, connection, "DELETE FROM followed WHERE domain = ?1", [domain.as_str()])
}

pub(super) fn every(connection: &Connection) -> Result<Vec<FollowedDomain>, SqlProblem> {
    all(connection, &format!("SELECT {COLUMNS} FROM followed ORDER BY domain"), [], read)
}

pub(super) fn one(
    connection: &Connection,
    domain: &Domain,
) -> Result<Option<(FollowedDomain, Option<String>)>, SqlProblem> {
    let sql = format!(
        "SELECT {COLUMNS}, (SELECT offers FROM followed_offers AS kept WHERE kept.domain = followed.domain)
         FROM followed WHERE domain = ?1"
    );
    first(connection, &sql, [domain.as_str()], |row| Ok((read(row)?, row.get(8)?)))
}

fn read(row: &Row<'_>) -> Result<FollowedDomain, SqlProblem> {
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

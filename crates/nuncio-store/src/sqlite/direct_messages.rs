//! Pending replies, sent direct messages and person links.

use nuncio_core::ids::AgentName;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::store::Conflict;
use nuncio_engine::ports::store::{DirectMessageReply, PendingReply, PersonLink, SentDirectMessage};
use rusqlite::{Connection, params};

use super::problem::SqlProblem;
use super::rows::{self, all, execute_or, first, run, to_json, to_limit};

pub(super) fn owe(connection: &Connection, owed: &PendingReply) -> Result<(), SqlProblem> {
    run(
        connection,
        "INSERT INTO owed_answers (id, session, due, content) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (id) DO UPDATE SET session = excluded.session, due = excluded.due, content = excluded.content",
        params![owed.id, owed.session.as_str(), owed.due.as_millis(), to_json(owed)?],
    )
    .map_err(SqlProblem::of_no_session)
}

pub(super) fn settle(connection: &Connection, id: &str) -> Result<(), SqlProblem> {
    run(connection, "DELETE FROM owed_answers WHERE id = ?1", [id])
}

pub(super) fn owed(connection: &Connection, until: Timestamp, limit: usize) -> Result<Vec<PendingReply>, SqlProblem> {
    let sql = "SELECT content FROM owed_answers WHERE due <= ?1 ORDER BY due, id LIMIT ?2";
    all(connection, sql, params![until.as_millis(), to_limit(limit)], |row| rows::json(row, 0))
}

pub(super) fn create(connection: &Connection, letter: &SentDirectMessage) -> Result<(), SqlProblem> {
    let answer = letter.answer.as_ref();
    execute_or(
        Conflict::Exists,
        connection,
        "INSERT INTO letters (agent, id, recipient, sent_at, answered_at, answer) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (agent, id) DO NOTHING",
        params![
            letter.agent.as_str(),
            letter.id,
            letter.to,
            letter.sent_at.as_millis(),
            answer.map(|answer| answer.at.as_millis()),
            answer.map(|answer| &answer.text),
        ],
    )
}

pub(super) fn answer(
    connection: &Connection,
    agent: &AgentName,
    id: &str,
    from: &str,
    answer: &DirectMessageReply,
) -> Result<(), SqlProblem> {
    // The first answer stays.
    let sql = "UPDATE letters SET answered_at = COALESCE(answered_at, ?4), answer = COALESCE(answer, ?5)
         WHERE agent = ?1 AND id = ?2 AND recipient = ?3";
    let params = params![agent.as_str(), id, from, answer.at.as_millis(), answer.text];
    execute_or(Conflict::Missing, connection, sql, params)
}

pub(super) fn forget(connection: &Connection, before: Timestamp) -> Result<(), SqlProblem> {
    run(connection, "DELETE FROM letters WHERE sent_at < ?1", [before.as_millis()])
}

pub(super) fn one(
    connection: &Connection,
    agent: &AgentName,
    id: &str,
) -> Result<Option<SentDirectMessage>, SqlProblem> {
    let sql = "SELECT recipient, sent_at, answered_at, answer FROM letters WHERE agent = ?1 AND id = ?2";
    first(connection, sql, params![agent.as_str(), id], |row| {
        let at = rows::optional(row, 2, rows::moment)?;
        let text: Option<String> = row.get(3)?;
        Ok(SentDirectMessage {
            id: id.to_owned(),
            agent: agent.clone(),
            to: row.get(0)?,
            sent_at: rows::moment(row, 1)?,
            answer: text.zip(at).map(|(text, at)| DirectMessageReply { text, at }),
        })
    })
}

pub(super) fn link(connection: &Connection, link: &PersonLink) -> Result<(), SqlProblem> {
    run(
        connection,
        "INSERT INTO links (principal, person, since) VALUES (?1, ?2, ?3)
         ON CONFLICT (principal) DO UPDATE SET person = excluded.person, since = excluded.since",
        params![link.principal.to_string(), link.person.as_str(), link.since.as_millis()],
    )
}

pub(super) fn unlink(connection: &Connection, principal: &Principal) -> Result<(), SqlProblem> {
    let sql = "DELETE FROM links WHERE principal = ?1";
    execute_or(Conflict::Missing, connection, sql, [principal.to_string()])
}

pub(super) fn links(connection: &Connection) -> Result<Vec<PersonLink>, SqlProblem> {
    all(connection, "SELECT principal, person, since FROM links ORDER BY principal", [], |row| {
        Ok(PersonLink {
            principal: rows::text_form(row, 0)?,
            person: rows::text_form(row, 1)?,
            since: rows::moment(row, 2)?,
        })
    })
}

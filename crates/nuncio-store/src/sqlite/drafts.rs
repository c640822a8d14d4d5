//! Drafted protocols.

use nuncio_core::ids::{AgentName, DraftId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::drafting::ProtocolDraft;
use nuncio_engine::ports::store::Conflict;
use rusqlite::{Connection, params};

use super::problem::SqlProblem;
use super::rows::{self, all, changed_or, execute, execute_or, first, run, to_json, to_limit};

pub(super) fn create(connection: &Connection, draft: &ProtocolDraft) -> Result<(), SqlProblem> {
    execute_or(
        Conflict::Exists,
        connection,
        "INSERT INTO protocol_drafts (id, counterpart, agent, key, state, created_at, expires_at, content)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING",
        params![
            draft.id.as_str(),
            draft.with.to_string(),
            draft.agent.as_str(),
            draft.key,
            draft.state.word(),
            draft.created_at.as_millis(),
            draft.expires_at.as_millis(),
            to_json(draft)?
        ],
    )
}

pub(super) fn move_on(connection: &Connection, draft: &ProtocolDraft, from: &str) -> Result<(), SqlProblem> {
    let moved = execute(
        connection,
        "UPDATE protocol_drafts SET state = ?3, content = ?4 WHERE id = ?1 AND state = ?2",
        params![draft.id.as_str(), from, draft.state.word(), to_json(draft)?],
    )?;
    changed_or(Conflict::DraftMoved, connection, moved, "protocol_drafts", draft.id.as_str())
}

pub(super) fn forget(connection: &Connection, before: Timestamp) -> Result<(), SqlProblem> {
    let sql = "DELETE FROM protocol_drafts WHERE state <> 'accepted' AND expires_at < ?1";
    run(connection, sql, [before.as_millis()])
}

pub(super) fn one(connection: &Connection, id: &DraftId) -> Result<Option<ProtocolDraft>, SqlProblem> {
    first(connection, "SELECT content FROM protocol_drafts WHERE id = ?1", [id.as_str()], |row| rows::json(row, 0))
}

pub(super) fn by_key(
    connection: &Connection,
    with: &Principal,
    agent: &AgentName,
    key: &str,
) -> Result<Option<ProtocolDraft>, SqlProblem> {
    let sql = "SELECT content FROM protocol_drafts WHERE counterpart = ?1 AND agent = ?2 AND key = ?3";
    first(connection, sql, params![with.to_string(), agent.as_str(), key], |row| rows::json(row, 0))
}

pub(super) fn open(connection: &Connection, limit: usize) -> Result<Vec<ProtocolDraft>, SqlProblem> {
    let sql = "SELECT content FROM protocol_drafts WHERE state IN ('draft', 'accepted_by_us', 'accepted_by_them')
         ORDER BY created_at, id LIMIT ?1";
    all(connection, sql, [to_limit(limit)], |row| rows::json(row, 0))
}

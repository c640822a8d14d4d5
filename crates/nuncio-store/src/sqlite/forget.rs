//! Erasure of a person: deletes their rows and replaces their name elsewhere by a pseudonym.

use nuncio_core::audit::redact::PersonRedaction;
use nuncio_core::principal::Principal;
use nuncio_engine::ports::store::{PersonErasure, RedactedLedgerEntry};
use rusqlite::{Connection, Row, params};

use super::problem::SqlError;
use super::rows::{self, all, execute, run, to_integer};
use crate::common::{MENTIONING_COLUMNS, PRINCIPAL_COLUMNS};

/// SQL that deletes the rows of the principal `?1`.
const OF_PRINCIPAL: &[&str] = &[
    "DELETE FROM sessions WHERE owner = ?1",
    "DELETE FROM executions WHERE json_extract(content, '$.caller') = ?1",
    "DELETE FROM tasks WHERE json_extract(content, '$.asked_by') = ?1",
    "DELETE FROM approvals WHERE json_extract(content, '$.question.caller') = ?1",
    "DELETE FROM grants WHERE json_extract(content, '$.principal') = ?1",
    "DELETE FROM protocol_drafts WHERE counterpart = ?1",
    "DELETE FROM letters WHERE recipient = ?1",
    "DELETE FROM directory WHERE did = ?1",
];

/// SQL that deletes the rows of the person `?1`, in the order that foreign keys need. API keys stay, revoked and
/// unnamed, because a server without any key would accept every caller.
const OF_PERSON: &[&str] = &[
    "DELETE FROM executions WHERE json_extract(content, '$.person') = ?1",
    "DELETE FROM approvals WHERE json_extract(content, '$.asked_of.device') = ?1",
    "UPDATE api_keys SET person = NULL, name = NULL WHERE person = ?1",
    "DELETE FROM links WHERE person = ?1",
    "DELETE FROM ledger WHERE relation IN (SELECT id FROM relations WHERE person = ?1)",
    "DELETE FROM relations WHERE person = ?1",
    "DELETE FROM invites WHERE person = ?1",
    "DELETE FROM devices WHERE person = ?1",
    "DELETE FROM people WHERE name = ?1",
    "DELETE FROM key_backups WHERE person = ?1",
];

/// SQL that deletes the mail and messages of the recipient `?1`. In groups, the emptied messages keep their numbers.
const OF_RECIPIENT: &[&str] = &[
    "DELETE FROM mail WHERE recipient = ?1",
    "DELETE FROM mail_read WHERE recipient = ?1",
    "DELETE FROM mailboxes WHERE recipient = ?1",
    "DELETE FROM key_bundles WHERE owner = ?1",
    "DELETE FROM relay_messages WHERE conversation IN (SELECT number FROM relay_conversations WHERE pair IS NOT NULL
        AND id IN (SELECT conversation FROM relay_members WHERE member = ?1))",
    "UPDATE relay_messages SET envelope = X'', device = NULL WHERE sender = ?1",
];

pub(super) fn person(connection: &Connection, forgotten: &PersonErasure) -> Result<(), SqlError> {
    let PersonErasure { redaction, at, links, ledger } = forgotten;
    let PersonRedaction { name, pseudonym, principals, .. } = redaction;
    let (me, instead) = (format!("person:{name}"), format!("person:{pseudonym}"));
    for link in links {
        let sql = "UPDATE audit_links SET record = ?2, redaction = ?3 WHERE number = ?1";
        execute(connection, sql, params![to_integer(link.number)?, link.record, link.signature])?;
    }
    ledger.iter().try_for_each(|entry| erase(connection, entry))?;
    let revoke = "UPDATE api_keys SET revoked_at = ?2 WHERE person = ?1 AND revoked_at IS NULL";
    execute(connection, revoke, params![name.as_str(), at.as_millis()])?;
    for principal in principals {
        OF_PRINCIPAL.iter().try_for_each(|sql| run(connection, sql, [principal.to_string()]))?;
    }
    OF_PERSON.iter().try_for_each(|sql| run(connection, sql, [name.as_str()]))?;
    OF_RECIPIENT.iter().try_for_each(|sql| run(connection, sql, [&me]))?;
    let pairs = "SELECT id FROM relay_conversations WHERE pair IS NOT NULL
                 AND id IN (SELECT conversation FROM relay_members WHERE member = ?1)";
    let of_two: Vec<String> = all(connection, pairs, [&me], |row| Ok(row.get(0)?))?;
    for id in of_two {
        execute(connection, "DELETE FROM relay_members WHERE conversation = ?1", [&id])?;
        execute(connection, "DELETE FROM relay_conversations WHERE id = ?1", [&id])?;
    }
    execute(connection, "DELETE FROM relay_members WHERE member = ?1", [&me])?;
    // Agents that the person owned lose their token.
    let orphan =
        "UPDATE accounts SET owner = ?2, token = NULL, content = json_remove(content, '$.token') WHERE owner = ?1";
    execute(connection, orphan, [&me, &instead])?;
    for principal in principals {
        execute(connection, "DELETE FROM stored_bytes WHERE owner = ?1", [principal.to_string()])?;
    }
    for (table, column) in PRINCIPAL_COLUMNS {
        for principal in principals {
            let sql = format!("UPDATE {table} SET {column} = ?2 WHERE {column} = ?1");
            execute(connection, &sql, [&principal.to_string(), &instead])?;
        }
    }
    // The name of a task's worker is free text.
    let took = "UPDATE tasks SET content = json_set(content, '$.state.by', ?2)
                WHERE json_extract(content, '$.state.by') = ?1";
    execute(connection, took, [name.as_str(), pseudonym.as_str()])?;
    MENTIONING_COLUMNS.iter().try_for_each(|(table, column)| replace_mentions(connection, redaction, table, column))
}

fn replace_mentions(
    connection: &Connection,
    redaction: &PersonRedaction,
    table: &str,
    column: &str,
) -> Result<(), SqlError> {
    // Key ids are random and reveal nothing.
    let principals = redaction.principals.iter().filter(|principal| !matches!(principal, Principal::Key(_)));
    for mention in principals.map(ToString::to_string).chain([redaction.name.to_string()]) {
        let sql = format!("SELECT DISTINCT {column} FROM {table} WHERE instr({column}, ?1) > 0");
        let texts: Vec<String> = all(connection, &sql, [mention], |row| Ok(row.get(0)?))?;
        let sql = format!("UPDATE {table} SET {column} = ?2 WHERE {column} = ?1");
        for text in texts {
            if let Some(without) = redaction.of_text(&text) {
                execute(connection, &sql, [&text, &without])?;
            }
        }
    }
    Ok(())
}

fn erase(connection: &Connection, entry: &RedactedLedgerEntry) -> Result<(), SqlError> {
    let RedactedLedgerEntry { relation, seq, previous, hash, entry, signature } = entry;
    run(
        connection,
        "INSERT INTO erased_ledger (relation, seq, previous, hash, redaction, entry) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (relation, seq) DO NOTHING",
        params![relation.as_str(), to_integer(*seq)?, previous.to_string(), hash.to_string(), signature, entry],
    )
}

pub(super) fn read_entry(row: &Row<'_>) -> Result<RedactedLedgerEntry, SqlError> {
    Ok(RedactedLedgerEntry {
        relation: rows::text_form(row, 0)?,
        seq: rows::number(row, 1)?,
        previous: rows::digest(row, 2)?,
        hash: rows::digest(row, 3)?,
        entry: row.get(4)?,
        signature: row.get(5)?,
    })
}

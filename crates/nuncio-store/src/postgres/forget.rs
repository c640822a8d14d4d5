//! Erasure of a person: deletes their rows and replaces their name elsewhere by a pseudonym.

use nuncio_core::audit::redact::PersonRedaction;
use nuncio_core::principal::Principal;
use nuncio_engine::ports::store::{PersonErasure, RedactedLedgerEntry};
use tokio_postgres::Row;

use super::connection::Session;
use super::problem::SqlError;
use super::rows::{self, to_integer};
use super::writes::{SqlValue, params};
use crate::common::{MENTIONING_COLUMNS, PRINCIPAL_COLUMNS};

/// SQL that deletes the rows of the principal `$1`.
const OF_PRINCIPAL: &[&str] = &[
    "DELETE FROM sessions WHERE owner = $1",
    "DELETE FROM executions WHERE content::JSON ->> 'caller' = $1",
    "DELETE FROM tasks WHERE content::JSON ->> 'asked_by' = $1",
    "DELETE FROM approvals WHERE content::JSON #>> '{question,caller}' = $1",
    "DELETE FROM grants WHERE content::JSON ->> 'principal' = $1",
    "DELETE FROM protocol_drafts WHERE counterpart = $1",
    "DELETE FROM letters WHERE recipient = $1",
    "DELETE FROM directory WHERE did = $1",
];

/// SQL that deletes the rows of the person `$1`, in the order that foreign keys need. API keys stay, revoked and
/// unnamed, because a server without any key would accept every caller.
const OF_PERSON: &[&str] = &[
    "DELETE FROM executions WHERE content::JSON ->> 'person' = $1",
    "DELETE FROM approvals WHERE content::JSON #>> '{asked_of,device}' = $1",
    "UPDATE api_keys SET person = NULL, name = NULL WHERE person = $1",
    "DELETE FROM links WHERE person = $1",
    "DELETE FROM ledger WHERE relation IN (SELECT id FROM relations WHERE person = $1)",
    "DELETE FROM relations WHERE person = $1",
    "DELETE FROM invites WHERE person = $1",
    "DELETE FROM devices WHERE person = $1",
    "DELETE FROM people WHERE name = $1",
    "DELETE FROM key_backups WHERE person = $1",
];

/// SQL that deletes the mail and messages of the recipient `$1`. In groups, the emptied messages keep their numbers.
const OF_RECIPIENT: &[&str] = &[
    "DELETE FROM mail WHERE recipient = $1",
    "DELETE FROM mail_read WHERE recipient = $1",
    "DELETE FROM mailboxes WHERE recipient = $1",
    "DELETE FROM key_bundles WHERE owner = $1",
    "DELETE FROM relay_messages WHERE conversation IN (SELECT number FROM relay_conversations WHERE pair IS NOT NULL
        AND id IN (SELECT conversation FROM relay_members WHERE member = $1))",
    "UPDATE relay_messages SET envelope = '', device = NULL WHERE sender = $1",
];

pub(super) async fn person(session: &Session, forgotten: &PersonErasure) -> Result<(), SqlError> {
    let PersonErasure { redaction, at, links, ledger } = forgotten;
    let PersonRedaction { name, pseudonym, principals, .. } = redaction;
    let (me, instead) = (format!("person:{name}"), format!("person:{pseudonym}"));
    for link in links {
        let sql = "UPDATE audit_links SET record = $2, redaction = $3 WHERE number = $1";
        session.execute(sql, params![to_integer(link.number)?, &link.record, &link.signature]).await?;
    }
    for entry in ledger {
        erase(session, entry).await?;
    }
    let revoke = "UPDATE api_keys SET revoked_at = $2 WHERE person = $1 AND revoked_at IS NULL";
    session.execute(revoke, params![name.as_str(), *at]).await?;
    for principal in principals {
        run_each(session, OF_PRINCIPAL, &principal.to_string()).await?;
    }
    run_each(session, OF_PERSON, name.as_str()).await?;
    run_each(session, OF_RECIPIENT, &me).await?;
    let pairs = "SELECT id FROM relay_conversations WHERE pair IS NOT NULL
                 AND id IN (SELECT conversation FROM relay_members WHERE member = $1)";
    let of_two = texts(session, pairs, params![&me]).await?;
    let sql = "DELETE FROM relay_members WHERE conversation = ANY($1)";
    session.execute(sql, params![of_two.clone()]).await?;
    session.execute("DELETE FROM relay_conversations WHERE id = ANY($1)", params![of_two]).await?;
    session.execute("DELETE FROM relay_members WHERE member = $1", params![&me]).await?;
    // Agents that the person owned lose their token.
    let orphan =
        "UPDATE accounts SET owner = $2, token = NULL, content = (content::JSONB - 'token')::TEXT WHERE owner = $1";
    session.execute(orphan, params![&me, &instead]).await?;
    for principal in principals {
        session.execute("DELETE FROM stored_bytes WHERE owner = $1", params![principal.to_string()]).await?;
    }
    for (table, column) in PRINCIPAL_COLUMNS {
        for principal in principals {
            let sql = format!("UPDATE {table} SET {column} = $2 WHERE {column} = $1");
            session.execute(&sql, params![principal.to_string(), &instead]).await?;
        }
    }
    // The name of a task's worker is free text.
    let took = "UPDATE tasks SET content = jsonb_set(content::JSONB, '{state,by}', to_jsonb($2::TEXT))::TEXT
                WHERE content::JSON #>> '{state,by}' = $1";
    session.execute(took, params![name.as_str(), pseudonym.as_str()]).await?;
    for (table, column) in MENTIONING_COLUMNS {
        replace_mentions(session, redaction, table, column).await?;
    }
    Ok(())
}

async fn run_each(session: &Session, statements: &[&str], param: &str) -> Result<(), SqlError> {
    for sql in statements {
        session.execute(sql, params![param]).await?;
    }
    Ok(())
}

async fn texts(session: &Session, sql: &str, params: Vec<SqlValue>) -> Result<Vec<String>, SqlError> {
    session.rows(sql, params).await?.iter().map(|row| rows::get(row, 0)).collect()
}

async fn replace_mentions(
    session: &Session,
    redaction: &PersonRedaction,
    table: &str,
    column: &str,
) -> Result<(), SqlError> {
    // Key ids are random and reveal nothing.
    let principals = redaction.principals.iter().filter(|principal| !matches!(principal, Principal::Key(_)));
    for mention in principals.map(ToString::to_string).chain([redaction.name.to_string()]) {
        let sql = format!("SELECT DISTINCT {column} FROM {table} WHERE position($1 IN {column}) > 0");
        let found = texts(session, &sql, params![mention]).await?;
        let sql = format!("UPDATE {table} SET {column} = $2 WHERE {column} = $1");
        for text in found {
            if let Some(without) = redaction.of_text(&text) {
                session.execute(&sql, params![text, without]).await?;
            }
        }
    }
    Ok(())
}

async fn erase(session: &Session, entry: &RedactedLedgerEntry) -> Result<(), SqlError> {
    let RedactedLedgerEntry { relation, seq, previous, hash, entry, signature } = entry;
    let sql =
        "INSERT INTO erased_ledger (relation, seq, previous, hash, redaction, entry) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (relation, seq) DO NOTHING";
    let row = params![relation.as_str(), to_integer(*seq)?, previous.to_string(), hash.to_string(), signature, entry];
    session.execute(sql, row).await.map(drop)
}

pub(super) fn read_entry(row: &Row) -> Result<RedactedLedgerEntry, SqlError> {
    Ok(RedactedLedgerEntry {
        relation: rows::text_form(row, 0)?,
        seq: rows::number(row, 1)?,
        previous: rows::digest(row, 2)?,
        hash: rows::digest(row, 3)?,
        entry: rows::get(row, 4)?,
        signature: rows::get(row, 5)?,
    })
}

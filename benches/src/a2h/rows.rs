//! Lower bound for a relayed message: the same rows in the same tables, written directly. One thread writes with group
//! commit for 64 waiting clients, without HTTP, authentication, lookups or reads.

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use anyhow::Context as _;
use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use super::relay::{CLIENTS, CONVERSATIONS, ENVELOPE};
use crate::sql::{cpu_micros, open};

/// Tables and indexes as in the server's database.
const SCHEMA: &str = "
    CREATE TABLE relay_conversations (
        number INTEGER NOT NULL PRIMARY KEY, id TEXT NOT NULL UNIQUE, pair TEXT, revision INTEGER NOT NULL,
        last_seq INTEGER NOT NULL, content TEXT NOT NULL) STRICT;
    CREATE TABLE relay_members (
        member TEXT NOT NULL, conversation TEXT NOT NULL, read_seq INTEGER NOT NULL,
        PRIMARY KEY (member, conversation)) STRICT, WITHOUT ROWID;
    CREATE TABLE relay_messages (
        place INTEGER NOT NULL PRIMARY KEY, conversation INTEGER NOT NULL, seq INTEGER NOT NULL, sender TEXT NOT NULL,
        client_id TEXT NOT NULL, device TEXT, content_type TEXT NOT NULL, subtype TEXT, at INTEGER NOT NULL,
        envelope BLOB NOT NULL, UNIQUE (conversation, seq), UNIQUE (conversation, sender, client_id)) STRICT;
    CREATE TABLE mailboxes (recipient TEXT NOT NULL PRIMARY KEY, seq INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE mail (
        recipient TEXT NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, happening TEXT NOT NULL,
        PRIMARY KEY (recipient, seq)) STRICT, WITHOUT ROWID;
    CREATE INDEX mail_by_age ON mail (at);";

struct RowWriteRequest {
    client: usize,
    round: usize,
    done: oneshot::Sender<()>,
}

/// Writes `count` messages of 64 clients to `told` recipients each; prints the rate and the CPU time per message.
pub(crate) async fn run(count: usize, told: usize) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let connection = prepare(&folder.path().join("bare.db"))?;
    let (send, receive) = mpsc::channel::<RowWriteRequest>();
    let writer = thread::spawn(move || write(&connection, &receive, told));
    let (cpu, began) = (cpu_micros()?, Instant::now());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let send = send.clone();
            tokio::spawn(async move {
                for round in 0..count / CLIENTS {
                    let (done, written) = oneshot::channel();
                    send.send(RowWriteRequest { client, round, done }).ok().context("the writer stopped")?;
                    written.await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    drop(send);
    for client in clients {
        client.await??;
    }
    let seconds = began.elapsed().as_secs_f64();
    let each = (cpu_micros()? - cpu) / count as f64;
    println!("{}", serde_json::json!({"rate": count as f64 / seconds, "cpu": each}));
    writer.join().map_err(|_| anyhow::anyhow!("the writer stopped"))?
}

fn prepare(path: &Path) -> anyhow::Result<Connection> {
    let mut connection = open(path)?;
    connection.execute_batch(SCHEMA)?;
    let all = connection.transaction()?;
    for client in 0..CLIENTS {
        for number in 0..CONVERSATIONS {
            let id = conversation(client, number);
            let content = format!("{{\"id\":\"{id}\",\"type\":\"h2a\",\"members\":[\"{}\"]}}", person(client));
            all.execute("INSERT INTO relay_conversations VALUES (NULL, ?1, ?1, 0, 0, ?2)", params![id, content])?;
            all.execute("INSERT INTO relay_members VALUES (?1, ?2, 0)", params![person(client), id])?;
        }
    }
    all.commit()?;
    Ok(connection)
}

fn person(client: usize) -> String {
    format!("person:person{client}")
}

fn conversation(client: usize, number: usize) -> String {
    format!("cnv_0123456789abcdef{client:04}{number:04}")
}

fn write(connection: &Connection, queue: &mpsc::Receiver<RowWriteRequest>, told: usize) -> anyhow::Result<()> {
    while let Ok(first) = queue.recv() {
        let group: Vec<RowWriteRequest> = std::iter::once(first).chain(queue.try_iter().take(255)).collect();
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        for unit in &group {
            message(connection, unit, told)?;
        }
        connection.prepare_cached("COMMIT")?.execute([])?;
        for unit in group {
            let _ = unit.done.send(());
        }
    }
    Ok(())
}

fn message(connection: &Connection, unit: &RowWriteRequest, told: usize) -> anyhow::Result<()> {
    let index = unit.round % CONVERSATIONS;
    let (id, sender) = (conversation(unit.client, index), person(unit.client));
    let (number, seq): (i64, i64) = connection
        .prepare_cached(
            "UPDATE relay_conversations SET last_seq = last_seq + 1 WHERE id = ?1 AND revision = 0
             RETURNING number, last_seq",
        )?
        .query_row([&id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let client_id = format!("0123456789abcdef{:016x}", unit.round);
    let (at, envelope) = (1_794_740_400_000_i64 + i64::try_from(unit.round)?, [b'x'; ENVELOPE]);
    connection
        .prepare_cached(
            "INSERT INTO relay_messages (conversation, seq, sender, client_id, device, content_type, at, envelope)
             VALUES (?1, ?2, ?3, ?4, 'dev_0123456789abcdef01234567', '\"text\"', ?5, ?6)",
        )?
        .execute(params![number, seq, sender, client_id, at, envelope])?;
    connection
        .prepare_cached("UPDATE relay_members SET read_seq = ?3 WHERE member = ?1 AND conversation = ?2")?
        .execute(params![sender, id, seq])?;
    let happening = format!("{{\"type\":\"message\",\"conversation\":\"{id}\",\"seq\":{seq}}}");
    for recipient in [sender, format!("agent:agt_0123456789abcdef01{index:04}")].into_iter().take(told) {
        let seq: i64 = connection
            .prepare_cached(
                "INSERT INTO mailboxes (recipient, seq) VALUES (?1, 1)
                 ON CONFLICT (recipient) DO UPDATE SET seq = seq + 1 RETURNING seq",
            )?
            .query_row([&recipient], |row| row.get(0))?;
        connection
            .prepare_cached("INSERT INTO mail (recipient, seq, at, happening) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![recipient, seq, at, happening])?;
    }
    Ok(())
}

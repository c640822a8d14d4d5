//! Lower bound for executions: the same rows, written directly. One thread writes with group commit, and the caller
//! reads the row back, without HTTP, schemas, audit records or approvals.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use anyhow::Context as _;
use rusqlite::{Connection, params};
use tokio::sync::oneshot;

const SCHEMA: &str = "CREATE TABLE executions (
    id TEXT NOT NULL PRIMARY KEY, state TEXT NOT NULL, attempt INTEGER NOT NULL, owner TEXT, output TEXT,
    content TEXT NOT NULL) STRICT;
    CREATE INDEX unfinished ON executions (id) WHERE owner IS NOT NULL;";

enum ExecutionWriteKind {
    Accept,
    Start,
    Finish,
}

struct ExecutionWriteRequest {
    step: ExecutionWriteKind,
    id: String,
    done: oneshot::Sender<()>,
}

/// Runs `count` executions of 64 clients in this process, and prints the rate and the CPU time per execution.
pub(crate) async fn run(count: usize) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("bare.db");
    let connection = open(&path)?;
    connection.execute_batch(SCHEMA)?;
    let (send, receive) = mpsc::channel::<ExecutionWriteRequest>();
    let writer = thread::spawn(move || write(&connection, &receive));
    let (cpu, began) = (cpu_micros()?, Instant::now());
    let clients: Vec<_> =
        (0..64).map(|client| tokio::spawn(client_of(client, count / 64, send.clone(), path.clone()))).collect();
    drop(send);
    for client in clients {
        client.await??;
    }
    let seconds = began.elapsed().as_secs_f64();
    let each = (cpu_micros()? - cpu) / count as f64;
    println!("{}", serde_json::json!({"rate": count as f64 / seconds, "cpu": each}));
    writer.join().map_err(|_| anyhow::anyhow!("the writer stopped"))?
}

async fn client_of(
    client: usize,
    rounds: usize,
    send: mpsc::Sender<ExecutionWriteRequest>,
    path: PathBuf,
) -> anyhow::Result<()> {
    let reader = open(&path)?;
    for round in 0..rounds {
        let id = format!("exe_{round:012}_{client:03}_0123456789abcdef");
        for step in [ExecutionWriteKind::Accept, ExecutionWriteKind::Start, ExecutionWriteKind::Finish] {
            let (done, written) = oneshot::channel();
            send.send(ExecutionWriteRequest { step, id: id.clone(), done }).ok().context("the writer stopped")?;
            written.await?;
        }
        let mut statement = reader.prepare_cached("SELECT state, output, content FROM executions WHERE id = ?1")?;
        let state: String = statement.query_row([&id], |row| row.get(0))?;
        anyhow::ensure!(state == "completed");
    }
    Ok(())
}

fn write(connection: &Connection, queue: &mpsc::Receiver<ExecutionWriteRequest>) -> anyhow::Result<()> {
    let content =
        r#"{"skill":"bench/instant","version":"1.0.0","agent":"bench","caller":"local","inputs":{"text":"hello"}}"#;
    while let Ok(first) = queue.recv() {
        let group: Vec<ExecutionWriteRequest> = std::iter::once(first).chain(queue.try_iter().take(255)).collect();
        connection.execute_batch("BEGIN IMMEDIATE")?;
        for unit in &group {
            match unit.step {
                ExecutionWriteKind::Accept => connection
                    .prepare_cached("INSERT INTO executions (id, state, attempt, owner, content) VALUES (?1, 'accepted', 0, 'me', ?2)")?
                    .execute(params![unit.id, content])?,
                ExecutionWriteKind::Start => connection
                    .prepare_cached("UPDATE executions SET state = 'running', attempt = 1 WHERE id = ?1 AND owner = 'me' AND attempt = 0")?
                    .execute([&unit.id])?,
                ExecutionWriteKind::Finish => connection
                    .prepare_cached("UPDATE executions SET state = 'completed', owner = NULL, output = ?2 WHERE id = ?1 AND owner = 'me' AND attempt = 1")?
                    .execute(params![unit.id, r#"{"text":"hello"}"#])?,
            };
        }
        connection.execute_batch("COMMIT")?;
        for unit in group {
            let _ = unit.done.send(());
        }
    }
    Ok(())
}

pub(crate) fn open(path: &Path) -> anyhow::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "wal_autocheckpoint", 8192)?;
    Ok(connection)
}

/// CPU microseconds of this process so far, including ended threads.
pub(crate) fn cpu_micros() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().context("no stat")?.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    // Ticks of 10 ms, user and system.
    Ok((ticks(11) + ticks(12)) * 10_000.0)
}

/// Fills a server's database with finished executions and their audit records.
pub(crate) fn fill(database: &Path, count: usize) -> anyhow::Result<()> {
    let mut connection = open(database)?;
    let content: String = connection.query_row("SELECT content FROM executions LIMIT 1", [], |row| row.get(0))?;
    let outcome: String = connection.query_row("SELECT outcome FROM executions LIMIT 1", [], |row| row.get(0))?;
    let (record, previous, hash, seq): (String, String, String, i64) = connection.query_row(
        "SELECT record, previous, hash, seq FROM audit_links ORDER BY number DESC LIMIT 1",
        [],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
    )?;
    let all = connection.transaction()?;
    {
        let mut execution = all.prepare(
            "INSERT INTO executions (id, state, attempt, updated_at, kept_until, outcome, content)
             VALUES (?1, 'completed', 1, 1, 9000000000000, ?2, ?3)",
        )?;
        let mut link =
            all.prepare("INSERT INTO audit_links (number, seq, previous, hash, record) VALUES (?1, ?1, ?2, ?3, ?4)")?;
        for number in 0..count {
            // The ids are like real ones: a prefix that grows with time, and a random rest.
            let random = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            execution.execute(params![format!("exe_0{number:08}{random:020x}"), outcome, content])?;
            link.execute(params![seq + 1 + number as i64, previous, hash, record])?;
        }
    }
    Ok(all.commit()?)
}

//! What a turn costs after different numbers of earlier turns.

use std::path::Path;

use nuncio_test_postgres::PostgresServer;
use rusqlite::{Connection as Database, params};
use serde_json::json;

use super::{connect, in_parallel, new_session, sessions};
use crate::client::RawHttpConnection;
use crate::process::Server;
use crate::report::measure;
use crate::store::BenchStore;

/// Numbers of earlier turns that are compared, the first of them with all others.
const AGES: [u32; 4] = [0, 10, 100, 1000];
const CLIENTS: usize = 50;
/// Turns of each conversation in one measurement.
const ROUNDS: usize = 10;
/// Measurements of each age, of which the median counts: CPU time of a thread that ends meanwhile is lost.
const REPETITIONS: usize = 5;

/// Measures turns in `count` conversations of each age that take turns, and prints their costs. All conversations are
/// in one store, and none is in memory before its first turn.
pub(crate) async fn run(nuncio: &Path, agents: &str, count: usize, store: &BenchStore<'_>) -> anyhow::Result<()> {
    let data = tempfile::tempdir()?;
    let turn = json!({"messages": [{"role": "user", "content": "hello"}]}).to_string();
    let server = store.serve(nuncio, agents, data.path()).await?;
    let mut connection = RawHttpConnection::open(&server.address).await?;
    let mut groups = Vec::new();
    for age in AGES {
        let mut ids = Vec::new();
        for _ in 0..count {
            let id = new_session(&mut connection).await?;
            if age > 0 {
                connection.post(&format!("/aap/sessions/{id}/turns"), &turn).await?;
            }
            ids.push(id);
        }
        groups.push((age, ids));
    }
    server.stop().await?;
    match store {
        BenchStore::Sqlite => repeat_first_turns(&data.path().join("nuncio.db"), &groups)?,
        BenchStore::Postgres { server, database } => repeat_first_turns_in_postgres(server, database, &groups),
    }

    let server = store.serve(nuncio, agents, data.path()).await?;
    sessions(&server, 640).await?;
    let mut measured = [const { Vec::new() }; AGES.len()];
    for _ in 0..REPETITIONS {
        for ((_, ids), costs) in groups.iter().zip(&mut measured) {
            costs.push(cost_of_turns(&server, ids, &turn).await?);
        }
    }
    let costs = measured.map(|mut costs| {
        costs.sort_by(f64::total_cmp);
        costs[REPETITIONS / 2]
    });
    println!("| earlier turns of each of {count} active conversations | CPU of a turn | compared with a new one |");
    println!("|---|---|---|");
    for (age, cost) in AGES.iter().zip(&costs) {
        println!("| {age} | {cost:.2} µs | {:.2} |", cost / costs[0]);
    }
    println!();
    Ok(())
}

/// Gives each conversation as many turns as its age says, all like its first one.
fn repeat_first_turns(store: &Path, groups: &[(u32, Vec<String>)]) -> anyhow::Result<()> {
    const NUMBERS: &str = "WITH RECURSIVE more(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM more WHERE n < ?2)";
    let mut database = Database::open(store)?;
    let transaction = database.transaction()?;
    {
        let mut messages = transaction.prepare(&format!(
            "{NUMBERS} INSERT INTO messages (session, number, turn, message)
             SELECT session, number + 2 * n, turn + n, message FROM more, messages WHERE session = ?1 AND turn = 1"
        ))?;
        let mut turns = transaction.prepare(&format!(
            "{NUMBERS} INSERT INTO turns (session, number, mode, protocol, node, started_at, ended_at, stop, events)
             SELECT session, number + n, mode, protocol, node, started_at, ended_at, stop, events
             FROM more, turns WHERE session = ?1 AND number = 1"
        ))?;
        for (age, ids) in groups.iter().filter(|(age, _)| *age > 1) {
            for id in ids {
                messages.execute(params![id, age - 1])?;
                turns.execute(params![id, age - 1])?;
            }
        }
    }
    Ok(transaction.commit()?)
}

/// Like [`repeat_first_turns`]. Triggers would update one counter for each row, so they are off.
fn repeat_first_turns_in_postgres(server: &PostgresServer, database: &str, groups: &[(u32, Vec<String>)]) {
    let _ = server.query(database, "CREATE TABLE ages (session TEXT, more INTEGER)");
    for (age, ids) in groups.iter().filter(|(age, _)| *age > 1) {
        let more = age - 1;
        let rows: Vec<_> = ids.iter().map(|id| format!("('{id}', {more})")).collect();
        let _ = server.query(database, &format!("INSERT INTO ages VALUES {}", rows.join(",")));
    }
    let copies = "SET session_replication_role = replica;
        INSERT INTO messages (session, number, turn, message)
        SELECT messages.session, number + 2 * n, turn + n, message
        FROM ages JOIN messages USING (session), generate_series(1, more) AS n WHERE turn = 1;
        INSERT INTO turns (session, number, mode, protocol, node, started_at, ended_at, stop, events)
        SELECT turns.session, number + n, mode, protocol, node, started_at, ended_at, stop, events
        FROM ages JOIN turns USING (session), generate_series(1, more) AS n WHERE number = 1;
        DROP TABLE ages";
    let _ = server.query(database, copies);
    let _ = server.query(database, "VACUUM ANALYZE");
    let _ = server.query(database, "CHECKPOINT");
}

/// CPU time of a turn in these conversations, in microseconds.
async fn cost_of_turns(server: &Server, ids: &[String], turn: &str) -> anyhow::Result<f64> {
    let path = |id: &String| format!("/aap/sessions/{id}/turns");
    let shares = ids.chunks(ids.len().div_ceil(CLIENTS)).map(|share| share.iter().map(path).collect::<Vec<_>>());
    let connections: Vec<_> = connect(server, CLIENTS).await?.into_iter().zip(shares).collect();
    let measured = measure(server, ids.len() * ROUNDS, async {
        in_parallel(connections, async |(connection, paths): &mut (RawHttpConnection, Vec<String>)| {
            for path in std::iter::repeat_n(&*paths, ROUNDS).flatten() {
                connection.post(path, turn).await?;
            }
            Ok(())
        })
        .await
    });
    Ok(measured.await?.cpu)
}

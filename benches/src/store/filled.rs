//! What a new execution and a new session cost in a store with many others, compared with an empty one.

use std::path::Path;

use anyhow::Context as _;
use nuncio_test_postgres::PostgresServer;
use rusqlite::{Connection, params};

use super::{BenchStore, REPETITIONS, ServedStore, serve};
use crate::{aap, skill, sql};

/// CPU time of an operation in microseconds: of our process, and with that of the database server.
#[derive(Clone, Copy)]
struct OperationCpu {
    ours: f64,
    all: f64,
}

pub(super) async fn run(
    nuncio: &Path,
    postgres: &PostgresServer,
    count: usize,
    executions: usize,
    sessions: usize,
) -> anyhow::Result<()> {
    println!("With {executions} finished executions and {sessions} sessions, compared with an empty store:\n");
    println!("| store | operation | CPU each, empty | filled | ratio | with the database server | filled | ratio |");
    println!("|---|---|---|---|---|---|---|---|");
    for is_sqlite in [true, false] {
        let stores = match is_sqlite {
            true => [BenchStore::Sqlite, BenchStore::Sqlite],
            false => [BenchStore::create(postgres, "empty"), BenchStore::create(postgres, "filled")],
        };
        let [empty, filled] = stores;
        let empty = ServedStore::start(nuncio, empty).await?;
        let mut filled = ServedStore::start(nuncio, filled).await?;
        // An execution and a session of which the others are copies.
        skill::executions(&filled.server, 64).await?;
        aap::small_turns(&filled.server, 1, aap::SessionDiskLayout::Together).await?;
        let data = filled.data();
        filled.server.stop().await?;
        match &filled.store {
            BenchStore::Sqlite => fill_sqlite(&data.join("nuncio.db"), executions, sessions)?,
            BenchStore::Postgres { server, database } => fill_postgres(server, database, executions, sessions),
        }
        filled.server = serve(nuncio, &filled.store, filled.folder.path()).await?;
        compare(&empty, &filled, count).await?;
    }
    println!();
    Ok(())
}

/// Measures both servers in turn.
async fn compare(empty: &ServedStore<'_>, filled: &ServedStore<'_>, count: usize) -> anyhow::Result<()> {
    let mut measured: [[Vec<OperationCpu>; 2]; 2] = Default::default();
    for round in 0..=REPETITIONS {
        for (position, served) in [empty, filled].into_iter().enumerate() {
            let executions = cpu(served, async || skill::executions(&served.server, count).await.map(|one| one.cpu));
            let executions = executions.await?.per(count);
            let sessions = cpu(served, async || aap::sessions(&served.server, count).await.map(|one| one.cpu));
            let sessions = sessions.await?.per(count);
            // The first round warms up caches and connections.
            if round > 0 {
                measured[0][position].push(executions);
                measured[1][position].push(sessions);
            }
        }
    }
    for (name, [empty_costs, filled_costs]) in ["execution", "session"].iter().zip(&measured) {
        let before = (median(empty_costs, |cpu| cpu.ours)?, median(empty_costs, |cpu| cpu.all)?);
        let after = (median(filled_costs, |cpu| cpu.ours)?, median(filled_costs, |cpu| cpu.all)?);
        println!(
            "| {} | {name} | {:.1} µs | {:.1} µs | {:.2} | {:.1} µs | {:.1} µs | {:.2} |",
            empty.store.name(),
            before.0,
            after.0,
            after.0 / before.0,
            before.1,
            after.1,
            after.1 / before.1
        );
    }
    Ok(())
}

/// CPU times of an operation; the database server's is that of all operations together.
struct TotalCpu {
    ours: f64,
    database: f64,
}

impl TotalCpu {
    fn per(&self, count: usize) -> OperationCpu {
        OperationCpu { ours: self.ours, all: self.ours + self.database / count as f64 }
    }
}

async fn cpu(served: &ServedStore<'_>, work: impl AsyncFnOnce() -> anyhow::Result<f64>) -> anyhow::Result<TotalCpu> {
    let before = served.store.database_cpu_micros();
    let ours = work().await?;
    Ok(TotalCpu { ours, database: served.store.database_cpu_micros() - before })
}

fn median(measured: &[OperationCpu], of: impl Fn(&OperationCpu) -> f64) -> anyhow::Result<f64> {
    let mut values: Vec<f64> = measured.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().context("no measurement")
}

fn fill_sqlite(database: &Path, executions: usize, sessions: usize) -> anyhow::Result<()> {
    const NUMBERS: &str = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1),
         one AS (SELECT id AS template FROM sessions ORDER BY id LIMIT 1)";
    sql::fill(database, executions)?;
    let mut connection = Connection::open(database)?;
    let all = connection.transaction()?;
    for copy in [
        "INSERT INTO sessions (id, owner, agent, created_at, pending, settings, summary)
         SELECT printf('ses_0%08d%020x', n, n * 2654435769), owner, agent, created_at, pending, settings, summary
         FROM numbers, one, sessions WHERE sessions.id = template",
        "INSERT INTO messages (session, number, turn, message)
         SELECT printf('ses_0%08d%020x', n, n * 2654435769), number, turn, message
         FROM numbers, one, messages WHERE session = template",
        "INSERT INTO turns (session, number, mode, protocol, node, started_at, ended_at, stop, events)
         SELECT printf('ses_0%08d%020x', n, n * 2654435769), number, mode, protocol, node, started_at, ended_at, stop, events
         FROM numbers, one, turns WHERE session = template",
    ] {
        all.execute(&format!("{NUMBERS} {copy}"), params![sessions as i64])?;
    }
    Ok(all.commit()?)
}

/// Fills a database by SQL. Triggers would update one counter for each row, so they are off.
fn fill_postgres(server: &PostgresServer, database: &str, executions: usize, sessions: usize) {
    let session_id = "'ses_0' || lpad(n::TEXT, 8, '0') || left(md5(n::TEXT), 20)";
    let one = "(SELECT id AS template FROM sessions ORDER BY id LIMIT 1) AS one";
    let sql = format!(
        "SET session_replication_role = replica;
         INSERT INTO executions (id, state, attempt, updated_at, kept_until, outcome, content)
         SELECT 'exe_0' || lpad(n::TEXT, 8, '0') || left(md5(n::TEXT), 20), 'completed', 1, 1, 9000000000000, outcome, content
         FROM (SELECT outcome, content FROM executions LIMIT 1) AS one, generate_series(1, {executions}) AS n;
         INSERT INTO audit_links (chain, seq, previous, hash, record)
         SELECT chain, seq + n, previous, hash, record
         FROM (SELECT * FROM audit_links ORDER BY number DESC LIMIT 1) AS one, generate_series(1, {executions}) AS n;
         INSERT INTO messages (session, number, turn, message)
         SELECT {session_id}, number, turn, message
         FROM {one}, messages, generate_series(1, {sessions}) AS n WHERE session = template;
         INSERT INTO turns (session, number, mode, protocol, node, started_at, ended_at, stop, events)
         SELECT {session_id}, number, mode, protocol, node, started_at, ended_at, stop, events
         FROM {one}, turns, generate_series(1, {sessions}) AS n WHERE session = template;
         INSERT INTO sessions (id, owner, agent, created_at, pending, settings, summary)
         SELECT {session_id}, owner, agent, created_at, pending, settings, summary
         FROM {one}, sessions, generate_series(1, {sessions}) AS n WHERE id = template"
    );
    let _ = server.query(database, &sql);
    // What autovacuum would do while the benchmark runs.
    let _ = server.query(database, "VACUUM ANALYZE");
    let _ = server.query(database, "CHECKPOINT");
}

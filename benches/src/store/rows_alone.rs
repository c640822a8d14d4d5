//! Lower bound for executions in PostgreSQL: the same rows, written by `pgbench` for 64 clients, with one commit for the
//! accepted execution and one for its end.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, ensure};
use nuncio_test_postgres::{PostgresServer, installed_programs};

const CLIENTS: usize = 64;

/// Tables like those of the store, without triggers. The rows are as long as those of the executions in the store.
const TABLES: &str = "DROP SCHEMA IF EXISTS alone CASCADE; CREATE SCHEMA alone;
    CREATE TABLE alone.executions (LIKE public.executions INCLUDING ALL);
    CREATE TABLE alone.audit_links (LIKE public.audit_links INCLUDING ALL)";

const LENGTHS: &str = "SELECT length(content), length(outcome),
    (SELECT length(record) FROM audit_links ORDER BY number DESC LIMIT 1)
    FROM executions WHERE outcome IS NOT NULL ORDER BY id DESC LIMIT 1";

/// The statements of each commit are sent without waiting for each other.
const SCRIPT: &str = r"\set n :n + 1
INSERT INTO alone.executions (id, state, attempt, updated_at, owner, content, caller)
    VALUES ('exe_' || lpad((:n * 64 + :client_id)::TEXT, 26, '0'), 'accepted', 0, 1, 'node', repeat('x', CONTENT), 'local');
\startpipeline
BEGIN;
UPDATE alone.executions SET state = 'completed', attempt = 1, outcome = repeat('x', OUTCOME), updated_at = 2,
    kept_until = 9000000000000, owner = NULL WHERE id = 'exe_' || lpad((:n * 64 + :client_id)::TEXT, 26, '0');
INSERT INTO alone.audit_links (seq, previous, hash, record)
    VALUES (:n * 64 + :client_id, repeat('0', 64), repeat('1', 64), repeat('x', RECORD));
COMMIT;
\endpipeline
";

/// Executions per second whose rows `pgbench` writes.
pub(super) fn rate(server: &PostgresServer, database: &str, count: usize) -> anyhow::Result<f64> {
    let _ = server.query(database, TABLES);
    let lengths = server.query(database, LENGTHS);
    let [content, outcome, record] = lengths.split('|').collect::<Vec<_>>()[..] else {
        anyhow::bail!("no execution is stored");
    };
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("script.sql");
    let text = SCRIPT.replace("CONTENT", content).replace("OUTCOME", outcome).replace("RECORD", record);
    fs::write(&script, text)?;
    let programs = installed_programs().context("PostgreSQL is not installed")?;
    let output = Command::new(programs.join("pgbench"))
        .args(["-n", "-M", "prepared", "-D", "n=0", "-j", "2", "-c", &CLIENTS.to_string()])
        .args(["-t", &(count / CLIENTS).to_string(), "-f"])
        .arg(&script)
        .arg(server.url(database))
        .output()
        .context("pgbench does not start")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let rate = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    rate.with_context(|| format!("no rate in {text}"))
}

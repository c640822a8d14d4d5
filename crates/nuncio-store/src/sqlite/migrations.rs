//! Schema migrations. A released step is never changed; new ones are appended.

use nuncio_engine::ports::store::StoreError;
use rusqlite::Connection;

use super::problem::SqlError;

/// Migration steps: step `n` leads from schema version `n` to `n + 1`. The version is stored in `user_version`.
const STEPS: &[&str] = &[
    include_str!("migrations/0001_first.sql"),
    include_str!("migrations/0002_executions.sql"),
    include_str!("migrations/0003_signing_keys.sql"),
    include_str!("migrations/0004_callbacks.sql"),
    include_str!("migrations/0005_followed.sql"),
    include_str!("migrations/0006_turns_tell.sql"),
    include_str!("migrations/0007_consent.sql"),
    include_str!("migrations/0008_directory.sql"),
    include_str!("migrations/0009_peers.sql"),
    include_str!("migrations/0010_execution_calls.sql"),
    include_str!("migrations/0011_relay.sql"),
    include_str!("migrations/0012_key_roles.sql"),
    include_str!("migrations/0013_turn_protocol.sql"),
    include_str!("migrations/0014_unstarted.sql"),
    include_str!("migrations/0015_bundles_by_owner.sql"),
    include_str!("migrations/0016_stored_bytes.sql"),
    include_str!("migrations/0017_redactions.sql"),
    include_str!("migrations/0018_key_rotation.sql"),
    include_str!("migrations/0019_failure_texts.sql"),
    include_str!("migrations/0020_nodes.sql"),
    include_str!("migrations/0021_keyring.sql"),
    include_str!("migrations/0022_system_messages.sql"),
    include_str!("migrations/0023_jobs.sql"),
    include_str!("migrations/0024_audit_chains.sql"),
];

/// Number of the last migration.
#[expect(clippy::cast_possible_truncation, reason = "there are few steps")]
pub const SCHEMA_VERSION: u32 = STEPS.len() as u32;

/// Migrates to the current schema, or refuses a newer one.
pub(super) fn run(connection: &Connection) -> Result<(), StoreError> {
    run_steps(connection, STEPS)
}

/// Migrates a new database to an earlier schema.
pub(super) fn run_to(connection: &Connection, version: u32) -> Result<(), StoreError> {
    let steps = usize::try_from(version).ok().and_then(|version| STEPS.get(..version));
    run_steps(connection, steps.ok_or_else(|| SqlError::Damaged(newer(version.into())))?)
}

fn newer(version: i64) -> String {
    format!(
        "its schema is version {version}, and this version of Nuncio supports versions up to {}; use the newer Nuncio that wrote it",
        STEPS.len()
    )
}

fn run_steps(connection: &Connection, steps: &[&str]) -> Result<(), StoreError> {
    connection.execute_batch("BEGIN IMMEDIATE").map_err(SqlError::from)?;
    match run_migrations(connection, steps) {
        Ok(()) => Ok(connection.execute_batch("COMMIT").map_err(SqlError::from)?),
        Err(problem) => {
            // Closing the connection, which the caller does now, rolls back as well.
            let _ = connection.execute_batch("ROLLBACK");
            Err(problem.into())
        }
    }
}

fn run_migrations(connection: &Connection, steps: &[&str]) -> Result<(), SqlError> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let Some(missing) = usize::try_from(version).ok().and_then(|version| steps.get(version..)) else {
        return Err(SqlError::Damaged(newer(version)));
    };
    for step in missing {
        connection.execute_batch(step)?;
    }
    connection.pragma_update(None, "user_version", steps.len() as i64)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
    use super::*;

    #[test]
    fn bundle_migration_drops_only_agent_bundles_under_a_persons_device_id() {
        let connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "foreign_keys", true).unwrap();
        let before = STEPS.iter().position(|step| step.contains("owned_key_bundles")).unwrap();
        STEPS[..before].iter().for_each(|step| connection.execute_batch(step).unwrap());
        connection.pragma_update(None, "user_version", before as i64).unwrap();
        connection
            .execute_batch(
                "INSERT INTO people (name, created_at) VALUES ('ada', 1);
                 INSERT INTO devices (id, person, name, key, enrolled_at) VALUES
                   ('dev_a', 'ada', 'a', 'a', 1), ('dev_b', 'ada', 'b', 'b', 1);
                 INSERT INTO key_bundles (device, owner, seq, content) VALUES
                   ('dev_a', 'person:ada', 7, 'hers'), ('dev_b', 'agent:eve', 1, 'squatted'),
                   ('main', 'agent:hotel', 2, 'its');
                 INSERT INTO one_time_keys (place, device, key_id, fallback, content) VALUES
                   (3, 'dev_a', 'k', 0, 'hers'), (5, 'dev_b', 'k', 0, 'squatted'), (4, 'main', 'f', 1, 'its');",
            )
            .unwrap();
        run(&connection).unwrap();
        let rows = |sql: &str| -> Vec<String> {
            let mut statement = connection.prepare(sql).unwrap();
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let bundles = "SELECT owner || ' ' || device || ' ' || seq || ' ' || content FROM key_bundles ORDER BY owner";
        assert_eq!(rows(bundles), ["agent:hotel main 2 its", "person:ada dev_a 7 hers"]);
        let keys = "SELECT place || ' ' || owner || ' ' || device || ' ' || key_id || ' ' || fallback || ' ' || content
                    FROM one_time_keys ORDER BY place";
        assert_eq!(rows(keys), ["3 person:ada dev_a k 0 hers", "4 agent:hotel main f 1 its"]);
        connection.execute_batch("DELETE FROM key_bundles WHERE owner = 'person:ada'").unwrap();
        assert_eq!(rows(keys), ["4 agent:hotel main f 1 its"], "one-time keys go with their bundle");
    }

    #[test]
    fn api_keys_from_before_rotation_are_migrated_without_expiry() {
        let connection = Connection::open_in_memory().unwrap();
        let before = STEPS.iter().position(|step| step.contains("previous_until")).unwrap();
        STEPS[..before].iter().for_each(|step| connection.execute_batch(step).unwrap());
        connection.pragma_update(None, "user_version", before as i64).unwrap();
        let digest = nuncio_core::digest::Digest::of_bytes(b"nk_old");
        let insert =
            "INSERT INTO api_keys (id, name, digest, scopes, created_at) VALUES ('key_old', 'app', ?1, '\"all\"', 1)";
        connection.execute(insert, [digest.to_string()]).unwrap();
        run(&connection).unwrap();
        let keys = super::super::access::keys(&connection).unwrap();
        let [key] = keys.as_slice() else { panic!("one key: {keys:?}") };
        assert_eq!((key.id.as_str(), key.digest), ("key_old", digest));
        assert_eq!((key.expires_at, key.lifetime_seconds, key.rotated_at, &key.previous), (None, None, None, &None));
    }

    #[test]
    fn deferred_work_of_earlier_versions_becomes_jobs() {
        let connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "foreign_keys", true).unwrap();
        let before = STEPS.iter().position(|step| step.contains("CREATE TABLE jobs")).unwrap();
        STEPS[..before].iter().for_each(|step| connection.execute_batch(step).unwrap());
        connection.pragma_update(None, "user_version", before as i64).unwrap();
        connection
            .execute_batch(
                r#"INSERT INTO executions (id, state, attempt, updated_at, kept_until, outcome, content) VALUES
                     ('exe_a', 'completed', 1, 1, 9, '{}', '{"callback":"https://shop.example:8443/done?of=/x"}'),
                     ('exe_b', 'failed', 1, 1, 9, '{}', '{"callback":"http://shop.example/"}');
                   INSERT INTO callbacks (execution, due, attempts) VALUES ('exe_a', 70, 3), ('exe_b', 60, 0);
                   INSERT INTO mailboxes (recipient, seq) VALUES ('agent:a', 3);
                   INSERT INTO mail (recipient, seq, at, happening) VALUES
                     ('agent:a', 1, 1, '{}'), ('agent:a', 2, 1, '{}'), ('agent:a', 3, 1, '{}');
                   INSERT INTO webhooks (recipient, state, probe_at, secret) VALUES ('agent:a', 'unreachable', 80, 's');
                   INSERT INTO deliveries (recipient, seq, lane, is_first, attempts, due) VALUES
                     ('agent:a', 1, 'cnv', 1, 2, 9), ('agent:a', 2, 'cnv', 0, 0, 5), ('agent:a', 3, '', 1, 0, 7);
                   INSERT INTO sessions (id, owner, agent, created_at, pending, settings) VALUES
                     ('ses_a', 'local', 'desk', 1, '[]', '{}');
                   INSERT INTO followed (domain, followed_by, since, next_visit, failures, listed) VALUES
                     ('https://a.example', 'operator', 1, 20, 0, 0), ('http://b.example:80', 'settings', 1, 21, 0, 0);
                   INSERT INTO directory (id, url, did, registrant, since, verified, next_check, failures, description)
                   VALUES ('reg', 'https://c.example:8443/agents/x/ad.json', 'did', 'local', 1, 1, 30, 0, '{}');
                   INSERT INTO owed_answers (id, session, due, content) VALUES
                     ('sha256:a', 'ses_a', 40, '{"id":"sha256:a","due":40,"attempts":5}');"#,
            )
            .unwrap();
        run(&connection).unwrap();
        let rows = |sql: &str| -> Vec<String> {
            let mut statement = connection.prepare(sql).unwrap();
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let jobs = "SELECT concat_ws(' ', kind, key, receiver, lane, seq, is_first, due, attempts, claimed_by, term)
             FROM jobs ORDER BY kind, due";
        assert_eq!(
            rows(jobs),
            [
                "callback exe_b http://shop.example 0 1 60 0 0",
                "callback exe_a https://shop.example:8443 0 1 70 3 0",
                "check https://c.example:8443/agents/x/ad.json c.example:8443 0 1 30 0 0",
                "delivery agent:a/2 agent:a cnv 2 0 5 0 0",
                "delivery agent:a/3 agent:a  3 1 7 0 0",
                "delivery agent:a/1 agent:a cnv 1 1 9 2 0",
                "probe agent:a agent:a 0 1 80 0 0",
                "reply sha256:a ses_a 0 1 40 5 0",
                "visit https://a.example a.example 0 1 20 0 0",
                "visit http://b.example:80 b.example 0 1 21 0 0",
            ]
        );
    }
}

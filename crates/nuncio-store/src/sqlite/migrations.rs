//! The steps from an empty file to the schema of this version. A step that was released is never
//! changed; a new one is added behind it.

use nuncio_engine::ports::store::StoreError;
use rusqlite::Connection;

use super::problem::Problem;

/// Step `n` leads from version `n` to `n + 1`. The version is kept in `user_version`.
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
];

/// Takes the file to the schema of this version, or refuses one from a later version.
pub(super) fn run(connection: &Connection) -> Result<(), StoreError> {
    connection.execute_batch("BEGIN IMMEDIATE").map_err(Problem::from)?;
    match climb(connection) {
        Ok(()) => Ok(connection.execute_batch("COMMIT").map_err(Problem::from)?),
        Err(problem) => {
            // Closing the connection, which the caller does now, rolls back as well.
            let _ = connection.execute_batch("ROLLBACK");
            Err(problem.into())
        }
    }
}

fn climb(connection: &Connection) -> Result<(), Problem> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let Some(missing) = usize::try_from(version).ok().and_then(|version| STEPS.get(version..)) else {
        return Err(Problem::Damaged(format!(
            "its schema is version {version}, and this version of Nuncio knows no later one than {}; use the newer Nuncio that wrote it",
            STEPS.len()
        )));
    };
    for step in missing {
        connection.execute_batch(step)?;
    }
    connection.pragma_update(None, "user_version", STEPS.len() as i64)?;
    Ok(())
}

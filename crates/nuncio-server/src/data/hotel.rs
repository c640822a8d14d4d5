//! Moves the demo hotel's database, which older versions stored beside the server's own.

use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use nuncio_core::ErrorCode;
use nuncio_core::agent::Agent;

use crate::error::OperatorError;

/// The database files. The database itself comes last: as long as it is at its old location, an interrupted move is
/// resumed.
const FILES: [&str; 3] = ["hotel.db-wal", "hotel.db-shm", "hotel.db"];

/// Moves the hotel database to the state folder of the first agent that runs the demo hotel.
pub(crate) fn move_hotel(data: &Path, state: &Path, agent: &Agent) -> Result<(), OperatorError> {
    let is_hotel = agent.programs().any(|command| command.words().eq(["nuncio", "demo", "hotel"]));
    let (old, new) = (data.join("hotel.db"), state.join("hotel.db"));
    if !is_hotel || !old.exists() {
        return Ok(());
    }
    if new.exists() {
        tracing::warn!("{} is not used any more: {} exists already", old.display(), new.display());
        return Ok(());
    }
    let failed = |error: std::io::Error| {
        let message = format!("{} cannot be moved to {}: {error}", old.display(), state.display());
        OperatorError::new(ErrorCode::DataDirUnusable, message)
    };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(state).map_err(failed)?;
    for file in FILES {
        match std::fs::rename(data.join(file), state.join(file)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    tracing::info!("moved {} to {}", old.display(), new.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn agent(command: &str) -> Agent {
        let text = format!("[agent]\nname = \"a\"\nversion = \"1.0.0\"\n[[mcp]]\nname = \"m\"\ncommand = {command}\n");
        nuncio_agent_file::parse("agent.toml", &text).unwrap().agent
    }

    #[test]
    fn hotel_database_is_moved_once_to_the_state_folder_of_the_hotel_agent() {
        let data = tempfile::tempdir().unwrap();
        let state = data.path().join("programs/a");
        for file in FILES {
            fs::write(data.path().join(file), file).unwrap();
        }
        move_hotel(data.path(), &state, &agent(r#"["nuncio", "demo", "script"]"#)).unwrap();
        assert!(!state.exists());
        let hotel = agent(r#"["nuncio", "demo", "hotel"]"#);
        move_hotel(data.path(), &state, &hotel).unwrap();
        for file in FILES {
            assert!(!data.path().join(file).exists());
            assert_eq!(fs::read_to_string(state.join(file)).unwrap(), file);
        }
        fs::write(data.path().join("hotel.db"), "another").unwrap();
        move_hotel(data.path(), &state, &hotel).unwrap();
        assert_eq!(fs::read_to_string(state.join("hotel.db")).unwrap(), "hotel.db");
    }

    #[test]
    fn interrupted_move_of_the_hotel_database_is_resumed() {
        let data = tempfile::tempdir().unwrap();
        let state = data.path().join("programs/a");
        fs::create_dir_all(&state).unwrap();
        fs::write(state.join("hotel.db-wal"), "wal").unwrap();
        fs::write(data.path().join("hotel.db"), "db").unwrap();
        move_hotel(data.path(), &state, &agent(r#"["nuncio", "demo", "hotel"]"#)).unwrap();
        assert_eq!(fs::read_to_string(state.join("hotel.db")).unwrap(), "db");
        assert_eq!(fs::read_to_string(state.join("hotel.db-wal")).unwrap(), "wal");
    }
}

//! The admin socket: mode 0600 in the data directory, one JSON line in, one JSON line out.
//!
//! A command comes with a token from a file in the data directory. Programs that agents run have the server's account,
//! so the socket's mode does not keep them out, but they cannot read that file.

use std::future::Future;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_engine::ports::Clock;
use nuncio_engine::ports::entropy::random_name;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use subtle::ConstantTimeEq as _;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use super::{AdminApi, AdminCommand, account};
use crate::command_socket::{CommandReply, CommandSocket, exchange, read_command, write_line};
use crate::data::{DataDir, LOCK_CHECK_INTERVAL, LOCK_TRIES, LOCK_TRIES_BEFORE_REPORT};
use crate::error::OperatorError;
use crate::system::SystemEntropy;

const SOCKET: &str = "admin.sock";
/// The file of the admin token, which is replaced at each start.
const TOKEN: &str = "admin.token";
/// Size limit of a command, in bytes: the result of a task fits into one.
const MAX_COMMAND: u64 = 1024 * 1024;
/// Time that the command line waits for the server's reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// An admin command with the token that authorises it.
#[derive(Serialize, Deserialize)]
struct CommandWithToken<C> {
    #[serde(default)]
    token: String,
    #[serde(flatten)]
    command: C,
}

/// Opens the admin socket; the returned future serves it, and writes the audit checkpoints, until stopped.
pub(crate) fn listen(
    data: &Path,
    api: AdminApi,
    stop: CancellationToken,
) -> Result<impl Future<Output = ()> + use<>, OperatorError> {
    let token: Arc<str> = random_name(&SystemEntropy, "").into();
    DataDir::files_of(data)?.write(TOKEN, token.as_bytes())?;
    let path = data.join(SOCKET);
    let listener = CommandSocket { folder: data, name: SOCKET }
        .bind()
        .map_err(|error| OperatorError::new(ErrorCode::DataDirUnusable, format!("{}: {error}", path.display())))?;
    Ok(async move {
        let checkpoints = Arc::clone(&api.checkpoints);
        let checkpoints = checkpoints.run_periodically(api.engine.clone(), stop.clone());
        let commands = async {
            loop {
                tokio::select! {
                    accepted = listener.accept() => match accepted {
                        Ok((stream, _)) => {
                            let (api, token) = (api.clone(), Arc::clone(&token));
                            tokio::spawn(async move { answer_command(stream, api, &token).await });
                        }
                        Err(error) => tracing::warn!(%error, "admin socket"),
                    },
                    () = stop.cancelled() => break,
                }
            }
            let _ = std::fs::remove_file(&path);
            let _ = std::fs::remove_file(path.with_file_name(TOKEN));
        };
        tokio::join!(checkpoints, commands);
    })
}

async fn answer_command(stream: UnixStream, api: AdminApi, token: &str) {
    let caller = stream.peer_cred();
    let (reader, writer) = stream.into_split();
    let Ok(line) = read_command(reader, MAX_COMMAND).await else { return };
    let is_valid = |sent: &str| bool::from(sent.as_bytes().ct_eq(token.as_bytes()));
    // The command itself is parsed only after its token was found valid.
    let result = match (serde_json::from_str::<CommandWithToken<Value>>(&line), caller) {
        (Ok(CommandWithToken { token, command }), Ok(caller)) if is_valid(&token) => {
            match serde_json::from_value::<AdminCommand>(command) {
                Ok(command) => api.carry_out(command, &account(caller.uid())).await,
                Err(error) => Err(OperatorError::new(ErrorCode::BadRequest, format!("not a command: {error}"))),
            }
        }
        (Ok(_), _) => {
            tracing::warn!("a command without the token in {TOKEN} was refused");
            Err(OperatorError::new(
                ErrorCode::Unauthorized,
                format!("the command does not contain the token in {TOKEN}"),
            ))
        }
        (Err(error), _) => Err(OperatorError::new(ErrorCode::BadRequest, format!("not a command: {error}"))),
    };
    let reply = match result {
        Ok(value) => CommandReply::Done(value),
        Err(error) => CommandReply::Failed { code: error.code, message: error.message },
    };
    let _ = write_line(writer, &reply).await;
}

/// Sends a command to the server of the data directory; `None` if no server runs.
pub async fn ask(data: &Path, command: &AdminCommand) -> Result<Option<Value>, OperatorError> {
    let socket = CommandSocket { folder: data, name: SOCKET };
    let no_reply = |error: &dyn std::fmt::Display| {
        let path = socket.path();
        OperatorError::new(
            ErrorCode::DataDirUnusable,
            format!("the server at {} does not answer: {error}", path.display()),
        )
    };
    let stream = match socket.connect().await {
        Ok(Some(stream)) => stream,
        Ok(None) => return Ok(None),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Err(not_owner(data)),
        Err(error) => return Err(no_reply(&error)),
    };
    let token = DataDir::files_of(data)?.read(TOKEN)?.unwrap_or_default();
    let request = CommandWithToken { token: String::from_utf8_lossy(&token).into_owned(), command };
    let reply = tokio::time::timeout(REPLY_TIMEOUT, exchange(stream, &request, u64::MAX)).await;
    match reply.map_err(|error| no_reply(&error))?.map_err(|error| no_reply(&error))? {
        CommandReply::Done(value) => Ok(Some(value)),
        CommandReply::Failed { code, message } => Err(OperatorError { code, message }),
        CommandReply::Usage { message } => Err(OperatorError::new(ErrorCode::BadRequest, message)),
    }
}

/// Whether a server listens on the admin socket of the data directory. A socket that cannot be opened counts as one.
pub(crate) async fn is_served(data: &Path) -> bool {
    !matches!(CommandSocket { folder: data, name: SOCKET }.connect().await, Ok(None))
}

/// The process that executes a command.
#[derive(Debug)]
pub enum ServerReplyOrDataDir {
    /// The running server, with its reply.
    Server(Value),
    /// This process, which has the data directory to itself.
    ThisProcess(DataDir),
}

/// Sends a command to the server of the data directory or, if none runs, locks the directory for this process. While
/// another process has the directory and does not answer, for example a server that is starting, this waits for a
/// limited time; `report_wait` is called if that takes more than a second.
pub async fn ask_or_lock(
    data: &Path,
    command: &AdminCommand,
    clock: &dyn Clock,
    report_wait: impl Fn(),
) -> Result<ServerReplyOrDataDir, OperatorError> {
    for tries in 1.. {
        if let Some(reply) = ask(data, command).await? {
            return Ok(ServerReplyOrDataDir::Server(reply));
        }
        match DataDir::open(data) {
            Err(error) if error.code == ErrorCode::DataDirInUse && tries < LOCK_TRIES => {
                if tries == LOCK_TRIES_BEFORE_REPORT {
                    report_wait();
                }
                clock.sleep_until(clock.now().after(LOCK_CHECK_INTERVAL)).await;
            }
            opened => return opened.map(ServerReplyOrDataDir::ThisProcess),
        }
    }
    unreachable!("there are more numbers than tries");
}

/// Error for a data directory of another account; only its owner may send commands to its server.
fn not_owner(data: &Path) -> OperatorError {
    let owner = std::fs::metadata(data).map(|found| format!(" (user id {})", found.uid())).unwrap_or_default();
    let message = format!(
        "this user may not use the data directory {}; run the command as its owner{owner}, or name another with --data",
        data.display()
    );
    OperatorError::new(ErrorCode::DataDirUnusable, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_for_a_data_directory_of_another_user_names_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let error = not_owner(folder.path());
        assert_eq!(error.code, ErrorCode::DataDirUnusable);
        let owner = std::fs::metadata(folder.path()).unwrap().uid();
        for part in ["this user may not use", folder.path().to_str().unwrap(), &format!("user id {owner}"), "--data"] {
            assert!(error.message.contains(part), "{}", error.message);
        }
    }
}

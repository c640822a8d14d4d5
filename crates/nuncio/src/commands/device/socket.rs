//! The socket of a running device: in the device folder, for its owner alone, one JSON line in, one JSON line out.

use std::future::Future;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_server::OperatorError;
use nuncio_server::command_socket::{CommandReply, CommandSocket, exchange, read_command, write_line};
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::commands::{DeviceCommand, DeviceCommandExecutor};
use crate::output::{WrongUsageError, fault};

const SOCKET: &str = "run.sock";
/// Size limit of a command, in bytes.
const MAX_COMMAND: u64 = 64 * 1024;
/// Size limit of a reply, in bytes: a reply may contain the activity record of a month.
const MAX_REPLY: u64 = 256 * 1024 * 1024;
/// Time limit for reading a command, and for the reply to a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for executing a command, which may take several requests to the relay.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(300);
/// Maximum number of commands that run at the same time; further ones wait.
const MAX_CONCURRENT: usize = 16;

/// Opens the socket; the future serves it until it is dropped.
pub(super) fn listen(
    folder: &Path,
    commands: DeviceCommandExecutor,
) -> anyhow::Result<impl Future<Output = ()> + use<>> {
    let socket = CommandSocket { folder, name: SOCKET };
    let path = socket.path();
    let failed = |why: std::io::Error| fault(ErrorCode::DataDirUnusable, format!("{}: {why}", path.display()));
    let listener = socket.bind().map_err(failed)?;
    let owner = std::fs::metadata(&path).map_err(failed)?.uid();
    let guard = SocketFileGuard(path);
    Ok(async move {
        let _guard = guard;
        let slots = Arc::new(Semaphore::new(MAX_CONCURRENT));
        loop {
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) if stream.peer_cred().is_ok_and(|peer| peer.uid() == owner) => {
                    let commands = commands.clone();
                    tokio::spawn(async move {
                        let _slot = slot;
                        let _ = timeout(COMMAND_TIMEOUT, answer_command(stream, commands)).await;
                    });
                }
                Ok(_) => tracing::warn!("a process of another account tried to send commands to this device"),
                Err(error) => {
                    tracing::warn!(%error, "the socket of the device");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    })
}

/// Removes the socket file when the listener ends.
struct SocketFileGuard(PathBuf);

impl Drop for SocketFileGuard {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

async fn answer_command(stream: UnixStream, commands: DeviceCommandExecutor) {
    let (reader, writer) = stream.into_split();
    let line = match timeout(PING_TIMEOUT, read_command(reader, MAX_COMMAND)).await {
        Ok(Ok(line)) if !line.is_empty() => line,
        _ => return,
    };
    let result = match serde_json::from_str::<DeviceCommand>(&line) {
        Ok(command) => commands.carry_out(command).await,
        Err(why) => Err(fault(ErrorCode::BadRequest, format!("not a command: {why}"))),
    };
    let reply = match result {
        Ok(value) => CommandReply::Done(value),
        Err(error) => match (error.downcast_ref::<OperatorError>(), error.downcast_ref::<WrongUsageError>()) {
            (Some(error), _) => CommandReply::Failed { code: error.code, message: error.message.clone() },
            (None, Some(usage)) => CommandReply::Usage { message: usage.to_string() },
            (None, None) => CommandReply::Failed { code: ErrorCode::Internal, message: error.to_string() },
        },
    };
    let _ = write_line(writer, &reply).await;
}

/// Sends a command to the process that runs the device; `None` if no such process runs.
pub(super) async fn ask(folder: &Path, command: &DeviceCommand) -> anyhow::Result<Option<Value>> {
    // The ping has a short time limit, so that a stopped process is noticed within seconds.
    match send(folder, &DeviceCommand::Ping, PING_TIMEOUT).await? {
        None => Ok(None),
        Some(reply) if matches!(command, DeviceCommand::Ping) => Ok(Some(reply)),
        Some(_) => send(folder, command, COMMAND_TIMEOUT).await,
    }
}

async fn send(folder: &Path, command: &DeviceCommand, limit: Duration) -> anyhow::Result<Option<Value>> {
    let socket = CommandSocket { folder, name: SOCKET };
    let no_reply = |why: &dyn std::fmt::Display| {
        let message = "the process that runs this device does not answer; stop it and try again";
        fault(ErrorCode::DataDirInUse, format!("{}: {message} ({why})", socket.path().display()))
    };
    let request = async {
        match socket.connect().await? {
            Some(stream) => exchange(stream, command, MAX_REPLY).await.map(Some),
            None => Ok(None),
        }
    };
    match timeout(limit, request).await {
        Ok(Ok(None)) => Ok(None),
        Ok(Ok(Some(CommandReply::Done(value)))) => Ok(Some(value)),
        Ok(Ok(Some(CommandReply::Failed { code, message }))) => Err(fault(code, message)),
        Ok(Ok(Some(CommandReply::Usage { message }))) => Err(WrongUsageError(message).into()),
        Ok(Err(why)) if matches!(why.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) => {
            Err(no_reply(&"the connection ended early"))
        }
        Ok(Err(why)) => Err(no_reply(&why)),
        Err(_) => Err(no_reply(&"it took too long")),
    }
}

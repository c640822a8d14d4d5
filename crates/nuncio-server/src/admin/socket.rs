//! The admin socket: mode 0600 in the data directory, one JSON line in, one JSON line out.
//!
//! An order comes with a token from a file in the data directory. Programs that agents run have the server's account,
//! so the socket's mode does not keep them out, but they cannot read that file.

use std::future::Future;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::Code;
use nuncio_engine::ports::entropy::random_name;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use subtle::ConstantTimeEq as _;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

use super::{AdminApi, AdminCommand, account};
use crate::data::DataDir;
use crate::error::StartError;
use crate::system::SystemEntropy;

const NAME: &str = "admin.sock";
/// The file of the admin token, which is replaced at each start.
const TOKEN: &str = "admin.token";
/// Size limit of a command, in bytes: the result of a task fits into one.
const MAX_ORDER: u64 = 1024 * 1024;
/// How long a command waits for the server.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Serialize, Deserialize)]
struct Request<O> {
    #[serde(default)]
    token: String,
    #[serde(flatten)]
    order: O,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
    Done(Value),
    Failed { code: Code, message: String },
}

/// Opens the admin socket; the future serves it, and writes the audit checkpoints, until stopped.
pub(crate) fn listen(
    data: &Path,
    desk: AdminApi,
    stop: CancellationToken,
) -> Result<impl Future<Output = ()> + use<>, StartError> {
    let path = data.join(NAME);
    let failed = |error: std::io::Error| StartError::new(Code::DataDirUnusable, format!("{}: {error}", path.display()));
    // The directory is locked, so a socket that is there belongs to nobody any more.
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let token: Arc<str> = random_name(&SystemEntropy, "").into();
    DataDir::files_of(data)?.write(TOKEN, token.as_bytes())?;
    let listener = UnixListener::bind(short(&path)).map_err(failed)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(async move {
        let checkpoints = desk.checkpoints();
        let checkpoints = checkpoints.run_periodically(desk.engine().clone(), stop.clone());
        let orders = async {
            loop {
                tokio::select! {
                    accepted = listener.accept() => match accepted {
                        Ok((stream, _)) => {
                            let (desk, token) = (desk.clone(), Arc::clone(&token));
                            tokio::spawn(async move { converse(stream, desk, &token).await });
                        }
                        Err(error) => tracing::warn!(%error, "admin socket"),
                    },
                    () = stop.cancelled() => break,
                }
            }
            let _ = std::fs::remove_file(&path);
            let _ = std::fs::remove_file(path.with_file_name(TOKEN));
        };
        tokio::join!(checkpoints, orders);
    })
}

async fn converse(stream: UnixStream, desk: AdminApi, token: &str) {
    let caller = stream.peer_cred();
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    let read = BufReader::new(reader.take(MAX_ORDER)).read_line(&mut line).await;
    if read.is_err() {
        return;
    }
    let is_valid = |sent: &str| bool::from(sent.as_bytes().ct_eq(token.as_bytes()));
    // The order itself is looked at only once the token is known to be right.
    let result = match (serde_json::from_str::<Request<Value>>(&line), caller) {
        (Ok(Request { token, order }), Ok(caller)) if is_valid(&token) => {
            match serde_json::from_value::<AdminCommand>(order) {
                Ok(order) => desk.carry_out(order, &account(caller.uid())).await,
                Err(error) => Err(StartError::new(Code::BadRequest, format!("not an order: {error}"))),
            }
        }
        (Ok(_), _) => {
            tracing::warn!("a command without the token in {TOKEN} was refused");
            Err(StartError::new(Code::Unauthorized, format!("the order does not come with the token in {TOKEN}")))
        }
        (Err(error), _) => Err(StartError::new(Code::BadRequest, format!("not an order: {error}"))),
    };
    let reply = match result {
        Ok(value) => Reply::Done(value),
        Err(error) => Reply::Failed { code: error.code, message: error.message },
    };
    let mut text = serde_json::to_string(&reply).unwrap_or_default();
    text.push('\n');
    let _ = writer.write_all(text.as_bytes()).await;
}

/// Sends a command to the server of the data directory; `None` if no server runs.
pub async fn ask(data: &Path, order: &AdminCommand) -> Result<Option<Value>, StartError> {
    let path = data.join(NAME);
    let failed = |error: &dyn std::fmt::Display| {
        StartError::new(Code::DataDirUnusable, format!("the server at {} does not answer: {error}", path.display()))
    };
    let mut stream = match UnixStream::connect(short(&path)).await {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => return Ok(None),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Err(not_ours(data)),
        Err(error) => return Err(failed(&error)),
    };
    let token = DataDir::files_of(data)?.read(TOKEN)?.unwrap_or_default();
    let token = String::from_utf8_lossy(&token).into_owned();
    let exchange = async {
        let mut line = serde_json::to_string(&Request { token, order }).expect("an order is JSON");
        line.push('\n');
        stream.write_all(line.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    let answer = tokio::time::timeout(PATIENCE, exchange)
        .await
        .map_err(|error| failed(&error))?
        .map_err(|error| failed(&error))?;
    match serde_json::from_str(&answer).map_err(|error| failed(&error))? {
        Reply::Done(value) => Ok(Some(value)),
        Reply::Failed { code, message } => Err(StartError { code, message }),
    }
}

/// Error for a data directory of another account, which alone may send commands to its server.
fn not_ours(data: &Path) -> StartError {
    let owner = std::fs::metadata(data).map(|found| format!(" (user id {})", found.uid())).unwrap_or_default();
    let message = format!(
        "this user may not use the data directory {}; run the command as its owner{owner}, or name another with --data",
        data.display()
    );
    StartError::new(Code::DataDirUnusable, message)
}

/// A socket path of at most 107 bytes; a longer one is reached from its folder.
fn short(path: &Path) -> PathBuf {
    if path.as_os_str().len() < 100 {
        return path.to_owned();
    }
    let relative = std::env::current_dir().ok().and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned));
    relative.unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_directory_of_another_user_is_refused_with_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let error = not_ours(folder.path());
        assert_eq!(error.code, Code::DataDirUnusable);
        let owner = std::fs::metadata(folder.path()).unwrap().uid();
        for said in ["this user may not use", folder.path().to_str().unwrap(), &format!("user id {owner}"), "--data"] {
            assert!(error.message.contains(said), "{}", error.message);
        }
    }
}

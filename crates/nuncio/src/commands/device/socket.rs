//! The socket of a device that runs: in its home, for its owner alone, one JSON line in, one JSON line out.

use std::future::Future;
use std::io::ErrorKind;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::Code;
use nuncio_server::StartError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::commands::{DeviceCommand, DeviceCommands};
use crate::output::{WrongUsage, fault};

const NAME: &str = "run.sock";
/// How long an order may be.
const MAX_ORDER: u64 = 64 * 1024;
/// How long an answer may be: all that happened in a month goes in one.
const MAX_ANSWER: u64 = 256 * 1024 * 1024;
/// How long an order may take to come, and a sign of life.
const SOON: Duration = Duration::from_secs(10);
/// How long it may take to be carried out: the relay is asked more than once.
const PATIENCE: Duration = Duration::from_secs(300);
/// How many are carried out at once; more wait.
const AT_ONCE: usize = 16;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
    Done(Value),
    Failed { code: Code, message: String },
    Usage { message: String },
}

/// Opens the socket; the future serves it until it is dropped.
pub(super) fn listen(folder: &Path, operator: DeviceCommands) -> anyhow::Result<impl Future<Output = ()> + use<>> {
    let path = folder.join(NAME);
    let failed = |why: std::io::Error| fault(Code::DataDirUnusable, format!("{}: {why}", path.display()));
    // The home is ours, so a socket that is there belongs to nobody any more.
    match std::fs::remove_file(&path) {
        Err(why) if why.kind() != ErrorKind::NotFound => return Err(failed(why)),
        _ => {}
    }
    let listener = within(folder, |path| UnixListener::bind(path)).map_err(failed)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    let owner = std::fs::metadata(&path).map_err(failed)?.uid();
    let gone = SocketGuard(path);
    Ok(async move {
        let _gone = gone;
        let places = Arc::new(Semaphore::new(AT_ONCE));
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) if stream.peer_cred().is_ok_and(|peer| peer.uid() == owner) => {
                    let operator = operator.clone();
                    tokio::spawn(async move {
                        let _place = place;
                        let _ = timeout(PATIENCE, converse(stream, operator)).await;
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
struct SocketGuard(PathBuf);

impl Drop for SocketGuard {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

async fn converse(stream: UnixStream, operator: DeviceCommands) {
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    let read = timeout(SOON, BufReader::new(reader.take(MAX_ORDER)).read_line(&mut line)).await;
    if !matches!(read, Ok(Ok(1..))) {
        return;
    }
    let result = match serde_json::from_str::<DeviceCommand>(&line) {
        Ok(order) => operator.carry_out(order).await,
        Err(why) => Err(fault(Code::BadRequest, format!("not a command: {why}"))),
    };
    let reply = match result {
        Ok(value) => Reply::Done(value),
        Err(error) => match (error.downcast_ref::<StartError>(), error.downcast_ref::<WrongUsage>()) {
            (Some(error), _) => Reply::Failed { code: error.code, message: error.message.clone() },
            (None, Some(usage)) => Reply::Usage { message: usage.to_string() },
            (None, None) => Reply::Failed { code: Code::Internal, message: error.to_string() },
        },
    };
    let mut text = serde_json::to_string(&reply).unwrap_or_default();
    text.push('\n');
    let _ = writer.write_all(text.as_bytes()).await;
}

/// Sends a command to the process that runs the device; none if no such process runs.
pub(super) async fn ask(folder: &Path, order: &DeviceCommand) -> anyhow::Result<Option<Value>> {
    // Whoever is stopped, or no device at all, does not keep anyone for minutes.
    match exchange(folder, &DeviceCommand::Ping, SOON).await? {
        None => Ok(None),
        Some(answer) if matches!(order, DeviceCommand::Ping) => Ok(Some(answer)),
        Some(_) => exchange(folder, order, PATIENCE).await,
    }
}

async fn exchange(folder: &Path, order: &DeviceCommand, patience: Duration) -> anyhow::Result<Option<Value>> {
    let silent = |why: &dyn std::fmt::Display| {
        let path = folder.join(NAME);
        let message = "the process that runs this device does not answer; stop it and try again";
        fault(Code::DataDirInUse, format!("{}: {message} ({why})", path.display()))
    };
    let talk = async {
        let mut stream = match connect(folder)?.await {
            Ok(stream) => stream,
            Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => return Ok(None),
            Err(why) => return Err(why),
        };
        let mut line = serde_json::to_string(order)?;
        line.push('\n');
        stream.write_all(line.as_bytes()).await?;
        let mut answer = String::new();
        stream.take(MAX_ANSWER).read_to_string(&mut answer).await?;
        std::io::Result::Ok(Some(answer))
    };
    let answer = match timeout(patience, talk).await {
        Ok(Ok(Some(answer))) => answer,
        Ok(Ok(None)) => return Ok(None),
        Ok(Err(why)) => return Err(silent(&why)),
        Err(_) => return Err(silent(&"it took too long")),
    };
    match serde_json::from_str(&answer).map_err(|_| silent(&"it broke off"))? {
        Reply::Done(value) => Ok(Some(value)),
        Reply::Failed { code, message } => Err(fault(code, message)),
        Reply::Usage { message } => Err(WrongUsage(message).into()),
    }
}

fn connect(folder: &Path) -> std::io::Result<impl Future<Output = std::io::Result<UnixStream>> + use<>> {
    let (folder, short) = short(folder)?;
    Ok(async move {
        let _folder = folder;
        UnixStream::connect(short).await
    })
}

fn within<T>(folder: &Path, work: impl FnOnce(&Path) -> std::io::Result<T>) -> std::io::Result<T> {
    let (_folder, path) = short(folder)?;
    work(&path)
}

/// A socket's path may be no longer than 107 bytes; a longer one is reached through its folder, held open. Other systems
/// than Linux have no such path and refuse the longer one.
fn short(folder: &Path) -> std::io::Result<(Option<std::fs::File>, PathBuf)> {
    let path = folder.join(NAME);
    if path.as_os_str().len() < 100 || cfg!(not(all(target_os = "linux", not(nuncio_portable)))) {
        return Ok((None, path));
    }
    let held = std::fs::File::open(folder)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{NAME}", held.as_raw_fd()));
    Ok((Some(held), path))
}

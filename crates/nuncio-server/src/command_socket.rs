//! JSON commands over a Unix socket: one line with the command, one line with the reply.

use std::fs::{File, Permissions};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use nuncio_core::ErrorCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

/// Longest socket path in bytes; the limit of Linux is 107.
const MAX_PATH: usize = 99;

/// A socket file in a folder.
#[derive(Debug, Clone, Copy)]
pub struct CommandSocket<'a> {
    pub folder: &'a Path,
    pub name: &'static str,
}

/// The outcome of a command, as it is sent back over the socket; `Usage` is for wrong arguments.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandReply {
    Done(Value),
    Failed { code: ErrorCode, message: String },
    Usage { message: String },
}

impl CommandSocket<'_> {
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.join(self.name)
    }

    /// Listens for connections of this process's user only. The folder must be locked: an old socket file is replaced.
    pub fn bind(&self) -> Result<UnixListener> {
        match std::fs::remove_file(self.path()) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let (_folder, path) = self.short_path()?;
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(self.path(), Permissions::from_mode(0o600))?;
        Ok(listener)
    }

    /// Connects to the process that listens; `None` if there is none.
    pub async fn connect(&self) -> Result<Option<UnixStream>> {
        let is_absent = |error: &Error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused);
        let connect = async || {
            let (_folder, path) = self.short_path()?;
            UnixStream::connect(path).await
        };
        match connect().await {
            Ok(stream) => Ok(Some(stream)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A path of at most [`MAX_PATH`] bytes: relative to the current folder or, on Linux, through the opened folder,
    /// which must stay open while the path is used. Other systems refuse a path that stays longer.
    fn short_path(&self) -> Result<(Option<File>, PathBuf)> {
        let path = self.path();
        let is_short = |path: &PathBuf| path.as_os_str().len() <= MAX_PATH;
        let relative = std::env::current_dir().ok().and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned));
        match relative.filter(is_short) {
            _ if is_short(&path) => Ok((None, path)),
            Some(relative) => Ok((None, relative)),
            None if cfg!(not(all(target_os = "linux", not(nuncio_portable)))) => Ok((None, path)),
            None => {
                let folder = File::open(self.folder)?;
                let path = PathBuf::from(format!("/proc/self/fd/{}/{}", folder.as_raw_fd(), self.name));
                Ok((Some(folder), path))
            }
        }
    }
}

/// Reads the line of a command, of at most `limit` bytes.
pub async fn read_command(reader: impl AsyncRead + Unpin, limit: u64) -> Result<String> {
    let mut line = String::new();
    BufReader::new(reader.take(limit)).read_line(&mut line).await?;
    Ok(line)
}

/// Writes a command or a reply as one line.
pub async fn write_line(mut writer: impl AsyncWrite + Unpin, message: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_string(message)?;
    line.push('\n');
    writer.write_all(line.as_bytes()).await
}

/// Sends a command and reads its reply of at most `limit` bytes.
pub async fn exchange(mut stream: UnixStream, command: &impl Serialize, limit: u64) -> Result<CommandReply> {
    write_line(&mut stream, command).await?;
    let mut reply = String::new();
    stream.take(limit).read_to_string(&mut reply).await?;
    Ok(serde_json::from_str(&reply)?)
}

//! Raw TCP connections from any loopback address. The server counts 127.0.0.2 and 127.0.0.1 as two callers.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::Server;

/// How long a response may take before the server counts as stopped.
const PATIENCE: Duration = Duration::from_secs(20);

/// Opens a connection from `127.0.0.LAST`.
pub(crate) async fn connect_from(server: &Server, last: u8) -> anyhow::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from(([127, 0, 0, last], 0)))?;
    let address = server.address().parse()?;
    Ok(timeout(PATIENCE, socket.connect(address)).await.context("the server takes no connection")??)
}

pub(crate) fn head(line: &str, headers: &[(&str, &str)]) -> String {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("{line} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")
}

#[derive(Debug)]
pub(crate) struct RawResponse {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl RawResponse {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let head = self.text.split("\r\n\r\n").next().unwrap_or_default();
        let mut fields = head.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

/// Sends a request on its own connection, from `127.0.0.LAST`, and reads the complete response.
pub(crate) async fn send_from(
    server: &Server,
    last: u8,
    line: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> anyhow::Result<RawResponse> {
    let length = body.len().to_string();
    let mut all = vec![("Connection", "close"), ("Content-Length", length.as_str())];
    all.extend_from_slice(headers);
    let mut stream = connect_from(server, last).await?;
    // A server that refuses a request may close the connection before all is sent.
    let _ = stream.write_all((head(line, &all) + body).as_bytes()).await;
    read_response(&mut stream).await.with_context(|| format!("{line} from 127.0.0.{last}"))
}

/// Reads a response until the server closes the connection.
pub(crate) async fn read_response(stream: &mut TcpStream) -> anyhow::Result<RawResponse> {
    let mut bytes = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.context("no answer in time")?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.with_context(|| format!("no answer: {read:?} {text:?}"))?;
    Ok(RawResponse { status, text })
}

/// Whether the server closes the connection within `patience`.
pub(crate) async fn is_closed_within(stream: &mut TcpStream, patience: Duration) -> bool {
    let mut rest = Vec::new();
    timeout(patience, stream.read_to_end(&mut rest)).await.is_ok()
}

/// Creates a key that may read `/metrics`. In binaries without the flag `--operator` every key may.
pub(crate) fn operator_key(server: &Server) -> anyhow::Result<String> {
    server.create_key(&["--operator"]).or_else(|_| server.create_key(&[]))
}

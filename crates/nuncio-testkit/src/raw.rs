//! Raw HTTP requests, for bytes that no regular client would send.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// An HTTP response, read until the connection closes.
#[derive(Debug, Clone)]
pub struct RawHttpResponse {
    pub status: u16,
    /// Response headers, names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl RawHttpResponse {
    /// Sends bytes and reads the response until the connection closes; `None` without a response.
    pub(crate) async fn exchange(address: SocketAddr, request: &[u8]) -> Option<Self> {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // The server may close the connection before everything is sent.
        let _ = stream.write_all(request).await;
        Self::read(stream).await
    }

    /// Reads an HTTP response until the connection closes; `None` without one.
    pub async fn read(mut stream: TcpStream) -> Option<Self> {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().unwrap();
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        Some(Self { status, headers, body: body.to_owned() })
    }

    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The response body as JSON; panics if the content type is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        serde_json::from_str(&self.body).unwrap()
    }

    /// Error code of an AAP error response.
    #[must_use]
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

//! A client with little overhead: raw HTTP/1.1 on a persistent connection.

use anyhow::{Context as _, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub(crate) struct RawHttpConnection {
    stream: TcpStream,
    buffer: Vec<u8>,
    host: String,
}

impl RawHttpConnection {
    pub(crate) async fn open(address: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new(), host: address.to_owned() })
    }

    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<Vec<u8>> {
        self.get_with(path, "").await
    }

    /// Sends a `GET` with additional header lines.
    pub(crate) async fn get_with(&mut self, path: &str, lines: &str) -> anyhow::Result<Vec<u8>> {
        let head = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n{lines}\r\n", self.host);
        self.stream.write_all(head.as_bytes()).await?;
        self.answer().await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &str) -> anyhow::Result<Vec<u8>> {
        self.post_with(path, "", body).await
    }

    /// Sends a `POST` with additional header lines.
    pub(crate) async fn post_with(&mut self, path: &str, lines: &str, body: &str) -> anyhow::Result<Vec<u8>> {
        self.send_post(path, lines, body).await?;
        self.answer().await
    }

    /// Sends a request and returns status and body, also of an error response.
    pub(crate) async fn ask(
        &mut self,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: &str,
    ) -> anyhow::Result<(u16, Vec<u8>)> {
        let lines = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        self.send(method, path, &lines, body).await?;
        let head = self.any_head().await?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).context("no status")?;
        Ok((status, self.body(&head).await?))
    }

    /// Sends a request and reads only the head of the response.
    pub(crate) async fn post_and_leave_open(&mut self, path: &str, body: &str) -> anyhow::Result<()> {
        self.send_post(path, "", body).await?;
        self.head().await.map(|_| ())
    }

    async fn send_post(&mut self, path: &str, lines: &str, body: &str) -> anyhow::Result<()> {
        self.send("POST", path, lines, body).await
    }

    async fn send(&mut self, method: &str, path: &str, lines: &str, body: &str) -> anyhow::Result<()> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{lines}\r\n{body}",
            self.host,
            body.len()
        );
        Ok(self.stream.write_all(request.as_bytes()).await?)
    }

    /// Reads a complete response and returns its body.
    async fn answer(&mut self) -> anyhow::Result<Vec<u8>> {
        let head = self.head().await?;
        self.body(&head).await
    }

    async fn body(&mut self, head: &str) -> anyhow::Result<Vec<u8>> {
        if let Some(length) = header(head, "content-length") {
            let length: usize = length.parse()?;
            while self.buffer.len() < length {
                self.fill().await?;
            }
            return Ok(self.buffer.drain(..length).collect());
        }
        self.chunks().await
    }

    /// Reads the head of a response; fails unless the status is 2xx.
    async fn head(&mut self) -> anyhow::Result<String> {
        let head = self.any_head().await?;
        if !head.starts_with("HTTP/1.1 2") {
            bail!("{}", head.lines().next().unwrap_or_default());
        }
        Ok(head)
    }

    async fn any_head(&mut self) -> anyhow::Result<String> {
        let end = loop {
            if let Some(end) = self.buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end + 4;
            }
            self.fill().await?;
        };
        Ok(String::from_utf8(self.buffer.drain(..end).collect())?)
    }

    async fn chunks(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line_end = loop {
                if let Some(end) = self.buffer.windows(2).position(|bytes| bytes == b"\r\n") {
                    break end;
                }
                self.fill().await?;
            };
            let size = usize::from_str_radix(std::str::from_utf8(&self.buffer[..line_end])?, 16)?;
            let total = line_end + 2 + size + 2;
            while self.buffer.len() < total {
                self.fill().await?;
            }
            body.extend_from_slice(&self.buffer[line_end + 2..line_end + 2 + size]);
            self.buffer.drain(..total);
            if size == 0 {
                return Ok(body);
            }
        }
    }

    async fn fill(&mut self) -> anyhow::Result<()> {
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            bail!("the connection ended");
        }
        Ok(())
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// Field of a JSON response body, as text.
pub(crate) fn field(body: &[u8], name: &str) -> anyhow::Result<String> {
    let value: serde_json::Value = serde_json::from_slice(body)?;
    Ok(value[name].as_str().with_context(|| format!("no {name} in {value}"))?.to_owned())
}

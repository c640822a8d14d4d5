//! Minimal HTTP server that can misbehave in any way.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    /// Request line and headers, unparsed.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl ReceivedRequest {
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let headers = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        headers.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

/// Serves on a free port, one request per connection.
pub(crate) async fn serve<F, Done>(answer: F) -> SocketAddr
where
    F: Fn(ReceivedRequest, TcpStream) -> Done + Clone + Send + 'static,
    Done: Future<Output = ()> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                if let Some(received) = read(&mut stream).await {
                    answer(received, stream).await;
                }
            });
        }
    });
    address
}

/// Serves on a free port; `answer` returns the complete response to a request.
pub(crate) async fn serve_whole(answer: impl Fn(ReceivedRequest) -> String + Clone + Send + 'static) -> SocketAddr {
    serve(move |received, mut stream| {
        let answer = answer(received);
        async move { drop(stream.write_all(answer.as_bytes()).await) }
    })
    .await
}

pub(crate) fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())
}

async fn read(stream: &mut TcpStream) -> Option<ReceivedRequest> {
    let mut bytes = Vec::new();
    let end = loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let mut received = ReceivedRequest { head, body: String::new() };
    let length: usize = received.header("content-length").map_or(Some(0), |length| length.parse().ok())?;
    let mut body = bytes.split_off(end + 4);
    while body.len() < length {
        stream.read_buf(&mut body).await.ok()?;
    }
    received.body = String::from_utf8(body).ok()?;
    Some(received)
}

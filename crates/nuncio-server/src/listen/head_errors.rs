//! Gives a JSON body to the responses that hyper writes by itself to malformed and too large HTTP/1 request heads. Such a
//! request reaches no service, so the stream recognises the response when it is written: a head without body that has no
//! `X-Request-Id`, which every response of the service has.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use nuncio_core::ErrorCode;
use nuncio_http::ServerErrorBody;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{MAX_HEAD, MAX_HEADERS};

/// End of a head that hyper wrote without a body.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// Stream of an HTTP connection that adds bodies to error responses of hyper.
pub(super) struct HyperErrorBodyStream<S> {
    stream: S,
    /// Rest of a replaced response, and how much of it is written.
    rest: Vec<u8>,
    written: usize,
}

impl<S> HyperErrorBodyStream<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, rest: Vec::new(), written: 0 }
    }
}

impl<S: AsyncWrite + Unpin> HyperErrorBodyStream<S> {
    fn write_rest(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        while self.written < self.rest.len() {
            let count = ready!(Pin::new(&mut self.stream).poll_write(context, &self.rest[self.written..]))?;
            if count == 0 {
                return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into()));
            }
            self.written += count;
        }
        self.rest.clear();
        self.written = 0;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HyperErrorBodyStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HyperErrorBodyStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        ready!(self.write_rest(context))?;
        let Some(replaced) = with_body(bytes) else {
            return Pin::new(&mut self.stream).poll_write(context, bytes);
        };
        self.rest = replaced;
        // The response counts as written; what the peer does not take at once is written before the next bytes.
        match self.write_rest(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(bytes.len())),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        // An error head is never followed by a body, so it is the only piece.
        if let [piece] = pieces {
            return self.poll_write(context, piece);
        }
        ready!(self.write_rest(context))?;
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(self.write_rest(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(self.write_rest(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The error head in `bytes` with a body; `None` if the bytes are not exactly one such head. Hyper writes it alone,
/// because it has flushed the response before.
fn with_body(bytes: &[u8]) -> Option<Vec<u8>> {
    let head = bytes.strip_suffix(HEAD_END).filter(|head| head.starts_with(b"HTTP/1.1 4"))?;
    let head = std::str::from_utf8(head).ok()?;
    let mut lines = head.split("\r\n");
    let status_line = lines.next()?;
    let (code, message) = match status_line.get(9..12)? {
        "414" | "431" => {
            let message =
                format!("the head of the request is too large: at most {MAX_HEAD} bytes and {MAX_HEADERS} headers");
            (ErrorCode::HeadTooLarge, message)
        }
        "400" => {
            (ErrorCode::BadRequest, "the request is not valid HTTP: check its first line and its headers".to_owned())
        }
        _ => return None,
    };
    let headers: Vec<&str> = lines.collect();
    let has = |name: &str, value: &str| {
        headers.iter().filter_map(|line| line.split_once(':')).any(|(found, found_value)| {
            found.eq_ignore_ascii_case(name) && (value.is_empty() || found_value.trim() == value)
        })
    };
    if has("x-request-id", "") || !has("content-length", "0") || !has("connection", "close") {
        return None;
    }
    let body = json!(ServerErrorBody { error: &message, code }).to_string();
    let kept = headers.iter().filter(|line| !line.to_ascii_lowercase().starts_with("content-length:"));
    let kept: String = kept.flat_map(|line| [line, "\r\n"]).collect();
    let response = format!(
        "{status_line}\r\n{kept}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    Some(response.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(bytes: &str) -> Option<String> {
        with_body(bytes.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn error_head_of_hyper_gets_a_json_body_and_keeps_its_headers() {
        let head = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\ndate: today\r\n\r\n";
        let text = replaced(head).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\nconnection: close\r\ndate: today\r\n"), "{head}");
        assert!(head.ends_with(&format!("content-type: application/json\r\ncontent-length: {}", body.len())), "{head}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(body).unwrap()["code"], "bad_request");
    }

    #[test]
    fn other_bytes_and_responses_of_the_service_are_unchanged() {
        for bytes in [
            "",
            "body",
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\nconnection: close\r\nx-request-id: r\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 5\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\nmore",
        ] {
            assert_eq!(replaced(bytes), None, "{bytes}");
        }
    }
}

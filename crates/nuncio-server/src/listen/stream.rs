//! The byte stream of a connection. The connection counts as open until the stream is dropped, also as a WebSocket, and
//! ends if the peer does not read.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::connections::OpenConnection;
use super::is_for_unidentified;

pub(super) struct ConnectionStream {
    stream: RuntimeBoundTcpStream,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Time that a write may wait for the peer.
    write_time: Duration,
    /// Timer that runs while a write waits.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Counts the connection for as long as the stream exists.
    _connection: Arc<OpenConnection>,
}

impl ConnectionStream {
    pub(super) fn new(stream: TcpStream, connection: Arc<OpenConnection>, write_time: Duration) -> Self {
        let closed = Box::pin(connection.closed.clone().cancelled_owned());
        let stream = RuntimeBoundTcpStream { stream: Some(stream), is_for_unidentified: is_for_unidentified() };
        Self { stream, closed, write_time, deadline: None, _connection: connection }
    }

    fn within_time<T>(&mut self, context: &mut Context<'_>, polled: Poll<Result<T>>) -> Poll<Result<T>> {
        if polled.is_ready() {
            self.deadline = None;
            return polled;
        }
        let write_time = self.write_time;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(write_time)));
        deadline.as_mut().poll(context).map(|()| Err(Error::new(ErrorKind::TimedOut, "the peer does not read")))
    }
}

impl AsyncRead for ConnectionStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        if self.closed.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(Error::new(
                ErrorKind::ConnectionAborted,
                "closed to free a slot for another connection",
            )));
        }
        Pin::new(self.stream.here()?).poll_read(context, buffer)
    }
}

impl AsyncWrite for ConnectionStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let polled = Pin::new(self.stream.here()?).poll_write(context, bytes);
        self.within_time(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let polled = Pin::new(self.stream.here()?).poll_write_vectored(context, pieces);
        self.within_time(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(self.stream.here()?).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(self.stream.here()?).poll_shutdown(context)
    }
}

/// A socket whose readiness is watched by the runtime that serves it.
struct RuntimeBoundTcpStream {
    /// The socket; `None` if it could not be moved to another runtime.
    stream: Option<TcpStream>,
    /// Whether the runtime for unidentified callers watches the socket.
    is_for_unidentified: bool,
}

impl RuntimeBoundTcpStream {
    /// The socket, moved to the runtime of this thread if another one watches it: otherwise an identified caller would
    /// wait for the thread of unidentified ones.
    fn here(&mut self) -> Result<&mut TcpStream> {
        if self.is_for_unidentified != is_for_unidentified() {
            let moved = self.stream.take().map(|stream| TcpStream::from_std(stream.into_std()?)).transpose()?;
            self.stream = moved;
            self.is_for_unidentified = is_for_unidentified();
        }
        self.stream.as_mut().ok_or_else(|| Error::new(ErrorKind::NotConnected, "the socket could not be moved"))
    }
}

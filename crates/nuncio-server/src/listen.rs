//! Accepts connections: limited in number, request heads limited in time and size, optional TLS, and graceful shutdown.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Request, Version, header};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::http::client_address::{PeerAddress, TrustedProxies};

mod activity;
mod connections;
mod head_errors;
mod stream;
mod unidentified;

use activity::{IdleLimits, WatchedResponseBody};
pub(crate) use connections::{ConnectionLimits, Connections, OpenConnection};
use head_errors::HyperErrorBodyStream;
use stream::ConnectionStream;
pub(crate) use unidentified::ServerRuntimes;
use unidentified::{Http2RequestExecutor, is_for_unidentified, on_main_if_identified};

/// Size limit of a request head, in bytes.
const MAX_HEAD: usize = 64 * 1024;
/// Maximum number of headers of a request.
const MAX_HEADERS: usize = 100;
/// Size limit of a request head over HTTP/2, where a connection has many requests at once, in bytes.
const MAX_HTTP2_HEAD: u32 = 32 * 1024;
/// Maximum number of concurrent requests per HTTP/2 connection.
const MAX_STREAMS: u32 = 256;
/// Maximum number of body bytes that the peer may send on an HTTP/2 connection before they are read.
const CONNECTION_WINDOW: u32 = 256 * 1024;
/// Maximum number of body bytes that the peer may send for one HTTP/2 request before they are read.
const STREAM_WINDOW: u32 = 128 * 1024;
/// Idle time of a connection of an identified caller. Proxies keep connections for up to two minutes and would report
/// an error if the server closed one first.
const IDLE_TIME: Duration = Duration::from_secs(180);
/// Idle time of a connection beyond the total limit.
const RESERVED_IDLE_TIME: Duration = Duration::from_secs(2);
/// Time that the peer has to close a connection after the server did.
const CLOSING_TIME: Duration = Duration::from_secs(1);
/// Number of file descriptors reserved for the store, the admin socket, programs and outgoing requests.
const OTHER_DESCRIPTORS: u64 = 512;

/// Raises the limit of open files to the system's maximum, and returns how many connections fit below it.
pub(crate) fn raise_descriptor_limit() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        tracing::debug!(%error, "the limit on open files could not be raised");
    }
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let left = limit.saturating_sub(OTHER_DESCRIPTORS).max(limit / 2).max(1);
    usize::try_from(left).unwrap_or(usize::MAX)
}

/// Accepts the connections of a listener.
#[derive(Clone)]
pub(crate) struct ConnectionAcceptor {
    pub(crate) app: Router,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) times: ConnectionTimeouts,
    pub(crate) connections: Arc<Connections>,
    pub(crate) proxies: Arc<TrustedProxies>,
    pub(crate) runtimes: Arc<ServerRuntimes>,
}

/// Time limits of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionTimeouts {
    pub(crate) head: Duration,
    /// Time within which the peer must read data that waits to be written.
    pub(crate) write: Duration,
}

impl ConnectionAcceptor {
    /// Accepts connections until stopped, then lets the open ones finish until `closed`.
    pub(crate) async fn run(self, listener: TcpListener, stop: CancellationToken, closed: CancellationToken) {
        let open = TaskTracker::new();
        // The listener was bound on another runtime; this one watches it from now on.
        let listener = match listener.into_std().and_then(TcpListener::from_std) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "connections cannot be accepted"),
        };
        loop {
            let (stream, peer) = tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        // Mostly the process is out of file descriptors; the pause lets some become free.
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                },
                () = stop.cancelled() => break,
            };
            let peer = peer.ip().to_canonical();
            let connection = self.connections.open(peer, self.proxies.contains(peer));
            let serving = self.clone().serve(stream, Arc::clone(&connection), stop.clone());
            self.runtimes.spawn_connection(connection, Box::pin(open.track_future(serving)));
        }
        drop(listener);
        open.close();
        tokio::select! {
            () = open.wait() => {}
            () = closed.cancelled() => {}
        }
    }

    async fn serve(self, stream: TcpStream, open: Arc<OpenConnection>, stop: CancellationToken) {
        let _ = stream.set_nodelay(true);
        let stream = ConnectionStream::new(stream, Arc::clone(&open), self.times.write);
        let Some(tls) = self.tls.clone() else { return self.serve_http(stream, open, stop).await };
        let handshake = tokio::select! {
            handshake = tokio::time::timeout(self.times.head, tls.accept(stream)) => handshake,
            () = open.closed.cancelled() => return,
        };
        match handshake {
            Ok(Ok(stream)) => self.serve_http(stream, open, stop).await,
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        }
    }

    async fn serve_http(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        open: Arc<OpenConnection>,
        stop: CancellationToken,
    ) {
        let executor = Http2RequestExecutor { runtimes: Arc::clone(&self.runtimes), open: Arc::clone(&open) };
        let mut builder = Builder::new(executor);
        // HTTP/1 also counts the time between two requests as time for the head.
        let head_time = if open.is_proxy { IDLE_TIME } else { self.times.head };
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(head_time)
            .max_buf_size(MAX_HEAD)
            .max_headers(MAX_HEADERS);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(MAX_HTTP2_HEAD)
            .max_concurrent_streams(MAX_STREAMS)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_stream_window_size(STREAM_WINDOW)
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(20));
        let limits = self.times.idle_limits(&open);
        let service = ConnectionHttpService { app: TowerToHyperService::new(self.app), open: Arc::clone(&open) };
        let connection =
            builder.serve_connection_with_upgrades(TokioIo::new(HyperErrorBodyStream::new(stream)), service);
        tokio::pin!(connection);
        let mut stopping = false;
        loop {
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a connection ended early");
                    }
                    return;
                }
                () = open.closed.cancelled() => return,
                () = stop.cancelled(), if !stopping => {
                    connection.as_mut().graceful_shutdown();
                    stopping = true;
                }
                // The timers of HTTP/1 and HTTP/2 do not cover the time before the protocol is detected, nor
                // an HTTP/2 connection that only answers pings.
                () = open.exceeds(&limits) => {
                    connection.as_mut().graceful_shutdown();
                    let _ = tokio::time::timeout(CLOSING_TIME, connection).await;
                    return;
                }
            }
        }
    }
}

impl ConnectionTimeouts {
    fn idle_limits(self, open: &OpenConnection) -> IdleLimits {
        if open.is_reserved {
            let short = RESERVED_IDLE_TIME.min(self.head);
            return IdleLimits { unidentified: short, identified: short, unread: self.write };
        }
        IdleLimits { unidentified: self.head, identified: IDLE_TIME, unread: self.write }
    }
}

/// The HTTP service of one connection: adds the connection and its peer address to every request.
struct ConnectionHttpService {
    app: TowerToHyperService<Router>,
    open: Arc<OpenConnection>,
}

impl Service<Request<Incoming>> for ConnectionHttpService {
    type Response = Response<WatchedResponseBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let in_progress = self.open.begin_request(request.version());
        let closes = self.open.is_reserved && request.version() < Version::HTTP_2;
        request.extensions_mut().insert(PeerAddress(self.open.peer));
        request.extensions_mut().insert(Arc::clone(&self.open));
        let is_multiplexed = request.version() == Version::HTTP_2;
        let (answer, open) = (self.app.call(request), Arc::clone(&self.open));
        Box::pin(async move {
            // HTTP/2 requests are separate tasks, which do not move to another runtime with their connection.
            if !is_multiplexed {
                on_main_if_identified(&open).await;
            }
            let mut response = answer.await?;
            if closes {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(response.map(|body| WatchedResponseBody { body, request: in_progress }))
        })
    }
}

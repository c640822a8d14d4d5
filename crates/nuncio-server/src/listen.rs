//! Accepting connections: bounded in number, their heads bounded in time and size, TLS where asked
//! for, and a graceful end.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::http::client_address::PeerAddress;

/// How many bytes a request's head may take.
const MAX_HEAD: usize = 64 * 1024;
/// How many requests one HTTP/2 connection carries at once.
const MAX_STREAMS: u32 = 256;

/// Lets this process hold as many connections as the system allows it at all.
pub(crate) fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        tracing::debug!(%error, "the limit on open files stays");
    }
}

/// How connections are taken.
#[derive(Clone)]
pub(crate) struct Acceptor {
    pub(crate) app: Router,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) head_time: Duration,
    pub(crate) places: Arc<Semaphore>,
}

impl Acceptor {
    /// Takes connections until told to stop, then lets those that are open finish until `closed`.
    pub(crate) async fn run(self, listener: TcpListener, stop: CancellationToken, closed: CancellationToken) {
        let graceful = GracefulShutdown::new();
        loop {
            let place = tokio::select! {
                place = Arc::clone(&self.places).acquire_owned() => place.expect("places are never closed"),
                () = stop.cancelled() => break,
            };
            let (stream, peer) = tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        // Out of descriptors, mostly: wait for some to come free.
                        tracing::warn!(%error, "a connection could not be taken");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                },
                () = stop.cancelled() => break,
            };
            let (this, watcher) = (self.clone(), graceful.watcher());
            tokio::spawn(async move {
                this.serve(stream, peer.ip(), watcher).await;
                drop(place);
            });
        }
        drop(listener);
        tokio::select! {
            () = graceful.shutdown() => {}
            () = closed.cancelled() => {}
        }
    }

    async fn serve(self, stream: TcpStream, peer: IpAddr, watcher: hyper_util::server::graceful::Watcher) {
        let _ = stream.set_nodelay(true);
        match self.tls.clone() {
            None => self.speak(stream, peer, watcher).await,
            Some(tls) => match tokio::time::timeout(self.head_time, tls.accept(stream)).await {
                Ok(Ok(stream)) => self.speak(stream, peer, watcher).await,
                Ok(Err(error)) => tracing::debug!(%error, "no TLS handshake"),
                Err(_) => tracing::debug!("a TLS handshake took too long"),
            },
        }
    }

    async fn speak(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: IpAddr,
        watcher: hyper_util::server::graceful::Watcher,
    ) {
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.head_time)
            .max_buf_size(MAX_HEAD)
            .max_headers(100);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(MAX_HEAD).unwrap_or(u32::MAX))
            .max_concurrent_streams(MAX_STREAMS)
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(20));
        let service =
            ConnectionService { app: TowerToHyperService::new(self.app), peer: PeerAddress(peer.to_canonical()) };
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        if let Err(error) = watcher.watch(connection.into_owned()).await {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

/// The server as one connection sees it: every request carries the address of the other end.
struct ConnectionService {
    app: TowerToHyperService<Router>,
    peer: PeerAddress,
}

impl Service<Request<Incoming>> for ConnectionService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.peer);
        self.app.call(request)
    }
}

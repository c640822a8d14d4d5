//! The thread that serves connections until a caller is identified on them. It has a low priority, so that a flood of
//! connections, half-sent bodies and anonymous requests takes no time from identified callers. A connection whose
//! caller is identified moves to the server's main runtime.

use std::cell::Cell;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use futures_util::future::BoxFuture;
use hyper::rt::Executor;
use tokio::runtime::{Builder, Handle, Runtime};

use super::connections::OpenConnection;
use nuncio_auth::NetworkExposure;

thread_local! {
    static IS_FOR_UNIDENTIFIED: Cell<bool> = const { Cell::new(false) };
}

pub(crate) struct ServerRuntimes {
    main: Handle,
    /// `None` if the server is open to everyone, with no identified callers to protect, and after the server stopped.
    unidentified: Option<Runtime>,
}

impl ServerRuntimes {
    /// Starts the thread for unidentified callers. The caller's runtime becomes the main one.
    pub(crate) fn start(exposure: NetworkExposure) -> std::io::Result<Arc<Self>> {
        let main = Handle::current();
        if exposure == NetworkExposure::Open {
            return Ok(Arc::new(Self { main, unidentified: None }));
        }
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).thread_name("unidentified").enable_all().on_thread_start(|| {
            IS_FOR_UNIDENTIFIED.set(true);
            lower_priority();
        });
        Ok(Arc::new(Self { main, unidentified: Some(builder.build()?) }))
    }

    /// Runs a task on the thread for unidentified callers.
    pub(crate) fn spawn_unidentified(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.unidentified.as_ref().map_or(&self.main, Runtime::handle).spawn(task);
    }

    /// Runs a connection on the thread for unidentified callers until a caller is identified on it, and then on the
    /// main runtime.
    pub(super) fn spawn_connection(&self, open: Arc<OpenConnection>, connection: BoxFuture<'static, ()>) {
        let (main, mut connection) = (self.main.clone(), Some(connection));
        self.spawn_unidentified(poll_fn(move |context| {
            let polled = connection.as_mut().map_or(Poll::Ready(()), |running| running.as_mut().poll(context));
            if polled.is_pending() && open.is_identified() && is_for_unidentified() {
                connection.take().map(|running| main.spawn(running));
                return Poll::Ready(());
            }
            polled
        }));
    }
}

impl Drop for ServerRuntimes {
    fn drop(&mut self) {
        // A runtime that is dropped waits for its threads, which an asynchronous context must not.
        if let Some(runtime) = self.unidentified.take() {
            runtime.shutdown_background();
        }
    }
}

/// Whether this thread serves unidentified callers.
pub(super) fn is_for_unidentified() -> bool {
    IS_FOR_UNIDENTIFIED.get()
}

/// Waits until the connection is on the main runtime, if its caller is identified: the handler of an identified caller,
/// and the tasks that it spawns, must not run at low priority.
pub(super) async fn on_main_if_identified(open: &OpenConnection) {
    poll_fn(|_| match open.is_identified() && is_for_unidentified() {
        // `spawn_connection` moves the connection, and polls it there, as soon as this poll returns.
        true => Poll::Pending,
        false => Poll::Ready(()),
    })
    .await;
}

/// Runs the requests of an HTTP/2 connection on the runtime for their connection.
#[derive(Clone)]
pub(super) struct Http2RequestExecutor {
    pub(super) runtimes: Arc<ServerRuntimes>,
    pub(super) open: Arc<OpenConnection>,
}

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Http2RequestExecutor {
    fn execute(&self, request: F) {
        if self.open.is_identified() {
            self.runtimes.main.spawn(request);
        } else {
            self.runtimes.spawn_unidentified(async move {
                request.await;
            });
        }
    }
}

#[cfg(all(target_os = "linux", not(nuncio_portable)))]
fn lower_priority() {
    /// Niceness of the thread (0 to 19), which gives it about a tenth of the share of others. At 19 the first request
    /// on each connection would hang on a machine whose cores are all busy, for instance with a language model.
    const THREAD_NICENESS: i32 = 10;
    // On Linux this sets the priority of the current thread only.
    if let Err(error) = rustix::process::setpriority_process(None, THREAD_NICENESS) {
        tracing::debug!(%error, "the priority of a thread for unidentified callers could not be lowered");
    }
}

/// Other systems have no priority per thread; there a flood takes at most one thread from identified callers.
#[cfg(not(all(target_os = "linux", not(nuncio_portable))))]
fn lower_priority() {}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::oneshot;

    use super::super::connections::{ConnectionLimits, Connections};
    use super::super::stream::ConnectionStream;
    use super::*;

    fn open_connection() -> Arc<OpenConnection> {
        Connections::new(ConnectionLimits { total: 8, per_address: 8 }).open(IpAddr::V4(Ipv4Addr::LOCALHOST), false)
    }

    #[tokio::test]
    async fn connection_moves_to_the_main_runtime_after_its_caller_is_identified() {
        let runtimes = ServerRuntimes::start(NetworkExposure::Network).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let (stream, open) = (stream.into_std().unwrap(), open_connection());
        let served = Arc::clone(&open);
        let serve = async move {
            let stream = TcpStream::from_std(stream).unwrap();
            let mut stream = ConnectionStream::new(stream, served, Duration::from_secs(60));
            while stream.read_u8().await.is_ok() {
                stream.write_u8(u8::from(is_for_unidentified())).await.unwrap();
                // A connection moves between two polls, and one poll would also answer a byte that is already there.
                tokio::task::yield_now().await;
            }
        };
        runtimes.spawn_connection(Arc::clone(&open), Box::pin(serve));
        let mut ask = async || {
            client.write_u8(0).await.unwrap();
            client.read_u8().await.unwrap() == 1
        };
        assert!(ask().await, "served by the thread for unidentified callers");
        open.mark_identified();
        // The poll that answers this request still runs on that thread; the connection moves after it.
        ask().await;
        assert!(!ask().await, "served by the main runtime");
    }

    #[tokio::test]
    async fn handler_of_an_identified_caller_runs_on_the_main_runtime() {
        let (runtimes, open) = (ServerRuntimes::start(NetworkExposure::Network).unwrap(), open_connection());
        let (send, receive) = oneshot::channel();
        let identified = Arc::clone(&open);
        let serve = async move {
            let before = is_for_unidentified();
            identified.mark_identified();
            on_main_if_identified(&identified).await;
            let _ = send.send((before, is_for_unidentified()));
        };
        runtimes.spawn_connection(open, Box::pin(serve));
        assert_eq!(receive.await.unwrap(), (true, false));
    }

    #[tokio::test]
    async fn open_server_has_no_thread_for_unidentified_callers() {
        let (runtimes, (send, receive)) = (ServerRuntimes::start(NetworkExposure::Open).unwrap(), oneshot::channel());
        let report = async move {
            let _ = send.send(is_for_unidentified());
        };
        runtimes.spawn_unidentified(report);
        assert!(!receive.await.unwrap());
    }
}

//! Activity of a connection: when its last request ended, and which of its responses are not being read.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::Body;
use bytes::Bytes;
use http::Version;
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::connections::OpenConnection;

/// Time limits for connections without requests and for unread responses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdleLimits {
    /// Longest idle time of a connection without an identified caller.
    pub(crate) unidentified: Duration,
    /// Longest idle time of a connection of an identified caller or a trusted proxy.
    pub(crate) identified: Duration,
    /// Longest time that an HTTP/2 client may leave the next piece of a response unread.
    pub(crate) unread: Duration,
}

#[derive(Debug)]
pub(crate) struct ConnectionActivity {
    state: Mutex<ActivityState>,
}

#[derive(Debug)]
struct ActivityState {
    next: u64,
    /// The requests in progress. For HTTP/2, the time since which the client has not read the next piece of the
    /// response. HTTP/1 responses are watched where they are written, see `stream.rs`.
    requests: BTreeMap<u64, Option<Instant>>,
    idle_since: Instant,
}

impl ConnectionActivity {
    pub(super) fn new() -> Self {
        Self { state: Mutex::new(ActivityState { next: 0, requests: BTreeMap::new(), idle_since: Instant::now() }) }
    }

    fn lock(&self) -> MutexGuard<'_, ActivityState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenConnection {
    /// Counts a request until its response was sent or given up.
    pub(super) fn begin_request(self: &Arc<Self>, version: Version) -> RequestInProgress {
        let mut state = self.activity.lock();
        state.next += 1;
        let id = state.next;
        state.requests.insert(id, None);
        drop(state);
        RequestInProgress { id, connection: Arc::clone(self), is_multiplexed: version == Version::HTTP_2 }
    }

    pub(crate) fn requests_in_progress(&self) -> usize {
        self.activity.lock().requests.len()
    }

    /// Waits until the connection was idle, or a response unread, for too long.
    pub(super) async fn exceeds(&self, limits: &IdleLimits) {
        loop {
            let now = Instant::now();
            let due = self.due(limits).unwrap_or(now + limits.unread);
            if due <= now {
                return;
            }
            tokio::time::sleep_until(due.into()).await;
        }
    }

    fn due(&self, limits: &IdleLimits) -> Option<Instant> {
        let state = self.activity.lock();
        if state.requests.is_empty() {
            let is_trusted = self.is_identified() || self.is_proxy;
            return Some(state.idle_since + if is_trusted { limits.identified } else { limits.unidentified });
        }
        // A proxy connection carries responses of many callers; one unread response must not end the others.
        let unread = state.requests.values().flatten().min().filter(|_| !self.is_proxy);
        unread.map(|since| *since + limits.unread)
    }
}

/// A request from its arrival to the end of its response.
#[derive(Debug)]
pub(super) struct RequestInProgress {
    id: u64,
    connection: Arc<OpenConnection>,
    is_multiplexed: bool,
}

impl RequestInProgress {
    fn note_unread(&self, since: Option<Instant>) {
        if self.is_multiplexed {
            self.connection.activity.lock().requests.insert(self.id, since);
        }
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        let mut state = self.connection.activity.lock();
        state.requests.remove(&self.id);
        state.idle_since = Instant::now();
    }
}

/// The body of a response; the request is in progress until the body is dropped.
#[derive(Debug)]
pub(super) struct WatchedResponseBody {
    pub(super) body: Body,
    pub(super) request: RequestInProgress,
}

impl HttpBody for WatchedResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        // Hyper polls for the next piece when the client has room for it.
        self.request.note_unread(None);
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(Some(Ok(_)))) {
            self.request.note_unread(Some(Instant::now()));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

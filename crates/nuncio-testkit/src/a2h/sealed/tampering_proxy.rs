//! A man in the middle between a peer and its relay, or a malicious relay: the proxy can drop, change, repeat and forge
//! everything that the relay sends.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use nuncio_engine::ports::dial::{SocketFrame, TextSocket, WebSocketDialRequest, WebSocketDialer};
use nuncio_engine::ports::fetch::{Fetch, FetchError, FetchRequest, FetchResponse};
use nuncio_server::fetch::{AllowedAddresses, GuardedFetch};
use serde_json::Value;

/// Rewrites data of the relay. The first argument is the path of the request; `None` for a frame of a WebSocket.
type RelayDataRewriteFn = Box<dyn FnMut(Option<&str>, Value) -> Vec<Value> + Send>;

#[derive(Clone)]
pub struct TamperingProxy {
    real: Arc<GuardedFetch>,
    rewrite: Arc<Mutex<Option<RelayDataRewriteFn>>>,
    sent: Arc<Mutex<Vec<(String, Value)>>>,
}

impl TamperingProxy {
    /// A proxy that forwards everything unchanged.
    #[must_use]
    pub fn new() -> Self {
        let real = Arc::new(GuardedFetch::new(AllowedAddresses::none(), true, None).unwrap());
        Self { real, rewrite: Arc::default(), sent: Arc::default() }
    }

    /// From now on rewrites everything with `rewrite`. Of several responses to one request the last is forwarded;
    /// without any, the request fails.
    pub fn rewrite(&self, rewrite: impl FnMut(Option<&str>, Value) -> Vec<Value> + Send + 'static) {
        *self.rewrite.lock().unwrap() = Some(Box::new(rewrite));
    }

    /// From now on rewrites message events only.
    pub fn rewrite_messages(&self, mut rewrite: impl FnMut(Value) -> Vec<Value> + Send + 'static) {
        self.rewrite(move |path, frame| match path.is_none() && frame["type"] == "message.new" {
            true => rewrite(frame),
            false => vec![frame],
        });
    }

    /// From now on forwards everything unchanged.
    pub fn pass_through(&self) {
        *self.rewrite.lock().unwrap() = None;
    }

    /// Bodies of the requests so far to paths that end with `path`.
    #[must_use]
    pub fn sent_to(&self, path: &str) -> Vec<Value> {
        let sent = self.sent.lock().unwrap();
        sent.iter().filter(|(to, _)| to.ends_with(path)).map(|(_, body)| body.clone()).collect()
    }

    fn made_of(&self, path: Option<&str>, frame: Value) -> Vec<Value> {
        match &mut *self.rewrite.lock().unwrap() {
            Some(rewrite) => rewrite(path, frame),
            None => vec![frame],
        }
    }
}

impl Default for TamperingProxy {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TamperingProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TamperingProxy")
    }
}

#[async_trait]
impl Fetch for TamperingProxy {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        let (path, url) = (request.url.path().to_owned(), request.url.to_string());
        let body = request.body.as_deref().and_then(|body| serde_json::from_slice(body).ok()).unwrap_or_default();
        self.sent.lock().unwrap().push((path.clone(), body));
        let mut answer = self.real.fetch(request).await?;
        if let Ok(body) = serde_json::from_slice(&answer.body) {
            let body = self.made_of(Some(&path), body).pop();
            let body = body.ok_or(FetchError::Unreachable { url, why: "no message came back".to_owned() })?;
            answer.body = body.to_string().into();
        }
        Ok(answer)
    }
}

#[async_trait]
impl WebSocketDialer for TamperingProxy {
    async fn dial(&self, to: WebSocketDialRequest) -> Result<Box<dyn TextSocket>, FetchError> {
        let wire = self.real.dial(to).await?;
        Ok(Box::new(ProxiedSocket { wire, between: self.clone(), waiting: VecDeque::new() }))
    }
}

struct ProxiedSocket {
    wire: Box<dyn TextSocket>,
    between: TamperingProxy,
    waiting: VecDeque<Value>,
}

#[async_trait]
impl TextSocket for ProxiedSocket {
    async fn send(&mut self, text: String) -> bool {
        self.wire.send(text).await
    }

    async fn next(&mut self) -> SocketFrame {
        loop {
            if let Some(next) = self.waiting.pop_front() {
                return SocketFrame::Text(next.to_string());
            }
            match self.wire.next().await {
                SocketFrame::Text(text) => match serde_json::from_str(&text) {
                    Ok(frame) => self.waiting.extend(self.between.made_of(None, frame)),
                    Err(_) => return SocketFrame::Text(text),
                },
                closed @ SocketFrame::Closed(_) => return closed,
            }
        }
    }
}

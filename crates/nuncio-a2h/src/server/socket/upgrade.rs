//! WebSocket handshake (RFC 6455 §4.2). Not axum's, so that large messages can be sent in small frames, which keeps the
//! buffers of idle connections small.

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use nuncio_engine::Engine;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::socket_connection::MAX_FRAME_BYTES;

/// Limit of an incoming frame, in bytes: a token, or the sealed key that starts a stream.
pub(super) const MAX_FRAME: usize = 16 * 1024;
/// Read buffer per connection, in bytes; small, because thousands of connections are idle.
const READ_BUFFER: usize = 1024;
/// Write buffer per connection, in bytes; a full buffer blocks the sender.
const WRITE_BUFFER: usize = 4 * MAX_FRAME_BYTES;

pub(super) type WebSocket = WebSocketStream<TokioIo<Upgraded>>;

#[derive(Debug)]
pub(super) struct WebSocketUpgrade {
    on: OnUpgrade,
    accept: HeaderValue,
}

impl WebSocketUpgrade {
    /// Checks the headers of a WebSocket upgrade request.
    pub(super) fn of(request: &mut Request) -> Result<Self, &'static str> {
        let headers = request.headers();
        if request.version() > Version::HTTP_11 {
            return Err("the request must be HTTP/1.1");
        }
        if !names(headers, &header::CONNECTION, "upgrade") {
            return Err("the header Connection must contain upgrade");
        }
        if !names(headers, &header::UPGRADE, "websocket") {
            return Err("the header Upgrade must contain websocket");
        }
        if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
            return Err("the header Sec-WebSocket-Version must be 13");
        }
        let key = headers.get(header::SEC_WEBSOCKET_KEY).ok_or("the header Sec-WebSocket-Key is missing")?;
        let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes()));
        let accept = accept.map_err(|_| "the header Sec-WebSocket-Key is not valid")?;
        let on =
            request.extensions_mut().remove::<OnUpgrade>().ok_or("this connection cannot be upgraded to WebSocket")?;
        Ok(Self { on, accept })
    }

    /// Answers 101, then calls `serve` with the WebSocket, unless the connection breaks before.
    pub(super) fn accept<F>(self, engine: &Engine, serve: impl FnOnce(WebSocket) -> F + Send + 'static) -> Response
    where
        F: Future<Output = ()> + Send,
    {
        let Self { on, accept } = self;
        engine.spawn_untracked(async move {
            let Ok(upgraded) = on.await else { return };
            let stream = TokioIo::new(upgraded);
            serve(WebSocketStream::from_raw_socket(stream, Role::Server, Some(config())).await).await;
        });
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().extend([
            (header::CONNECTION, HeaderValue::from_static("upgrade")),
            (header::UPGRADE, HeaderValue::from_static("websocket")),
            (header::SEC_WEBSOCKET_ACCEPT, accept),
        ]);
        response
    }
}

fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(MAX_FRAME))
        .max_frame_size(Some(MAX_FRAME))
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(0)
        .max_write_buffer_size(WRITE_BUFFER)
}

/// Whether a comma-separated header contains a token.
fn names(headers: &HeaderMap, header: &HeaderName, token: &str) -> bool {
    let texts = headers.get_all(header).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).any(|part| part.trim().eq_ignore_ascii_case(token))
}

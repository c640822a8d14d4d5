//! WebSocket connections with the same address rules as HTTP requests.

use async_trait::async_trait;
use futures_util::{SinkExt as _, StreamExt as _};
use nuncio_core::address::display_url;
use nuncio_engine::ports::dial::{SocketFrame, TextSocket, WebSocketDialRequest, WebSocketDialer};
use nuncio_engine::ports::fetch::FetchError;
use reqwest::Upgraded;
use reqwest::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::{GuardedFetch, failure};

#[async_trait]
impl WebSocketDialer for GuardedFetch {
    async fn dial(&self, to: WebSocketDialRequest) -> Result<Box<dyn TextSocket>, FetchError> {
        let (url, limit) = (display_url(&to.url), to.timeout);
        let connected = tokio::time::timeout(limit, self.connect(to)).await;
        connected.unwrap_or(Err(FetchError::TooSlow { url, limit }))
    }
}

impl GuardedFetch {
    async fn connect(&self, to: WebSocketDialRequest) -> Result<Box<dyn TextSocket>, FetchError> {
        let url = display_url(&to.url);
        let failed = |error: reqwest::Error| failure(&url, &error);
        let client = self
            .route(&self.websockets, &to.url, to.trust)
            .map_err(|why| FetchError::Refused { url: url.clone(), why })?;
        let key = generate_key();
        let answer = client
            .get(to.url)
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key)
            .send()
            .await
            .map_err(failed)?;
        let accepted =
            answer.headers().get(SEC_WEBSOCKET_ACCEPT).is_some_and(|found| *found == derive_accept_key(key.as_bytes()));
        if answer.status().as_u16() != 101 || !accepted {
            let why = format!("there is no WebSocket at this address: it answered {}", answer.status().as_u16());
            return Err(FetchError::Unreachable { url, why });
        }
        let upgraded = answer.upgrade().await.map_err(failed)?;
        let config = WebSocketConfig::default().max_message_size(Some(to.max_frame)).max_frame_size(Some(to.max_frame));
        let socket = WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await;
        Ok(Box::new(WebSocketConnection(socket)))
    }
}

struct WebSocketConnection(WebSocketStream<Upgraded>);

#[async_trait]
impl TextSocket for WebSocketConnection {
    async fn send(&mut self, text: String) -> bool {
        self.0.send(Message::text(text)).await.is_ok()
    }

    async fn next(&mut self) -> SocketFrame {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => return SocketFrame::Text(text.as_str().to_owned()),
                // The library queues the pong; a flush sends it.
                Some(Ok(Message::Ping(_))) => {
                    if self.0.flush().await.is_err() {
                        return SocketFrame::Closed(None);
                    }
                }
                Some(Ok(Message::Close(frame))) => {
                    let _ = self.0.close(None).await;
                    return SocketFrame::Closed(frame.map(|frame| frame.code.into()));
                }
                Some(Ok(Message::Pong(_) | Message::Binary(_) | Message::Frame(_))) => {}
                Some(Err(_)) | None => return SocketFrame::Closed(None),
            }
        }
    }
}

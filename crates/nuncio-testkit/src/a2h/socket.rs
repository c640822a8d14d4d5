//! WebSocket test client that reads frame by frame.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

#[derive(Debug)]
pub struct A2hTestSocket(WebSocketStream<MaybeTlsStream<TcpStream>>);

#[derive(Debug, Clone, PartialEq)]
pub enum SocketMessage {
    Frame(Value),
    /// Ping of the server, which the WebSocket library answers with the next read or write.
    Ping,
    /// The connection ended, with this close code of the server; zero without a code or after a failure.
    Closed(u16),
}

impl A2hTestSocket {
    /// Connects to an `http:` URL; panics on failure.
    pub async fn open(url: &str) -> Self {
        Self::try_open(url, &[]).await.unwrap()
    }

    /// Connects to an `http:` URL with additional headers.
    ///
    /// # Errors
    /// HTTP status of the refusal.
    pub async fn try_open(url: &str, headers: &[(&'static str, &str)]) -> Result<Self, u16> {
        let mut request = url.replacen("http", "ws", 1).into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        match tokio_tungstenite::connect_async(request).await {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(Error::Http(answer)) => Err(answer.status().as_u16()),
            Err(other) => panic!("{other}"),
        }
    }

    /// Connects to an `http:` URL and accepts frames of at most `most` bytes; panics on failure.
    pub async fn open_for_frames(url: &str, most: usize) -> Self {
        let config = WebSocketConfig::default().max_frame_size(Some(most));
        let url = url.replacen("http", "ws", 1);
        Self(tokio_tungstenite::connect_async_with_config(url, Some(config), false).await.unwrap().0)
    }

    /// Sends a frame. A closed connection is noticed by the next read.
    pub async fn say(&mut self, frame: &Value) {
        self.send(Message::text(frame.to_string())).await;
    }

    pub async fn send(&mut self, message: Message) {
        let _ = self.0.send(message).await;
    }

    pub async fn hear(&mut self) -> SocketMessage {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => return SocketMessage::Frame(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Ping(_))) => {
                    // The flush sends the pong.
                    let _ = self.0.flush().await;
                    return SocketMessage::Ping;
                }
                Some(Ok(Message::Close(frame))) => {
                    let _ = self.0.close(None).await;
                    return SocketMessage::Closed(frame.map_or(0, |frame| frame.code.into()));
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return SocketMessage::Closed(0),
            }
        }
    }

    /// The next JSON frame, skipping pings. Panics if the connection ends.
    pub async fn frame(&mut self) -> Value {
        loop {
            match self.hear().await {
                SocketMessage::Frame(frame) => return frame,
                SocketMessage::Ping => {}
                SocketMessage::Closed(code) => panic!("the connection ended: {code}"),
            }
        }
    }

    /// The next JSON frame of type `kind`, skipping others.
    pub async fn event(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.frame().await;
            if frame["type"] == kind {
                return frame;
            }
        }
    }

    /// Waits for the close code of the connection, skipping frames before it.
    pub async fn closed(&mut self) -> u16 {
        loop {
            if let SocketMessage::Closed(code) = self.hear().await {
                return code;
            }
        }
    }
}

pub use tokio_tungstenite::tungstenite;

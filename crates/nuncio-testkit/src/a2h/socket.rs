//! A WebSocket, frame by frame.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// An open connection.
#[derive(Debug)]
pub struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

/// What comes in.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// A frame.
    Frame(Value),
    /// The server asks whether we live; answered by the library when more is read or sent.
    Ping,
    /// The connection was closed with that code; zero without one.
    Closed(u16),
}

impl Socket {
    /// Opens the connection at an `http:` address; panics unless it opens.
    pub async fn open(url: &str) -> Self {
        Self::try_open(url, &[]).await.unwrap()
    }

    /// The same with headers.
    ///
    /// # Errors
    /// The status it was refused with.
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

    /// The same for a client that takes no frame larger than that.
    pub async fn open_for_frames(url: &str, most: usize) -> Self {
        let config = WebSocketConfig::default().max_frame_size(Some(most));
        let url = url.replacen("http", "ws", 1);
        Self(tokio_tungstenite::connect_async_with_config(url, Some(config), false).await.unwrap().0)
    }

    /// Sends a frame. A connection that is gone is seen when it is read.
    pub async fn say(&mut self, frame: &Value) {
        self.send(Message::text(frame.to_string())).await;
    }

    /// Sends anything at all.
    pub async fn send(&mut self, message: Message) {
        let _ = self.0.send(message).await;
    }

    /// The next thing that comes in.
    pub async fn hear(&mut self) -> Heard {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => return Heard::Frame(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Ping(_))) => {
                    // The answer leaves with the next flush.
                    let _ = self.0.flush().await;
                    return Heard::Ping;
                }
                Some(Ok(Message::Close(frame))) => {
                    let _ = self.0.close(None).await;
                    return Heard::Closed(frame.map_or(0, |frame| frame.code.into()));
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Heard::Closed(0),
            }
        }
    }

    /// The next frame; pings are passed over. Panics when the connection ends.
    pub async fn frame(&mut self) -> Value {
        loop {
            match self.hear().await {
                Heard::Frame(frame) => return frame,
                Heard::Ping => {}
                Heard::Closed(code) => panic!("the connection ended: {code}"),
            }
        }
    }

    /// The next frame of that type; others are passed over.
    pub async fn event(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.frame().await;
            if frame["type"] == kind {
                return frame;
            }
        }
    }

    /// The code it is closed with; frames before that are passed over.
    pub async fn closed(&mut self) -> u16 {
        loop {
            if let Heard::Closed(code) = self.hear().await {
                return code;
            }
        }
    }
}

pub use tokio_tungstenite::tungstenite;

//! A plain axum server, the lower bound for the cost of a request.

use std::convert::Infallible;
use std::path::PathBuf;

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::stream;
use tokio::sync::mpsc;

/// Serves on a free port and prints its address.
pub(crate) async fn serve(document: Option<PathBuf>) -> anyhow::Result<()> {
    let document = document.map(std::fs::read).transpose()?.map(Bytes::from).unwrap_or_default();
    let app = Router::new()
        .route("/static", get(|| async { ([("content-type", "application/json")], DOCUMENT) }))
        .route("/document", get(move || async move { ([("content-type", "application/json")], document) }))
        .route("/channel/{count}", post(channel))
        .route("/coalesced/{count}", post(coalesced));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{{\"url\":\"http://{}\"}}", listener.local_addr()?);
    // Nagle's algorithm is off, as in every server of event streams.
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, app).await?)
}

/// Document of the same length as the `/meta` response that it is compared with.
const DOCUMENT: &str = include_str!("bare.json");

/// Streams events with axum's own `Sse` over a channel.
async fn channel(Path(count): Path<usize>) -> impl IntoResponse {
    let (sender, receiver) = mpsc::channel::<String>(64);
    tokio::spawn(async move {
        for _ in 0..count {
            if sender.send("{\"delta\":\"hello \"}".to_owned()).await.is_err() {
                return;
            }
        }
    });
    Sse::new(stream::unfold(receiver, |mut receiver| async move {
        let data = receiver.recv().await?;
        Some((Ok::<_, Infallible>(Event::default().event("text_delta").data(data)), receiver))
    }))
}

/// Streams events encoded by hand, several per chunk.
async fn coalesced(Path(count): Path<usize>) -> Response {
    const PIECE: usize = 16 * 1024;
    let pieces = stream::unfold((0, count), |(next, count)| async move {
        if next == count {
            return None;
        }
        let mut piece = BytesMut::with_capacity(PIECE + 128);
        let mut number = next;
        while number < count && piece.len() < PIECE {
            piece.put_slice(b"id: 1.");
            piece.put_slice(number.to_string().as_bytes());
            piece.put_slice(b"\nevent: text_delta\ndata: {\"delta\":\"hello \"}\n\n");
            number += 1;
        }
        Some((Ok::<Bytes, Infallible>(piece.freeze()), (number, count)))
    });
    ([("content-type", "text/event-stream")], Body::from_stream(pieces)).into_response()
}

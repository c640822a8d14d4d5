//! A host of callers' DID documents, whose every response the test decides.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use futures_util::stream;
use http::Uri;
use nuncio_core::time::Timestamp;
use nuncio_identity::document::KEY_FRAGMENT;
use nuncio_identity::{Did, NewDidDocument, SigningKey};
use serde_json::Value;
use tokio::net::TcpListener;

#[derive(Clone)]
pub(crate) enum DidHostReply {
    Document(Value),
    /// Responds with this status, header and body.
    Other(u16, (&'static str, String), String),
    Silence,
    Endless,
}

#[derive(Clone)]
pub(crate) struct DidHost {
    pub(crate) port: u16,
    replies: Arc<Mutex<HashMap<String, DidHostReply>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

#[derive(Clone)]
pub(crate) struct ForeignDid {
    pub(crate) did: Did,
    pub(crate) key: SigningKey,
}

impl DidHost {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let peer = Self { port, replies: Arc::default(), asked: Arc::default() };
        let app = Router::new().fallback(answer).with_state(peer.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        peer
    }

    pub(crate) fn someone(&self, name: &str, now: Timestamp) -> ForeignDid {
        let someone = self.stranger(name);
        self.publish(&someone.did, DidHostReply::Document(someone.document(now)));
        someone
    }

    pub(crate) fn stranger(&self, name: &str) -> ForeignDid {
        let seed = nuncio_core::digest::Digest::of_bytes(format!("{name}{}", self.port).as_bytes());
        let key = SigningKey::from_seed(seed.as_bytes());
        let did = Did::for_key("localhost", Some(self.port), &["user", name], &key).unwrap();
        ForeignDid { did, key }
    }

    pub(crate) fn publish(&self, did: &Did, reply: DidHostReply) {
        self.replies.lock().unwrap().insert(did.resolution_url_at(""), reply);
    }

    pub(crate) fn publish_at(&self, path: &str, reply: DidHostReply) {
        self.replies.lock().unwrap().insert(path.to_owned(), reply);
    }

    /// Number of received requests.
    pub(crate) fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

async fn answer(State(peer): State<DidHost>, uri: Uri) -> Response {
    peer.asked.lock().unwrap().push(uri.path().to_owned());
    let reply = peer.replies.lock().unwrap().get(uri.path()).cloned();
    let with = |status: u16, (name, value): (&str, &str), body: Body| {
        Response::builder().status(status).header(name, value).body(body).unwrap()
    };
    let json = ("content-type", "application/json");
    match reply {
        None => with(404, json, Body::from("{}")),
        Some(DidHostReply::Document(document)) => with(200, json, Body::from(document.to_string())),
        Some(DidHostReply::Other(status, (name, value), body)) => with(status, (name, &value), Body::from(body)),
        Some(DidHostReply::Silence) => std::future::pending().await,
        Some(DidHostReply::Endless) => {
            let spaces = stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 4096])));
            with(200, json, Body::from_stream(spaces))
        }
    }
}

impl ForeignDid {
    pub(crate) fn document(&self, now: Timestamp) -> Value {
        NewDidDocument::new(&self.did, now).sign(&self.key)
    }

    pub(crate) fn key_id(&self) -> String {
        self.did.url(KEY_FRAGMENT)
    }
}

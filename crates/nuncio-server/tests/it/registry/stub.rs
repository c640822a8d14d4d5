//! A skill host whose every response the test decides.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

pub(crate) const INDEX: &str = "/.well-known/skill-sharing";

#[derive(Clone)]
pub(crate) enum StubReply {
    /// Responds with a status, a document, an `ETag` and further headers.
    Json {
        status: u16,
        etag: Option<String>,
        headers: String,
        body: String,
    },
    Silence,
    Endless,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RegistryHostRequest {
    pub(crate) target: String,
    pub(crate) has: Option<String>,
}

#[derive(Clone)]
pub(crate) struct StubRegistryHost {
    address: SocketAddr,
    replies: Arc<Mutex<HashMap<String, StubReply>>>,
    asked: Arc<Mutex<Vec<RegistryHostRequest>>>,
}

impl StubRegistryHost {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stub = Self { address: listener.local_addr().unwrap(), replies: Arc::default(), asked: Arc::default() };
        let serving = stub.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let stub = serving.clone();
                tokio::spawn(async move { stub.answer(stream).await });
            }
        });
        stub
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn asked(&self) -> Vec<RegistryHostRequest> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    pub(crate) fn targets(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.target).collect()
    }

    pub(crate) fn asked_so_far(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    pub(crate) fn reply(&self, target: &str, reply: StubReply) {
        self.replies.lock().unwrap().insert(target.to_owned(), reply);
    }

    pub(crate) fn document(&self, target: &str, document: &Value) {
        let body = document.to_string();
        let etag = Some(format!("\"{}\"", nuncio_core::digest::Digest::of_bytes(body.as_bytes())));
        self.reply(target, StubReply::Json { status: 200, etag, headers: String::new(), body });
    }

    pub(crate) fn status(&self, target: &str, status: u16, headers: &str) {
        let headers = headers.to_owned();
        self.reply(target, StubReply::Json { status, etag: None, headers, body: "{}".to_owned() });
    }

    pub(crate) fn index(&self, entries: &[Value]) {
        self.document(INDEX, &index(entries));
    }

    /// Serves an index of skills with these ids, and their descriptors.
    pub(crate) fn offer(&self, ids: &[&str]) {
        let entries: Vec<_> = ids.iter().map(|id| self.entry(id)).collect();
        self.index(&entries);
        for id in ids {
            self.document(&descriptor_path(id), &self.descriptor(id));
        }
    }

    pub(crate) fn entry(&self, id: &str) -> Value {
        json!({
            "id": id, "name": format!("Skill {id}"), "capability_type": "api", "description": "Does it.",
            "descriptor_url": format!("{}{}", self.url(), descriptor_path(id)), "access": "public", "version": "1.0.0",
        })
    }

    pub(crate) fn descriptor(&self, id: &str) -> Value {
        json!({
            "protocol": {"version": "1.0.0"}, "id": id, "name": format!("Skill {id}"), "version": "1.0.0",
            "capability_type": "api", "description": "Does it.", "provider": {"name": "Stub"},
            "endpoint": {"url": format!("{}/run", self.url()), "method": "POST"}, "inputs": [],
            "output": {"content_type": "application/json"}, "auth": {"type": "none"}, "access": "public",
            "tags": ["stub"],
        })
    }

    async fn answer(&self, mut stream: TcpStream) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => return,
            }
        }
        let head = String::from_utf8(head).unwrap();
        let target = head.split(' ').nth(1).unwrap().to_owned();
        let has = head.lines().find_map(|line| line.strip_prefix("if-none-match: ")).map(str::to_owned);
        let reply = self.replies.lock().unwrap().get(&target).cloned();
        self.asked.lock().unwrap().push(RegistryHostRequest { target, has: has.clone() });
        let (status, etag, headers, body) = match reply {
            None => (404, None, String::new(), "{}".to_owned()),
            Some(StubReply::Json { etag, headers, .. }) if has.is_some() && has == etag => {
                (304, etag, headers, String::new())
            }
            Some(StubReply::Json { status, etag, headers, body }) => (status, etag, headers, body),
            Some(StubReply::Silence) => return std::future::pending().await,
            Some(StubReply::Endless) => {
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n[";
                let _ = stream.write_all(head.as_bytes()).await;
                while stream.write_all(&[b' '; 65_536]).await.is_ok() {}
                return;
            }
        };
        let etag = etag.map(|etag| format!("ETag: {etag}\r\n")).unwrap_or_default();
        let head = format!(
            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{etag}{headers}Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let _ = stream.write_all(head.as_bytes()).await;
        let _ = stream.write_all(body.as_bytes()).await;
    }
}

pub(crate) fn index(entries: &[Value]) -> Value {
    json!({"protocol": {"version": "1.0.0"}, "provider": {"name": "Stub"}, "skills": entries})
}

pub(crate) fn descriptor_path(id: &str) -> String {
    format!("/d/{id}.json")
}

//! A caller with its own DID, whose document is served on loopback. A server must run with `--dev` to resolve the DID.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, anyhow};
use nuncio_core::time::Timestamp;
use nuncio_identity::challenge::IssuedAccessToken;
use nuncio_identity::document::KEY_FRAGMENT;
use nuncio_identity::http_signature::{SignatureParameters, sign};
use nuncio_identity::{Did, NewDidDocument, SignableRequest, SigningKey};
use serde_json::json;

/// A DID, its key, and the host that serves its document.
#[derive(Debug, Clone)]
pub struct HostedTestDid {
    did: Did,
    key: SigningKey,
}

impl HostedTestDid {
    /// Makes a DID and serves its document until the process ends.
    pub fn start() -> anyhow::Result<Self> {
        Self::start_as("mallory")
    }

    /// Makes a DID with this name and serves its document until the process ends.
    pub fn start_as(name: &str) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let mut seed = [7; 32];
        seed[..2].copy_from_slice(&port.to_be_bytes());
        let key = SigningKey::from_seed(&seed);
        let did = Did::for_key("localhost", Some(port), &["user", name], &key).map_err(|error| anyhow!("{error}"))?;
        let document = NewDidDocument::new(&did, now()).sign(&key).to_string();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut head = [0; 4096];
                // Every request gets the DID document.
                let _ = stream.read(&mut head);
                let length = document.len();
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{document}"
                );
            }
        });
        Ok(Self { did, key })
    }

    #[must_use]
    pub fn did(&self) -> &str {
        self.did.as_str()
    }

    /// The header fields of a signature over a request.
    pub fn sign(&self, method: &str, target: &str, body: &str) -> anyhow::Result<Vec<(String, String)>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let nonce = format!("nonce-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let none: [(&str, &str); 0] = [];
        let request = SignableRequest { method, target_uri: target, headers: &none, body: body.as_bytes() };
        let key_id = self.did.url(KEY_FRAGMENT);
        let created = now();
        let expires = Some(created.after(Duration::from_secs(300)));
        let options = SignatureParameters { key_id: &key_id, created, expires, nonce: &nonce };
        let fields = sign(&request, &self.key, &options).map_err(|error| anyhow!("{error}"))?;
        Ok(fields.into_fields().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Sends a signed request.
    pub async fn send(&self, method: &str, target: &str, body: &str) -> anyhow::Result<reqwest::Response> {
        let mut request = crate::http_client().request(method.parse()?, target);
        for (name, value) in self.sign(method, target, body)? {
            request = request.header(name, value);
        }
        if !body.is_empty() {
            request = request.header("content-type", "application/json").body(body.to_owned());
        }
        Ok(request.send().await?)
    }

    /// The access token that the server grants for one signed ANP call.
    pub async fn access_token(&self, base: &str, agent: &str) -> anyhow::Result<String> {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "no_such_method", "params": {}}).to_string();
        let answer = self.send("POST", &format!("{base}/agents/{agent}/rpc"), &call).await?;
        let status = answer.status();
        let info = answer.headers().get("authentication-info").and_then(|value| value.to_str().ok());
        let info = info.with_context(|| format!("no token in the answer: {status}"))?;
        Ok(IssuedAccessToken::read(info).context("Authentication-Info holds no token")?.access_token)
    }
}

#[expect(clippy::disallowed_methods, reason = "an attacker has no Clock port")]
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

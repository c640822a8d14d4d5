//! Minimal A2H device and agent for tests: signed HTTP requests, and WebSockets.

use nuncio_core::digest::Digest;
use nuncio_core::ids::DeviceId;
use nuncio_core::ledger::LedgerEntry;
use nuncio_core::person::{DeviceAssertion, EnrolmentAssertion};
use nuncio_core::signature::{PublicKey, Signature};
use nuncio_core::time::Timestamp;
use reqwest::header::HeaderMap;
use reqwest::{Client, Method};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

mod relay;
mod sealed;
mod socket;

pub use relay::{ExternalAgent, artifact, manifest, text};
pub use sealed::{
    AgentTransport, JumpingClock, PeerDependencies, SealedAgent, SealedDevice, TamperingProxy, content_key_in,
};
pub use socket::{A2hTestSocket, SocketMessage, tungstenite};

#[derive(Debug, Clone)]
pub struct A2hResponse {
    pub status: u16,
    pub headers: HeaderMap,
    /// Response body as JSON; `Null` if it is not JSON.
    pub body: Value,
}

impl A2hResponse {
    /// The `data` of a successful A2H response; panics otherwise.
    pub fn data(&self) -> &Value {
        assert!(self.status < 300, "{} {:#}", self.status, self.body);
        &self.body["data"]
    }

    /// Status and error code of a refused A2H request.
    #[must_use]
    pub fn refusal(&self) -> (u16, &str) {
        (self.status, self.body["error"]["code"].as_str().unwrap_or_default())
    }
}

/// Client of an A2H server that has no identity of its own.
#[derive(Debug, Clone)]
pub struct AnonymousA2hClient {
    url: String,
    http: Client,
}

impl AnonymousA2hClient {
    /// Makes a client for a base URL such as `http://127.0.0.1:7400`.
    #[must_use]
    pub fn at(url: impl Into<String>) -> Self {
        Self { url: url.into(), http: Client::builder().no_proxy().build().unwrap() }
    }

    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sends a request to a path below `/a2h`.
    pub async fn send(&self, method: Method, path: &str, token: Option<&str>, body: Option<&Value>) -> A2hResponse {
        self.try_send(method, path, token, body, &[]).await.unwrap()
    }

    /// Sends a request with additional headers.
    pub async fn send_with(
        &self,
        method: Method,
        path: &str,
        token: &str,
        body: &Value,
        headers: &[(&str, &str)],
    ) -> A2hResponse {
        self.try_send(method, path, Some(token), Some(body), headers).await.unwrap()
    }

    /// Sends a request to a server that may be killed meanwhile; a lost connection is an error, not a panic.
    pub async fn try_send(
        &self,
        method: Method,
        path: &str,
        token: Option<&str>,
        body: Option<&Value>,
        headers: &[(&str, &str)],
    ) -> reqwest::Result<A2hResponse> {
        let text = body.map(ToString::to_string);
        self.send_text(method, path, token, text, headers).await
    }

    /// Sends a request with the body exactly as given.
    pub async fn send_text(
        &self,
        method: Method,
        path: &str,
        token: Option<&str>,
        body: Option<String>,
        headers: &[(&str, &str)],
    ) -> reqwest::Result<A2hResponse> {
        let mut request = self.http.request(method, format!("{}/a2h{path}", self.url));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.send().await?;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let body = serde_json::from_slice(&answer.bytes().await?).unwrap_or_default();
        Ok(A2hResponse { status, headers, body })
    }

    /// Opens a WebSocket below `/a2h/ws`.
    pub async fn socket(&self, path: &str) -> A2hTestSocket {
        A2hTestSocket::open(&format!("{}/a2h/ws/{path}", self.url)).await
    }
}

#[derive(Debug)]
pub struct DeviceKey(Ed25519KeyPair);

impl DeviceKey {
    #[must_use]
    pub fn new() -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self(Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap())
    }

    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey::new(self.0.public_key().as_ref().try_into().unwrap()).unwrap()
    }

    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Signature {
        Signature::new(self.0.sign(message).as_ref().try_into().unwrap())
    }

    /// Request body of `POST /auth/enroll`.
    #[must_use]
    pub fn enrolment(&self, code: &str, name: &str) -> Value {
        let enrolment =
            EnrolmentAssertion { invite: Digest::of_bytes(code.as_bytes()), key: self.public(), name: name.to_owned() };
        json!({
            "code": code, "device_name": name,
            "public_key": self.public(), "signature": self.sign(&enrolment.message()),
        })
    }

    /// Request body of `POST /auth/token`.
    #[must_use]
    pub fn assertion(&self, device: &str, audience: &str, at: Timestamp, nonce: &str) -> Value {
        let assertion = DeviceAssertion {
            device_id: DeviceId::parse(device).unwrap(),
            audience: audience.to_owned(),
            at,
            nonce: nonce.to_owned(),
        };
        let mut body = json!(assertion);
        body["signature"] = json!(self.sign(&assertion.message()));
        body
    }
}

impl Default for DeviceKey {
    fn default() -> Self {
        Self::new()
    }
}

/// An enrolled device of a person.
#[derive(Debug)]
pub struct TestDevice {
    pub server: AnonymousA2hClient,
    pub id: String,
    pub audience: String,
    pub token: String,
    key: DeviceKey,
}

impl TestDevice {
    /// Enrols a device with an invite code.
    pub async fn enrol(server: &AnonymousA2hClient, code: &str) -> Self {
        let key = DeviceKey::new();
        let body = key.enrolment(code, "laptop");
        let answer = server.send(Method::POST, "/auth/enroll", None, Some(&body)).await;
        let data = answer.data();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Self {
            server: server.clone(),
            id: text(&data["device"]["id"]),
            audience: text(&data["server"]["audience"]),
            token: text(&data["access_token"]),
            key,
        }
    }

    #[must_use]
    pub fn key(&self) -> &DeviceKey {
        &self.key
    }

    /// Request body for a new token of the device.
    #[must_use]
    pub fn assertion(&self, at: Timestamp) -> Value {
        let mut nonce = [0_u8; 16];
        SystemRandom::new().fill(&mut nonce).unwrap();
        self.key.assertion(&self.id, &self.audience, at, &Digest::of_bytes(&nonce).to_string())
    }

    pub async fn refresh(&mut self, at: Timestamp) {
        let answer = self.server.send(Method::POST, "/auth/token", None, Some(&self.assertion(at))).await;
        self.token = answer.data()["access_token"].as_str().unwrap().to_owned();
    }

    /// Sends a request with the device's token.
    pub async fn send(&self, method: Method, path: &str, body: &Value) -> A2hResponse {
        self.server.send(method, path, Some(&self.token), Some(body)).await
    }

    /// Sends a `GET` with the device's token.
    pub async fn get(&self, path: &str) -> A2hResponse {
        self.server.send(Method::GET, path, Some(&self.token), None).await
    }

    pub async fn publish(&self, agent: &str, manifest: &Value) -> A2hResponse {
        self.send(Method::PATCH, &format!("/agents/{agent}"), &json!({"capability_manifest": manifest})).await
    }

    /// Creates an agent account and returns its id and token.
    pub async fn make_agent(&self, body: &Value) -> (String, String) {
        let answer = self.send(Method::POST, "/agents", body).await;
        let data = answer.data();
        (data["id"].as_str().unwrap().to_owned(), data["token"].as_str().unwrap().to_owned())
    }

    /// Sends a consent: the first response names the ledger entry to sign, the second request has it signed. A response
    /// that needs no signature is returned unchanged.
    pub async fn consent(&self, method: Method, path: &str, mut body: Value) -> A2hResponse {
        let response = self.send(method.clone(), path, &body).await;
        if response.refusal() != (428, "CONSENT_UNSIGNED") {
            return response;
        }
        let entry: LedgerEntry = serde_json::from_value(response.body["error"]["params"]["entry"].clone()).unwrap();
        body["entry"] = json!(self.signed(entry));
        self.send(method, path, &body).await
    }

    #[must_use]
    pub fn signed(&self, entry: LedgerEntry) -> LedgerEntry {
        LedgerEntry { signature: Some(self.key.sign(&entry.message())), ..entry }
    }

    /// Grants scopes to an agent. Returns the relation.
    pub async fn allow(&self, agent: &str, scopes: Value) -> Value {
        let body = json!({"agent_id": agent, "granted_scopes": scopes});
        self.consent(Method::POST, "/h2a/relations", body).await.data().clone()
    }

    /// Connects the device's WebSocket and authenticates. Returns the socket and the first response.
    pub async fn connect(&self) -> (A2hTestSocket, Value) {
        let mut socket = self.server.socket("human").await;
        socket.say(&json!({"type": "auth", "token": self.token})).await;
        let answer = socket.frame().await;
        (socket, answer)
    }
}

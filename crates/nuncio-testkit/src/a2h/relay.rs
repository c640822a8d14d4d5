//! Messages and keys of test devices and agents at the relay. Envelopes are opaque bytes here.

use nuncio_core::bundle::{BundleKeys, KeyBundle, OneTimeKey, SealMode, WrapAlgorithm, X25519PublicKey};
use nuncio_core::ids::{AgentId, DeviceId, PersonName};
use nuncio_core::notification::RelayParty;
use nuncio_core::time::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::{A2hResponse, A2hTestSocket, AnonymousA2hClient, DeviceKey, TestDevice};

/// An agent outside the gateway, with its access token.
#[derive(Debug)]
pub struct ExternalAgent {
    pub server: AnonymousA2hClient,
    pub id: String,
    pub token: String,
    key: DeviceKey,
}

impl ExternalAgent {
    #[must_use]
    pub fn new(server: &AnonymousA2hClient, (id, token): (String, String)) -> Self {
        Self { server: server.clone(), id, token, key: DeviceKey::new() }
    }

    /// Key that signs the external agent's key bundles.
    #[must_use]
    pub fn key(&self) -> &DeviceKey {
        &self.key
    }

    #[must_use]
    pub fn member(&self) -> Value {
        json!({"type": "agent", "id": self.id})
    }

    /// The agent as the recipient of notifications.
    #[must_use]
    pub fn recipient(&self) -> RelayParty {
        RelayParty::Agent(AgentId::parse(&self.id).unwrap())
    }

    /// Sends a request with the agent's token.
    pub async fn send(&self, method: Method, path: &str, body: &Value) -> A2hResponse {
        self.server.send(method, path, Some(&self.token), Some(body)).await
    }

    /// Sends a `GET` with the agent's token.
    pub async fn get(&self, path: &str) -> A2hResponse {
        self.server.send(Method::GET, path, Some(&self.token), None).await
    }

    pub async fn post(&self, conversation: &str, message: &Value) -> A2hResponse {
        self.send(Method::POST, &format!("/conversations/{conversation}/messages"), message).await
    }

    /// Polls for the agent's events, with a query such as `?wait=0`.
    pub async fn poll(&self, query: &str) -> A2hResponse {
        self.get(&format!("/agents/{}/messages/poll{query}", self.id)).await
    }

    /// Connects the agent's WebSocket and authenticates. Returns the socket and the first response.
    pub async fn connect(&self) -> (A2hTestSocket, Value) {
        let mut socket = self.server.socket(&format!("agent?agent_id={}", self.id)).await;
        socket.say(&json!({"type": "auth", "token": self.token})).await;
        let answer = socket.frame().await;
        (socket, answer)
    }
}

impl TestDevice {
    #[must_use]
    pub fn member(name: &str) -> Value {
        json!({"type": "human", "id": name})
    }

    /// Creates or finds a conversation and returns its id.
    pub async fn converse(&self, kind: &str, with: Value) -> String {
        let answer = self.send(Method::POST, "/conversations", &json!({"type": kind, "with": with})).await;
        answer.data()["id"].as_str().unwrap().to_owned()
    }

    pub async fn post(&self, conversation: &str, message: &Value) -> A2hResponse {
        self.send(Method::POST, &format!("/conversations/{conversation}/messages"), message).await
    }

    /// A signed key bundle of this device.
    #[must_use]
    pub fn bundle(&self, person: &str, seq: u64) -> KeyBundle {
        self.key.bundle(RelayParty::Person(PersonName::parse(person).unwrap()), &self.id, seq, SealMode::Stateful)
    }

    /// Uploads the device's keys.
    pub async fn bring(&self, body: &Value) -> A2hResponse {
        self.send(Method::POST, &format!("/users/me/devices/{}/keys", self.id), body).await
    }
}

impl DeviceKey {
    /// A key bundle signed with this key, with fixed dummy encryption keys.
    #[must_use]
    pub fn bundle(&self, owner: RelayParty, device: &str, seq: u64, mode: SealMode) -> KeyBundle {
        let keys = BundleKeys {
            device_id: DeviceId::parse(device).unwrap(),
            owner,
            signing_key: self.public(),
            hpke_key: X25519PublicKey::new([7; 32]),
            olm_key: (mode == SealMode::Stateful).then_some(X25519PublicKey::new([8; 32])),
            mode,
            algs: match mode {
                SealMode::Stateful => vec![WrapAlgorithm::Olm, WrapAlgorithm::Hpke],
                SealMode::Stateless => vec![WrapAlgorithm::Hpke],
            },
            seq,
            created_at: Timestamp::from_millis(1_794_740_400_000),
        };
        let signature = self.sign(&keys.message());
        KeyBundle { keys, signature, did: None, endorsement: None }
    }

    /// A signed one-time key of a device.
    #[must_use]
    pub fn one_time_key(&self, device: &str, key_id: &str, fallback: bool) -> OneTimeKey {
        let key = X25519PublicKey::new([9; 32]);
        let message = OneTimeKey::message(&DeviceId::parse(device).unwrap(), key_id, key, fallback);
        OneTimeKey { key_id: key_id.to_owned(), key, fallback, signature: self.sign(&message) }
    }
}

/// Request body of a text message.
#[must_use]
pub fn text(client_id: &str, envelope: impl Into<Value>) -> Value {
    json!({"client_message_id": client_id, "content_type": "text", "envelope": envelope.into()})
}

/// Request body of an artifact message.
#[must_use]
pub fn artifact(client_id: &str, subtype: &str, envelope: impl Into<Value>) -> Value {
    json!({
        "client_message_id": client_id, "content_type": "artifact", "msg_subtype": subtype,
        "envelope": envelope.into(),
    })
}

/// Test manifest with three tools, one for each sensitivity.
#[must_use]
pub fn manifest() -> Value {
    let tool = |name: &str, scope: &str| {
        json!({
            "name": name, "description_i18n_key": "x", "permission_scope": scope, "timeout_ms": 5000,
            "input_schema": {
                "type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": false,
            },
        })
    };
    let declared = |id: &str, sensitivity: &str| {
        let stem = id.replace(':', "_");
        json!({
            "id": id, "sensitivity": sensitivity,
            "label_i18n_key": format!("agent.scope.{stem}.label"),
            "description_i18n_key": format!("agent.scope.{stem}.description"),
        })
    };
    json!({
        "schema_version": "1.0", "agent_version": "1.0.0", "capability_flags": {},
        "tools": [
            tool("read_file", "filesystem:read"), tool("tell", "notification:send"), tool("where", "location:read"),
        ],
        "permission_scopes": [
            declared("filesystem:read", "medium"), declared("notification:send", "low"),
            declared("location:read", "high"),
        ],
    })
}

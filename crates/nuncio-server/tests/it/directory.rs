//! The directory of agents: registration, search, and the removal of false, failing or vanished agents.

#[path = "directory/guard.rs"]
mod guard;
#[path = "directory/hostile.rs"]
mod hostile;
#[path = "directory/revisits.rs"]
mod revisits;
#[path = "directory/servers.rs"]
mod servers;

use std::time::Duration;

use nuncio_core::time::Timestamp;
use nuncio_identity::http_signature::{SignatureParameters, sign};
use nuncio_identity::proof::{self, ProofEncoding, ProofOptions};
use nuncio_identity::{Did, DidService, NewDidDocument, SignableRequest, SigningKey};
use nuncio_server::admin::AdminCommand;
use nuncio_testkit::{Gateway, RawHttpResponse};
use serde_json::{Value, json};

use crate::anp::nonce;
use crate::dids::peer::{DidHost, DidHostReply, ForeignDid};

const PATH: &str = "/registry/agents";

async fn get(gateway: &Gateway, target: &str, headers: &str) -> RawHttpResponse {
    let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
    gateway.raw(request).await.unwrap()
}

/// Names of the search results, in order.
async fn found(gateway: &Gateway, query: &str) -> Vec<String> {
    let answer = get(gateway, &format!("{PATH}?{query}"), "").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    names(&answer.json())
}

fn names(page: &Value) -> Vec<String> {
    page["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

async fn item(gateway: &Gateway, name: &str) -> Value {
    let page = get(gateway, PATH, "").await.json();
    page["items"].as_array().unwrap().iter().find(|item| item["name"] == name).cloned().unwrap_or_default()
}

enum SenderCredential<'a> {
    Nobody,
    Key(&'a str),
    Did(&'a ForeignDid),
}

async fn send(gateway: &Gateway, by: &SenderCredential<'_>, method: &str, path: &str, body: &str) -> RawHttpResponse {
    let mut headers = String::new();
    match by {
        SenderCredential::Nobody => {}
        SenderCredential::Key(key) => headers = format!("Authorization: Bearer {key}\r\n"),
        SenderCredential::Did(someone) => {
            let target = format!("{}{path}", gateway.server().url());
            let none: [(&str, &str); 0] = [];
            let request = SignableRequest { method, target_uri: &target, headers: &none, body: body.as_bytes() };
            let (now, key_id, nonce) = (gateway.engine().now(), someone.key_id(), nonce());
            let expires = Some(now.after(Duration::from_secs(300)));
            let options = SignatureParameters { key_id: &key_id, created: now, expires, nonce: &nonce };
            for (name, value) in sign(&request, &someone.key, &options).unwrap().into_fields() {
                headers += &format!("{name}: {value}\r\n");
            }
        }
    }
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    gateway.raw(request).await.unwrap()
}

async fn register(gateway: &Gateway, by: &SenderCredential<'_>, url: &str) -> RawHttpResponse {
    send(gateway, by, "POST", PATH, &json!({"url": url}).to_string()).await
}

fn refusal(answer: &RawHttpResponse) -> (u16, String) {
    (answer.status, answer.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
}

async fn entries(gateway: &Gateway) -> Vec<Value> {
    let answer = gateway.order(AdminCommand::RegistryAgents).await.unwrap();
    answer["agents"].as_array().unwrap().clone()
}

struct ForeignAgent {
    someone: ForeignDid,
    url: String,
    path: String,
    description: Value,
}

impl ForeignAgent {
    fn at(peer: &DidHost, name: &str, now: Timestamp) -> Self {
        let someone = peer.stranger(name);
        let path = format!("/agents/{name}/ad.json");
        let url = format!("http://localhost:{}{path}", peer.port);
        let description = json!({
            "protocolType": "ANP",
            "protocolVersion": "1.0.0",
            "type": "AgentDescription",
            "url": url,
            "name": name,
            "did": someone.did.as_str(),
            "description": "Books rooms by the sea.",
            "securityDefinitions": {"didwba_sc": {"scheme": "didwba", "in": "header", "name": "Authorization"}},
            "security": "didwba_sc",
            "capabilities": [{"id": "cap.sea.book", "name": "Book", "intentTags": ["hotel.booking.create"]}],
            "interfaces": [{"type": "StructuredInterface", "protocol": "openrpc", "url": format!("{url}/rpc.json")}],
        });
        let foreign = Self { someone, url, path, description };
        foreign.publish_did(peer, &foreign.url, now);
        foreign.publish(peer, &foreign.signed(now));
        foreign
    }

    fn publish(&self, peer: &DidHost, description: &Value) {
        peer.publish_at(&self.path, DidHostReply::Document(description.clone()));
    }

    fn publish_did(&self, peer: &DidHost, description: &str, now: Timestamp) {
        let mut document = NewDidDocument::new(&self.someone.did, now);
        document.services = vec![DidService::agent_description(&self.someone.did, description.to_owned())];
        peer.publish(&self.someone.did, DidHostReply::Document(document.sign(&self.someone.key)));
    }

    fn signed(&self, now: Timestamp) -> Value {
        let domain = self.url.split('/').nth(2).unwrap().to_owned();
        signed(&self.description, &self.someone.key, &self.someone.did, &domain, now)
    }
}

fn signed(description: &Value, key: &SigningKey, did: &Did, domain: &str, now: Timestamp) -> Value {
    let Value::Object(mut document) = description.clone() else { panic!("it is an object") };
    let key_id = did.url(nuncio_identity::document::KEY_FRAGMENT);
    let options =
        ProofOptions { verification_method: &key_id, created: now, domain: Some(domain), challenge: Some("c1") };
    proof::sign(&mut document, key, &options, ProofEncoding::Multibase);
    Value::Object(document)
}

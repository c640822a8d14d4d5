//! ANP routes over real sockets: descriptions, RPC calls, negotiation and direct messages.

#[path = "anp/declared_interfaces.rs"]
mod declared_interfaces;
#[path = "anp/did_links.rs"]
mod did_links;
#[path = "anp/direct.rs"]
mod direct;
#[path = "anp/documents.rs"]
mod documents;
#[path = "anp/drafting.rs"]
mod drafting;
#[path = "anp/error_formats.rs"]
mod error_formats;
#[path = "anp/hostile.rs"]
mod hostile;
#[path = "anp/negotiation.rs"]
mod negotiation;
#[path = "anp/rpc.rs"]
mod rpc;
#[path = "anp/service.rs"]
mod service;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::ScopeId;
use nuncio_core::principal::Principal;
use nuncio_engine::ports::Clock as _;
use nuncio_identity::SignableRequest;
use nuncio_identity::http_signature::{SignatureParameters, sign};
use nuncio_testkit::{Gateway, GatewayBuilder, ManualClock, RawHttpResponse};
use serde_json::{Value, json};

use crate::agents::{DESK, count, desk, echo, held, scope, tool};
use crate::dids::peer::{DidHost, ForeignDid};
use crate::dids::{desk_did, desk_name};

pub(crate) fn agent() -> String {
    desk(&[
        scope("notes:write", "low"),
        scope("danger:do", "high"),
        echo(),
        tool("sized", "printf '{\"size\": 3}'", "output = { type = \"object\", required = [\"size\"] }"),
        tool("strict", "cat", "input = { type = \"object\", required = [\"n\"] }"),
        tool("breaks", "exit 3", ""),
        tool("secret", "printf secret", "expose = false"),
        count("scope = \"notes:write\""),
        tool("danger", "echo ran >> dangers; printf done", "scope = \"danger:do\""),
        tool("careful", "echo ran >> cares; printf done", "human_authorization = true"),
        held("timeout_ms = 30000"),
    ])
}

pub(crate) struct AnpTestServer {
    pub(crate) gateway: Gateway,
    pub(crate) clock: ManualClock,
    pub(crate) peer: DidHost,
    pub(crate) ada: ForeignDid,
}

pub(crate) async fn world() -> AnpTestServer {
    world_with(|builder| builder).await
}

pub(crate) async fn world_with(change: impl FnOnce(GatewayBuilder) -> GatewayBuilder) -> AnpTestServer {
    let clock = ManualClock::new();
    let builder = Gateway::builder().agent(DESK, &agent()).clock(&clock).dev();
    let builder = builder.settings(|settings| settings.limits.approval_seconds = APPROVAL.as_secs());
    let gateway = change(builder).start().await;
    gateway.key(&[]).await;
    let peer = DidHost::start().await;
    let ada = peer.someone("ada", clock.now());
    AnpTestServer { gateway, clock, peer, ada }
}

pub(crate) fn nonce() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("nonce-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn signed(gateway: &Gateway, someone: &ForeignDid, path: &str, body: &str) -> Vec<(String, String)> {
    let target = format!("{}{path}", gateway.server().url());
    let none: [(&str, &str); 0] = [];
    let request = SignableRequest { method: "POST", target_uri: &target, headers: &none, body: body.as_bytes() };
    let (now, key_id, nonce) = (gateway.engine().now(), someone.key_id(), nonce());
    let expires = Some(now.after(Duration::from_secs(300)));
    let options = SignatureParameters { key_id: &key_id, created: now, expires, nonce: &nonce };
    let fields = sign(&request, &someone.key, &options).unwrap().into_fields();
    fields.map(|(name, value)| (name.to_ascii_lowercase(), value)).collect()
}

pub(crate) fn request(path: &str, headers: &[(String, String)], body: &str) -> String {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
}

pub(crate) async fn post(gateway: &Gateway, path: &str, headers: &[(String, String)], body: &str) -> RawHttpResponse {
    gateway.raw(request(path, headers, body)).await.unwrap()
}

pub(crate) fn bearer(token: &str) -> Vec<(String, String)> {
    vec![("Authorization".to_owned(), format!("Bearer {token}"))]
}

pub(crate) const RPC: &str = "/agents/desk/rpc";
pub(crate) const ANP: &str = "/anp";
/// Time that an approval question waits for an answer.
pub(crate) const APPROVAL: Duration = Duration::from_secs(60);

impl AnpTestServer {
    /// Sends a body unchanged, signed by a caller.
    pub(crate) async fn send(&self, someone: &ForeignDid, path: &str, body: &str) -> RawHttpResponse {
        post(&self.gateway, path, &signed(&self.gateway, someone, path, body), body).await
    }

    /// Sends a JSON body, signed by a caller; the response must be JSON with status 200.
    pub(crate) async fn ask(&self, someone: &ForeignDid, path: &str, body: &Value) -> Value {
        let answer = self.send(someone, path, &body.to_string()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// Calls a method: returns its result, or the code of its error.
    pub(crate) async fn call(&self, someone: &ForeignDid, method: &str, params: Value) -> Result<Value, i64> {
        let request = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        outcome(&self.ask(someone, RPC, &request).await)
    }

    pub(crate) async fn grant(&self, someone: &ForeignDid, scope: &str) {
        let scopes = vec![ScopeId::parse(scope).unwrap()];
        let to = Principal::Did(someone.did.to_string());
        let granted = self.gateway.engine().access().create_grant(
            to,
            desk_name(),
            scopes,
            GrantTerm::UntilRevoked,
            Principal::Operator,
        );
        granted.await.unwrap();
    }
}

/// A request to the message service; `meta` and `body` add members to the required ones.
pub(crate) fn to_service(world: &AnpTestServer, method: &str, meta: Value, body: Value) -> Value {
    let profile = match method {
        "anp.negotiate" => "anp.meta.negotiation.v1",
        "direct.send" => "anp.direct.base.v1",
        _ => "anp.core.binding.v1",
    };
    let mut whole = json!({
        "profile": profile,
        "security_profile": "transport-protected",
        "target": {"kind": "agent", "did": desk_did(&world.gateway).as_str()},
        "operation_id": nonce(),
        "created_at": world.clock.now(),
    });
    let Value::Object(meta) = meta else { panic!("meta is an object") };
    for (name, value) in meta {
        match value {
            Value::Null => drop(whole.as_object_mut().unwrap().shift_remove(&name)),
            value => whole[name] = value,
        }
    }
    let mut request = json!({"jsonrpc": "2.0", "id": "r1", "method": method, "params": {"meta": whole}});
    request["params"]["body"] = body;
    request
}

pub(crate) fn outcome(answer: &Value) -> Result<Value, i64> {
    assert_eq!(answer["jsonrpc"], "2.0", "{answer}");
    match (answer.get("result"), answer.get("error")) {
        (Some(result), None) => Ok(result.clone()),
        (None, Some(error)) => Err(error["code"].as_i64().unwrap()),
        _ => panic!("neither or both: {answer}"),
    }
}

//! DIDs of the server and its agents, and callers identified by DIDs.

#[path = "dids/documents.rs"]
mod documents;
#[path = "dids/hostile.rs"]
mod hostile;
#[path = "dids/inbound.rs"]
mod inbound;
#[path = "dids/peer.rs"]
pub(crate) mod peer;
#[path = "dids/rotation.rs"]
mod rotation;

use nuncio_core::ids::AgentName;
use nuncio_core::time::Timestamp;
use nuncio_identity::{BoundDidDocument, Did, DidDocument, K1ProofRule};
use nuncio_server::dids::Dids;
use nuncio_testkit::{Gateway, RawHttpResponse};

use crate::agents::DESK;

pub(crate) fn desk_name() -> AgentName {
    AgentName::parse(DESK).unwrap()
}

pub(crate) fn dids(gateway: &Gateway) -> &Dids {
    gateway.server().dids()
}

/// The DID of the agent `desk`.
pub(crate) fn desk_did(gateway: &Gateway) -> Did {
    dids(gateway).agent(&desk_name()).unwrap().did().clone()
}

/// Sends a `GET` request with additional headers.
pub(crate) async fn get(gateway: &Gateway, path: &str, host: &str, headers: &str) -> RawHttpResponse {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Connection: close\r\n\r\n");
    gateway.raw(request).await.unwrap()
}

/// The status of a call of the agent's interface with an access token. The call itself may fail.
pub(crate) async fn rpc_status(gateway: &Gateway, token: &str) -> u16 {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"no_such_method","params":{}}"#;
    crate::anp::post(gateway, crate::anp::RPC, &crate::anp::bearer(token), body).await.status
}

pub(crate) fn path_of(did: &Did) -> String {
    did.resolution_url_at("")
}

/// The document of a DID as the gateway serves it; panics unless it is the DID's own.
pub(crate) async fn document(gateway: &Gateway, did: &Did) -> BoundDidDocument {
    let answer = get(gateway, &path_of(did), "localhost", "").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let document = DidDocument::from_slice(answer.body.as_bytes()).unwrap();
    document.bind(did, Timestamp::from_millis(1_800_000_000_000), K1ProofRule::Required).unwrap()
}

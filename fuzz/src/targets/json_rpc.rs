//! JSON-RPC bodies (ANP core binding): an accepted body is equal after it is written and parsed again.

use nuncio_anp::wire::{AnpRequest, AnpResponse};
use serde_json::{Value, json};

use crate::seeds::objects_with;

const MAX_RESPONSE_BYTES: usize = 1 << 16;

pub fn run(data: &[u8]) {
    match AnpRequest::read(data) {
        Ok(request) => {
            let written = request.to_json().to_string();
            assert_eq!(AnpRequest::read(written.as_bytes()).unwrap(), request);
        }
        Err(refused) => {
            let (id, error) = *refused;
            let response = AnpResponse::error(id.clone(), error);
            let written = response.to_json().to_string();
            let id = id.map_or(Value::Null, Value::String);
            assert_eq!(AnpResponse::read(written.as_bytes(), MAX_RESPONSE_BYTES, &id), Ok(response));
        }
    }
    if let Ok(response) = AnpResponse::read(data, MAX_RESPONSE_BYTES, &json!("1")) {
        let written = response.to_json().to_string();
        let again = AnpResponse::read(written.as_bytes(), 2 * MAX_RESPONSE_BYTES, &json!("1")).unwrap();
        assert_eq!(again.to_json(), response.to_json());
    }
}

#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let meta = json!({
        "profile": "anp.core.binding.v1", "security_profile": "transport-protected",
        "sender_did": "did:wba:example.com:user:alice", "target": {"kind": "agent", "did": "did:wba:example.com:hotel"},
        "operation_id": "op-1", "message_id": "m-1", "content_type": "text/plain", "created_at": "2026-06-27T12:00:00Z",
        "x_more": [1, 2.5, null],
    });
    let request = |method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": "1", "method": method, "params": params}).to_string().into_bytes()
    };
    let mut seeds = vec![
        request("anp.get_capabilities", json!({})),
        request("direct.send", json!({"meta": meta, "body": {"text": "hello"}})),
        request("direct.send", json!({"meta": meta, "auth": {"scheme": "x", "origin_proof": {}}, "body": {}})),
        b"[{\"jsonrpc\":\"2.0\"}]".to_vec(),
        br#"{"jsonrpc":"2.0","id":"1","result":{"ok":true}}"#.to_vec(),
        br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#.to_vec(),
    ];
    let proofs = include_str!("../../../crates/nuncio-identity/tests/data/origin_proofs.json");
    seeds.extend(objects_with("method", proofs));
    seeds.extend(objects_with("meta", proofs));
    seeds
}

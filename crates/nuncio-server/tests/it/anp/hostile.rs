//! Malformed and malicious ANP requests.

use std::time::Duration;

use futures_util::future::join_all;
use nuncio_identity::{Did, SigningKey};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::{ANP, RPC, outcome, post, request, signed, to_service, world, world_with};
use crate::dids::peer::ForeignDid;
use crate::dids::{desk_did, dids};

#[tokio::test]
async fn oversized_deeply_nested_or_duplicate_key_bodies_are_refused() {
    let world = world().await;
    let large = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{}\"}}", "x".repeat(2 << 20));
    let deep = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":\"r1\",\"method\":\"echo\",\"params\":{{\"a\":{}{}}}}}",
        "[".repeat(5000),
        "]".repeat(5000)
    );
    let doubled = r#"{"jsonrpc":"2.0","id":"r1","method":"anp.get_capabilities","method":"direct.send","params":{}}"#;
    for path in [ANP, RPC] {
        let answer = world.send(&world.ada, path, &large).await;
        assert!(answer.status == 413 || outcome(&answer.json()).is_err(), "{path}: {}", answer.status);
        for body in [deep.as_str(), doubled, "\u{0}", "{\"jsonrpc\":\"2.0\",\"id\":1e999,\"method\":\"echo\"}"] {
            let answer = world.send(&world.ada, path, body).await;
            assert_eq!(answer.status, 200, "{path}");
            assert!(outcome(&answer.json()).unwrap_err() <= -32600, "{path}: {}", answer.body);
        }
    }
    assert_eq!(world.gateway.audit().await.len(), 0);
}

#[tokio::test]
async fn anp_request_with_an_unfinished_body_times_out() {
    let world = world_with(|it| it.settings(|settings| settings.limits.body_seconds = 17)).await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "echo"}).to_string();
    let whole = request(RPC, &signed(&world.gateway, &world.ada, RPC, &body), &body);
    let mut stream = TcpStream::connect(world.gateway.address()).await.unwrap();
    stream.write_all(&whole.as_bytes()[..whole.len() - 3]).await.unwrap();
    world.clock.pass(Duration::from_secs(17)).await;
    assert_eq!(nuncio_testkit::RawHttpResponse::read(stream).await.unwrap().status, 408);
    assert_eq!(world.gateway.audit().await.len(), 0);
}

#[tokio::test]
async fn concurrent_rpc_calls_are_each_answered_and_recorded() {
    let world = world().await;
    let calls = (0..40).map(|n| {
        let world = &world;
        async move { world.call(&world.ada, "echo", json!({"n": n})).await }
    });
    for (n, answer) in join_all(calls).await.into_iter().enumerate() {
        assert_eq!(answer, Ok(json!({"n": n})));
    }
    assert_eq!(world.gateway.audit().await.len(), 40);
    // Of forty concurrent requests with the same signature one is accepted.
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "echo"}).to_string();
    let headers = signed(&world.gateway, &world.ada, RPC, &body);
    let answers = join_all((0..40).map(|_| post(&world.gateway, RPC, &headers, &body))).await;
    let mut statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!((statuses[0], statuses.iter().filter(|status| **status == 401).count()), (200, 39));
    assert_eq!(world.gateway.audit().await.len(), 41);
}

#[tokio::test]
async fn contradictory_signature_headers_are_refused() {
    let world = world().await;
    let eve = world.peer.stranger("eve");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "echo"}).to_string();
    let good = signed(&world.gateway, &world.ada, RPC, &body);
    let hers = signed(&world.gateway, &ForeignDid { did: world.ada.did.clone(), key: eve.key.clone() }, RPC, &body);
    let tricks: Vec<(&str, Vec<(String, String)>)> = vec![
        ("two signatures", [good.clone(), hers.clone()].concat()),
        ("hers first", [hers.clone(), good.clone()].concat()),
        ("another's key", hers),
        ("preceded by the digest of another body", {
            let mut fields = good.clone();
            fields.insert(0, ("content-digest".to_owned(), "sha-256=:AAAA:".to_owned()));
            fields
        }),
        ("an invalid token before it", [vec![("authorization".to_owned(), "Bearer x".to_owned())], good].concat()),
    ];
    for (name, fields) in tricks {
        let answer = post(&world.gateway, RPC, &fields, &body).await;
        assert!(matches!(answer.status, 400 | 401), "{name}: {answer:?}");
    }
    assert_eq!(world.gateway.audit().await.len(), 0);
}

#[tokio::test]
async fn foreign_and_look_alike_dids_are_not_taken_for_own_agents() {
    let world = world().await;
    let stranger = SigningKey::from_seed(&[9; 32]);
    let host = "localhost";
    let port = world.gateway.address().port();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "echo"}).to_string();
    let asked = world.peer.asked();
    let ours = [desk_did(&world.gateway), dids(&world.gateway).service().unwrap().did().clone()];
    let invented = Did::for_key(host, Some(port), &["agents", "desk"], &stranger).unwrap();
    let unknown = Did::for_key(host, Some(port), &["agents", "nobody"], &stranger).unwrap();
    for did in ours.into_iter().chain([invented, unknown]) {
        let thief = ForeignDid { did, key: stranger.clone() };
        let answer = world.send(&thief, RPC, &call).await;
        assert_eq!(answer.status, 401, "{}: {answer:?}", thief.did);
    }
    assert_eq!(world.peer.asked(), asked, "the server's own DID is not looked up");
    // The target must be exactly the DID of the agent, character by character.
    let did = desk_did(&world.gateway).to_string();
    for target in [
        did.to_uppercase(),
        did.replace("localhost", "LOCALHOST"),
        did.replace("localhost", "localhost."),
        did.replace("%3A", "%3a"),
        format!("{did}#key-1"),
        did.replace("desk", "dеsk"),
        did[..did.len() - 1].to_owned(),
    ] {
        let meta = json!({"target": {"kind": "agent", "did": target}});
        let request = to_service(&world, "anp.negotiate", meta, json!({"intent": {"intentTags": ["echo"]}}));
        let refused = outcome(&world.ask(&world.ada, ANP, &request).await).unwrap_err();
        assert!(matches!(refused, 1003 | 1007), "{target}: {refused}");
    }
}

#[tokio::test]
async fn anp_callers_cannot_make_the_server_fetch_private_addresses() {
    // Without development mode, this machine is not reached either.
    let gateway = nuncio_testkit::Gateway::builder().agent("desk", &super::agent()).start().await;
    gateway.key(&[]).await;
    let peer = crate::dids::peer::DidHost::start().await;
    let local = peer.someone("ada", gateway.engine().now());
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "echo"}).to_string();
    let key_id = local.key_id();
    let with = |did: &str| {
        let mut fields = signed(&gateway, &local, RPC, &body);
        for (name, value) in &mut fields {
            if name == "signature-input" {
                *value = value.replace(&key_id, &format!("{did}#key-1"));
            }
        }
        fields
    };
    for did in [
        local.did.as_str(),
        "did:wba:127.0.0.1",
        "did:wba:127.0.0.1%3A80:x",
        "did:wba:10.0.0.1:x",
        "did:wba:169.254.169.254:latest",
        "did:wba:[::1]:x",
        "did:wba:2130706433:x",
        "did:wba:0x7f000001:x",
        "did:wba:localhost%2F..:x",
        "did:wba:user%40localhost:x",
        "did:wba:localhost:..:..:x",
        "did:web:localhost",
        "http://localhost/",
    ] {
        let answer = post(&gateway, RPC, &with(did), &body).await;
        assert_eq!(answer.status, 401, "{did}: {answer:?}");
        let said: Value = answer.json();
        assert!(!said.to_string().contains("refused (os"), "the answer contains no internal error: {said}");
    }
    assert_eq!((peer.asked(), gateway.audit().await.len()), (0, 0));
}

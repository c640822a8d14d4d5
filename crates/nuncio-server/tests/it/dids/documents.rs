//! The published DID documents, and the files of their keys.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use nuncio_auth::did::HostDids as _;
use nuncio_core::Code;
use nuncio_identity::{Did, DidDocumentBinding};
use nuncio_testkit::Gateway;
use tempfile::TempDir;

use super::{desk_did, dids, document, get, path_of};
use crate::agents::{DESK, desk};

const PUBLIC: &str = "https://agents.example.com";

async fn public(data: &Arc<TempDir>) -> Gateway {
    Gateway::builder().agent(DESK, &desk(&[])).public_url(PUBLIC).data(Arc::clone(data)).start().await
}

fn directory() -> Arc<TempDir> {
    Arc::new(tempfile::tempdir().unwrap())
}

#[tokio::test]
async fn every_agent_and_the_service_publish_a_valid_did_document() {
    let gateway = Gateway::builder().agent(DESK, &desk(&[])).start().await;
    let port = gateway.address().port();
    let service = Did::parse(&format!("did:wba:localhost%3A{port}")).unwrap();
    let base = format!("http://localhost:{port}");

    let own = document(&gateway, &service).await;
    assert_eq!(own.binding(), DidDocumentBinding::Domain);
    let messages = own.document().service("ANPMessageService").unwrap();
    assert_eq!(messages.endpoint, format!("{base}/anp"));
    assert_eq!(messages.service_did.as_deref(), Some(service.as_str()));
    assert_eq!(messages.profiles, ["anp.core.binding.v1", "anp.meta.negotiation.v1", "anp.direct.base.v1"]);
    assert_eq!(messages.security_profiles, ["transport-protected"]);

    let did = desk_did(&gateway);
    assert!(did.as_str().starts_with(&format!("{service}:agents:{DESK}:e1_")), "{did}");
    let own = document(&gateway, &did).await;
    assert_eq!(own.binding(), DidDocumentBinding::Ed25519);
    let description = own.document().service("AgentDescription").unwrap();
    assert_eq!(description.id, format!("{did}#ad"));
    assert_eq!(description.endpoint, format!("{base}/agents/{DESK}/ad.json"));
    assert_eq!(own.document().service("ANPMessageService").unwrap().service_did.as_deref(), Some(service.as_str()));

    let by_key = get(&gateway, &path_of(&did), "localhost", "").await;
    let by_name = get(&gateway, &format!("/agents/{DESK}/did.json"), "localhost", "").await;
    assert_eq!((&by_key.body, by_key.header("etag")), (&by_name.body, by_name.header("etag")));
    let tag = by_name.header("etag").unwrap();
    let again = get(&gateway, &path_of(&did), "localhost", &format!("If-None-Match: {tag}\r\n")).await;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
}

#[tokio::test]
async fn unknown_agent_has_no_did_document() {
    let gateway = Gateway::builder().agent(DESK, &desk(&[])).start().await;
    let fingerprint = "e1_".to_owned() + &"A".repeat(43);
    for path in [
        "/agents/nobody/did.json".to_owned(),
        "/agents/..%2Fkeys/did.json".to_owned(),
        "/agents/%FF/did.json".to_owned(),
        format!("/agents/{DESK}/{fingerprint}/did.json"),
        format!("/agents/nobody/{}/did.json", desk_did(&gateway).segments().last().unwrap()),
    ] {
        let answer = get(&gateway, &path, "localhost", "").await;
        assert!(matches!(answer.status, 400 | 404), "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn did_documents_are_identical_after_a_restart() {
    let data = directory();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let gateway = public(&data).await;
        let agent = get(&gateway, &path_of(&desk_did(&gateway)), "localhost", "").await;
        let service = get(&gateway, "/.well-known/did.json", "localhost", "").await;
        assert_eq!((agent.status, service.status), (200, 200));
        seen.push((desk_did(&gateway), agent.body, service.body));
        gateway.stop().await;
    }
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0].0.as_str().starts_with(&format!("did:wba:agents.example.com:agents:{DESK}:e1_")));
}

#[tokio::test]
async fn did_key_files_are_readable_by_their_owner_only() {
    let data = directory();
    public(&data).await.stop().await;
    let mode = |name: &str| fs::metadata(data.path().join(name)).unwrap().permissions().mode() & 0o777;
    let file = format!("keys/agents/{DESK}.json");
    assert_eq!(["keys", "keys/agents"].map(mode), [0o700, 0o700]);
    assert_eq!([file.as_str(), "keys/service.json", "keys/home.json"].map(mode), [0o600; 3]);

    for (name, wrong) in [(file.as_str(), 0o644), ("keys/service.json", 0o640), ("keys/home.json", 0o604)] {
        fs::set_permissions(data.path().join(name), Permissions::from_mode(wrong)).unwrap();
        let refused = Gateway::builder().agent(DESK, &desk(&[])).public_url(PUBLIC).data(Arc::clone(&data));
        let error = refused.try_start().await.unwrap_err();
        assert_eq!(error.code, Code::DataDirUnusable);
        assert!(error.message.contains(name) && error.message.contains("chmod 600"), "{error}");
        fs::set_permissions(data.path().join(name), Permissions::from_mode(0o600)).unwrap();
    }
    public(&data).await.stop().await;
}

#[tokio::test]
async fn damaged_did_key_is_reported_and_never_replaced() {
    let data = directory();
    public(&data).await.stop().await;
    let file = data.path().join(format!("keys/agents/{DESK}.json"));
    let whole = fs::read_to_string(&file).unwrap();
    let other = whole.replace(PUBLIC, "https://127.0.0.1");
    for damaged in ["", "{}", &whole[..whole.len() / 2], &whole.replace("PRIVATE KEY", "PUBLIC KEY"), &other] {
        fs::write(&file, damaged).unwrap();
        let refused = Gateway::builder().agent(DESK, &desk(&[])).public_url(PUBLIC).data(Arc::clone(&data));
        let error = refused.try_start().await.unwrap_err();
        assert_eq!(error.code, Code::DataDirUnusable, "{error}");
        let secret = whole.split("-----").nth(2).unwrap().trim_matches(['\\', 'n']);
        assert!(!error.message.contains(secret), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), damaged);
    }
}

#[tokio::test]
async fn agent_that_is_removed_and_served_again_keeps_its_did() {
    let data = directory();
    let gateway = public(&data).await;
    let did = desk_did(&gateway);
    gateway.stop().await;

    let other = "[agent]\nname = \"other\"\nversion = \"1.0.0\"\n[brain]\nkind = \"script\"\n";
    let gateway = Gateway::builder().agent("other", other).public_url(PUBLIC).data(Arc::clone(&data)).start().await;
    assert_eq!(get(&gateway, &path_of(&did), "localhost", "").await.status, 404);
    assert_eq!(get(&gateway, &format!("/agents/{DESK}/did.json"), "localhost", "").await.status, 404);
    gateway.stop().await;

    let gateway = public(&data).await;
    assert_eq!(desk_did(&gateway), did);
    document(&gateway, &did).await;
}

#[tokio::test]
async fn server_without_a_domain_name_serves_without_dids() {
    let gateway = Gateway::builder().agent(DESK, &desk(&[])).public_url("http://192.0.2.7:7400").start().await;
    assert!(dids(&gateway).service().is_none() && dids(&gateway).tokens().is_none());
    assert!(dids(&gateway).why_none().unwrap().contains("IP address"));
    for path in ["/.well-known/did.json".to_owned(), format!("/agents/{DESK}/did.json")] {
        let answer = get(&gateway, &path, "localhost", "").await;
        assert_eq!(answer.status, 404);
        assert!(answer.body.contains("--public-url"), "{}", answer.body);
    }
    let session = gateway.aap().session(DESK, &[]).await;
    gateway.aap().say(&session, "hello").await;
    assert!(!gateway.data().join("keys").exists());
}

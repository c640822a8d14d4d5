//! Key rotation and changed public addresses: retired DIDs name their successor.

use std::sync::Arc;

use nuncio_anp::client::RequestSigner as _;
use nuncio_auth::DidAuthenticationResult;
use nuncio_auth::did::HostDids as _;
use nuncio_core::ErrorCode;
use nuncio_engine::ports::Store as _;
use nuncio_engine::ports::fetch::FetchRequest;
use nuncio_engine::ports::store::{KeyringChange, KeyringEntry, KeyringStore as _};
use nuncio_identity::{Did, DidAuthError};
use nuncio_server::admin::{self, AdminCommand};
use nuncio_server::dids::DidSubject;
use nuncio_server::{DataDir, SystemClock, open_engine};
use nuncio_store::SqliteStore;
use nuncio_testkit::{Gateway, GatewayBuilder};
use tempfile::TempDir;

use super::inbound::{SignedTestRequest, outgoing};
use super::{desk_did, desk_name, dids, document, get, path_of, rpc_status};
use crate::agents::{DESK, desk};

fn at(url: &str, data: &Arc<TempDir>) -> GatewayBuilder {
    Gateway::builder().agent(DESK, &desk(&[])).public_url(url).data(Arc::clone(data))
}

fn directory() -> Arc<TempDir> {
    Arc::new(tempfile::tempdir().unwrap())
}

/// Runs an admin command while no server runs.
async fn offline(data: &TempDir, order: AdminCommand) -> Result<serde_json::Value, nuncio_server::OperatorError> {
    open_engine(DataDir::open(data.path())?, Arc::new(SystemClock))
        .await?
        .carry_out(order, &admin::this_account())
        .await
}

#[tokio::test]
async fn rotated_agent_key_makes_a_new_did_that_the_old_document_names() {
    let data = directory();
    let gateway = at("https://agents.example.com", &data).start().await;
    let first = desk_did(&gateway);
    let signer = dids(&gateway).signer(&DidSubject::Agent(desk_name())).unwrap();
    let order = AdminCommand::DidRotate { subject: DidSubject::Agent(desk_name()) };
    let answer = gateway.order(order.clone()).await.unwrap();
    let second = desk_did(&gateway);
    assert_ne!(first, second);
    assert_eq!(answer["rotated"][0]["did"], second.as_str());
    assert_eq!(answer["rotated"][0]["retired"], serde_json::json!([first.as_str()]));
    assert_eq!(first.stable_subject(), second.stable_subject());

    let old = document(&gateway, &first).await;
    assert!(old.document().deactivated());
    assert_eq!(old.document().successor(), Some(&second));
    assert!(!document(&gateway, &second).await.document().deactivated());
    let by_name = get(&gateway, &format!("/agents/{DESK}/did.json"), "localhost", "").await;
    assert_eq!(by_name.json()["id"], second.as_str());
    gateway.stop().await;

    // Another rotation without a server; then a server that knows all three DIDs.
    let answer = offline(&data, order).await.unwrap();
    let third = Did::parse(answer["rotated"][0]["did"].as_str().unwrap()).unwrap();
    let gateway = at("https://agents.example.com", &data).start().await;
    assert_eq!(desk_did(&gateway), third);
    assert_eq!(document(&gateway, &first).await.document().successor(), Some(&second));
    assert_eq!(document(&gateway, &second).await.document().successor(), Some(&third));

    // A request signed by the first DID is refused with the name of the current DID.
    let mut request: FetchRequest = outgoing("https://agents.example.com/probe", Some("{}"));
    signer.sign(&mut request, None, &[]).unwrap();
    match SignedTestRequest::of(&request).check(&gateway).await {
        DidAuthenticationResult::Refused(fault @ DidAuthError::Superseded { .. }) => {
            let response = gateway.server().did_auth().challenge(&fault);
            assert_eq!(response.status(), 409);
            assert_eq!(response.headers()["cache-control"], "no-store");
            let body = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let told = serde_json::json!({
                "code": "did_superseded", "requestedDid": first.as_str(), "currentDid": third.as_str(),
                "stableSubjectId": format!("agents.example.com:agents:{DESK}"),
            });
            assert_eq!(body, told);
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn rotated_service_key_keeps_the_did_and_invalidates_tokens() {
    let data = directory();
    let gateway = at("https://agents.example.com", &data).start().await;
    gateway.key(&[]).await;
    let before = dids(&gateway).service().unwrap();
    let token = dids(&gateway).tokens().unwrap().issue(&desk_did(&gateway), gateway.engine().now()).access_token;
    assert_eq!(rpc_status(&gateway, &token).await, 200);
    gateway.order(AdminCommand::DidRotate { subject: DidSubject::Service }).await.unwrap();
    let after = dids(&gateway).service().unwrap();
    assert_eq!(before.did(), after.did());
    assert_ne!(before.key().public().thumbprint(), after.key().public().thumbprint());
    assert_eq!(rpc_status(&gateway, &token).await, 401);
    let served = document(&gateway, after.did()).await;
    assert!(!served.document().deactivated());
    assert_eq!(served.document().whole(), after.document().document().whole());
}

#[tokio::test]
async fn did_token_is_refused_after_the_key_of_its_did_is_rotated() {
    let gateway = at("https://agents.example.com", &directory()).start().await;
    gateway.key(&[]).await;
    let token = dids(&gateway).tokens().unwrap().issue(&desk_did(&gateway), gateway.engine().now()).access_token;
    assert_eq!(rpc_status(&gateway, &token).await, 200);
    gateway.order(AdminCommand::DidRotate { subject: DidSubject::Agent(desk_name()) }).await.unwrap();
    assert_eq!(rpc_status(&gateway, &token).await, 409, "its DID has a successor");
}

#[tokio::test]
async fn did_of_an_unknown_agent_cannot_be_rotated_or_shown() {
    let data = directory();
    let gateway = at("https://agents.example.com", &data).start().await;
    let nobody = nuncio_core::ids::AgentName::parse("nobody").unwrap();
    for order in [
        AdminCommand::DidShow { agent: Some(nobody.clone()) },
        AdminCommand::DidRotate { subject: DidSubject::Agent(nobody.clone()) },
    ] {
        let error = gateway.order(order).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::DidUnavailable);
        assert!(error.message.contains("nobody"), "{error}");
    }
    let shown = gateway.order(AdminCommand::DidShow { agent: None }).await.unwrap();
    let dids: Vec<_> = shown["dids"].as_array().unwrap().iter().map(|did| did["did"].as_str().unwrap()).collect();
    assert_eq!(dids, ["did:wba:agents.example.com", desk_did(&gateway).as_str()]);
    assert_eq!(shown["dids"][0]["document"], "https://agents.example.com/.well-known/did.json");
    assert!(!shown.to_string().contains("PRIVATE"));

    let empty = offline(&tempfile::tempdir().unwrap(), AdminCommand::DidShow { agent: None }).await.unwrap();
    assert!(empty["none_because"].as_str().unwrap().contains("nuncio serve"), "{empty}");
}

#[tokio::test]
async fn changed_public_url_is_refused_until_dids_are_moved() {
    let data = directory();
    let gateway = at("https://old.example.com", &data).start().await;
    let (first, service) = (desk_did(&gateway), dids(&gateway).service().unwrap().did().clone());
    // DIDs cannot be moved while a server runs, since it would continue with the old URL.
    let to = "https://new.example.com:8443/".to_owned();
    let error = gateway.order(AdminCommand::DidMove { to: to.clone() }).await.unwrap_err();
    assert!(error.message.contains("stop it"), "{error}");
    gateway.stop().await;

    let elsewhere = ["https://new.example.com:8443", "https://old.example.com:8443", "http://192.0.2.7:7400"];
    for url in elsewhere {
        let error = at(url, &data).try_start().await.unwrap_err();
        assert_eq!(error.code, ErrorCode::PublicUrlChanged);
        assert!(error.message.contains("https://old.example.com"), "{error}");
    }
    let error = at(elsewhere[0], &data).try_start().await.unwrap_err();
    assert!(error.message.contains("nuncio did rotate --to https://new.example.com:8443"), "{error}");
    let forgotten = Gateway::builder().agent(DESK, &desk(&[])).data(Arc::clone(&data));
    assert_eq!(forgotten.try_start().await.unwrap_err().code, ErrorCode::PublicUrlChanged);
    at("https://old.example.com/", &data).start().await.stop().await;

    for wrong in ["http://192.0.2.7", "https://new.example.com/path"] {
        let error = offline(&data, AdminCommand::DidMove { to: wrong.to_owned() }).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::DidUnavailable);
    }
    offline(&data, AdminCommand::DidMove { to }).await.unwrap();
    assert_eq!(
        at("https://old.example.com", &data).try_start().await.unwrap_err().code,
        ErrorCode::PublicUrlChanged,
        "the old address is refused after the move"
    );
    let gateway = at("https://new.example.com:8443", &data).start().await;
    let moved = desk_did(&gateway);
    assert!(moved.as_str().starts_with("did:wba:new.example.com%3A8443:agents:"), "{moved}");
    assert_eq!(document(&gateway, &first).await.document().successor(), Some(&moved));
    // A server with keys accepts any `Host`.
    gateway.key(&[]).await;
    // Both service DIDs have the same path; the old host gets the deactivated document of the old DID.
    let old = get(&gateway, "/.well-known/did.json", "old.example.com", "").await.json();
    assert_eq!((old["id"].as_str(), old["deactivated"].as_bool()), (Some(service.as_str()), Some(true)));
    assert_eq!(old["successorDid"], "did:wba:new.example.com%3A8443");
    let new = get(&gateway, "/.well-known/did.json", "new.example.com:8443", "").await.json();
    assert_eq!(new["id"], "did:wba:new.example.com%3A8443");
}

#[tokio::test]
async fn interrupted_did_move_is_detected_and_can_be_finished() {
    let data = directory();
    at("https://old.example.com", &data).start().await.stop().await;
    let store = || SqliteStore::open(&data.path().join("nuncio.db")).unwrap();
    let before = store().keyring_entry("did/base").await.unwrap().unwrap();
    let to = "https://new.example.com".to_owned();
    let moved = offline(&data, AdminCommand::DidMove { to: to.clone() }).await.unwrap();
    // The state after a crash before the last step.
    let undone = KeyringEntry { revision: before.revision + 2, ..before };
    store().commit(vec![KeyringChange::Replace(undone).into()]).await.unwrap();
    for url in ["https://old.example.com", "https://new.example.com"] {
        assert_eq!(at(url, &data).try_start().await.unwrap_err().code, ErrorCode::PublicUrlChanged, "{url}");
    }
    let again = offline(&data, AdminCommand::DidMove { to }).await.unwrap();
    assert_eq!(moved["rotated"], again["rotated"], "a repeated move changes nothing");
    at("https://new.example.com", &data).start().await;
}

#[tokio::test]
async fn loopback_dids_follow_a_changed_port() {
    let gateway = Gateway::builder().agent(DESK, &desk(&[])).start().await;
    let first = desk_did(&gateway);
    let data = gateway.stop().await;
    let gateway = Gateway::builder().agent(DESK, &desk(&[])).data(data).start().await;
    let second = desk_did(&gateway);
    assert_eq!(second.port(), Some(gateway.address().port()));
    assert_eq!(first.segments().last(), second.segments().last(), "the key is the same");
    document(&gateway, &second).await;
    let data = gateway.stop().await;
    // Setting or removing a public URL is a decision of the operator.
    assert_eq!(
        at("https://agents.example.com", &data).try_start().await.unwrap_err().code,
        ErrorCode::PublicUrlChanged
    );
    assert_eq!(path_of(&first), path_of(&second));
}

//! The published DID documents, and where their keys are stored.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use nuncio_auth::did::HostDids as _;
use nuncio_core::ErrorCode;
use nuncio_engine::ports::Store as _;
use nuncio_engine::ports::store::{KeyringChange, KeyringEntry, KeyringStore as _};
use nuncio_identity::{Did, DidDocumentBinding};
use nuncio_store::SqliteStore;
use nuncio_testkit::{Gateway, GatewayBuilder};
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

/// Data directory with the key files that an earlier version wrote, here for the agent `desk`.
fn data_directory_of_an_earlier_version() -> Arc<TempDir> {
    const EARLIER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../nuncio/tests/fixtures/data-c83e809/server");
    let data = directory();
    fs::create_dir_all(data.path().join("keys/agents")).unwrap();
    for (from, to) in [
        ("people.key", "people.key"),
        ("webhook.key", "webhook.key"),
        ("keys/home.json", "keys/home.json"),
        ("keys/service.json", "keys/service.json"),
        ("keys/agents/script.json", AGENT_FILE),
    ] {
        fs::copy(format!("{EARLIER}/{from}"), data.path().join(to)).unwrap();
        fs::set_permissions(data.path().join(to), Permissions::from_mode(0o600)).unwrap();
    }
    data
}

const AGENT_FILE: &str = "keys/agents/desk.json";
const KEY_FILES: [&str; 5] = ["people.key", "webhook.key", "keys/home.json", "keys/service.json", AGENT_FILE];

fn at_loopback(data: &Arc<TempDir>) -> GatewayBuilder {
    Gateway::builder().agent(DESK, &desk(&[])).data(Arc::clone(data))
}

#[tokio::test]
async fn keys_are_sealed_in_the_store_and_in_no_file() {
    let data = directory();
    public(&data).await.stop().await;
    assert!(KEY_FILES.iter().all(|file| !data.path().join(file).exists()) && !data.path().join("keys").exists());
    let store = SqliteStore::open(&data.path().join("nuncio.db")).unwrap();
    let names: Vec<_> = store.keyring().await.unwrap().into_iter().map(|entry| entry.name).collect();
    let (audit_key, others) = names.split_first().unwrap();
    assert!(audit_key.starts_with("audit/"), "{audit_key} is public");
    assert_eq!(others, ["check", "did/agents/desk", "did/base", "did/service", "people", "webhook"]);
    drop(store);
    let bytes = fs::read(data.path().join("nuncio.db")).unwrap();
    assert!(!bytes.windows(11).any(|window| window == b"PRIVATE KEY"));
}

#[tokio::test]
async fn key_files_of_an_earlier_version_move_into_the_store() {
    let data = data_directory_of_an_earlier_version();
    let gateway = at_loopback(&data).start().await;
    assert!(KEY_FILES.iter().all(|file| !data.path().join(file).exists()) && !data.path().join("keys").exists());
    let did = desk_did(&gateway);
    assert_eq!(did.segments().last().unwrap(), "e1_RCvMJmw98EBzxw-xrxr7VZT-ATAQBjfUixmZI_wGWmw");
    gateway.stop().await;
    let gateway = at_loopback(&data).start().await;
    assert_eq!(desk_did(&gateway).segments().last(), did.segments().last(), "the key is the same");
}

#[tokio::test]
async fn interrupted_move_of_key_files_is_finished_at_the_next_start() {
    let data = data_directory_of_an_earlier_version();
    let copies = KEY_FILES.map(|file| fs::read(data.path().join(file)).unwrap());
    at_loopback(&data).start().await.stop().await;
    let restore = |file: &str, content: &[u8]| {
        fs::create_dir_all(data.path().join("keys/agents")).unwrap();
        fs::write(data.path().join(file), content).unwrap();
        fs::set_permissions(data.path().join(file), Permissions::from_mode(0o600)).unwrap();
    };
    // The crash came after the commit, before the files were removed. The DIDs follow the port, so their entries differ
    // from the files by now, and such files stay.
    KEY_FILES.iter().zip(&copies).for_each(|(file, content)| restore(file, content));
    at_loopback(&data).start().await.stop().await;
    let left: Vec<_> = KEY_FILES.into_iter().filter(|file| data.path().join(file).exists()).collect();
    assert_eq!(left, ["keys/home.json", "keys/service.json", AGENT_FILE]);
}

#[tokio::test]
async fn key_file_readable_by_others_is_not_moved() {
    for file in KEY_FILES {
        let data = data_directory_of_an_earlier_version();
        fs::set_permissions(data.path().join(file), Permissions::from_mode(0o640)).unwrap();
        let error = at_loopback(&data).try_start().await.unwrap_err();
        assert_eq!(error.code, ErrorCode::DataDirUnusable);
        assert!(error.message.contains(file) && error.message.contains("chmod 600"), "{error}");
        assert!(KEY_FILES.iter().all(|file| data.path().join(file).exists()), "{file}");
    }
}

#[tokio::test]
async fn damaged_key_file_is_reported_and_neither_moved_nor_replaced() {
    let data = data_directory_of_an_earlier_version();
    let file = data.path().join(AGENT_FILE);
    let whole = fs::read_to_string(&file).unwrap();
    let other = whole.replace("http://localhost:47400", "https://127.0.0.1");
    for damaged in ["", "{}", &whole[..whole.len() / 2], &whole.replace("PRIVATE KEY", "PUBLIC KEY"), &other] {
        fs::write(&file, damaged).unwrap();
        let error = at_loopback(&data).try_start().await.unwrap_err();
        assert_eq!(error.code, ErrorCode::DataDirUnusable, "{error}");
        let secret = whole.split("-----").nth(2).unwrap().trim_matches(['\\', 'n']);
        assert!(!error.message.contains(secret), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), damaged);
    }
    fs::write(&file, &whole).unwrap();
    fs::write(data.path().join("people.key"), "no key").unwrap();
    let error = at_loopback(&data).try_start().await.unwrap_err();
    assert!(error.message.contains("people.key"), "{error}");
    assert!(KEY_FILES.iter().all(|file| data.path().join(file).exists()), "nothing was moved");
}

#[tokio::test]
async fn damaged_stored_key_is_reported_and_never_replaced() {
    let data = directory();
    public(&data).await.stop().await;
    let open = || SqliteStore::open(&data.path().join("nuncio.db")).unwrap();
    for name in ["did/agents/desk", "did/base", "did/service", "people", "webhook"] {
        let store = open();
        let entry = store.keyring_entry(name).await.unwrap().unwrap();
        let (sealed, revision) = (entry.sealed.clone(), entry.revision);
        let damaged = |sealed: &str, revision| KeyringEntry { name: name.into(), sealed: sealed.into(), revision };
        let put = |entry| vec![KeyringChange::Replace(entry).into()];
        store.commit(put(damaged(&sealed[..sealed.len() - 4], revision + 1))).await.unwrap();
        drop(store);
        let refused = Gateway::builder().agent(DESK, &desk(&[])).public_url(PUBLIC).data(Arc::clone(&data));
        let error = refused.try_start().await.unwrap_err();
        assert_eq!(error.code, ErrorCode::StoreDamaged, "{error}");
        assert!(error.message.contains(name), "{error}");
        let store = open();
        assert_eq!(store.keyring_entry(name).await.unwrap().unwrap().revision, revision + 1);
        store.commit(put(damaged(&sealed, revision + 2))).await.unwrap();
    }
    public(&data).await.stop().await;
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

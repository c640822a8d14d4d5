//! Who may register agents in the directory and remove them.

use nuncio_anp::directory::RegistrationPolicy;
use nuncio_core::principal::Principal;
use nuncio_engine::ports::Clock as _;
use nuncio_server::admin::AdminCommand;
use nuncio_testkit::{Gateway, GatewayBuilder, ManualClock};
use serde_json::json;

use super::{ForeignAgent, PATH, SenderCredential, entries, refusal, register, send};
use crate::agents::{DESK, desk, echo};
use crate::anp::agent;
use crate::dids::desk_did;
use crate::dids::peer::{DidHost, ForeignDid};

struct DirectoryTestServer {
    gateway: Gateway,
    peer: DidHost,
    clock: ManualClock,
    key: String,
}

async fn world(change: impl FnOnce(GatewayBuilder) -> GatewayBuilder) -> DirectoryTestServer {
    let clock = ManualClock::new();
    let gateway = change(Gateway::builder().agent(DESK, &agent()).clock(&clock).dev()).start().await;
    let key = gateway.key(&[]).await.secret;
    DirectoryTestServer { gateway, peer: DidHost::start().await, clock, key }
}

fn accepting(accept: RegistrationPolicy) -> impl FnOnce(GatewayBuilder) -> GatewayBuilder {
    move |it| it.settings(|settings| settings.registry.accept = accept)
}

#[tokio::test]
async fn did_can_register_and_remove_only_itself() {
    let DirectoryTestServer { gateway, peer, clock, .. } = world(|it| it).await;
    let sea = ForeignAgent::at(&peer, "sea", clock.now());
    let neighbour = peer.someone("neighbour", clock.now());
    let elsewhere = DidHost::start().await.someone("stranger", clock.now());

    let answer = register(&gateway, &SenderCredential::Nobody, &sea.url).await;
    assert_eq!(answer.status, 401);
    assert!(answer.header("www-authenticate").unwrap().starts_with("DIDWba "), "{answer:?}");
    // A caller of another host is refused before its host is read.
    let before = peer.asked();
    let answer = register(&gateway, &SenderCredential::Did(&elsewhere), &sea.url).await;
    assert_eq!(refusal(&answer), (403, "registration_refused".to_owned()));
    assert_eq!(peer.asked(), before);
    let answer = register(&gateway, &SenderCredential::Did(&neighbour), &sea.url).await;
    assert_eq!(refusal(&answer), (403, "registration_refused".to_owned()));
    assert!(entries(&gateway).await.is_empty());

    let answer = register(&gateway, &SenderCredential::Did(&sea.someone), &sea.url).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(answer.header("location"), Some(format!("{}{PATH}/{id}", gateway.server().url()).as_str()));
    // A repeated registration by URL or DID changes nothing.
    let again = register(&gateway, &SenderCredential::Did(&sea.someone), &format!("{}#x", sea.url)).await;
    assert_eq!((again.status, &again.json()["id"]), (200, &json!(id)));
    let body = json!({"did": sea.someone.did.as_str()}).to_string();
    let by_did = send(&gateway, &SenderCredential::Did(&sea.someone), "POST", PATH, &body).await;
    assert_eq!((by_did.status, &by_did.json()["id"]), (200, &json!(id)));
    assert_eq!(entries(&gateway).await.len(), 1);

    // Only the agent can remove itself, once.
    let path = format!("{PATH}/{id}");
    assert_eq!(send(&gateway, &SenderCredential::Nobody, "DELETE", &path, "").await.status, 401);
    for other in [&neighbour, &elsewhere] {
        let answer = send(&gateway, &SenderCredential::Did(other), "DELETE", &path, "").await;
        assert_eq!(refusal(&answer), (403, "registration_refused".to_owned()));
    }
    assert_eq!(entries(&gateway).await.len(), 1);
    assert_eq!(send(&gateway, &SenderCredential::Did(&sea.someone), "DELETE", &path, "").await.status, 204);
    for gone in [path.as_str(), "/registry/agents/reg_0", "/registry/agents/..%2Fx"] {
        let answer = send(&gateway, &SenderCredential::Did(&sea.someone), "DELETE", gone, "").await;
        assert_eq!(refusal(&answer), (404, "not_registered".to_owned()), "{gone}");
    }
    assert!(entries(&gateway).await.is_empty());
}

#[tokio::test]
async fn did_of_a_host_can_register_agents_of_that_host() {
    let DirectoryTestServer { gateway, peer, clock, .. } = world(|it| it).await;
    let sea = ForeignAgent::at(&peer, "sea", clock.now());
    let host = host_of(&peer, clock.now());
    let answer = register(&gateway, &SenderCredential::Did(&host), &sea.url).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(entries(&gateway).await[0]["by"], json!(host.did.as_str()));
    // The agent may remove itself.
    let path = format!("{PATH}/{}", answer.json()["id"].as_str().unwrap());
    assert_eq!(send(&gateway, &SenderCredential::Did(&sea.someone), "DELETE", &path, "").await.status, 204);
}

fn host_of(peer: &DidHost, now: nuncio_core::time::Timestamp) -> ForeignDid {
    let key = peer.stranger("host").key;
    let did = nuncio_identity::Did::new("localhost", Some(peer.port), &[]).unwrap();
    let someone = ForeignDid { did, key };
    peer.publish(&someone.did, crate::dids::peer::DidHostReply::Document(someone.document(now)));
    someone
}

#[tokio::test]
async fn key_holders_register_any_agent_and_remove_only_their_own_registrations() {
    let DirectoryTestServer { gateway, peer, clock, key } = world(|it| it).await;
    let (sea, hill) = (ForeignAgent::at(&peer, "sea", clock.now()), ForeignAgent::at(&peer, "hill", clock.now()));
    let other = gateway.key(&[]).await.secret;
    let answer = register(&gateway, &SenderCredential::Key(&key), &sea.url).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let path = format!("{PATH}/{}", answer.json()["id"].as_str().unwrap());
    let answer = send(&gateway, &SenderCredential::Key(&other), "DELETE", &path, "").await;
    assert_eq!(refusal(&answer), (403, "registration_refused".to_owned()));
    assert_eq!(send(&gateway, &SenderCredential::Key("nk_wrong"), "DELETE", &path, "").await.status, 401);
    assert_eq!(send(&gateway, &SenderCredential::Key(&key), "DELETE", &path, "").await.status, 204);

    // The operator can add and remove any agent.
    let added = gateway.order(AdminCommand::RegistryAdd { target: hill.url.clone() }).await.unwrap();
    assert_eq!((&added["new"], &added["agent"]["by"]), (&json!(true), &json!(Principal::Operator)));
    let answer = send(
        &gateway,
        &SenderCredential::Key(&key),
        "DELETE",
        &format!("{PATH}/{}", added["agent"]["id"].as_str().unwrap()),
        "",
    )
    .await;
    assert_eq!(answer.status, 403);
    gateway.order(AdminCommand::RegistryRemove { which: hill.someone.did.to_string() }).await.unwrap();
    let gone = gateway.order(AdminCommand::RegistryRemove { which: hill.url }).await.unwrap_err();
    assert_eq!(gone.code, nuncio_core::ErrorCode::NotRegistered);
    assert!(entries(&gateway).await.is_empty());
}

#[tokio::test]
async fn accept_setting_decides_which_callers_may_register_agents() {
    let nobody = world(accepting(RegistrationPolicy::Nobody)).await;
    let sea = ForeignAgent::at(&nobody.peer, "sea", nobody.clock.now());
    for by in [SenderCredential::Key(&nobody.key), SenderCredential::Did(&sea.someone)] {
        let answer = register(&nobody.gateway, &by, &sea.url).await;
        assert_eq!(refusal(&answer), (403, "registration_refused".to_owned()));
    }
    assert!(entries(&nobody.gateway).await.is_empty());

    let anyone = world(accepting(RegistrationPolicy::Anyone)).await;
    let sea = ForeignAgent::at(&anyone.peer, "sea", anyone.clock.now());
    let answer = register(&anyone.gateway, &SenderCredential::Nobody, &sea.url).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(entries(&anyone.gateway).await[0]["by"], "anonymous");
    let path = format!("{PATH}/{}", answer.json()["id"].as_str().unwrap());
    assert_eq!(send(&anyone.gateway, &SenderCredential::Nobody, "DELETE", &path, "").await.status, 401);
    // A registration by the agent itself replaces an anonymous one.
    assert_eq!(register(&anyone.gateway, &SenderCredential::Did(&sea.someone), &sea.url).await.status, 200);
    assert_eq!(entries(&anyone.gateway).await[0]["by"], json!(sea.someone.did.as_str()));
}

#[tokio::test]
async fn directory_limits_the_number_of_agents_per_host() {
    let DirectoryTestServer { gateway, peer, clock, key } = world(|it| {
        it.settings(|settings| (settings.registry.max_agents, settings.registry.max_agents_per_host) = (3, 2))
    })
    .await;
    let by = SenderCredential::Key(&key);
    let agents = ["a", "b", "c"].map(|name| ForeignAgent::at(&peer, name, clock.now()));
    assert_eq!(register(&gateway, &by, &agents[0].url).await.status, 201);
    assert_eq!(register(&gateway, &by, &agents[1].url).await.status, 201);
    let answer = register(&gateway, &by, &agents[2].url).await;
    assert_eq!(refusal(&answer), (429, "directory_full".to_owned()));
    assert_eq!(register(&gateway, &by, &agents[1].url).await.status, 200, "a listed agent can register again");
    assert_eq!(entries(&gateway).await.len(), 2);
}

#[tokio::test]
async fn directory_limits_the_number_of_agents_of_all_hosts() {
    let DirectoryTestServer { gateway, peer, clock, key } = world(|it| {
        it.settings(|settings| (settings.registry.max_agents, settings.registry.max_agents_per_host) = (3, 100))
    })
    .await;
    let (by, second) = (SenderCredential::Key(&key), DidHost::start().await);
    let mut ids = Vec::new();
    for (host, name) in [(&peer, "a"), (&peer, "b"), (&second, "c")] {
        let foreign = ForeignAgent::at(host, name, clock.now());
        let answer = register(&gateway, &by, &foreign.url).await;
        assert_eq!(answer.status, 201, "{name}");
        ids.push(answer.json()["id"].as_str().unwrap().to_owned());
    }
    let last = ForeignAgent::at(&second, "d", clock.now());
    let answer = register(&gateway, &by, &last.url).await;
    assert_eq!(refusal(&answer), (429, "directory_full".to_owned()));
    assert_eq!(entries(&gateway).await.len(), 3);
    // A removed agent makes room for another.
    let path = format!("{PATH}/{}", ids[0]);
    assert_eq!(send(&gateway, &by, "DELETE", &path, "").await.status, 204);
    assert_eq!(register(&gateway, &by, &last.url).await.status, 201);
}

#[tokio::test]
async fn own_agents_and_invalid_registrations_are_refused_with_the_reason() {
    let DirectoryTestServer { gateway, key, .. } =
        world(|it| it.agent("second", &desk(&[echo()]).replace(DESK, "second"))).await;
    let own = format!("{}/agents/{DESK}/ad.json", gateway.server().url());
    let answer = register(&gateway, &SenderCredential::Key(&key), &own).await;
    assert_eq!(refusal(&answer), (403, "registration_refused".to_owned()));
    let did = json!({"did": desk_did(&gateway).as_str()}).to_string();
    assert_eq!(send(&gateway, &SenderCredential::Key(&key), "POST", PATH, &did).await.status, 403);
    for (body, code) in [
        ("", "bad_json"),
        ("{", "bad_json"),
        ("[]", "bad_request"),
        ("{}", "bad_request"),
        (r#"{"url": "https://a.example/ad.json", "did": "did:wba:a.example"}"#, "bad_request"),
        (r#"{"url": "https://a.example/ad.json", "more": 1}"#, "bad_request"),
        (r#"{"url": "a.example/ad.json"}"#, "bad_request"),
        (r#"{"url": "file:///etc/passwd"}"#, "bad_request"),
        (r#"{"url": "data:application/json,{}"}"#, "bad_request"),
        (r#"{"did": "did:web:a.example"}"#, "bad_request"),
        (r#"{"url": "https://a.example/", "url": "https://b.example/"}"#, "bad_request"),
    ] {
        let answer = send(&gateway, &SenderCredential::Key(&key), "POST", PATH, body).await;
        assert_eq!(refusal(&answer), (400, code.to_owned()), "{body}: {}", answer.body);
    }
    let answer = send(
        &gateway,
        &SenderCredential::Key(&key),
        "POST",
        PATH,
        &format!("{{\"url\": \"https://{}/\"}}", "x".repeat(20_000)),
    )
    .await;
    assert_eq!(answer.status, 400);
    assert!(entries(&gateway).await.is_empty());
}

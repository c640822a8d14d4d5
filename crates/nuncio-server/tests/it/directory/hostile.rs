//! Registrations with false descriptions or misbehaving hosts are refused with the reason.

use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Clock as _;
use nuncio_testkit::{Gateway, ManualClock};
use serde_json::{Value, json};

use super::{ForeignAgent, SenderCredential, entries, found, refusal, register, signed};
use crate::agents::DESK;
use crate::anp::agent;
use crate::dids::peer::{DidHost, DidHostReply};

type HostileListingCase = (&'static str, fn(&DidHost, &ForeignAgent, Timestamp), u16, &'static str, &'static str);

fn changed(foreign: &ForeignAgent, now: Timestamp, change: impl FnOnce(&mut Value)) -> Value {
    let mut description = foreign.description.clone();
    change(&mut description);
    let domain = foreign.url.split('/').nth(2).unwrap().to_owned();
    signed(&description, &foreign.someone.key, &foreign.someone.did, &domain, now)
}

fn domain(foreign: &ForeignAgent) -> String {
    foreign.url.split('/').nth(2).unwrap().to_owned()
}

const CASES: &[HostileListingCase] = &[
    ("no proof", |peer, it, _| it.publish(peer, &it.description), 422, "peer_untrusted", "proof could not be verified"),
    (
        "changed after it was signed",
        |peer, it, now| {
            let mut description = it.signed(now);
            description["name"] = json!("Grand Hotel");
            it.publish(peer, &description);
        },
        422,
        "peer_untrusted",
        "cannot be trusted",
    ),
    (
        "signed with another key",
        |peer, it, now| {
            let eve = peer.stranger("eve");
            it.publish(peer, &signed(&it.description, &eve.key, &it.someone.did, &domain(it), now));
        },
        422,
        "peer_untrusted",
        "cannot be trusted",
    ),
    (
        "signed for another host",
        |peer, it, now| it.publish(peer, &signed(&it.description, &it.someone.key, &it.someone.did, "a.example", now)),
        422,
        "peer_untrusted",
        "cannot be trusted",
    ),
    (
        "a DID of another host",
        |peer, it, now| {
            let other = peer.someone("other", now);
            let mut description = it.description.clone();
            description["did"] = json!(other.did.as_str());
            it.publish(peer, &signed(&description, &it.someone.key, &it.someone.did, &domain(it), now));
        },
        422,
        "peer_untrusted",
        "",
    ),
    (
        "the DID describes itself elsewhere",
        |peer, it, now| it.publish_did(peer, "https://localhost.evil.example/ad.json", now),
        422,
        "peer_untrusted",
        "is described at https://localhost.evil.example/ad.json",
    ),
    (
        "a description that names the address of another host",
        |peer, it, now| {
            let description = changed(it, now, |it| it["url"] = json!("https://grand-hote1.example/ad.json"));
            it.publish(peer, &description);
        },
        422,
        "peer_untrusted",
        "address could not be verified",
    ),
    (
        "the DID document of another DID",
        |peer, it, now| {
            let eve = peer.stranger("eve");
            peer.publish(&it.someone.did, DidHostReply::Document(eve.document(now)));
        },
        422,
        "peer_untrusted",
        "not the document of",
    ),
    (
        "no DID document",
        |peer, it, _| peer.publish(&it.someone.did, DidHostReply::Other(404, ("x-a", "b".to_owned()), String::new())),
        422,
        "peer_untrusted",
        "did could not be verified",
    ),
    (
        "no DID",
        |peer, it, _| {
            let mut description = it.description.clone();
            description.as_object_mut().unwrap().shift_remove("did");
            it.publish(peer, &description);
        },
        422,
        "peer_untrusted",
        "it names no DID",
    ),
    (
        "a DID that cannot be resolved",
        |peer, it, _| {
            let mut description = it.description.clone();
            description["did"] = json!("did:web:localhost");
            it.publish(peer, &description);
        },
        422,
        "peer_untrusted",
        "did:web:localhost",
    ),
    (
        "a field that breaks the specification",
        |peer, it, now| it.publish(peer, &changed(it, now, |it| it["interfaces"][0]["url"] = json!("not an address"))),
        422,
        "validation_error",
        "/interfaces/0/url",
    ),
    ("something else", |peer, it, _| it.publish(peer, &json!({"openrpc": "1.3.2"})), 422, "validation_error", ""),
    (
        "no JSON",
        |peer, it, _| {
            let html = ("content-type", "text/html".to_owned());
            peer.publish_at(&it.path, DidHostReply::Other(200, html, "<html>".to_owned()));
        },
        422,
        "validation_error",
        "text/html",
    ),
    (
        "without end",
        |peer, it, _| peer.publish_at(&it.path, DidHostReply::Endless),
        422,
        "validation_error",
        "more than",
    ),
    (
        "deep",
        |peer, it, _| {
            let json = ("content-type", "application/json".to_owned());
            let deep = format!("{{\"a\":{}{}}}", "[".repeat(5000), "]".repeat(5000));
            peer.publish_at(&it.path, DidHostReply::Other(200, json, deep));
        },
        422,
        "validation_error",
        "",
    ),
    (
        "a redirect to a private address",
        |peer, it, _| {
            let to = ("location", "http://169.254.169.254/latest/meta-data".to_owned());
            peer.publish_at(&it.path, DidHostReply::Other(302, to, String::new()));
        },
        502,
        "endpoint_unreachable",
        "redirects are not followed",
    ),
    (
        "not there",
        |peer, it, _| peer.publish_at(&it.path, DidHostReply::Other(404, ("x-a", "b".to_owned()), String::new())),
        502,
        "endpoint_unreachable",
        "answered 404",
    ),
    (
        "behind a login",
        |peer, it, _| peer.publish_at(&it.path, DidHostReply::Other(401, ("x-a", "b".to_owned()), String::new())),
        422,
        "auth_required",
        "requires authentication; sign the request with a DID",
    ),
];

#[tokio::test]
async fn unverifiable_agent_is_not_listed_and_the_reason_is_given() {
    let clock = ManualClock::new();
    let gateway = Gateway::builder().agent(DESK, &agent()).clock(&clock).dev().start().await;
    let key = gateway.key(&[]).await.secret;
    let peer = DidHost::start().await;
    let good = ForeignAgent::at(&peer, "good", clock.now());
    assert_eq!(register(&gateway, &SenderCredential::Key(&key), &good.url).await.status, 201);
    let before = (entries(&gateway).await, found(&gateway, "").await);
    for (name, spoil, status, code, said) in CASES {
        let foreign = ForeignAgent::at(&peer, "bad", clock.now());
        spoil(&peer, &foreign, clock.now());
        let answer = register(&gateway, &SenderCredential::Key(&key), &foreign.url).await;
        assert_eq!(refusal(&answer), (*status, (*code).to_owned()), "{name}: {}", answer.body);
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(said), "{name}: {message}");
        assert_eq!((entries(&gateway).await, found(&gateway, "").await), before, "{name}");
    }
    // The agent is accepted once its description is valid.
    let foreign = ForeignAgent::at(&peer, "bad", clock.now());
    assert_eq!(register(&gateway, &SenderCredential::Key(&key), &foreign.url).await.status, 201);
}

#[tokio::test]
async fn failed_re_registration_keeps_the_existing_listing() {
    let clock = ManualClock::new();
    let gateway = Gateway::builder().agent(DESK, &agent()).clock(&clock).dev().start().await;
    let key = gateway.key(&[]).await.secret;
    let peer = DidHost::start().await;
    let good = ForeignAgent::at(&peer, "good", clock.now());
    assert_eq!(register(&gateway, &SenderCredential::Key(&key), &good.url).await.status, 201);
    let before = entries(&gateway).await;
    good.publish(&peer, &good.description);
    assert_eq!(register(&gateway, &SenderCredential::Key(&key), &good.url).await.status, 422);
    assert_eq!(entries(&gateway).await, before);
}

#[tokio::test]
async fn only_operators_can_register_private_addresses() {
    // Without development mode, this machine is a private address like any other.
    let gateway = Gateway::builder().agent(DESK, &agent()).start().await;
    let key = gateway.key(&[]).await.secret;
    let peer = DidHost::start().await;
    let now = gateway.engine().now();
    let foreign = ForeignAgent::at(&peer, "sea", now);
    for url in [
        foreign.url.as_str(),
        "https://127.0.0.1/ad.json",
        "https://10.0.0.1/ad.json",
        "https://[::1]/ad.json",
        "https://169.254.169.254/latest",
        "http://example.com/ad.json",
        "https://user:secret@example.com/ad.json",
    ] {
        let answer = register(&gateway, &SenderCredential::Key(&key), url).await;
        assert_eq!(refusal(&answer), (422, "outbound_refused".to_owned()), "{url}: {}", answer.body);
    }
    assert_eq!(peer.asked(), 0);
    assert!(entries(&gateway).await.is_empty());
    let order = nuncio_server::admin::AdminCommand::RegistryAdd { target: foreign.url.clone() };
    assert_eq!(gateway.order(order).await.unwrap()["new"], true, "the operator named it");
}

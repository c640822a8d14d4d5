//! DID documents that are unavailable, invalid or at forbidden addresses; and floods of lookups.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use nuncio_auth::did::{DidAuthenticationResult, DidResolver, LocalhostDidPolicy};
use nuncio_engine::ports::Clock as _;
use nuncio_identity::{Did, DidAuthError, NewDidDocument, SigningKey};
use nuncio_server::fetch::{AllowedAddresses, GuardedFetch};
use nuncio_testkit::Gateway;
use serde_json::json;

use super::dids;
use super::inbound::{SigningParameters, let_in, refused, world};
use super::peer::{DidHost, DidHostReply, ForeignDid};
use crate::agents::{DESK, desk};

async fn outcome(gateway: &Gateway, someone: &ForeignDid, nonce: &str) -> DidAuthenticationResult {
    SigningParameters::for_gateway(gateway, someone, nonce).by(someone).check(gateway).await
}

fn json_header() -> (&'static str, String) {
    ("content-type", "application/json".to_owned())
}

type HostileDidCase = (&'static str, Box<dyn Fn(&ForeignDid) -> DidHostReply>, &'static str);

#[tokio::test]
async fn caller_with_an_unusable_did_document_is_refused_and_the_failure_cached() {
    let (gateway, clock, peer) = world().await;
    let now = clock.now();
    let mallory = peer.someone("mallory", now);
    let good = move |someone: &ForeignDid| someone.document(now);
    let elsewhere = ("location", format!("http://localhost:{}{}", peer.port, mallory.did.resolution_url_at("")));
    let bent = |change: fn(&mut serde_json::Value)| {
        move |someone: &ForeignDid| {
            let mut document = someone.document(now);
            change(&mut document);
            DidHostReply::Document(document)
        }
    };
    let cases: Vec<HostileDidCase> = vec![
        ("missing", Box::new(|_| DidHostReply::Other(404, json_header(), "{}".to_owned())), "answered 404"),
        ("redirecting", Box::new(move |_| DidHostReply::Other(302, elsewhere.clone(), String::new())), "answered 302"),
        ("huge", Box::new(|_| DidHostReply::Other(200, json_header(), " ".repeat(65 * 1024))), "too large"),
        ("endless", Box::new(|_| DidHostReply::Endless), "too large"),
        ("silent", Box::new(|_| DidHostReply::Silence), "did not answer in time"),
        ("deep", Box::new(|_| DidHostReply::Other(200, json_header(), "[".repeat(60_000))), "cannot be fetched"),
        ("no JSON", Box::new(|_| DidHostReply::Other(200, json_header(), "hello".to_owned())), "cannot be fetched"),
        (
            "not sent as JSON",
            Box::new(move |it| {
                DidHostReply::Other(200, ("content-type", "text/html".to_owned()), good(it).to_string())
            }),
            "as JSON",
        ),
        ("of another DID", Box::new(move |_| DidHostReply::Document(good(&mallory))), "the document is for"),
        ("changed", Box::new(bent(|it| it["service"] = json!([]))), "proof"),
        (
            "without a proof",
            Box::new(bent(|it| drop(it.as_object_mut().unwrap().shift_remove("proof")))),
            "needs a proof",
        ),
        (
            "with another key",
            Box::new(move |it| {
                // Signed by a key that is not the one in the DID.
                DidHostReply::Document(NewDidDocument::new(&it.did, now).sign(&SigningKey::from_seed(&[7; 32])))
            }),
            "fingerprint",
        ),
    ];
    for (number, (name, reply, why)) in cases.into_iter().enumerate() {
        let someone = peer.stranger(&format!("someone-{number}"));
        peer.publish(&someone.did, reply(&someone));
        let asked = peer.asked();
        for nonce in ["n1", "n2"] {
            let fault = refused(outcome(&gateway, &someone, nonce).await);
            assert_eq!((fault.status(), fault.error_code()), (401, "invalid_did"), "{name}: {fault}");
            assert!(fault.to_string().contains(why), "{name}: {fault}");
        }
        assert_eq!(peer.asked(), asked + 1, "{name}: it is not asked for again at once");
    }
}

#[tokio::test]
async fn failed_did_lookup_is_cached_for_thirty_seconds_and_a_document_for_five_minutes() {
    let (gateway, clock, peer) = world().await;
    let ada = peer.stranger("ada");
    assert_eq!(refused(outcome(&gateway, &ada, "n1").await).error_code(), "invalid_did");
    peer.publish(&ada.did, DidHostReply::Document(ada.document(clock.now())));
    clock.advance(Duration::from_secs(29));
    assert_eq!(refused(outcome(&gateway, &ada, "n2").await).error_code(), "invalid_did");
    clock.advance(Duration::from_secs(1));
    let_in(&outcome(&gateway, &ada, "n2").await, &ada);

    // A cached document is fetched again after five minutes.
    peer.publish(&ada.did, DidHostReply::Other(404, json_header(), "{}".to_owned()));
    clock.advance(Duration::from_secs(299));
    let_in(&outcome(&gateway, &ada, "n3").await, &ada);
    clock.advance(Duration::from_secs(1));
    assert_eq!(refused(outcome(&gateway, &ada, "n4").await).error_code(), "invalid_did");
}

#[tokio::test]
async fn concurrent_lookups_fetch_a_did_document_once() {
    let (gateway, clock, peer) = world().await;
    let ada = peer.someone("ada", clock.now());
    let nonces: Vec<_> = (0..50).map(|number| format!("n{number}")).collect();
    let all = join_all(nonces.iter().map(|nonce| outcome(&gateway, &ada, nonce))).await;
    for one in &all {
        let_in(one, &ada);
    }
    assert_eq!(peer.asked(), 1);
}

#[tokio::test]
async fn slow_host_uses_at_most_eight_did_lookups_and_does_not_delay_others() {
    let (gateway, clock, slow) = world().await;
    let resolver = gateway.server().did_auth().resolver().clone();
    let silent: Vec<Did> = (0..8).map(|number| slow.stranger(&format!("s{number}")).did).collect();
    for did in &silent {
        slow.publish(did, DidHostReply::Silence);
    }
    let waiting = silent.iter().map(|did| {
        let (resolver, did) = (resolver.clone(), did.clone());
        tokio::spawn(async move { resolver.resolve(&did).await })
    });
    let waiting: Vec<_> = waiting.collect();
    nuncio_testkit::eventually("all documents are requested", async || (slow.asked() == 8).then_some(())).await;
    let one_more = slow.stranger("one-more").did;
    assert_eq!(resolver.resolve(&one_more).await.unwrap_err(), DidAuthError::Busy);
    assert_eq!(DidAuthError::Busy.status(), 503);
    // Callers of other hosts are not affected.
    let other = DidHost::start().await;
    let ada = other.someone("ada", clock.now());
    let_in(&outcome(&gateway, &ada, "n1").await, &ada);
    for one in waiting {
        one.abort();
    }
}

#[tokio::test]
async fn did_resolution_never_reaches_private_addresses() {
    // Without development mode, `localhost` DIDs are refused.
    let gateway = Gateway::builder().agent(DESK, &desk(&[])).start().await;
    let peer = DidHost::start().await;
    let ada = peer.someone("ada", gateway.engine().now());
    let fault = refused(outcome(&gateway, &ada, "n1").await);
    assert_eq!(fault.error_code(), "invalid_did");
    assert!(fault.to_string().contains("a name of this machine"), "{fault}");
    let resolver = gateway.server().did_auth().resolver();
    for host in ["evil.localhost", "localhost.localdomain"] {
        let did = Did::new(host, Some(peer.port), &[]).unwrap();
        let fault = resolver.resolve(&did).await.unwrap_err().to_string();
        assert!(fault.contains("are not allowed"), "{fault}");
    }
    // An unassigned DID of this host is not looked up over the network, which would lead back to this server.
    let own = dids(&gateway).service().unwrap();
    let nobody = Did::new("localhost", own.did().port(), &["agents", "nobody"]).unwrap();
    assert!(resolver.resolve(&nobody).await.unwrap_err().to_string().contains("here"));
    assert_eq!(peer.asked(), 0);
}

#[tokio::test]
async fn localhost_did_is_fetched_over_plain_http_only_in_development_mode() {
    let gateway = Gateway::builder().agent(DESK, &desk(&[])).start().await;
    let peer = DidHost::start().await;
    let ada = peer.someone("ada", gateway.engine().now());
    let fetch = Arc::new(GuardedFetch::new(AllowedAddresses::none(), false, None).unwrap());
    let clock = Arc::clone(gateway.engine().clock());
    let resolver = DidResolver::new(Arc::new(dids(&gateway).clone()), fetch, clock, LocalhostDidPolicy::Https);
    // The host has no TLS, so the lookup fails; plain http is never tried.
    let fault = resolver.resolve(&ada.did).await.unwrap_err().to_string();
    assert!(fault.contains("cannot be reached"), "{fault}");
    assert_eq!(peer.asked(), 0);
    // In development mode, https and http are tried.
    let fetch = Arc::new(GuardedFetch::new(AllowedAddresses::none(), true, None).unwrap());
    let clock = Arc::clone(gateway.engine().clock());
    let resolver = DidResolver::new(Arc::new(dids(&gateway).clone()), fetch, clock, LocalhostDidPolicy::HttpsOrHttp);
    assert_eq!(*resolver.resolve(&ada.did).await.unwrap().did(), ada.did);
}

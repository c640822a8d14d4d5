//! Periodic re-verification of listed agents.

use std::time::Duration;

use nuncio_engine::ports::Clock as _;
use nuncio_testkit::{Gateway, ManualClock, eventually};
use serde_json::{Value, json};

use super::{ForeignAgent, SenderCredential, entries, found, item, register};
use crate::agents::DESK;
use crate::anp::agent;
use crate::dids::peer::{DidHost, DidHostReply};

const INTERVAL: Duration = Duration::from_secs(6 * 60 * 60);
const FIRST_PAUSE: Duration = Duration::from_secs(5 * 60);
const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

type DescriptionFaultCase = (&'static str, fn(&DirectoryTestServer));

struct DirectoryTestServer {
    gateway: Gateway,
    clock: ManualClock,
    peer: DidHost,
    sea: ForeignAgent,
}

async fn world() -> DirectoryTestServer {
    let clock = ManualClock::new();
    let gateway = Gateway::builder().agent(DESK, &agent()).clock(&clock).dev().start().await;
    let key = gateway.key(&[]).await.secret;
    let peer = DidHost::start().await;
    let sea = ForeignAgent::at(&peer, "sea", clock.now());
    assert_eq!(register(&gateway, &SenderCredential::Key(&key), &sea.url).await.status, 201);
    DirectoryTestServer { gateway, clock, peer, sea }
}

impl DirectoryTestServer {
    fn silence(&self) {
        self.peer.publish_at(&self.sea.path, DidHostReply::Other(500, ("x-a", "b".to_owned()), String::new()));
    }

    async fn entry(&self) -> Value {
        entries(&self.gateway).await.pop().unwrap_or_default()
    }
}

#[tokio::test]
async fn unreachable_agent_is_listed_as_stale_until_it_is_reachable_again() {
    let world = world().await;
    let first = world.entry().await;
    world.silence();
    world.clock.pass(INTERVAL).await;
    eventually("it is stale", async || (item(&world.gateway, "sea").await["standing"] == "stale").then_some(())).await;
    let stale = world.entry().await;
    assert_eq!((&stale["failures"], &stale["verified"]), (&json!(1), &first["verified"]));
    assert!(stale["problem"].as_str().unwrap().contains("answered 500"), "{stale}");
    assert_eq!(item(&world.gateway, "sea").await["verified"]["at"], first["verified"], "it is still found");

    // The agent is reachable again, with a changed description.
    let mut description = world.sea.description.clone();
    description["description"] = json!("Rooms in the mountains.");
    let back = ForeignAgent {
        description,
        someone: world.sea.someone.clone(),
        ..ForeignAgent::at(&world.peer, "sea", world.clock.now())
    };
    back.publish(&world.peer, &back.signed(world.clock.now()));
    world.clock.pass(FIRST_PAUSE).await;
    eventually("it is back", async || (found(&world.gateway, "q=mountains").await == ["sea"]).then_some(())).await;
    let back = world.entry().await;
    assert_eq!(
        (&back["standing"], &back["problem"], &back["since"]),
        (&json!("listed"), &Value::Null, &first["since"])
    );
    assert_ne!(back["verified"], first["verified"]);
}

#[tokio::test]
async fn agent_unreachable_for_a_week_is_removed() {
    let world = world().await;
    world.silence();
    world.clock.pass(INTERVAL).await;
    let mut failures = 1;
    eventually("nothing is listed", async || {
        if found(&world.gateway, "").await == [DESK] {
            return Some(());
        }
        let entry = world.entry().await;
        if entry["failures"] == failures {
            failures += 1;
            world.clock.advance(WEEK / 4);
        }
        None
    })
    .await;
    assert!((4..=6).contains(&failures), "it was looked at now and then: {failures}");
    assert!(entries(&world.gateway).await.is_empty());
}

#[tokio::test]
async fn agent_that_is_gone_or_fails_verification_is_removed_at_once() {
    let spoils: [DescriptionFaultCase; 4] = [
        ("gone", |it| {
            it.peer.publish_at(&it.sea.path, DidHostReply::Other(410, ("x-a", "b".to_owned()), String::new()));
        }),
        ("changed by its host", |it| {
            let mut description = it.sea.signed(it.clock.now());
            description["name"] = json!("seal");
            it.sea.publish(&it.peer, &description);
        }),
        ("described elsewhere", |it| it.sea.publish_did(&it.peer, "https://a.example/ad.json", it.clock.now())),
        ("another's document", |it| {
            let eve = it.peer.stranger("eve");
            it.peer.publish(&it.sea.someone.did, DidHostReply::Document(eve.document(it.clock.now())));
        }),
    ];
    for (name, spoil) in spoils {
        let world = world().await;
        spoil(&world);
        world.clock.pass(INTERVAL).await;
        eventually(name, async || (found(&world.gateway, "").await == [DESK]).then_some(())).await;
        assert!(entries(&world.gateway).await.is_empty(), "{name}");
    }
}

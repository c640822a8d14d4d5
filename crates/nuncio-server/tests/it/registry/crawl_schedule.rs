//! Schedule of crawls: when, how often, and with how few requests followed hosts are visited.

use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_server::admin::AdminCommand;
use nuncio_testkit::{Gateway, GatewayBuilder, ManualClock, eventually};
use serde_json::{Value, json};

use crate::agents::{DESK, desk};

use super::stub::{INDEX, RegistryHostRequest, StubRegistryHost, StubReply, descriptor_path, index};
use super::{domain, follow, found, problem, state};

const INTERVAL: Duration = Duration::from_secs(15 * 60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn gateway(clock: &ManualClock) -> GatewayBuilder {
    Gateway::builder().agent(DESK, &desk(&[])).clock(clock)
}

async fn visit(gateway: &Gateway, clock: &ManualClock, stub: &StubRegistryHost, span: Duration) -> Value {
    let before = state(gateway, &stub.url()).await["next_visit"].clone();
    clock.pass(span).await;
    eventually("the host was visited", async || {
        let now = state(gateway, &stub.url()).await;
        (now["next_visit"] != before).then_some(now)
    })
    .await
}

#[tokio::test]
async fn unchanged_index_is_revalidated_and_unchanged_descriptors_are_not_fetched() {
    let (clock, stub) = (ManualClock::new(), StubRegistryHost::start().await);
    stub.offer(&["a", "b"]);
    let here = gateway(&clock).start().await;
    let first = follow(&here, &stub.url()).await;
    assert_eq!(stub.targets(), [INDEX, "/d/a.json", "/d/b.json"]);

    let second = visit(&here, &clock, &stub, INTERVAL).await;
    let asked = stub.asked();
    assert_eq!(asked.len(), 1, "no descriptor: {asked:?}");
    assert!(asked[0].has.is_some(), "{asked:?}");
    assert_ne!(first["last_seen"], second["last_seen"], "an unchanged index still counts as seen");
    assert_eq!(found(&here, "").await, ["a", "b"]);

    // One entry changed, so only its descriptor is fetched again.
    let mut changed = stub.entry("b");
    changed["version"] = json!("1.1.0");
    stub.index(&[stub.entry("a"), changed]);
    let mut descriptor = stub.descriptor("b");
    descriptor["version"] = json!("1.1.0");
    descriptor["tags"] = json!(["new"]);
    stub.document(&descriptor_path("b"), &descriptor);
    visit(&here, &clock, &stub, INTERVAL).await;
    assert_eq!(stub.targets(), [INDEX, "/d/b.json"]);
    assert_eq!(found(&here, "tag=new").await, ["b"]);
}

#[tokio::test]
async fn crawled_descriptor_is_cached_for_a_day() {
    let (clock, stub) = (ManualClock::new(), StubRegistryHost::start().await);
    stub.offer(&["a"]);
    let here = gateway(&clock).start().await;
    follow(&here, &stub.url()).await;
    stub.asked();
    let mut changed = stub.descriptor("a");
    changed["tags"] = json!(["changed"]);
    stub.document(&descriptor_path("a"), &changed);
    clock.advance(DAY);
    eventually("the descriptor is read again", async || (found(&here, "tag=changed").await == ["a"]).then_some(()))
        .await;
    let asked = stub.asked();
    assert!(asked.iter().all(|asked| asked.has.is_some()), "only if it has changed: {asked:?}");
}

#[tokio::test]
async fn crawl_failures_double_the_pause_up_to_a_day() {
    let (clock, stub) = (ManualClock::new(), StubRegistryHost::start().await);
    stub.offer(&["a"]);
    let here = gateway(&clock).start().await;
    let seen = follow(&here, &stub.url()).await["last_seen"].clone();
    stub.status(INDEX, 500, "");
    let mut pause = INTERVAL;
    for failures in 1..=8 {
        let now = visit(&here, &clock, &stub, pause).await;
        pause = (pause * 2).min(DAY);
        assert_eq!((&now["failures"], &now["last_seen"]), (&json!(failures), &seen));
        assert!(problem(&now).contains("answered 500"), "{now}");
        assert_eq!(found(&here, "").await, ["a"]);
    }
    assert_eq!(pause, DAY);
    stub.offer(&["a", "b"]);
    let well = visit(&here, &clock, &stub, DAY).await;
    assert_eq!((&well["failures"], &well["problem"]), (&json!(0), &Value::Null));
    assert_eq!(found(&here, "").await, ["a", "b"]);
    clock.wait_for_sleeper(INTERVAL).await;
}

#[tokio::test]
async fn skills_of_a_host_that_fails_for_a_week_are_removed() {
    let (clock, stub) = (ManualClock::new(), StubRegistryHost::start().await);
    stub.offer(&["a"]);
    let here = gateway(&clock).start().await;
    follow(&here, &stub.url()).await;
    stub.status(INDEX, 500, "");
    clock.advance(DAY * 7);
    eventually("the entry is removed", async || found(&here, "").await.is_empty().then_some(())).await;
    assert_eq!(state(&here, &stub.url()).await["listed"], 0);
}

#[tokio::test]
async fn crawler_waits_for_the_retry_after_of_a_host() {
    let (clock, stub) = (ManualClock::new(), StubRegistryHost::start().await);
    stub.status(INDEX, 503, "Retry-After: 18000\r\n");
    let here = gateway(&clock).start().await;
    follow(&here, &stub.url()).await;
    visit(&here, &clock, &stub, HOUR * 5).await;
    // A `Retry-After` on one descriptor stops the fetches of the others too.
    stub.offer(&["a", "b", "c"]);
    stub.status(&descriptor_path("b"), 429, "Retry-After: 7200\r\n");
    stub.targets();
    let now = visit(&here, &clock, &stub, HOUR * 5).await;
    assert_eq!(stub.targets(), [INDEX, "/d/a.json", "/d/b.json"]);
    assert_eq!(found(&here, "").await, ["a"]);
    assert!(problem(&now).contains("answered 429"), "{now}");
    stub.offer(&["a", "b", "c"]);
    visit(&here, &clock, &stub, HOUR * 2).await;
    assert_eq!(stub.targets(), [INDEX, "/d/b.json", "/d/c.json"]);
    assert_eq!(found(&here, "").await, ["a", "b", "c"]);
}

#[tokio::test]
async fn crawler_pauses_between_requests_to_one_host_after_the_first_twenty() {
    let (clock, stub) = (ManualClock::new(), StubRegistryHost::start().await);
    let names: Vec<String> = (0..22).map(|number| format!("s{number:02}")).collect();
    stub.offer(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let settings = vec![domain(&stub.url())];
    let here = gateway(&clock).settings(|all| all.registry.follow = settings).start().await;
    let pause = Duration::from_millis(100);
    // A minute passes in the first pause; the skills found so far are listed.
    for (asked, listed, span) in [(20, 0, Duration::from_secs(60)), (21, 20, pause), (22, 20, pause)] {
        clock.wait_for_sleeper(pause).await;
        assert_eq!(stub.asked_so_far(), asked, "the index and descriptors");
        assert_eq!(found(&here, "").await.len(), listed);
        clock.advance(span);
    }
    eventually("all are listed", async || (found(&here, "").await.len() == 22).then_some(())).await;
}

#[tokio::test]
async fn two_ports_of_one_host_are_crawled_one_after_the_other() {
    let (clock, one, other) = (ManualClock::new(), StubRegistryHost::start().await, StubRegistryHost::start().await);
    for stub in [&one, &other] {
        stub.reply(INDEX, StubReply::Silence);
    }
    let follow = vec![domain(&one.url()), domain(&other.url())];
    let here = gateway(&clock).settings(|all| all.registry.follow = follow).start().await;
    let total = || one.asked_so_far() + other.asked_so_far();
    let patience = Duration::from_secs(30);
    eventually("one is asked", async || (total() == 1).then_some(())).await;
    clock.pass(patience).await;
    eventually("then the other", async || (total() == 2).then_some(())).await;
    clock.pass(patience).await;
    for stub in [&one, &other] {
        eventually("it counts as a failure", async || {
            let now = state(&here, &stub.url()).await;
            (now["failures"] == 1 && problem(&now).contains("did not answer within 30s")).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn registry_listing_survives_a_restart_without_a_visit() {
    let (clock, stub) = (ManualClock::new(), StubRegistryHost::start().await);
    stub.offer(&["a"]);
    let here = gateway(&clock).start().await;
    follow(&here, &stub.url()).await;
    stub.asked();
    let data = here.stop().await;
    let here = gateway(&clock).data(data).start().await;
    assert_eq!(found(&here, "").await, ["a"]);
    visit(&here, &clock, &stub, INTERVAL).await;
    let asked = stub.asked();
    assert!(
        matches!(&asked[..], [RegistryHostRequest { has: Some(_), .. }]),
        "one visit, when its time has come: {asked:?}"
    );
}

#[tokio::test]
async fn domain_followed_by_settings_cannot_be_unfollowed_by_command() {
    let (clock, stub) = (ManualClock::new(), StubRegistryHost::start().await);
    stub.offer(&["a"]);
    let named = domain(&stub.url());
    let here = gateway(&clock).settings(|all| all.registry.follow = vec![named.clone()]).start().await;
    eventually("it is listed", async || (found(&here, "").await == ["a"]).then_some(())).await;
    assert_eq!(state(&here, &stub.url()).await["by"], "settings");
    let refused = here.order(AdminCommand::RegistryUnfollow { domain: named }).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::ConfigInvalid);
    assert!(refused.message.contains("registry.follow"), "{refused}");
    let here = gateway(&clock).data(here.stop().await).start().await;
    assert!(found(&here, "").await.is_empty(), "the settings no longer list the domain");
    assert_eq!(state(&here, &stub.url()).await, Value::Null);
}

#[tokio::test]
async fn each_index_page_is_revalidated_by_its_own_etag() {
    let (clock, stub) = (ManualClock::new(), StubRegistryHost::start().await);
    stub.offer(&["a", "b", "c"]);
    let more = format!("{INDEX}?cursor=2");
    let page = |entries: Vec<Value>, etag: &str, headers: &str| StubReply::Json {
        status: 200,
        etag: Some(etag.to_owned()),
        headers: headers.to_owned(),
        body: index(&entries).to_string(),
    };
    stub.reply(INDEX, page(vec![stub.entry("a")], "\"1\"", "Link: <?cursor=2>; rel=\"next\"\r\n"));
    stub.reply(&more, page(vec![stub.entry("b")], "\"2\"", ""));
    let here = gateway(&clock).start().await;
    follow(&here, &stub.url()).await;
    assert_eq!(found(&here, "").await, ["a", "b"]);
    stub.asked();
    // The first page is unchanged, the second is not.
    stub.reply(&more, page(vec![stub.entry("c")], "\"3\"", ""));
    visit(&here, &clock, &stub, INTERVAL).await;
    assert_eq!(found(&here, "").await, ["a", "c"]);
    let has = |tag: &str| Some(tag.to_owned());
    let asked = stub.asked();
    assert_eq!(asked[0], RegistryHostRequest { target: INDEX.to_owned(), has: has("\"1\"") });
    assert_eq!(asked[1], RegistryHostRequest { target: more, has: has("\"2\"") });
    assert_eq!(asked[2..].iter().map(|asked| asked.target.as_str()).collect::<Vec<_>>(), ["/d/c.json"]);
}

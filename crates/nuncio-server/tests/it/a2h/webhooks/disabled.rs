//! Webhooks that are gone, unreachable or reachable again, and the notification of their owners.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

/// A receiver whose answers to messages and to health checks the test changes.
async fn changing(messages: u16) -> (CallbackReceiver, Arc<AtomicU16>, Arc<AtomicU16>) {
    let (status, health) = (Arc::new(AtomicU16::new(messages)), Arc::new(AtomicU16::new(500)));
    let (at_call, at_health) = (Arc::clone(&status), Arc::clone(&health));
    let receiver = CallbackReceiver::deciding(move |sent| {
        ReceiverReply::Status(match (sent.line.starts_with("GET"), is_message(sent)) {
            (true, _) => at_health.load(Ordering::SeqCst),
            (false, true) => at_call.load(Ordering::SeqCst),
            (false, false) => 200,
        })
    })
    .await;
    (receiver, status, health)
}

/// Advances the clock day by day, with one message a day, until deliveries have failed for three days and the webhook
/// is unreachable.
async fn three_days(hooked: &mut WebhookSetup, receiver: &CallbackReceiver) {
    for day in 0..4 {
        hooked.post(&format!("day{day}")).await;
        let seen = names(receiver).len();
        // Every delivery that is due by then is attempted.
        hooked.pass(24 * HOUR).await;
        eventually("the delivery was tried or the webhook was disabled", async || {
            let webhook = hooked.deliveries("").await.body["webhook"].clone();
            let now = hooked.world.clock.now();
            let idle = hooked.next().await.is_none_or(|due| due > now);
            ((names(receiver).len() > seen && idle) || webhook["state"] == "unreachable").then_some(())
        })
        .await;
    }
    let webhook = hooked.until_state("unreachable").await;
    assert!(webhook["failing_since"].is_string() && webhook["probe_at"].is_string(), "{webhook}");
    assert_eq!(hooked.next().await, None, "no event is sent to the old address");
}

#[tokio::test]
async fn webhook_answering_410_is_disabled_until_the_owner_sets_a_url() {
    let (receiver, status, _) = changing(410).await;
    let hooked = WebhookSetup::at(&receiver).await;
    hooked.post("m1").await;
    hooked.post("m2").await;
    let webhook = hooked.until_state("disabled").await;
    assert_eq!(webhook["waiting"]["attempts"], 1);
    assert_eq!(names(&receiver), ["m1"]);
    assert_eq!(hooked.told_owner().await, ["disabled"]);
    hooked.post("m3").await;
    assert_eq!(hooked.next().await, None);

    // Changing another setting does not enable the webhook.
    hooked.patch(json!({"display_name": "Other"})).await.data();
    assert_eq!(hooked.deliveries("").await.body["webhook"]["state"], "disabled");
    status.store(200, Ordering::SeqCst);
    let moved = hooked.patch(json!({"webhook_url": format!("{}/new", receiver.origin())})).await;
    assert_eq!(moved.data().get("webhook_secret"), None, "the secret stays");
    hooked.until_state("reachable").await;
    hooked.nothing_waits().await;
    // Events while the webhook was disabled are not delivered; deliveries that were pending before are.
    assert_eq!(names(&receiver), ["m1", "m1", "m2"]);
    let last = receiver.sent().pop().unwrap();
    assert_eq!(last.line, "POST /new HTTP/1.1");
    assert_signed(&last, &hooked.secret, &hooked.agent);
    assert_eq!(hooked.told_owner().await, ["disabled", "reachable"]);
}

#[tokio::test]
async fn disabled_webhook_is_enabled_by_setting_the_same_url_again() {
    let (receiver, status, _) = changing(410).await;
    let hooked = WebhookSetup::at(&receiver).await;
    hooked.post("m1").await;
    hooked.until_state("disabled").await;
    status.store(200, Ordering::SeqCst);
    hooked.patch(json!({"webhook_url": format!("{}/hook?x=1", receiver.origin())})).await.data();
    hooked.nothing_waits().await;
    assert_eq!(names(&receiver), ["m1", "m1"]);
}

#[tokio::test]
async fn health_url_is_probed_after_three_days_of_webhook_failures() {
    let (receiver, status, health) = changing(500).await;
    let mut body = called_at(&format!("{}/hook", receiver.origin()));
    body["health_check_url"] = json!(format!("{}/health", receiver.origin()));
    let mut hooked = WebhookSetup::make(&body).await;
    three_days(&mut hooked, &receiver).await;
    assert_eq!(hooked.told_owner().await, ["unreachable"]);
    let calls = names(&receiver).len();
    let asked = || receiver.sent().iter().filter(|sent| sent.line == "GET /health HTTP/1.1").count();
    for probe in 1..=3 {
        let before = hooked.deliveries("").await.body["webhook"]["probe_at"].clone();
        hooked.pass(Duration::from_secs(300)).await;
        eventually("it is asked", async || (asked() == probe).then_some(())).await;
        eventually("it is asked again later", async || {
            (hooked.deliveries("").await.body["webhook"]["probe_at"] != before).then_some(())
        })
        .await;
    }
    assert_eq!(names(&receiver).len(), calls, "nothing else is sent");
    hooked.post("later").await;
    status.store(200, Ordering::SeqCst);
    health.store(204, Ordering::SeqCst);
    hooked.pass(Duration::from_secs(300)).await;
    let webhook = hooked.until_state("reachable").await;
    assert_eq!((&webhook["failing_since"], &webhook["probe_at"]), (&json!(null), &json!(null)));
    // Pending deliveries arrive at once and in order; only those given up before are lost.
    hooked.nothing_waits().await;
    let arrived = names(&receiver)[calls..].to_vec();
    assert_eq!(arrived.last().unwrap(), "later");
    assert!(arrived.contains(&"day3".to_owned()), "{arrived:?}");
    assert_eq!(hooked.told_owner().await, ["unreachable", "reachable"]);
}

#[tokio::test]
async fn without_a_health_url_the_oldest_pending_delivery_is_the_probe() {
    let (receiver, _, _) = changing(500).await;
    let mut hooked = WebhookSetup::at(&receiver).await;
    three_days(&mut hooked, &receiver).await;
    let (calls, address) = (names(&receiver).len(), receiver.address());
    receiver.leave().await;
    let waiting = hooked.deliveries("").await.body["webhook"]["waiting"].clone();
    // Deliveries to an unreachable receiver are never given up.
    for _ in 0..12 {
        let before = hooked.deliveries("").await.body["webhook"]["probe_at"].clone();
        hooked.pass(Duration::from_secs(300)).await;
        eventually("it is asked again later", async || {
            (hooked.deliveries("").await.body["webhook"]["probe_at"] != before).then_some(())
        })
        .await;
    }
    let still = hooked.deliveries("").await.body["webhook"]["waiting"].clone();
    assert_eq!((&still["delivery_id"], &still["attempts"]), (&waiting["delivery_id"], &waiting["attempts"]));
    assert!(calls > 0);
    let back = CallbackReceiver::at(address, &[ReceiverReply::Status(200)]).await;
    hooked.pass(Duration::from_secs(300)).await;
    hooked.until_state("reachable").await;
    hooked.nothing_waits().await;
    assert_eq!(back.sent()[0].header("webhook-id"), waiting["delivery_id"].as_str().unwrap());
    assert_eq!(hooked.told_owner().await, ["unreachable", "reachable"]);
    hooked.post("now").await;
    eventually("the webhook receives events again", async || names(&back).contains(&"now".to_owned()).then_some(()))
        .await;
}

#[tokio::test]
async fn probe_delivery_that_keeps_being_refused_is_given_up() {
    let (receiver, status, _) = changing(500).await;
    let mut hooked = WebhookSetup::at(&receiver).await;
    three_days(&mut hooked, &receiver).await;
    let first = hooked.deliveries("").await.body["webhook"]["waiting"]["delivery_id"].clone();
    for _ in 0..9 {
        let before = hooked.deliveries("").await.body["webhook"].clone();
        if before["waiting"]["delivery_id"] != first {
            break;
        }
        hooked.pass(Duration::from_secs(300)).await;
        eventually("it is asked again later", async || {
            (hooked.deliveries("").await.body["webhook"]["probe_at"] != before["probe_at"]).then_some(())
        })
        .await;
    }
    assert_ne!(hooked.deliveries("").await.body["webhook"]["waiting"]["delivery_id"], first);
    status.store(410, Ordering::SeqCst);
    hooked.pass(Duration::from_secs(300)).await;
    hooked.until_state("disabled").await;
    assert_eq!(hooked.told_owner().await, ["unreachable", "disabled"]);
}

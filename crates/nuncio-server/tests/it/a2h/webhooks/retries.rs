//! Failed deliveries: retried by the schedule, in order, without delaying others.

use nuncio_testkit::ManualClock;
use nuncio_testkit::a2h::AnonymousA2hClient;

use super::*;
use crate::agents::{DESK, desk};

/// The retry pauses of the schedule, in seconds.
const PAUSES: [u64; 8] = [5, 30, 300, 1800, 7200, 21_600, 43_200, 86_400];

#[tokio::test]
async fn failed_webhook_is_retried_eight_times_on_schedule_and_then_given_up() {
    let receiver =
        CallbackReceiver::deciding(|sent| ReceiverReply::Status(if is_message(sent) { 503 } else { 200 })).await;
    let mut hooked = WebhookSetup::at(&receiver).await;
    hooked.post("m1").await;
    messages(&receiver, 1).await;
    let first = receiver.sent().pop().unwrap();
    for (number, pause) in PAUSES.into_iter().enumerate() {
        hooked.pass_pause(Duration::from_secs(pause)).await;
        messages(&receiver, number + 2).await;
        let again = receiver.sent().pop().unwrap();
        assert_eq!((&again.body, again.header("webhook-id")), (&first.body, first.header("webhook-id")));
        let seconds = hooked.world.clock.now().as_millis() / 1000;
        assert_eq!(again.header("webhook-timestamp"), seconds.to_string(), "each attempt is signed at its own time");
        assert_signed(&again, &hooked.secret, &hooked.agent);
    }
    hooked.nothing_waits().await;
    assert_eq!(messages(&receiver, 9).await.len(), 9);
    let log = hooked.deliveries("").await;
    let given_up = &log.body["data"][0];
    assert_eq!((&given_up["delivered"], &given_up["attempts"]), (&json!(false), &json!(9)), "{given_up}");
    assert_eq!(given_up["outcome"], "it answered 503");
    assert!(log.body["webhook"]["failing_since"].is_string());
    assert_eq!(hooked.next().await, None);
}

#[tokio::test]
async fn webhook_retry_pauses_vary_randomly_around_the_schedule() {
    let receiver =
        CallbackReceiver::deciding(|sent| ReceiverReply::Status(if is_message(sent) { 500 } else { 200 })).await;
    let mut hooked = WebhookSetup::at(&receiver).await;
    for (person, conversation) in hooked.others(5).await {
        say(&person, &conversation, "m").await;
    }
    messages(&receiver, 5).await;
    let elapsed = hooked.pass_to_next().await + hooked.pass_to_next().await;
    assert!(elapsed <= Duration::from_millis(5500), "there are two pauses of about five seconds: {elapsed:?}");
}

#[tokio::test]
async fn webhooks_of_a_conversation_keep_their_order() {
    let receiver = CallbackReceiver::deciding({
        let tries = std::sync::atomic::AtomicUsize::new(0);
        move |sent| {
            let first = name(sent) == "m1" && tries.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < 2;
            ReceiverReply::Status(if first { 500 } else { 200 })
        }
    })
    .await;
    let mut hooked = WebhookSetup::at(&receiver).await;
    for name in ["m1", "m2", "m3"] {
        hooked.post(name).await;
    }
    hooked.pass_pause(Duration::from_secs(5)).await;
    messages(&receiver, 2).await;
    hooked.post("m4").await;
    hooked.pass_pause(Duration::from_secs(30)).await;
    hooked.nothing_waits().await;
    assert_eq!(names(&receiver), ["m1", "m1", "m1", "m2", "m3", "m4"]);
    let log = hooked.deliveries("").await;
    let attempts: Vec<_> = log.body["data"].as_array().unwrap().iter().map(|one| one["attempts"].clone()).collect();
    assert_eq!(attempts[..4], [1, 1, 1, 3]);
    assert_eq!(log.body["webhook"]["failing_since"], json!(null), "a delivery resets the failing time");
}

#[tokio::test]
async fn webhook_that_keeps_failing_blocks_only_its_own_conversation() {
    let receiver =
        CallbackReceiver::deciding(|sent| ReceiverReply::Status(if name(sent) == "poison" { 500 } else { 200 })).await;
    let mut hooked = WebhookSetup::at(&receiver).await;
    let (bob, other) = hooked.others(1).await.remove(0);
    hooked.post("poison").await;
    hooked.post("behind").await;
    messages(&receiver, 1).await;
    for number in 0..20 {
        say(&bob, &other, &format!("b{number}")).await;
    }
    let expected: Vec<_> = (0..20).map(|number| format!("b{number}")).collect();
    let arrived = messages(&receiver, 21).await;
    assert_eq!(arrived.iter().filter(|name| name.starts_with('b')).cloned().collect::<Vec<_>>(), expected);
    assert!(!arrived.contains(&"behind".to_owned()));
    // When a delivery is given up, the next one follows.
    for pause in PAUSES {
        hooked.pass_pause(Duration::from_secs(pause)).await;
    }
    hooked.nothing_waits().await;
    assert_eq!(names(&receiver).last().unwrap(), "behind");
    assert_eq!(names(&receiver).iter().filter(|name| *name == "poison").count(), 9);
}

#[tokio::test]
async fn slow_webhook_receiver_does_not_delay_other_agents() {
    let slow =
        CallbackReceiver::deciding(
            |sent| if is_message(sent) { ReceiverReply::Silence } else { ReceiverReply::Status(200) },
        )
        .await;
    let quick = CallbackReceiver::start(&[ReceiverReply::Status(200)]).await;
    let hooked = WebhookSetup::at(&slow).await;
    let body = called_at(&format!("{}/hook", quick.origin()));
    let (other, _) = hooked.owner.make_agent(&body).await;
    hooked.ada.allow(&other, json!([])).await;
    let conversation = begin(&hooked.ada, &other).await;
    for (person, conversation) in hooked.others(6).await {
        say(&person, &conversation, "slow").await;
    }
    for number in 1..=3 {
        hooked.post_in(&conversation, &format!("q{number}")).await;
    }
    assert_eq!(messages(&quick, 3).await, ["q1", "q2", "q3"]);
    assert_eq!(messages(&slow, 4).await.len(), 4, "no further request is sent at the same time");
    assert_eq!(slow.hung_up(), 0, "all requests still wait for the answer");
}

/// The server crashes after it sent a delivery and before it stored the outcome.
#[tokio::test]
async fn webhook_in_flight_at_a_crash_is_resent_with_the_same_id() {
    let clock = ManualClock::new();
    let builder = || loopback(Gateway::builder().agent(DESK, &desk(&[])).clock(&clock));
    let silent =
        CallbackReceiver::deciding(
            |sent| if is_message(sent) { ReceiverReply::Silence } else { ReceiverReply::Status(200) },
        )
        .await;
    let gateway = builder().start().await;
    let world = A2hTestServer { server: AnonymousA2hClient::at(gateway.url()), gateway, clock: clock.clone() };
    let hooked = WebhookSetup::of(world, &called_at(&format!("{}/hook", silent.origin()))).await;
    for name in ["m1", "m2", "m3"] {
        hooked.post(name).await;
    }
    messages(&silent, 1).await;
    let before = silent.sent().into_iter().find(is_message).unwrap();
    let crashed = hooked.world.gateway.data_as_after_a_crash();
    let address = silent.address();
    silent.leave().await;
    drop(hooked.world.gateway);

    let receiver = CallbackReceiver::at(address, &[ReceiverReply::Status(200)]).await;
    let gateway = builder().data(crashed).start().await;
    assert_eq!(messages(&receiver, 3).await, ["m1", "m2", "m3"]);
    let again = receiver.sent().into_iter().find(is_message).unwrap();
    assert_eq!((again.header("webhook-id"), &again.body), (before.header("webhook-id"), &before.body));
    assert_signed(&again, &hooked.secret, &hooked.agent);
    gateway.stop().await;
}

#[tokio::test]
async fn pending_webhooks_are_sent_after_a_restart() {
    let clock = ManualClock::new();
    let builder = || loopback(Gateway::builder().agent(DESK, &desk(&[])).clock(&clock));
    let receiver =
        CallbackReceiver::deciding(|sent| ReceiverReply::Status(if is_message(sent) { 500 } else { 200 })).await;
    let gateway = builder().start().await;
    let world = A2hTestServer { server: AnonymousA2hClient::at(gateway.url()), gateway, clock: clock.clone() };
    let mut hooked = WebhookSetup::of(world, &called_at(&format!("{}/hook", receiver.origin()))).await;
    hooked.post("m1").await;
    hooked.pass_pause(Duration::from_secs(5)).await;
    messages(&receiver, 2).await;
    let now = clock.now();
    let due = eventually("it is tried later", async || hooked.next().await.filter(|due| *due > now)).await;
    let data = hooked.world.gateway.stop().await;

    let gateway = builder().data(data).start().await;
    assert_eq!(next_delivery(&gateway).await, Some(due));
    hooked.world = A2hTestServer { server: AnonymousA2hClient::at(gateway.url()), gateway, clock: clock.clone() };
    clock.advance(clock.now().until(due));
    messages(&receiver, 3).await;
    let ids: HashSet<_> = receiver
        .sent()
        .iter()
        .filter(|sent| is_message(sent))
        .map(|sent| sent.header("webhook-id").to_owned())
        .collect();
    assert_eq!(ids.len(), 1);
}

//! Contract checks for webhooks and deliveries.

use std::time::Duration;

use nuncio_core::notification::{Notification, RelayParty, WebhookState};
use nuncio_engine::ports::store::relay::{Webhook, WebhookDelivery};
use nuncio_engine::ports::store::{
    Change, Conflict, ConsentChange, Job, JobChange, JobClaimRequest, JobKind, RelayChange, Store,
};

use super::consent_sample::{agent_id, notification, recipient, tell};
use super::relay_sample::{agent, begin, conversation_id, device_id, logged, of_two, post, put_webhook, send, webhook};
use super::sample::{here, later};
use super::{TestDatabase, made, refusal};

use WebhookState::{Disabled, Reachable, Unreachable};

fn put(webhook: &Webhook) -> Change {
    RelayChange::PutWebhook(webhook.clone()).into()
}

fn remove(agent: &str) -> Change {
    RelayChange::RemoveWebhook(agent_id(agent)).into()
}

fn log_entry(agent: &str, seq: u64, at: i64) -> Change {
    RelayChange::LogDelivery { agent: agent_id(agent), logged: logged(seq, at) }.into()
}

/// Ends the delivery of a notification, which must be the first of its lane.
async fn end(store: &dyn Store, agent: &str, seq: u64) {
    let request = JobClaimRequest {
        kind: JobKind::Delivery,
        by: here(),
        now: later(1000),
        // The claims have expired when the next one begins.
        lasts: Duration::ZERO,
        limit: usize::MAX,
        per_receiver: usize::MAX,
        running: Vec::new(),
    };
    let claimed = store.claim_jobs(request).await.unwrap();
    let key = format!("agent:{agent}/{seq}");
    let claimed = claimed.iter().find(|claimed| claimed.job.key == key).unwrap();
    made(store, [Change::from(claimed.end())]).await;
}

fn forget_log(before: i64, limit: usize) -> Change {
    RelayChange::ForgetDeliveryLog { before: later(before), limit }.into()
}

fn forget_mail(before: i64, limit: usize) -> Change {
    ConsentChange::ForgetMail { before: later(before), limit }.into()
}

/// Notifies a recipient of a message.
fn notify_of(recipient: &RelayParty, conversation: &str, at: i64) -> Change {
    let notification = Notification::Message { conversation: conversation_id(conversation), seq: 1 };
    ConsentChange::PutMail { recipient: recipient.clone(), at: later(at), notification }.into()
}

/// Agents and numbers of deliveries that are due, of each lane the first.
async fn due(store: &dyn Store, by: i64) -> Vec<(String, u64)> {
    let jobs = store.next_jobs(JobKind::Delivery, usize::MAX).await.unwrap();
    let due = jobs.into_iter().filter(|job| job.due <= later(by));
    due.map(|job| (job.receiver.strip_prefix("agent:").unwrap().to_owned(), job.lane.unwrap().seq)).collect()
}

async fn numbers(store: &dyn Store, by: i64) -> Vec<u64> {
    due(store, by).await.into_iter().map(|(_, seq)| seq).collect()
}

async fn first(store: &dyn Store, agent: &str) -> Option<WebhookDelivery> {
    store.first_delivery(&agent_id(agent)).await.unwrap()
}

async fn log(store: &dyn Store, agent: &str, before: u64, limit: usize) -> Vec<u64> {
    let found = store.delivery_log(&agent_id(agent), before, limit).await.unwrap();
    found.into_iter().map(|logged| logged.seq).collect()
}

pub async fn webhook_round_trips_and_is_listed(place: &dyn TestDatabase) {
    let store = place.open().await;
    let reachable = webhook("agt_2");
    let unreachable =
        Webhook { state: Unreachable, failing_since: Some(later(1)), probe_at: Some(later(2)), ..webhook("agt_1") };
    let disabled = Webhook { state: Disabled, ..webhook("agt_3") };
    assert_eq!(store.webhooks().await.unwrap(), []);
    made(&*store, [&reachable, &unreachable, &disabled].map(put)).await;
    assert_eq!(store.webhook(&agent_id("agt_1")).await.unwrap(), Some(unreachable.clone()));
    assert_eq!(store.webhook(&agent_id("agt_9")).await.unwrap(), None);
    assert_eq!(store.webhooks().await.unwrap(), [unreachable, reachable, disabled]);
    let again = Webhook { secret: "another".to_owned(), ..webhook("agt_1") };
    made(&*store, [put(&again), remove("agt_2"), remove("agt_9")]).await;
    made(&*store, [remove("agt_2")]).await;
    assert_eq!(store.webhook(&agent_id("agt_1")).await.unwrap(), Some(again));
    assert_eq!(store.webhook(&agent_id("agt_2")).await.unwrap(), None);
}

pub async fn mail_to_webhook_agent_creates_delivery(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (ada, hotel, other) = (recipient("agt_1"), agent("agt_1"), agent("agt_2"));
    made(&*store, [tell(&hotel, 1, 0), put_webhook("agt_1", Reachable)]).await;
    assert_eq!(due(&*store, 99).await, [], "the notification precedes the webhook");
    made(&*store, [tell(&ada, 2, 1), tell(&other, 3, 2), tell(&hotel, 4, 3)]).await;
    assert_eq!(due(&*store, 2).await, []);
    let told = store.mail(&hotel, 1, 1).await.unwrap().remove(0);
    assert_eq!((told.seq, told.at, &told.notification), (2, later(3), &notification(4)));
    let expected = WebhookDelivery { agent: agent_id("agt_1"), mailed: told, attempts: 0, due: later(3) };
    assert_eq!(first(&*store, "agt_1").await, Some(expected));
    assert_eq!(due(&*store, 3).await, [("agt_1".to_owned(), 2)]);
    assert_eq!(first(&*store, "agt_2").await, None);
}

pub async fn message_to_webhook_agent_creates_delivery(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (ada, hotel) = (recipient("ada"), agent("agt_1"));
    made(&*store, [begin(&of_two("cnv_1", "agt_1")), put_webhook("agt_1", Reachable)]).await;
    let message = |name: &str| send("cnv_1", &post(&ada, name), std::slice::from_ref(&hotel), 1);
    made(&*store, [message("m1")]).await;
    assert_eq!(refusal(&*store, [message("m2"), message("m1")]).await, Conflict::Exists);
    end(&*store, "agt_1", 1).await;
    assert_eq!(first(&*store, "agt_1").await, None, "the refused one left nothing behind it");
    made(&*store, [message("m2")]).await;
    assert_eq!(due(&*store, 1).await, [("agt_1".to_owned(), 2)]);
}

pub async fn deliveries_of_each_conversation_are_ordered_separately(place: &dyn TestDatabase) {
    let store = place.open().await;
    let hotel = agent("agt_1");
    made(&*store, [put_webhook("agt_1", Reachable)]).await;
    let conversation = conversation_id("cnv_1");
    let about = [
        Notification::ConversationChanged { conversation: conversation.clone() },
        Notification::Message { conversation: conversation.clone(), seq: 1 },
        Notification::Claimed { conversation: conversation.clone(), seq: 1, device: device_id("dev_1") },
        Notification::Read { conversation, reader: recipient("ada"), seq: 1 },
        Notification::KeysChanged { owner: recipient("ada") },
        notification(1),
        Notification::WebhookMoved { agent: agent_id("agt_1"), state: Reachable },
    ];
    let told = about
        .map(|notification| ConsentChange::PutMail { recipient: hotel.clone(), at: later(1), notification }.into());
    made(&*store, told).await;
    for (first, then) in [(1, [2, 5]), (2, [3, 5]), (5, [3, 6]), (3, [4, 6]), (6, [4, 7])] {
        end(&*store, "agt_1", first).await;
        assert_eq!(numbers(&*store, 9).await, then, "after {first}");
    }
}

pub async fn disabled_webhook_gets_no_new_deliveries(place: &dyn TestDatabase) {
    let store = place.open().await;
    let hotel = agent("agt_1");
    let state = |state| [put_webhook("agt_1", state)];
    made(&*store, state(Reachable)).await;
    made(&*store, [notify_of(&hotel, "cnv_1", 1)]).await;
    made(&*store, state(Unreachable)).await;
    made(&*store, [notify_of(&hotel, "cnv_2", 2)]).await;
    made(&*store, state(Disabled)).await;
    made(&*store, [notify_of(&hotel, "cnv_3", 3)]).await;
    made(&*store, state(Reachable)).await;
    made(&*store, [notify_of(&hotel, "cnv_4", 4)]).await;
    assert_eq!(numbers(&*store, 99).await, [1, 2, 4]);
    assert_eq!(first(&*store, "agt_1").await.unwrap().mailed.seq, 1);
}

pub async fn removing_webhook_deletes_its_deliveries_and_probes(place: &dyn TestDatabase) {
    let store = place.open().await;
    let hotel = agent("agt_1");
    made(&*store, ["agt_1", "agt_2"].map(|agent| put_webhook(agent, Reachable))).await;
    made(&*store, [tell(&hotel, 1, 1), tell(&hotel, 2, 2), notify_of(&hotel, "cnv_1", 3)]).await;
    let (kind, name) = (JobKind::Probe, hotel.to_string());
    let probe = Job { kind, key: name.clone(), receiver: name, lane: None, due: later(9), attempts: 0 };
    made(&*store, [Change::from(JobChange::Put(probe)), tell(&agent("agt_2"), 1, 1), remove("agt_1")]).await;
    assert_eq!(first(&*store, "agt_1").await, None);
    assert_eq!(due(&*store, 9).await, [("agt_2".to_owned(), 1)]);
    assert_eq!(store.next_jobs(JobKind::Probe, 9).await.unwrap(), []);
    made(&*store, [tell(&hotel, 3, 4), put_webhook("agt_1", Reachable), tell(&hotel, 4, 5)]).await;
    assert_eq!(due(&*store, 9).await, [("agt_2".to_owned(), 1), ("agt_1".to_owned(), 5)]);
    assert_eq!(store.mail_head(&hotel).await.unwrap(), 5, "its mail is all there");
}

pub async fn finished_delivery_is_logged_once(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [log_entry("agt_1", 1, 5), log_entry("agt_1", 3, 6), log_entry("agt_1", 2, 7)]).await;
    made(&*store, [log_entry("agt_1", 1, 9)]).await;
    assert_eq!(log(&*store, "agt_1", u64::MAX, 9).await, [3, 2, 1]);
    assert_eq!(log(&*store, "agt_1", u64::MAX, 2).await, [3, 2]);
    assert_eq!(log(&*store, "agt_1", 2, 9).await, [1]);
    assert_eq!(log(&*store, "agt_9", u64::MAX, 9).await, [0; 0]);
    assert_eq!(store.delivery_log(&agent_id("agt_1"), 2, 1).await.unwrap(), [logged(1, 5)]);
}

pub async fn delivery_of_a_deleted_notification_is_not_the_first(place: &dyn TestDatabase) {
    let store = place.open().await;
    let hotel = agent("agt_1");
    made(&*store, [put_webhook("agt_1", Reachable)]).await;
    made(&*store, [tell(&hotel, 1, 1), tell(&hotel, 2, 9), notify_of(&hotel, "cnv_1", 9)]).await;
    made(&*store, [forget_mail(9, 2)]).await;
    assert_eq!(numbers(&*store, 99).await, [1, 3], "the job ends when it runs");
    assert_eq!(first(&*store, "agt_1").await.unwrap().mailed.seq, 3);
    end(&*store, "agt_1", 1).await;
    assert_eq!(first(&*store, "agt_1").await.unwrap().mailed.seq, 2);
}

pub async fn old_delivery_log_entries_are_deleted(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [log_entry("agt_1", 1, 30), log_entry("agt_1", 2, 10), log_entry("agt_2", 1, 20)]).await;
    let is_any_before = async |time| store.is_any_delivery_logged_before(later(time)).await.unwrap();
    assert_eq!((is_any_before(10).await, is_any_before(11).await), (false, true));
    let any_before = async |time| store.is_any_delivery_logged_before(later(time)).await.unwrap();
    assert!(any_before(11).await && !any_before(10).await);
    made(&*store, [forget_log(10, 9)]).await;
    assert_eq!(log(&*store, "agt_1", u64::MAX, 9).await, [2, 1]);
    made(&*store, [forget_log(30, 1)]).await;
    assert_eq!((log(&*store, "agt_1", 9, 9).await, log(&*store, "agt_2", 9, 9).await), (vec![1], vec![1]));
    made(&*store, [forget_log(30, 9)]).await;
    assert_eq!((log(&*store, "agt_1", 9, 9).await, log(&*store, "agt_2", 9, 9).await), (vec![1], vec![]));
    assert_eq!((is_any_before(30).await, is_any_before(31).await), (false, true));
}

pub async fn webhooks_survive_reopening(place: &dyn TestDatabase) {
    let store = place.open().await;
    let hotel = agent("agt_1");
    made(&*store, [put_webhook("agt_1", Reachable)]).await;
    made(&*store, [tell(&hotel, 1, 1), tell(&hotel, 2, 2)]).await;
    drop(store);
    let store = place.open().await;
    assert_eq!(store.webhooks().await.unwrap(), [webhook("agt_1")]);
    assert_eq!((numbers(&*store, 0).await, numbers(&*store, 9).await), (vec![], vec![1]));
    end(&*store, "agt_1", 1).await;
    made(&*store, [log_entry("agt_1", 1, 3), tell(&hotel, 3, 3)]).await;
    drop(store);
    let store = place.open().await;
    assert_eq!((numbers(&*store, 9).await, log(&*store, "agt_1", 9, 9).await), (vec![2], vec![1]));
}

//! Contract checks for notifications to people and agents.

use nuncio_core::audit::{AuditEvent, AuditEventRecord};
use nuncio_core::notification::RelayParty;
use nuncio_core::principal::Principal;
use nuncio_engine::ports::store::{AccessChange, AuditChange, Change, Conflict, ConsentChange, Store};

use super::audit::verified;
use super::consent_sample::{agent_id, notification, recipient, tell};
use super::sample::{self, later};
use super::{TestDatabase, made, race, refusal};

fn read(recipient: &RelayParty, reader: &str, seq: u64) -> Change {
    ConsentChange::ReadMail { recipient: recipient.clone(), reader: reader.to_owned(), seq }.into()
}

fn forget(before: i64, limit: usize) -> Change {
    ConsentChange::ForgetMail { before: later(before), limit }.into()
}

async fn numbers(store: &dyn Store, recipient: &RelayParty, after: u64, limit: usize) -> Vec<u64> {
    store.mail(recipient, after, limit).await.unwrap().iter().map(|mail| mail.seq).collect()
}

pub async fn mail_is_numbered_per_recipient(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (ada, agent) = (recipient("ada"), RelayParty::Agent(agent_id("agt_1")));
    assert_eq!(store.mail_head(&ada).await.unwrap(), 0);
    made(&*store, [tell(&ada, 1, 0), tell(&agent, 7, 1), tell(&ada, 2, 2), tell(&ada, 3, 3)]).await;
    assert_eq!(numbers(&*store, &ada, 0, 9).await, [1, 2, 3]);
    assert_eq!(numbers(&*store, &ada, 1, 1).await, [2]);
    assert_eq!(numbers(&*store, &agent, 0, 9).await, [1]);
    assert_eq!(numbers(&*store, &recipient("eve"), 0, 9).await, [0; 0]);
    let second = store.mail(&ada, 1, 1).await.unwrap().remove(0);
    assert_eq!((second.at, second.notification), (later(2), notification(2)));
    assert_eq!((store.mail_head(&ada).await.unwrap(), store.mail_head(&agent).await.unwrap()), (3, 1));
}

pub async fn concurrent_mail_is_numbered_without_gaps(place: &dyn TestDatabase) {
    let store = place.open().await;
    let ada = recipient("ada");
    let missing = nuncio_core::ids::GrantId::parse("nope").unwrap();
    assert_eq!(
        refusal(&*store, [tell(&ada, 0, 0), Change::from(AccessChange::UseGrant(missing.clone()))]).await,
        Conflict::GrantUsed
    );
    let units = (0..60).map(|n| match n % 3 {
        0 => vec![tell(&ada, n, 0), Change::from(AccessChange::UseGrant(missing.clone()))],
        _ => vec![tell(&ada, n, 0)],
    });
    race(&store, units).await;
    assert_eq!(numbers(&*store, &ada, 0, 99).await, (1..=40).collect::<Vec<_>>());
}

pub async fn each_mail_reader_has_its_own_read_position(place: &dyn TestDatabase) {
    let store = place.open().await;
    let ada = recipient("ada");
    made(&*store, [read(&ada, "dev_1", 5)]).await;
    assert_eq!(store.mail_read(&ada, "dev_1").await.unwrap(), 0, "no read number is stored yet");
    made(&*store, [tell(&ada, 1, 0), tell(&ada, 2, 0), tell(&ada, 3, 0)]).await;
    made(&*store, [read(&ada, "dev_1", 2), read(&ada, "dev_2", 99)]).await;
    made(&*store, [read(&ada, "dev_1", 1)]).await;
    assert_eq!(store.mail_read(&ada, "dev_1").await.unwrap(), 2);
    assert_eq!(store.mail_read(&ada, "dev_2").await.unwrap(), 3);
    assert_eq!(store.mail_read(&recipient("eve"), "dev_1").await.unwrap(), 0);
}

pub async fn deleted_mail_numbers_are_not_reused(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (ada, eve) = (recipient("ada"), recipient("eve"));
    made(&*store, [tell(&ada, 1, 0), tell(&ada, 2, 10), tell(&eve, 3, 1)]).await;
    assert!(!store.is_any_mail_before(later(0)).await.unwrap());
    assert!(store.is_any_mail_before(later(1)).await.unwrap());
    made(&*store, [forget(5, 1)]).await;
    assert_eq!((numbers(&*store, &ada, 0, 9).await, numbers(&*store, &eve, 0, 9).await), (vec![2], vec![1]));
    made(&*store, [forget(99, 99), tell(&ada, 4, 20)]).await;
    assert_eq!(numbers(&*store, &ada, 0, 9).await, [3]);
    drop(store);
    let store = place.open().await;
    assert_eq!(store.mail_head(&ada).await.unwrap(), 3);
}

pub async fn audit_events_are_chained_together_with_call_records(place: &dyn TestDatabase) {
    let store = place.open().await;
    let record = AuditEventRecord {
        agent: Some(agent_id("agt_1")),
        manifest_version: Some(3),
        ..AuditEventRecord::new(AuditEvent::ManifestPublished, Principal::Operator, later(1))
    };
    let call = || Change::from(AuditChange::AppendCall(sample::record("c1")));
    made(&*store, [call(), AuditChange::AppendEvent(record.clone()).into(), call()]).await;
    let links = verified(&*store).await;
    assert_eq!(links.len(), 3);
    assert_eq!(serde_json::from_str::<AuditEventRecord>(&links[1].link.record).unwrap(), record);
}

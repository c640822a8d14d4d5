//! Contract tests for every implementation of `Bus`, run with [`bus_contract!`](crate::bus_contract). Each check gets
//! an unused bus.

use std::collections::HashSet;
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use futures_util::StreamExt;
use nuncio_engine::ports::bus::{Bus, BusNotice};

/// Generates a test for every check. The expression creates a new `Arc<dyn Bus>`.
#[macro_export]
macro_rules! bus_contract {
    ($bus:expr) => {
        $crate::bus_contract! { @tests $bus;
            listener_receives_notices_in_order,
            every_listener_receives_each_notice,
            new_listener_receives_only_later_notices,
            publishing_without_listeners_succeeds,
            dropped_listener_does_not_affect_others,
            waiting_listener_is_woken_by_a_published_notice,
            lagging_listener_still_receives_a_notice_of_every_kind,
        }
    };
    (@tests $bus:expr; $($check:ident),* $(,)?) => {
        $(
            #[::tokio::test(flavor = "multi_thread")]
            async fn $check() {
                $crate::contract::$check($bus).await;
            }
        )*
    };
}

fn access() -> BusNotice {
    BusNotice::Access { by: Arc::from("node-1") }
}

pub async fn listener_receives_notices_in_order(bus: Arc<dyn Bus>) {
    let listener = bus.subscribe();
    let published = [BusNotice::Approvals, access(), BusNotice::Approvals];
    for notice in published.clone() {
        bus.publish(notice).await;
    }
    assert_eq!(listener.take(published.len()).collect::<Vec<_>>().await, published);
}

pub async fn every_listener_receives_each_notice(bus: Arc<dyn Bus>) {
    let listeners: Vec<_> = (0..5).map(|_| bus.subscribe()).collect();
    bus.publish(access()).await;
    for mut listener in listeners {
        assert_eq!(listener.next().await, Some(access()));
    }
}

pub async fn new_listener_receives_only_later_notices(bus: Arc<dyn Bus>) {
    let mut early = bus.subscribe();
    bus.publish(BusNotice::Approvals).await;
    assert_eq!(early.next().await, Some(BusNotice::Approvals));
    let mut late = bus.subscribe();
    bus.publish(access()).await;
    assert_eq!(late.next().await, Some(access()));
}

pub async fn publishing_without_listeners_succeeds(bus: Arc<dyn Bus>) {
    bus.publish(BusNotice::Approvals).await;
    let mut listener = bus.subscribe();
    bus.publish(access()).await;
    assert_eq!(listener.next().await, Some(access()));
}

pub async fn dropped_listener_does_not_affect_others(bus: Arc<dyn Bus>) {
    let leaving = bus.subscribe();
    let mut staying = bus.subscribe();
    bus.publish(BusNotice::Approvals).await;
    drop(leaving);
    bus.publish(access()).await;
    assert_eq!(staying.next().await, Some(BusNotice::Approvals));
    assert_eq!(staying.next().await, Some(access()));
}

pub async fn waiting_listener_is_woken_by_a_published_notice(bus: Arc<dyn Bus>) {
    let mut listener = bus.subscribe();
    let mut waiting = Box::pin(listener.next());
    assert!(futures_util::poll!(waiting.as_mut()).is_pending());
    let task = tokio::spawn({
        let bus = Arc::clone(&bus);
        async move { bus.publish(BusNotice::Approvals).await }
    });
    assert_eq!(waiting.await, Some(BusNotice::Approvals));
    assert!(task.await.is_ok());
}

pub async fn lagging_listener_still_receives_a_notice_of_every_kind(bus: Arc<dyn Bus>) {
    let mut listener = bus.subscribe();
    bus.publish(access()).await;
    for _ in 0..100_000 {
        bus.publish(BusNotice::Approvals).await;
    }
    let mut received: HashSet<Discriminant<BusNotice>> = HashSet::new();
    while received.len() < 2 {
        let Some(notice) = listener.next().await else { panic!("the stream ended after {received:?}") };
        received.insert(discriminant(&notice));
    }
}

//! What every bus promises, as checks: each is given a bus that nobody uses. A bus's tests run
//! them all with [`bus_contract!`](crate::bus_contract).

use std::collections::HashSet;
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use futures_util::StreamExt;
use nuncio_engine::ports::bus::{Bus, Notice};

/// Makes a test of every check. The expression makes a new bus, an `Arc<dyn Bus>`.
#[macro_export]
macro_rules! bus_contract {
    ($bus:expr) => {
        $crate::bus_contract! { @tests $bus;
            a_listener_hears_what_is_published,
            every_listener_hears_it,
            nobody_hears_what_came_before,
            publishing_to_nobody_is_no_error,
            a_listener_who_left_disturbs_nobody,
            a_sleeping_listener_is_woken,
            a_slow_listener_hears_the_last_of_every_kind,
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

/// What is published is heard, in its order.
pub async fn a_listener_hears_what_is_published(bus: Arc<dyn Bus>) {
    let listener = bus.subscribe();
    let published = [Notice::Approvals, Notice::Access, Notice::Approvals];
    for notice in published.clone() {
        bus.publish(notice).await;
    }
    assert_eq!(listener.take(published.len()).collect::<Vec<_>>().await, published);
}

/// Everyone who listens hears it.
pub async fn every_listener_hears_it(bus: Arc<dyn Bus>) {
    let listeners: Vec<_> = (0..5).map(|_| bus.subscribe()).collect();
    bus.publish(Notice::Access).await;
    for mut listener in listeners {
        assert_eq!(listener.next().await, Some(Notice::Access));
    }
}

/// A listener hears what is published from then on.
pub async fn nobody_hears_what_came_before(bus: Arc<dyn Bus>) {
    let mut early = bus.subscribe();
    bus.publish(Notice::Approvals).await;
    assert_eq!(early.next().await, Some(Notice::Approvals));
    let mut late = bus.subscribe();
    bus.publish(Notice::Access).await;
    assert_eq!(late.next().await, Some(Notice::Access));
}

/// A bus that nobody listens to takes notices, and works afterwards.
pub async fn publishing_to_nobody_is_no_error(bus: Arc<dyn Bus>) {
    bus.publish(Notice::Approvals).await;
    let mut listener = bus.subscribe();
    bus.publish(Notice::Access).await;
    assert_eq!(listener.next().await, Some(Notice::Access));
}

/// One who stops listening takes nothing from the others.
pub async fn a_listener_who_left_disturbs_nobody(bus: Arc<dyn Bus>) {
    let leaving = bus.subscribe();
    let mut staying = bus.subscribe();
    bus.publish(Notice::Approvals).await;
    drop(leaving);
    bus.publish(Notice::Access).await;
    assert_eq!(staying.next().await, Some(Notice::Approvals));
    assert_eq!(staying.next().await, Some(Notice::Access));
}

/// One who is waiting already is woken.
pub async fn a_sleeping_listener_is_woken(bus: Arc<dyn Bus>) {
    let mut listener = bus.subscribe();
    let mut waiting = Box::pin(listener.next());
    assert!(futures_util::poll!(waiting.as_mut()).is_pending());
    let task = tokio::spawn({
        let bus = Arc::clone(&bus);
        async move { bus.publish(Notice::Approvals).await }
    });
    assert_eq!(waiting.await, Some(Notice::Approvals));
    assert!(task.await.is_ok());
}

/// One who does not keep up may miss some, but hears of every kind after it was last published:
/// a flood of one does not wash away another.
pub async fn a_slow_listener_hears_the_last_of_every_kind(bus: Arc<dyn Bus>) {
    let mut listener = bus.subscribe();
    bus.publish(Notice::Access).await;
    for _ in 0..100_000 {
        bus.publish(Notice::Approvals).await;
    }
    let mut heard: HashSet<Discriminant<Notice>> = HashSet::new();
    while heard.len() < 2 {
        let Some(notice) = listener.next().await else { panic!("the stream ended after {heard:?}") };
        heard.insert(discriminant(&notice));
    }
}

//! The schedule of the crawler.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nuncio_core::Code;
use nuncio_core::time::Timestamp;
use nuncio_engine::EngineError;
use nuncio_engine::crawl::{CrawlTargets, Crawler};
use nuncio_engine::ports::Clock as _;
use tokio::sync::{mpsc, oneshot};

use crate::world::AdjustableClock;

const HOUR: Duration = Duration::from_secs(3600);

/// A begun visit: its target, and the sender with which the test ends it.
type StartedVisit = (String, oneshot::Sender<Result<(), EngineError>>);

/// Targets named `host/path`; a visit that ends well is repeated after an hour.
struct TestCrawlTargets {
    clock: AdjustableClock,
    next: Mutex<BTreeMap<String, Timestamp>>,
    visits: mpsc::UnboundedSender<StartedVisit>,
}

#[async_trait]
impl CrawlTargets for TestCrawlTargets {
    type Target = String;

    async fn schedule(&self) -> Result<Vec<(String, Timestamp)>, EngineError> {
        Ok(self.next.lock().unwrap().clone().into_iter().collect())
    }

    fn host(&self, site: &String) -> String {
        site.split_once('/').unwrap().0.to_owned()
    }

    async fn visit(&self, site: &String) -> Result<(), EngineError> {
        let (end, ended) = oneshot::channel();
        self.visits.send((site.clone(), end)).unwrap();
        ended.await.unwrap()?;
        self.next.lock().unwrap().insert(site.clone(), self.clock.now().after(HOUR));
        Ok(())
    }
}

fn crawl(sites: &[&str]) -> (Crawler<TestCrawlTargets>, AdjustableClock, mpsc::UnboundedReceiver<StartedVisit>) {
    let clock = AdjustableClock::new();
    let (visits, begun) = mpsc::unbounded_channel();
    let next = sites.iter().map(|site| ((*site).to_owned(), clock.now())).collect();
    let sites = TestCrawlTargets { clock: clock.clone(), next: Mutex::new(next), visits };
    let crawler = Crawler::new(sites, Arc::new(clock.clone()));
    tokio::spawn(crawler.clone().run(std::future::pending()));
    (crawler, clock, begun)
}

#[tokio::test]
async fn crawler_makes_one_visit_per_host_at_a_time() {
    let (crawler, clock, mut begun) = crawl(&["a/1", "a/2", "b/1"]);
    let mut open = [begun.recv().await.unwrap(), begun.recv().await.unwrap()];
    open.sort_by(|one, other| one.0.cmp(&other.0));
    let [(first, end_first), (other, end_other)] = open;
    assert!(first.starts_with("a/") && other == "b/1", "{first} {other}");
    assert!(begun.try_recv().is_err(), "the second document of the first host waits");
    end_first.send(Ok(())).unwrap();
    let (second, end_second) = begun.recv().await.unwrap();
    assert!(second.starts_with("a/") && second != first);
    // Registering an agent of a host waits for the visit too.
    let locked = tokio::spawn({
        let crawler = crawler.clone();
        async move { drop(crawler.lock_host("a".to_owned()).await) }
    });
    end_second.send(Ok(())).unwrap();
    locked.await.unwrap();
    end_other.send(Ok(())).unwrap();
    while crawler.targets().next.lock().unwrap().values().any(|next| *next <= clock.now()) {
        tokio::task::yield_now().await;
    }
    clock.advance(HOUR);
    let again = [begun.recv().await.unwrap().0, begun.recv().await.unwrap().0];
    assert!(again.contains(&"b/1".to_owned()), "{again:?}");
}

#[tokio::test]
async fn woken_crawler_visits_a_new_target_at_once() {
    let (crawler, clock, mut begun) = crawl(&[]);
    tokio::task::yield_now().await;
    crawler.targets().next.lock().unwrap().insert("a/1".to_owned(), clock.now());
    crawler.wake();
    assert_eq!(begun.recv().await.unwrap().0, "a/1");
}

#[tokio::test]
async fn visit_that_cannot_be_stored_is_repeated_after_a_pause() {
    let (_crawler, clock, mut begun) = crawl(&["a/1"]);
    let (_, end) = begun.recv().await.unwrap();
    end.send(Err(EngineError::new(Code::StoreUnavailable, "no space"))).unwrap();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(begun.try_recv().is_err());
    clock.advance(Duration::from_secs(60));
    assert_eq!(begun.recv().await.unwrap().0, "a/1");
}

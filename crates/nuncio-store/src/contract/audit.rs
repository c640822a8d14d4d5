//! Contract checks for the audit record.

use std::collections::{BTreeMap, BTreeSet};

use nuncio_core::audit::{AuditChainHead, AuditChainId, AuditChainVerifier, AuditRecord, ChainHead, StoredAuditLink};
use nuncio_core::ids::CallId;
use nuncio_engine::ports::store::{AuditChange, Change, Conflict, Store};

use super::sample;
use super::{TestDatabase, made, race, refusal};

/// Reads and verifies all audit chains.
pub async fn verified(store: &dyn Store) -> Vec<StoredAuditLink> {
    let links = store.audit_links(0, usize::MAX).await.unwrap();
    assert!(links.is_sorted_by(|one, next| one.number < next.number));
    let mut verifiers: BTreeMap<AuditChainId, AuditChainVerifier> = BTreeMap::new();
    for StoredAuditLink { chain, link, .. } in &links {
        verifiers.entry(*chain).or_insert_with(|| AuditChainVerifier::after(chain.start())).take(link).unwrap();
    }
    let head = |(chain, verifier): (&_, &AuditChainVerifier)| AuditChainHead { chain: *chain, head: verifier.head() };
    assert_eq!(verifiers.iter().map(head).collect::<Vec<_>>(), store.audit_heads().await.unwrap());
    links
}

fn calls(links: &[StoredAuditLink]) -> Vec<String> {
    let call =
        |stored: &StoredAuditLink| serde_json::from_str::<AuditRecord>(&stored.link.record).unwrap().call.to_string();
    links.iter().map(call).collect()
}

fn audit(call: &str) -> Change {
    Change::from(AuditChange::AppendCall(sample::record(call)))
}

pub async fn new_audit_chain_is_empty(place: &dyn TestDatabase) {
    let store = place.open().await;
    assert_eq!(store.audit_heads().await.unwrap(), []);
    assert_eq!(store.audit_links(0, 10).await.unwrap(), []);
}

pub async fn audit_records_are_chained_in_commit_order(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [audit("c1")]).await;
    made(&*store, [audit("c2"), audit("c3")]).await;
    let links = verified(&*store).await;
    assert_eq!(calls(&links), ["c1", "c2", "c3"]);
    assert_eq!(serde_json::from_str::<AuditRecord>(&links[1].link.record).unwrap(), sample::record("c2"));
}

pub async fn audit_records_are_read_in_pages(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, (1..=7).map(|n| audit(&format!("c{n}"))).collect::<Vec<_>>()).await;
    let page = async |after, limit| calls(&store.audit_links(after, limit).await.unwrap());
    assert_eq!(page(0, 3).await, ["c1", "c2", "c3"]);
    assert_eq!(page(3, 3).await, ["c4", "c5", "c6"]);
    assert_eq!(page(6, 3).await, ["c7"]);
    assert!(page(7, 3).await.is_empty());
    assert!(page(0, 0).await.is_empty());
    let newest = async |before, limit| calls(&store.audit_links_before(before, limit).await.unwrap());
    assert_eq!(newest(u64::MAX, 3).await, ["c7", "c6", "c5"]);
    assert_eq!(newest(5, 3).await, ["c4", "c3", "c2"]);
    assert_eq!(newest(2, 3).await, ["c1"]);
    assert!(newest(1, 3).await.is_empty());
}

pub async fn failed_commit_leaves_no_audit_record(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [audit("c1")]).await;
    assert_eq!(refusal(&*store, [audit("lost"), sample::begin("nobody", 1)]).await, Conflict::NoSession);
    made(&*store, [audit("c2")]).await;
    assert_eq!(refusal(&*store, [audit("lost"), audit("lost"), sample::end("nobody", 1)]).await, Conflict::NoSession);
    assert_eq!(calls(&verified(&*store).await), ["c1", "c2"]);
}

pub async fn audit_chain_verifies_after_concurrent_commits(place: &dyn TestDatabase) {
    let store = place.open().await;
    let unit = |n: usize| {
        let mut unit = vec![audit(&format!("c{n}"))];
        if n.is_multiple_of(3) {
            unit.push(sample::begin("nobody", 1));
        }
        unit
    };
    for round in 0..4 {
        let first = round * 64;
        for (n, outcome) in (first..).zip(race(&store, (first..first + 64).map(unit)).await) {
            assert_eq!(outcome.is_err(), n.is_multiple_of(3), "{n}: {outcome:?}");
        }
    }
    let found = calls(&verified(&*store).await);
    let expected: BTreeSet<_> = (0..256).filter(|n: &usize| !n.is_multiple_of(3)).map(|n| format!("c{n}")).collect();
    assert_eq!(found.len(), expected.len());
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
}

pub async fn audit_records_are_found_by_call(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [audit("c1"), audit("c2"), audit("c1"), audit("c11"), audit("c1")]).await;
    let found = async |call: &str, limit| {
        let links = store.audit_links_of(&CallId::parse(call).unwrap(), limit).await.unwrap();
        links.iter().map(|stored| stored.number).collect::<Vec<_>>()
    };
    assert_eq!(found("c1", 9).await, [1, 3, 5]);
    assert_eq!(found("c1", 2).await, [1, 3]);
    assert_eq!(found("c11", 9).await, [4]);
    assert!(found("c3", 9).await.is_empty());
}

pub async fn pruning_deletes_oldest_audit_records_and_the_rest_still_verifies(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, (1..=6).map(|n| audit(&format!("c{n}"))).collect::<Vec<_>>()).await;
    let before = verified(&*store).await;
    let chain = before[0].chain;
    let prune = || Change::from(AuditChange::Prune { chain, through: 4, limit: 3 });
    made(&*store, [prune()]).await;
    assert_eq!(calls(&store.audit_links(0, 9).await.unwrap()), ["c4", "c5", "c6"]);
    made(&*store, [prune()]).await;
    made(&*store, [prune()]).await;
    drop(store);
    let store = place.open().await;
    made(&*store, [audit("c7")]).await;
    let links = store.audit_links(0, 9).await.unwrap();
    assert_eq!(links[..2], before[4..]);
    let mut verifier = AuditChainVerifier::after(ChainHead { seq: 4, hash: before[3].link.hash });
    links.iter().for_each(|stored| verifier.take(&stored.link).unwrap());
    assert_eq!([AuditChainHead { chain, head: verifier.head() }][..], store.audit_heads().await.unwrap());
    assert_eq!(links.len(), 3);
}

pub async fn audit_growth_rises_by_one_with_each_committed_record(place: &dyn TestDatabase) {
    let store = place.open().await;
    let mut growth = store.audit_growth();
    made(&*store, [audit("c1"), audit("c2")]).await;
    assert_eq!(*growth.wait_for(|number| *number >= 2).await.unwrap(), 2);
    made(&*store, [sample::create("s")]).await;
    made(&*store, [audit("c3")]).await;
    assert_eq!(*growth.wait_for(|number| *number >= 3).await.unwrap(), 3);
}

pub async fn chain_links_are_read_in_order_and_by_position(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, (1..=5).map(|n| audit(&format!("c{n}"))).collect::<Vec<_>>()).await;
    let chain = verified(&*store).await[0].chain;
    let page = async |after, limit| calls(&store.audit_chain_links(chain, after, limit).await.unwrap());
    assert_eq!(page(0, 2).await, ["c1", "c2"]);
    assert_eq!(page(2, 9).await, ["c3", "c4", "c5"]);
    assert_eq!(calls(store.audit_link(chain, 4).await.unwrap().as_slice()), ["c4"]);
    let other = AuditChainId(chain.0 + 1);
    assert_eq!(store.audit_chain_links(other, 0, 9).await.unwrap(), []);
    assert_eq!((store.audit_link(chain, 6).await.unwrap(), store.audit_link(other, 1).await.unwrap()), (None, None));
}

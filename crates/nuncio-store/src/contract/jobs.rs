//! Contract checks for jobs: claims, terms, lanes and the limit of each receiver.

use std::sync::Arc;
use std::time::Duration;

use nuncio_core::ids::Incarnation;
use nuncio_engine::ports::store::{
    Change, ClaimedJob, Conflict, Job, JobChange, JobClaim, JobClaimRequest, JobKind, JobLane, JobSelection, JobTimes,
    NodeChange, NodeRecord, NodeState, Store, StoreError,
};

use super::sample::{NOW, here, later, node};
use super::{TestDatabase, executions, made, refusal};

const KIND: JobKind = JobKind::Callback;

/// Duration of claims that hold for the whole test. Claims that last for no time expire at once, whichever clock the store
/// uses.
const CLAIM_TIME: Duration = Duration::from_secs(3600);

fn job(key: &str, due: i64) -> Job {
    let receiver = "https://shop.example".to_owned();
    Job { kind: KIND, key: key.to_owned(), receiver, lane: None, due: later(due), attempts: 0 }
}

/// A job in a lane; its number is its key.
fn in_lane(receiver: &str, lane: &str, key: u64) -> Job {
    let place = JobLane { name: lane.to_owned(), seq: key };
    Job { receiver: receiver.to_owned(), lane: Some(place), ..job(&key.to_string(), 0) }
}

fn put(job: Job) -> Change {
    JobChange::Put(job).into()
}

fn request(by: &Incarnation, now: i64) -> JobClaimRequest {
    JobClaimRequest {
        kind: KIND,
        by: by.clone(),
        now: later(now),
        lasts: CLAIM_TIME,
        limit: 100,
        per_receiver: 100,
        running: Vec::new(),
    }
}

async fn claim_for(store: &dyn Store, by: &str, now: i64) -> Vec<ClaimedJob> {
    store.claim_jobs(request(&node(by), now)).await.unwrap()
}

async fn claim(store: &dyn Store, now: i64) -> Vec<ClaimedJob> {
    claim_for(store, "here", now).await
}

/// Claims the only job that is due, for no time.
async fn claim_expired(store: &dyn Store) -> ClaimedJob {
    let request = JobClaimRequest { lasts: Duration::ZERO, ..request(&here(), 0) };
    store.claim_jobs(request).await.unwrap().remove(0)
}

async fn claim_one(store: &dyn Store, now: i64) -> ClaimedJob {
    let mut claimed = claim(store, now).await;
    assert_eq!(claimed.len(), 1, "{claimed:?}");
    claimed.remove(0)
}

fn keys(claimed: &[ClaimedJob]) -> Vec<&str> {
    claimed.iter().map(|claimed| claimed.job.key.as_str()).collect()
}

async fn all(store: &dyn Store) -> Vec<Job> {
    store.next_jobs(KIND, usize::MAX).await.unwrap()
}

pub async fn first_jobs_of_lanes_are_listed_in_due_order(place: &dyn TestDatabase) {
    let store = place.open().await;
    assert_eq!(all(&*store).await, []);
    let second = Job { attempts: u32::MAX, ..in_lane("receiver", "lane", 7) };
    made(&*store, [put(job("b", 20)), put(second.clone()), put(job("c", 30)), put(job("a", 20))]).await;
    made(&*store, [put(in_lane("receiver", "lane", 8))]).await;
    let expected = [second, job("a", 20), job("b", 20), job("c", 30)];
    assert_eq!(all(&*store).await, expected);
    assert_eq!(store.next_jobs(KIND, 2).await.unwrap(), expected[..2]);
}

pub async fn second_job_with_the_same_key_replaces_the_first(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [put(job("a", 5))]).await;
    let again = Job { receiver: "other".to_owned(), attempts: 3, ..job("a", 90) };
    made(&*store, [put(again.clone())]).await;
    assert_eq!(all(&*store).await, [again]);
    assert_eq!(claim(&*store, 5).await, [], "not at its old time as well");
}

pub async fn job_is_stored_atomically_with_its_cause(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [executions::create("a")]).await;
    let refused = refusal(&*store, [put(job("a", 0)), executions::end("a", "there", 0)]).await;
    assert_eq!(refused, Conflict::OwnerChanged);
    assert_eq!(all(&*store).await, []);
    made(&*store, [executions::end("a", "here", 0), put(job("a", 0))]).await;
    assert_eq!(all(&*store).await, [job("a", 0)]);
}

pub async fn due_jobs_are_claimed_once_the_longest_due_first(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [put(job("c", 3)), put(job("a", 9)), put(job("b", 3)), put(job("d", 10))]).await;
    let limited = JobClaimRequest { limit: 2, ..request(&here(), 9) };
    let claimed = store.claim_jobs(limited.clone()).await.unwrap();
    let claim_of = |key: &str| JobClaim { kind: KIND, key: key.to_owned(), by: here(), term: 1 };
    let expected = [("b", 3), ("c", 3)].map(|(key, due)| ClaimedJob { job: job(key, due), claim: claim_of(key) });
    assert_eq!(claimed, expected);
    assert_eq!(keys(&store.claim_jobs(limited.clone()).await.unwrap()), ["a"]);
    assert_eq!(store.claim_jobs(limited).await.unwrap(), []);
    assert_eq!(keys(&claim(&*store, 10).await), ["d"]);
}

pub async fn only_one_of_many_concurrent_claims_gets_a_job(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, (0..8).map(|n| put(job(&n.to_string(), 0))).collect::<Vec<_>>()).await;
    let claims: Vec<_> = (0..32)
        .map(|n| {
            let store = Arc::clone(&store);
            let request = JobClaimRequest { limit: 3, ..request(&node(&format!("node_{n}")), 1) };
            tokio::spawn(async move { store.claim_jobs(request).await.unwrap() })
        })
        .collect();
    let mut claimed = Vec::new();
    for claim in claims {
        claimed.extend(claim.await.unwrap());
    }
    let mut keys = keys(&claimed);
    keys.sort_unstable();
    assert_eq!(keys, ["0", "1", "2", "3", "4", "5", "6", "7"]);
    assert!(claimed.iter().all(|claimed| claimed.claim.term == 1), "{claimed:?}");
    for claimed in claimed {
        made(&*store, [Change::from(claimed.end())]).await;
    }
    assert_eq!(all(&*store).await, []);
}

pub async fn receiver_gets_no_more_jobs_than_it_has_free_places(place: &dyn TestDatabase) {
    let store = place.open().await;
    let of = |receiver: &str, key: &str, due| put(Job { receiver: receiver.to_owned(), ..job(key, due) });
    made(&*store, [of("slow", "a", 0), of("slow", "b", 1), of("slow", "c", 2), of("quick", "d", 3)]).await;
    let two_each = JobClaimRequest { per_receiver: 2, ..request(&here(), 9) };
    assert_eq!(keys(&store.claim_jobs(two_each.clone()).await.unwrap()), ["a", "b", "d"]);
    made(&*store, [of("quick", "e", 4)]).await;
    let running = ["a", "b"].map(|key| (key.to_owned(), "slow".to_owned())).to_vec();
    let with_running = JobClaimRequest { running, ..two_each.clone() };
    assert_eq!(keys(&store.claim_jobs(with_running).await.unwrap()), ["e"]);
    let running = vec![("b".to_owned(), "slow".to_owned())];
    assert_eq!(keys(&store.claim_jobs(JobClaimRequest { running, ..two_each }).await.unwrap()), ["c"]);
}

pub async fn expired_claim_is_replaced_by_one_with_a_higher_term(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [put(job("a", 0))]).await;
    let first = claim_expired(&*store).await;
    let second = claim_for(&*store, "there", 0).await.remove(0);
    assert_eq!(claim_for(&*store, "elsewhere", 1).await, [], "the second claim lasts longer");
    assert_eq!((first.claim.term, second.claim.term, &second.claim.by), (1, 2, &node("there")));
    for late in [first.end(), first.delay(later(0), 1), renewal(&first, CLAIM_TIME)] {
        assert_eq!(refusal(&*store, [put(job("b", 0)), late.into()]).await, Conflict::Moved);
    }
    assert_eq!(all(&*store).await, [job("a", 0)]);
    made(&*store, [Change::from(second.end())]).await;
    assert_eq!(all(&*store).await, []);
}

fn renewal(claimed: &ClaimedJob, lasts: Duration) -> JobChange {
    JobChange::Renew { claim: claimed.claim.clone(), now: later(0), lasts }
}

pub async fn expired_claim_of_a_job_that_still_runs_is_not_replaced_by_its_own_node(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [put(job("a", 0))]).await;
    let claimed = claim_expired(&*store).await;
    let running = vec![("a".to_owned(), claimed.job.receiver.clone())];
    let again = JobClaimRequest { running, ..request(&here(), 9) };
    assert_eq!(store.claim_jobs(again).await.unwrap(), []);
    made(&*store, [Change::from(claimed.end())]).await;
}

pub async fn claim_holds_only_for_its_incarnation_and_term(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [put(job("a", 0))]).await;
    let right = claim_one(&*store, 0).await;
    let wrong = [
        JobClaim { by: node("there"), ..right.claim.clone() },
        JobClaim { term: 0, ..right.claim.clone() },
        JobClaim { term: 2, ..right.claim.clone() },
        JobClaim { key: "b".to_owned(), ..right.claim.clone() },
    ];
    for claim in wrong {
        let wrong = ClaimedJob { claim, ..right.clone() };
        for change in [wrong.end(), wrong.delay(later(0), 1), renewal(&wrong, CLAIM_TIME)] {
            assert_eq!(refusal(&*store, [Change::from(change)]).await, Conflict::Moved);
        }
    }
    made(&*store, [Change::from(right.end())]).await;
    assert_eq!(refusal(&*store, [Change::from(right.end())]).await, Conflict::Moved);
}

pub async fn delayed_job_is_claimed_again_at_its_new_time(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [put(job("a", 0))]).await;
    let first = claim_one(&*store, 0).await;
    made(&*store, [Change::from(first.delay(later(30), 4))]).await;
    assert_eq!(refusal(&*store, [Change::from(first.end())]).await, Conflict::Moved);
    assert_eq!(claim(&*store, 29).await, []);
    let second = claim_one(&*store, 30).await;
    assert_eq!((second.claim.term, second.job), (2, Job { attempts: 4, ..job("a", 30) }));
}

pub async fn renewed_claim_holds_longer(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [put(job("a", 0))]).await;
    let claimed = claim_expired(&*store).await;
    made(&*store, [Change::from(renewal(&claimed, CLAIM_TIME))]).await;
    assert_eq!(claim_for(&*store, "there", 1).await, []);
    made(&*store, [Change::from(renewal(&claimed, Duration::ZERO))]).await;
    assert_eq!(claim_for(&*store, "there", 1).await[0].claim.term, 2);
}

pub async fn job_that_is_put_again_keeps_its_claim(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [put(job("a", 0))]).await;
    let claimed = claim_one(&*store, 0).await;
    made(&*store, [put(job("a", 1))]).await;
    assert_eq!(claim_for(&*store, "there", 2).await, []);
    made(&*store, [Change::from(claimed.end())]).await;
    assert_eq!(all(&*store).await, []);
}

pub async fn only_the_first_job_of_a_lane_is_claimed(place: &dyn TestDatabase) {
    let store = place.open().await;
    let jobs = [
        in_lane("r", "x", 1),
        in_lane("r", "x", 2),
        in_lane("r", "y", 3),
        in_lane("s", "x", 4),
        in_lane("r", "x", 5),
        in_lane("r", "", 6),
    ];
    made(&*store, jobs.map(put)).await;
    let heads = claim(&*store, 0).await;
    assert_eq!(keys(&heads), ["1", "3", "4", "6"]);
    made(&*store, [Change::from(heads[0].delay(later(50), 1))]).await;
    assert_eq!(claim(&*store, 49).await, [], "a delayed job holds up its lane");
    for expected in ["1", "2", "5"] {
        let head = claim_one(&*store, 50).await;
        assert_eq!(head.job.key, expected);
        made(&*store, [Change::from(head.end())]).await;
    }
    assert_eq!(claim(&*store, 50).await, []);
    made(&*store, [put(in_lane("r", "x", 7)), put(in_lane("r", "x", 8))]).await;
    assert_eq!(keys(&claim(&*store, 50).await), ["7"], "an emptied lane begins again");
}

pub async fn hastened_jobs_are_due_at_that_time_or_earlier(place: &dyn TestDatabase) {
    let store = place.open().await;
    let of = |receiver: &str, key: &str, due| put(Job { receiver: receiver.to_owned(), ..job(key, due) });
    made(&*store, [of("r", "a", 30), of("r", "b", 50), of("s", "c", 50), of("s", "d", 90)]).await;
    let hasten = |jobs, due| Change::from(JobChange::Hasten { kind: KIND, jobs, due: later(due) });
    let receiver = |name: &str| JobSelection::Receiver(name.to_owned());
    made(&*store, [hasten(receiver("r"), 40), hasten(receiver("unknown"), 0)]).await;
    assert_eq!(keys(&claim(&*store, 40).await), ["a", "b"]);
    made(&*store, [hasten(JobSelection::Key("d".to_owned()), 45), hasten(JobSelection::Key("x".to_owned()), 0)]).await;
    assert_eq!(keys(&claim(&*store, 45).await), ["d"]);
    made(&*store, [hasten(receiver("r"), 0)]).await;
    made(&*store, [hasten(JobSelection::All, 46), of("t", "e", 99)]).await;
    assert_eq!(keys(&claim(&*store, 46).await), ["c"], "a claim holds all the same");
}

pub async fn claims_of_a_dead_incarnation_are_released(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [put(job("a", 0)), put(job("b", 0))]).await;
    let lost = store.claim_jobs(JobClaimRequest { limit: 1, ..request(&node("dead"), 0) }).await.unwrap().remove(0);
    let kept = claim_one(&*store, 0).await;
    assert_eq!(store.orphaned_owners().await.unwrap(), [node("dead"), here()]);
    made(&*store, [Change::from(JobChange::Release(node("dead")))]).await;
    assert_eq!(store.orphaned_owners().await.unwrap(), [here()]);
    assert_eq!(refusal(&*store, [Change::from(lost.end())]).await, Conflict::Moved);
    let again = claim_one(&*store, 0).await;
    assert_eq!((again.job.key.as_str(), again.claim.term), ("a", 2));
    made(&*store, [Change::from(kept.end())]).await;
}

pub async fn claims_by_a_dead_incarnation_are_refused(place: &dyn TestDatabase) {
    let (store, other) = (place.open().await, place.open().await);
    let record = NodeRecord {
        incarnation: node("dead"),
        host: "host".to_owned(),
        version: "1".to_owned(),
        started_at: NOW,
        state: NodeState::Alive,
    };
    made(&*store, [Change::from(NodeChange::Join(record)), put(job("a", 0))]).await;
    store.fence(&node("dead"));
    made(&*other, [Change::from(NodeChange::DeclareDead(node("dead")))]).await;
    assert_eq!(store.claim_jobs(request(&node("dead"), 0)).await, Err(StoreError::Fenced));
    assert_eq!(claim_one(&*other, 0).await.claim.term, 1);
}

pub async fn times_of_jobs_tell_what_can_be_claimed_now_and_next(place: &dyn TestDatabase) {
    let store = place.open().await;
    let times = async |now| {
        let JobTimes { kind, is_due, next } = store.job_times(&[KIND], later(now)).await.unwrap()[0];
        assert_eq!(kind, KIND);
        (is_due, next)
    };
    assert_eq!(times(0).await, (false, None));
    assert_eq!(store.job_times(&[], later(0)).await.unwrap(), []);
    made(&*store, [put(in_lane("r", "x", 1)), put(in_lane("r", "x", 2)), put(job("a", 30))]).await;
    assert_eq!(times(0).await, (true, Some(later(30))));
    assert_eq!(times(30).await, (true, None));
    let claimed = claim_one(&*store, 0).await;
    assert_eq!(times(0).await, (false, Some(later(30))));
    made(&*store, [Change::from(renewal(&claimed, Duration::ZERO))]).await;
    assert_eq!(times(0).await, (true, Some(later(30))), "the claim expired");
}

pub async fn jobs_survive_reopening(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [put(job("a", 0)), put(in_lane("r", "x", 1)), put(in_lane("r", "x", 2))]).await;
    let claimed = claim(&*store, 0).await;
    assert_eq!(keys(&claimed), ["1", "a"]);
    let jobs = all(&*store).await;
    drop(store);
    let store = place.open().await;
    assert_eq!(all(&*store).await, jobs);
    assert_eq!(claim_for(&*store, "there", 1).await, []);
    made(&*store, claimed.iter().map(|claimed| Change::from(claimed.end())).collect::<Vec<_>>()).await;
    assert_eq!(keys(&claim(&*store, 1).await), ["2"]);
}

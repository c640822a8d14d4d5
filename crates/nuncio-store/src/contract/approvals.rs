use nuncio_core::approval::{Approval, ApprovalAnswer};
use nuncio_core::ids::ApprovalId;
use nuncio_core::principal::Principal;
use nuncio_engine::ports::store::{ApprovalChange, Change, Conflict};

use super::sample::{self, later};
use super::{TestDatabase, assert_one_winner, made, race, refusal};

fn id(id: &str) -> ApprovalId {
    ApprovalId::parse(id).unwrap()
}

fn allowed(approval: Approval) -> Approval {
    approval.decide(ApprovalAnswer::Allow, Principal::Operator, later(5)).unwrap()
}

fn denied(approval: Approval) -> Approval {
    let answer = ApprovalAnswer::Deny { reason: Some("too dear".into()) };
    approval.decide(answer, Principal::Operator, later(5)).unwrap()
}

fn ask(approval: Approval) -> Change {
    Change::from(ApprovalChange::Create { approval, node: Some(sample::here()) })
}

pub async fn approval_round_trips(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [ask(sample::approval("a", later(0)))]).await;
    assert_eq!(store.approval(&id("a")).await.unwrap(), Some(sample::approval("a", later(0))));
    assert_eq!(store.approval(&id("b")).await.unwrap(), None);
}

/// A second approval with the same id is refused with `Exists`.
pub async fn duplicate_approval_id_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [ask(sample::approval("a", later(0)))]).await;
    assert_eq!(refusal(&*store, [ask(sample::approval("a", later(1)))]).await, Conflict::Exists);
    assert_eq!(store.approval(&id("a")).await.unwrap(), Some(sample::approval("a", later(0))));
}

/// A change from another state is refused with `ApprovalMoved`.
pub async fn approval_changes_only_from_the_state_that_was_read(place: &dyn TestDatabase) {
    let store = place.open().await;
    let asked = sample::approval("a", later(0));
    let yes = allowed(asked.clone());
    made(&*store, [ask(asked.clone())]).await;
    for from in ["allowed", "denied", "used", "expired"] {
        let change = Change::from(ApprovalChange::Move { approval: yes.clone(), from });
        assert_eq!(refusal(&*store, [change]).await, Conflict::ApprovalMoved, "from {from}");
    }
    made(&*store, [Change::from(ApprovalChange::Move { approval: yes.clone(), from: "pending" })]).await;
    assert_eq!(store.approval(&id("a")).await.unwrap(), Some(yes.clone()));

    let no = Change::from(ApprovalChange::Move { approval: denied(asked.clone()), from: "pending" });
    assert_eq!(refusal(&*store, [no]).await, Conflict::ApprovalMoved);

    let used = yes.redeem(&asked.question.call, &asked.question.arguments_digest, later(6)).unwrap();
    let redeem = || [Change::from(ApprovalChange::Move { approval: used.clone(), from: "allowed" })];
    made(&*store, redeem()).await;
    assert_eq!(refusal(&*store, redeem()).await, Conflict::ApprovalMoved, "a yes is used once");
    assert_eq!(store.approval(&id("a")).await.unwrap(), Some(used));
}

/// Changing an unknown approval is refused with `Missing`.
pub async fn changing_unknown_approval_is_refused(place: &dyn TestDatabase) {
    let store = place.open().await;
    let approval = allowed(sample::approval("a", later(0)));
    assert_eq!(
        refusal(&*store, [Change::from(ApprovalChange::Move { approval, from: "pending" })]).await,
        Conflict::Missing
    );
    assert_eq!(store.approval(&id("a")).await.unwrap(), None);
}

pub async fn pending_approvals_are_listed_oldest_first(place: &dyn TestDatabase) {
    let store = place.open().await;
    assert_eq!(store.pending_approvals().await.unwrap(), []);
    let asked = [("c", 0), ("a", 2), ("b", 1), ("d", 3)].map(|(id, at)| sample::approval(id, later(at)));
    made(&*store, asked.clone().map(ask)).await;
    let [c, a, b, d] = asked;
    assert_eq!(store.pending_approvals().await.unwrap(), [c.clone(), b.clone(), a.clone(), d.clone()]);

    let moved = [allowed(c), denied(a), d.expire(later(9)).unwrap()];
    made(&*store, moved.map(|approval| Change::from(ApprovalChange::Move { approval, from: "pending" }))).await;
    assert_eq!(store.pending_approvals().await.unwrap(), [b]);
}

pub async fn only_one_of_many_concurrent_decisions_succeeds(place: &dyn TestDatabase) {
    let store = place.open().await;
    let asked = sample::approval("a", later(0));
    made(&*store, [ask(asked.clone())]).await;
    let units = (0..32).map(|n| {
        let approval = if n % 2 == 0 { allowed(asked.clone()) } else { denied(asked.clone()) };
        vec![Change::from(ApprovalChange::Move { approval, from: "pending" })]
    });
    assert_one_winner(&race(&store, units).await, Conflict::ApprovalMoved);
}

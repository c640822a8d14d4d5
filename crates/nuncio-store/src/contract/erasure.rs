//! Contract checks for the erasure of a person.

use nuncio_core::audit::redact::PersonRedaction;
use nuncio_core::audit::{AuditChainLink, AuditRecord, StoredAuditLink};
use nuncio_core::digest::Digest;
use nuncio_core::grant::Grant;
use nuncio_core::ids::RelationId;
use nuncio_core::principal::Principal;
use nuncio_core::session::Session;
use nuncio_core::task::TaskState;
use nuncio_engine::ports::store::PersonLink;
use nuncio_engine::ports::store::{
    AccessChange, ApprovalChange, AuditChange, CallChange, Change, ConsentChange, PersonErasure, RedactedAuditRecord,
    RedactedLedgerEntry, RelayChange, SessionChange, StartedCall, Store, TaskChange,
};

use super::consent_sample::{
    account, create_account, create_relation, entry, invite, name, publish, put_person, recipient, relation,
};
use super::relay_sample::{begin, conversation_id, group, of_two, place_of, post, send};
use super::sample::{self, NOW, later, owner, session_id, stranger};
use super::{TestDatabase, made, tasks};

const DID: &str = "did:wba:elsewhere.example:user";

fn did() -> Principal {
    Principal::Did(DID.to_owned())
}

fn redaction() -> PersonRedaction {
    PersonRedaction {
        name: name("ada"),
        pseudonym: name("forgotten-1"),
        principals: vec![Principal::Person(name("ada")), owner(), did()],
        key_names: Vec::new(),
    }
}

fn forget(links: Vec<RedactedAuditRecord>, ledger: Vec<RedactedLedgerEntry>) -> Change {
    Change::from(AuditChange::ForgetPerson(Box::new(PersonErasure {
        redaction: redaction(),
        at: later(50),
        links,
        ledger,
    })))
}

fn session_of(id: &str, owner: Principal) -> Change {
    Change::from(SessionChange::Create { session: Session { owner, ..sample::session(id) }, messages: Vec::new() })
}

async fn names(store: &dyn Store) -> Vec<String> {
    store.people().await.unwrap().iter().map(|person| person.name.to_string()).collect()
}

pub async fn erasure_deletes_rows_of_the_person_and_keeps_those_of_others(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [put_person("ada"), put_person("bob"), ConsentChange::CreateInvite(invite("code", "ada")).into()])
        .await;
    made(
        &*store,
        [
            Change::from(AccessChange::CreateKey(sample::key("key_ada", NOW))),
            Change::from(AccessChange::CreateGrant(sample::grant("g1", NOW))),
        ],
    )
    .await;
    made(
        &*store,
        [Change::from(AccessChange::LinkPerson(PersonLink { principal: did(), person: name("ada"), since: NOW }))],
    )
    .await;
    let of =
        |id: &str, principal| Change::from(AccessChange::CreateGrant(Grant { principal, ..sample::grant(id, NOW) }));
    made(&*store, [of("g2", did()), of("g3", stranger())]).await;
    made(&*store, [session_of("s1", owner()), session_of("s2", did()), session_of("s3", stranger())]).await;
    made(&*store, [Change::from(ApprovalChange::Create { approval: sample::approval("a1", NOW), node: None })]).await;

    made(&*store, [forget(Vec::new(), Vec::new())]).await;
    assert_eq!(names(&*store).await, ["bob"]);
    let grants: Vec<_> = store.grants().await.unwrap().iter().map(|grant| grant.id.to_string()).collect();
    assert_eq!(grants, ["g3"]);
    for (id, stays) in [("s1", false), ("s2", false), ("s3", true)] {
        assert_eq!(store.session(&session_id(id)).await.unwrap().is_some(), stays, "{id}");
    }
    assert_eq!(store.links().await.unwrap(), []);
    assert_eq!(store.pending_approvals().await.unwrap(), []);
    assert_eq!(store.bytes_stored(&owner()).await.unwrap(), 0);
    // The key stays as a revoked one, because a server without any key would accept every caller.
    let keys = store.keys().await.unwrap();
    let [key] = keys.as_slice() else { panic!("{keys:?}") };
    assert_eq!((&key.name, &key.person, key.revoked_at), (&None, &None, Some(later(50))));
    // Erasing the person again succeeds and changes nothing.
    made(&*store, [forget(Vec::new(), Vec::new())]).await;
}

pub async fn redacted_audit_records_keep_their_hashes(place: &dyn TestDatabase) {
    let store = place.open().await;
    let record = AuditRecord { caller: did(), ..sample::record("c1") };
    made(
        &*store,
        [Change::from(AuditChange::AppendCall(record)), Change::from(AuditChange::AppendCall(sample::record("c2")))],
    )
    .await;
    let before = store.audit_links(0, 9).await.unwrap();
    let text = redaction().of_text(&before[0].link.record).unwrap();
    made(
        &*store,
        [forget(
            vec![RedactedAuditRecord { number: before[0].number, record: text.clone(), signature: "5169".into() }],
            vec![],
        )],
    )
    .await;
    drop(store);
    let store = place.open().await;
    let after = store.audit_links(0, 9).await.unwrap();
    let redacted = AuditChainLink { record: text, redaction: Some("5169".into()), ..before[0].link.clone() };
    assert_eq!(after[0], StoredAuditLink { link: redacted, ..before[0].clone() });
    assert_eq!(after[1], before[1]);
    assert!(!after[0].link.record.contains(DID));
    made(&*store, [Change::from(AuditChange::AppendCall(sample::record("c3")))]).await;
    assert_eq!(store.audit_links(before[1].number, 9).await.unwrap()[0].link.previous, before[1].link.hash);
}

pub async fn redacted_ledger_entries_replace_the_ledger_of_an_erased_person(place: &dyn TestDatabase) {
    let store = place.open().await;
    let agent = account("agt_1");
    made(&*store, [put_person("ada"), create_account(&agent, "words"), publish(&agent, Some("1"))]).await;
    made(&*store, [create_relation(&relation("rel_1", "ada", "agt_1"), 1)]).await;
    made(&*store, [1, 2].map(|seq| ConsentChange::AppendLedger(entry("rel_1", seq)).into())).await;
    let rel = RelationId::parse("rel_1").unwrap();
    let erased = |seq: u64| RedactedLedgerEntry {
        relation: rel.clone(),
        seq,
        previous: Digest::of_bytes(&[0]),
        hash: Digest::of_bytes(&seq.to_be_bytes()),
        entry: format!("{{\"n\":{seq}}}"),
        signature: "5169".to_owned(),
    };
    made(&*store, [forget(Vec::new(), vec![erased(1), erased(2)])]).await;
    drop(store);
    let store = place.open().await;
    assert_eq!(store.ledger(&rel, 0, 9).await.unwrap(), []);
    assert_eq!(store.relation(&rel).await.unwrap(), None);
    assert_eq!(store.erased_ledger(Some(&rel)).await.unwrap(), [erased(1), erased(2)]);
    assert_eq!(store.erased_ledger(None).await.unwrap().len(), 2);
    assert_eq!(store.erased_ledger(Some(&RelationId::parse("rel_2").unwrap())).await.unwrap(), []);
    // The person's agent stays, without a token.
    let account = store.account(&agent.id).await.unwrap().unwrap();
    assert_eq!((account.owner.to_string(), account.token), ("person:forgotten-1".to_owned(), None));
}

pub async fn group_conversation_continues_after_erasure_of_a_member(place: &dyn TestDatabase) {
    let store = place.open().await;
    let (ada, bob) = (recipient("ada"), recipient("bob"));
    made(&*store, [put_person("ada"), put_person("bob")]).await;
    made(&*store, [begin(&of_two("con_two", "agt_1")), begin(&group("con_all", [ada.clone(), bob.clone()]))]).await;
    made(&*store, [send("con_two", &post(&ada, "m0"), &[], 1)]).await;
    let posts = [post(&ada, "m1"), post(&bob, "m2")];
    made(&*store, [send("con_all", &posts[0], &[], 1), send("con_all", &posts[1], &[], 2)]).await;

    made(&*store, [forget(Vec::new(), Vec::new())]).await;
    assert_eq!(store.member_view(&conversation_id("con_two"), &ada).await.unwrap(), None);
    assert_eq!(store.relayed(&place_of("con_two", 1)).await.unwrap(), None);
    let all = store.member_view(&conversation_id("con_all"), &bob).await.unwrap().unwrap().conversation;
    assert_eq!(store.member_view(&conversation_id("con_all"), &ada).await.unwrap(), None);
    let text = format!("{all:?}");
    assert!(!text.contains("ada") && text.contains("forgotten-1") && text.contains("bob"), "{text}");
    let first = store.relayed(&place_of("con_all", 1)).await.unwrap().unwrap();
    assert_eq!((first.post.sender.to_string(), first.post.envelope.len()), ("person:forgotten-1".to_owned(), 0));
    assert_eq!(store.relayed(&place_of("con_all", 2)).await.unwrap().unwrap().post, posts[1]);
    let next = RelayChange::PostMessage {
        conversation: conversation_id("con_all"),
        revision: all.revision,
        at: later(60),
        post: post(&bob, "m3"),
        to: Vec::new(),
    };
    made(&*store, [next.into()]).await;
    assert!(store.relayed(&place_of("con_all", 3)).await.unwrap().is_some());
}

pub async fn erasure_replaces_the_persons_name_with_a_pseudonym_in_other_rows(place: &dyn TestDatabase) {
    let store = place.open().await;
    made(&*store, [put_person("ada"), put_person("bob")]).await;
    let taken = |id: &str, by: &str| {
        let mut task = tasks::task(id, None);
        (task.asked_by, task.state) = (stranger(), TaskState::Taken { by: by.to_owned(), at: NOW });
        Change::from(TaskChange::Create { task: Box::new(task), node: None })
    };
    made(&*store, [taken("tsk_1", "ada"), taken("tsk_2", "bob")]).await;
    let by_did = Grant { principal: stranger(), given_by: did(), ..sample::grant("g1", NOW) };
    made(&*store, [Change::from(AccessChange::CreateGrant(by_did))]).await;
    let running = AuditRecord { caller: did(), ..sample::record("c1") };
    made(
        &*store,
        [Change::from(CallChange::Start(Box::new(StartedCall {
            key: "call_1".into(),
            node: sample::here(),
            record: running,
            target: None,
        })))],
    )
    .await;

    made(&*store, [forget(Vec::new(), Vec::new())]).await;
    let tasks = store.open_tasks(9).await.unwrap();
    let states: Vec<_> = tasks.iter().map(|task| format!("{:?}", task.state)).collect();
    assert!(states[0].contains("forgotten-1") && states[1].contains("bob"), "{states:?}");
    let grants = store.grants().await.unwrap();
    assert_eq!(grants[0].given_by, Principal::Person(name("forgotten-1")));
    let started = store.started_calls(&sample::here()).await.unwrap();
    assert_eq!(started[0].record.caller, Principal::Person(name("forgotten-1")));
}

//! Tests of each transition of a relation, and that its ledger results in the same permissions.

use proptest::prelude::*;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

use super::*;
use crate::ledger::verify;
use crate::person::Device;
use crate::signature::{PublicKey, Signature};

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn scope(text: &str) -> ScopeId {
    ScopeId::parse(text).unwrap()
}

fn set(scopes: &[&str]) -> BTreeSet<ScopeId> {
    scopes.iter().map(|text| scope(text)).collect()
}

fn names<'a>(scopes: impl IntoIterator<Item = &'a ScopeId>) -> Vec<&'a str> {
    scopes.into_iter().map(ScopeId::as_str).collect()
}

fn version(version: u64) -> ManifestRef {
    ManifestRef { version, hash: Some(Digest::of_bytes(&version.to_be_bytes())) }
}

fn blank() -> Relation {
    Relation::new(
        RelationId::parse("rel_1").unwrap(),
        PersonName::parse("ada").unwrap(),
        AgentId::parse("agt_1").unwrap(),
        at(0),
    )
}

fn wishes(wishes: &[(&str, GrantTerm)]) -> Vec<ScopeToGrant> {
    wishes.iter().map(|(text, term)| ScopeToGrant { scope: scope(text), term: *term }).collect()
}

/// Grants scopes in the relation. Signatures are not checked.
fn say(relation: &Relation, said: &[(&str, GrantTerm)], manifest: ManifestRef, millis: i64) -> Relation {
    let entry = relation.draft_grant(&wishes(said), manifest, &DeviceId::parse("dev_1").unwrap(), at(millis));
    let mut count = 0;
    relation
        .accept(
            &entry,
            |_| Sensitivity::Medium,
            || {
                count += 1;
                GrantId::parse(&format!("con_{millis}_{count}")).unwrap()
            },
        )
        .unwrap()
}

const ALWAYS: GrantTerm = GrantTerm::UntilRevoked;

fn granted() -> Relation {
    say(&blank(), &[("a", ALWAYS), ("b", ALWAYS)], version(1), 10)
}

fn publish(
    relation: &Relation,
    number: u64,
    declared: &[&str],
    changed: &[&str],
    fresh: &[&str],
    millis: i64,
) -> Option<RelationChange> {
    relation.with_manifest(&ManifestComparison {
        version: number,
        hash: version(number).hash,
        declared: &set(declared),
        changed: &set(changed),
        fresh: &set(fresh),
        at: at(millis),
    })
}

fn effective(relation: &Relation, now: i64) -> Vec<&str> {
    names(relation.effective(at(now)).map(|grant| &grant.scope))
}

#[test]
fn consent_replaces_all_grants_by_exactly_the_named_scopes() {
    let relation = granted();
    assert_eq!(effective(&relation, 10), ["a", "b"]);
    assert_eq!(relation.accepted, version(1));
    let fewer = say(&relation, &[("b", GrantTerm::Once), ("b", GrantTerm::Once)], version(2), 20);
    assert_eq!(effective(&fewer, 20), ["b"]);
    assert_eq!(fewer.grants[0].term, GrantTerm::Once);
    assert_eq!((fewer.ledger.seq, fewer.revision, fewer.accepted), (2, 2, version(2)));
    assert_eq!(effective(&say(&fewer, &[], version(2), 30), 30), [""; 0]);
}

#[test]
fn manifest_change_suspends_only_changed_granted_scopes() {
    let judged = publish(&granted(), 2, &["a", "b", "c"], &["b", "c"], &[], 20).unwrap();
    assert_eq!(names(&judged.suspended), ["b"], "c was never allowed");
    assert_eq!(effective(&judged.relation, 20), ["a"]);
    let pending = judged.relation.pending.clone().unwrap();
    assert_eq!((names(&pending.scopes), pending.version, pending.since), (vec!["b"], 2, at(20)));
    assert_eq!(judged.entries.len(), 1);
    assert_eq!((judged.entries[0].action, names(&judged.entries[0].scopes)), (LedgerAction::Suspend, vec!["b"]));
    assert_eq!(judged.relation.accepted, version(1), "the new version was not accepted");
    assert_eq!(publish(&granted(), 2, &["a", "b"], &["z"], &[], 20), None);
}

#[test]
fn new_scope_of_a_manifest_needs_consent_and_suspends_no_grant() {
    let judged = publish(&granted(), 2, &["a", "b", "n"], &[], &["n"], 20).unwrap();
    assert_eq!(names(&judged.relation.pending.unwrap().scopes), ["n"]);
    assert!(judged.entries.is_empty() && judged.suspended.is_empty());
    assert_eq!(judged.relation.revision, 2);
}

#[test]
fn scope_removed_from_the_manifest_loses_its_grant_permanently() {
    let judged = publish(&granted(), 2, &["a"], &[], &[], 20).unwrap();
    assert_eq!(names(&judged.pruned), ["b"]);
    assert_eq!(effective(&judged.relation, 20), ["a"]);
    assert_eq!(judged.relation.pending, None);
    // A scope that is declared again needs consent like a new one.
    let back = publish(&judged.relation, 3, &["a", "b"], &[], &["b"], 30).unwrap();
    assert_eq!(names(&back.relation.pending.clone().unwrap().scopes), ["b"]);
    assert_eq!(effective(&back.relation, 30), ["a"]);
    // The manifest was cleared.
    let cleared = publish(&back.relation, 4, &[], &[], &[], 40).unwrap();
    assert_eq!(effective(&cleared.relation, 40), [""; 0]);
    assert_eq!(cleared.relation.pending, None);
    assert!(cleared.relation.is_active());
}

#[test]
fn reverted_manifest_restores_suspended_scopes() {
    let broken = publish(&granted(), 2, &["a", "b"], &["a", "b"], &[], 20).unwrap().relation;
    let half = publish(&broken, 3, &["a", "b"], &["b"], &[], 30).unwrap();
    assert_eq!((names(&half.restored), effective(&half.relation, 30)), (vec!["a"], vec!["a"]));
    assert_eq!(half.relation.pending.as_ref().unwrap().since, at(20), "since the first change");
    let whole = publish(&half.relation, 4, &["a", "b"], &[], &[], 40).unwrap();
    assert_eq!((names(&whole.restored), effective(&whole.relation, 40)), (vec!["b"], vec!["a", "b"]));
    assert_eq!(whole.relation.pending, None);
    assert_eq!(whole.relation.accepted, version(1));
}

#[test]
fn suspended_scope_is_not_suspended_again_by_further_manifest_changes() {
    let broken = publish(&granted(), 2, &["a", "b"], &["b"], &[], 20).unwrap().relation;
    let again = publish(&broken, 3, &["a", "b"], &["b"], &[], 30).unwrap();
    assert!(again.entries.is_empty(), "the suspension is already in the ledger");
    assert_eq!(again.relation.pending.as_ref().unwrap().version, 3);
    let more = publish(&again.relation, 4, &["a", "b"], &["a", "b"], &[], 40).unwrap();
    assert_eq!((more.entries.len(), names(&more.suspended)), (1, vec!["a"]));
}

#[test]
fn new_consent_clears_pending_scopes() {
    let broken = publish(&granted(), 2, &["a", "b", "n"], &["b"], &["n"], 20).unwrap().relation;
    let device = DeviceId::parse("dev_1").unwrap();
    let entry = broken.draft_grant(&wishes(&[("a", ALWAYS), ("b", ALWAYS)]), version(2), &device, at(30));
    assert_eq!(entry.action, LedgerAction::Reauth);
    let relation = say(&broken, &[("a", ALWAYS), ("b", ALWAYS)], version(2), 30);
    assert_eq!(
        (effective(&relation, 30), relation.pending.clone(), relation.accepted),
        (vec!["a", "b"], None, version(2))
    );
}

#[test]
fn one_time_grant_ends_on_use_and_temporary_grant_at_its_time() {
    let relation =
        say(&blank(), &[("a", GrantTerm::Until(at(50))), ("b", GrantTerm::Once), ("c", ALWAYS)], version(1), 10);
    assert_eq!(effective(&relation, 49), ["a", "b", "c"]);
    assert_eq!(effective(&relation, 50), ["b", "c"]);
    let once = relation.grant(&scope("b")).unwrap().id.clone();
    let used = relation.use_once(&once).unwrap();
    assert_eq!(effective(&used, 50), ["c"]);
    assert_eq!(used.use_once(&once), None, "only once");
    let lasting = relation.grant(&scope("c")).unwrap().id.clone();
    assert_eq!(relation.use_once(&lasting), None, "a lasting grant is not used up");
    assert_eq!(relation.expire(at(49)), None);
    let (expired, entry) = relation.expire(at(50)).unwrap();
    assert_eq!((entry.action, names(&entry.scopes)), (LedgerAction::Prune, vec!["a"]));
    assert_eq!(expired.grants.len(), 2);
    // An expired permission is not suspended.
    assert_eq!(publish(&relation, 2, &["a", "b", "c"], &["a"], &[], 60), None);
}

#[test]
fn lowered_sensitivity_counts_only_after_new_consent() {
    let relation = granted();
    let a = scope("a");
    assert_eq!(relation.sensitivity(&a, Sensitivity::Low), Sensitivity::Medium);
    assert_eq!(relation.sensitivity(&a, Sensitivity::High), Sensitivity::High);
    assert_eq!(relation.sensitivity(&scope("z"), Sensitivity::Low), Sensitivity::Low);
}

#[test]
fn revoked_relation_accepts_no_further_entry() {
    let relation = granted();
    let entry = relation.draft_revoke(&DeviceId::parse("dev_1").unwrap(), at(20));
    let over = relation.revoke(&entry).unwrap();
    assert_eq!((effective(&over, 20), over.state), (vec![], RelationState::Revoked { at: at(20) }));
    assert_eq!(over.end(at(30)), Err(RelationChangeError::Ended));
    assert_eq!(publish(&over, 2, &[], &["a"], &["n"], 30), None);
    let late = over.draft_grant(&wishes(&[("a", ALWAYS)]), version(2), &DeviceId::parse("dev_1").unwrap(), at(40));
    let name = || GrantId::parse("con_1").unwrap();
    assert_eq!(over.accept(&late, |_| Sensitivity::Low, name), Err(RelationChangeError::Ended));
    let (ended, entry) = relation.end(at(5)).unwrap();
    assert_eq!((ended.is_active(), entry.at, entry.actor), (false, at(10), LedgerActor::Server));
}

#[test]
fn relation_accepts_only_the_next_ledger_entry_of_the_requested_action() {
    let relation = granted();
    let device = DeviceId::parse("dev_1").unwrap();
    let name = || GrantId::parse("con_1").unwrap();
    let grant = relation.draft_grant(&[], version(2), &device, at(20));
    let revoke = relation.draft_revoke(&device, at(20));
    assert_eq!(relation.accept(&revoke, |_| Sensitivity::Low, name), Err(RelationChangeError::OtherAction));
    assert_eq!(relation.revoke(&grant), Err(RelationChangeError::OtherAction));
    for wrong in [
        LedgerEntry { seq: 3, ..grant.clone() },
        LedgerEntry { prev_hash: Digest::ZERO, ..grant.clone() },
        LedgerEntry { relation_id: RelationId::parse("rel_2").unwrap(), ..grant.clone() },
        LedgerEntry { agent_id: AgentId::parse("agt_2").unwrap(), ..grant.clone() },
    ] {
        assert_eq!(relation.accept(&wrong, |_| Sensitivity::Low, name), Err(RelationChangeError::NotNext));
    }
}

#[test]
fn ledger_entry_made_after_the_clock_is_set_back_keeps_the_last_entry_time() {
    let judged = publish(&granted(), 2, &["a", "b"], &["b"], &[], 3).unwrap();
    assert_eq!(judged.entries[0].at, at(10));
}

#[derive(Debug, Clone)]
enum RelationStep {
    Says(Vec<(usize, u8)>),
    Publishes { declared: Vec<usize>, changed: Vec<usize>, fresh: Vec<usize> },
    Uses(usize),
    Expires,
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn steps() -> impl Strategy<Value = Vec<RelationStep>> {
    let some = || prop::collection::vec(0..NAMES.len(), 0..NAMES.len());
    let step = prop_oneof![
        prop::collection::vec((0..NAMES.len(), 0_u8..3), 0..NAMES.len()).prop_map(RelationStep::Says),
        (some(), some(), some()).prop_map(|(declared, changed, fresh)| RelationStep::Publishes {
            declared,
            changed,
            fresh
        }),
        (0..NAMES.len()).prop_map(RelationStep::Uses),
        Just(RelationStep::Expires),
    ];
    prop::collection::vec(step, 1..20)
}

fn device() -> (Device, Ed25519KeyPair) {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[9; 32]).unwrap();
    let device = Device {
        id: DeviceId::parse("dev_1").unwrap(),
        person: PersonName::parse("ada").unwrap(),
        name: "laptop".to_owned(),
        key: PublicKey::new(pair.public_key().as_ref().try_into().unwrap()).unwrap(),
        enrolled_at: at(0),
        revoked_at: None,
    };
    (device, pair)
}

fn holds(key: &PublicKey, message: &[u8], signature: &Signature) -> bool {
    UnparsedPublicKey::new(&ED25519, key.as_bytes()).verify(message, signature.as_bytes()).is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// After any steps the ledger is valid and allows what the relation allows, and also used one-time grants.
    #[test]
    fn relation_and_its_ledger_allow_the_same_scopes_after_any_steps(steps in steps()) {
        let (device, pair) = device();
        let (mut relation, mut entries) = (blank(), Vec::new());
        let mut used = BTreeSet::new();
        for (number, step) in [RelationStep::Says(vec![(0, 0), (1, 1), (2, 2)])].into_iter().chain(steps).enumerate() {
            let now = 10 * (i64::try_from(number).unwrap() + 1);
            let scopes = |places: &[usize]| -> BTreeSet<_> { places.iter().map(|place| scope(NAMES[*place])).collect() };
            match step {
                RelationStep::Says(said) => {
                    let term = |kind| [ALWAYS, GrantTerm::Once, GrantTerm::Until(at(now + 25))][usize::from(kind)];
                    let mut said: Vec<_> = said.iter().map(|(place, kind)| (NAMES[*place], term(*kind))).collect();
                    said.sort_by_key(|(name, _)| *name);
                    said.dedup_by_key(|(name, _)| *name);
                    let entry = relation.draft_grant(&wishes(&said), version(number as u64), &device.id, at(now));
                    let signature = pair.sign(&entry.message());
                    let entry = LedgerEntry { signature: Some(Signature::new(signature.as_ref().try_into().unwrap())), ..entry };
                    let mut count = 0;
                    relation = relation.accept(&entry, |_| Sensitivity::Low, || {
                        count += 1;
                        GrantId::parse(&format!("con_{number}_{count}")).unwrap()
                    }).unwrap();
                    entries.push(entry);
                    used.clear();
                }
                RelationStep::Publishes { declared, changed, fresh } => {
                    let published = ManifestComparison {
                        version: number as u64,
                        hash: version(number as u64).hash,
                        declared: &scopes(&declared),
                        changed: &scopes(&changed),
                        fresh: &scopes(&fresh).intersection(&scopes(&declared)).cloned().collect(),
                        at: at(now),
                    };
                    if let Some(judged) = relation.with_manifest(&published) {
                        relation = judged.relation;
                        entries.extend(judged.entries);
                    }
                }
                RelationStep::Uses(place) => {
                    let once = relation.effective(at(now)).find(|grant| grant.scope == scope(NAMES[place])).cloned();
                    if let Some(next) = once.as_ref().and_then(|grant| relation.use_once(&grant.id)) {
                        used.extend(once.map(|grant| grant.scope));
                        relation = next;
                    }
                }
                RelationStep::Expires => {
                    if let Some((next, entry)) = relation.expire(at(now)) {
                        relation = next;
                        entries.push(entry);
                    }
                }
            }
            let standing = verify(&entries, std::slice::from_ref(&device), &holds).unwrap();
            prop_assert_eq!(standing.head, relation.ledger);
            let allowed: BTreeSet<_> = relation.effective(at(now)).map(|grant| grant.scope.clone()).collect();
            let signed: BTreeSet<_> = standing.effective(at(now)).filter(|scope| !used.contains(*scope)).cloned().collect();
            prop_assert_eq!(allowed, signed);
        }
    }
}

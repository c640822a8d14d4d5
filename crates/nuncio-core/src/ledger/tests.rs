//! A valid ledger is changed in many ways, and verification detects each change.

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

use super::*;
use crate::person::Device;
use crate::signature::{PublicKey, labelled};

fn pair(seed: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
}

fn holds(key: &PublicKey, message: &[u8], signature: &Signature) -> bool {
    UnparsedPublicKey::new(&ED25519, key.as_bytes()).verify(message, signature.as_bytes()).is_ok()
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn scope(text: &str) -> ScopeId {
    ScopeId::parse(text).unwrap()
}

fn device(id: &str, person: &str, seed: u8, revoked_at: Option<i64>) -> Device {
    Device {
        id: DeviceId::parse(id).unwrap(),
        person: PersonName::parse(person).unwrap(),
        name: id.to_owned(),
        key: PublicKey::new(pair(seed).public_key().as_ref().try_into().unwrap()).unwrap(),
        enrolled_at: at(0),
        revoked_at: revoked_at.map(at),
    }
}

fn devices() -> Vec<Device> {
    vec![device("dev_1", "ada", 1, None), device("dev_2", "ada", 2, Some(35)), device("dev_eve", "eve", 3, None)]
}

fn signed(entry: LedgerEntry, seed: u8) -> LedgerEntry {
    let signature = pair(seed).sign(&entry.message());
    LedgerEntry { signature: Some(Signature::new(signature.as_ref().try_into().unwrap())), ..entry }
}

fn entry(seq: u64, prev_hash: Digest, action: LedgerAction, scopes: &[&str], millis: i64) -> LedgerEntry {
    LedgerEntry {
        seq,
        prev_hash,
        relation_id: RelationId::parse("rel_1").unwrap(),
        agent_id: AgentId::parse("agt_1").unwrap(),
        actor: LedgerActor::Server,
        action,
        scopes: scopes.iter().map(|text| scope(text)).collect(),
        terms: BTreeMap::new(),
        manifest_version: seq,
        manifest_hash: Some(Digest::of_bytes(&[1])),
        at: at(millis),
        device_id: None,
        signature: None,
    }
}

fn by_ada(entry: LedgerEntry, device: &str, seed: u8) -> LedgerEntry {
    let actor = LedgerActor::Person(PersonName::parse("ada").unwrap());
    signed(LedgerEntry { actor, device_id: Some(DeviceId::parse(device).unwrap()), ..entry }, seed)
}

/// Test ledger: grant of a, b and c; suspension of b; removal of a; new consent to b and c; suspension and return of c.
fn ledger() -> Vec<LedgerEntry> {
    let mut entries: Vec<LedgerEntry> = Vec::new();
    let last = |entries: &Vec<LedgerEntry>| entries.last().map_or(Digest::ZERO, LedgerEntry::hash);
    entries.push(by_ada(entry(1, last(&entries), LedgerAction::Grant, &["a", "b", "c"], 10), "dev_1", 1));
    entries.push(entry(2, last(&entries), LedgerAction::Suspend, &["b"], 20));
    entries.push(entry(3, last(&entries), LedgerAction::Prune, &["a"], 20));
    let again = LedgerEntry {
        terms: BTreeMap::from([(scope("c"), GrantTerm::Until(at(100)))]),
        ..entry(4, last(&entries), LedgerAction::Reauth, &["b", "c"], 30)
    };
    entries.push(by_ada(again, "dev_2", 2));
    entries.push(entry(5, last(&entries), LedgerAction::Suspend, &["c"], 40));
    entries.push(entry(6, last(&entries), LedgerAction::Restore, &["c"], 50));
    entries
}

fn check(entries: &[LedgerEntry]) -> Result<LedgerState, LedgerFault> {
    verify(entries, &devices(), &holds)
}

fn effective(standing: &LedgerState, now: i64) -> Vec<&str> {
    standing.effective(at(now)).map(ScopeId::as_str).collect()
}

/// Recomputes the hashes of ledger entries from index `from` on, as a forger without a device key could.
fn rechain(mut entries: Vec<LedgerEntry>, from: usize) -> Vec<LedgerEntry> {
    for place in from.max(1)..entries.len() {
        entries[place].prev_hash = entries[place - 1].hash();
    }
    entries
}

#[test]
fn valid_ledger_gives_the_permissions_after_each_entry() {
    let entries = ledger();
    let steps: Vec<_> =
        (1..=entries.len()).map(|length| effective(&check(&entries[..length]).unwrap(), 60).join("")).collect();
    assert_eq!(steps, ["abc", "ac", "c", "bc", "b", "bc"]);
    let standing = check(&entries).unwrap();
    assert_eq!(effective(&standing, 100), ["b"], "c was allowed until then");
    assert_eq!(standing.head, ChainHead { seq: 6, hash: entries[5].hash() });
    assert_eq!((standing.manifest_version, standing.ended), (4, false));
    assert_eq!(check(&[]), Err(LedgerFault::Empty));
}

#[test]
fn ledger_entries_after_revocation_are_refused() {
    let mut entries = ledger();
    let last = entries[5].hash();
    entries.push(by_ada(entry(7, last, LedgerAction::Revoke, &["b", "c"], 60), "dev_1", 1));
    let standing = check(&entries).unwrap();
    assert!(standing.ended && standing.granted.is_empty());
    entries.push(by_ada(entry(8, entries[6].hash(), LedgerAction::Grant, &["b"], 70), "dev_1", 1));
    assert_eq!(check(&entries), Err(LedgerFault::AfterTheEnd(8)));
    // The server may end the relation, because that allows nothing.
    let mut ended = ledger();
    ended.push(entry(7, last, LedgerAction::Revoke, &["b", "c"], 60));
    assert!(check(&ended).unwrap().ended);
}

/// Attacks of a dishonest server without a device's key, each with the expected ledger fault.
#[test]
fn each_forgery_of_a_ledger_is_refused_with_its_fault() {
    type LedgerForgery = fn(&mut Vec<LedgerEntry>);
    let again: fn(Vec<LedgerEntry>) -> Vec<LedgerEntry> = |entries| rechain(entries, 1);
    let cases: &[(&str, LedgerForgery, LedgerFault)] = &[
        ("a scope is added to a signed entry", |it| it[0].scopes.push(scope("z")), LedgerFault::BadSignature(1)),
        ("a scope is removed from a signed entry", |it| drop(it[0].scopes.pop()), LedgerFault::BadSignature(1)),
        ("a term is extended", |it| it[3].terms.clear(), LedgerFault::BadSignature(4)),
        (
            "the manifest hash of a grant is changed",
            |it| it[3].manifest_hash = Some(Digest::ZERO),
            LedgerFault::BadSignature(4),
        ),
        ("the manifest version of a grant is changed", |it| it[3].manifest_version = 9, LedgerFault::BadSignature(4)),
        ("the time of a grant is changed", |it| it[3].at = at(31), LedgerFault::BadSignature(4)),
        (
            "a grant is moved to another agent",
            |it| {
                for entry in it {
                    entry.agent_id = AgentId::parse("agt_2").unwrap();
                }
            },
            LedgerFault::BadSignature(1),
        ),
        (
            "a grant is moved to another relation",
            |it| {
                for entry in it {
                    entry.relation_id = RelationId::parse("rel_2").unwrap();
                }
            },
            LedgerFault::BadSignature(1),
        ),
        (
            "an entry of another relation is mixed in",
            |it| it[1].relation_id = RelationId::parse("rel_2").unwrap(),
            LedgerFault::Foreign(2),
        ),
        ("the signature is removed", |it| it[3].signature = None, LedgerFault::Unsigned(4)),
        ("the device is removed", |it| it[3].device_id = None, LedgerFault::Unsigned(4)),
        (
            "the server grants without a signature",
            |it| {
                it[3] = LedgerEntry { actor: LedgerActor::Server, device_id: None, signature: None, ..it[3].clone() };
            },
            LedgerFault::Overreach(4),
        ),
        (
            "a device of another person signs",
            |it| {
                it[3] = by_ada(LedgerEntry { signature: None, ..it[3].clone() }, "dev_eve", 3);
            },
            LedgerFault::UnknownDevice { seq: 4, device: DeviceId::parse("dev_eve").unwrap() },
        ),
        (
            "another person grants",
            |it| {
                let actor = LedgerActor::Person(PersonName::parse("eve").unwrap());
                let device_id = Some(DeviceId::parse("dev_eve").unwrap());
                it[3] = signed(LedgerEntry { actor, device_id, signature: None, ..it[3].clone() }, 3);
            },
            LedgerFault::Foreign(4),
        ),
        (
            "an unknown device is named",
            |it| it[3].device_id = Some(DeviceId::parse("dev_9").unwrap()),
            LedgerFault::UnknownDevice { seq: 4, device: DeviceId::parse("dev_9").unwrap() },
        ),
        (
            "a removed device signs",
            |it| {
                it[3] = by_ada(LedgerEntry { at: at(36), signature: None, ..it[3].clone() }, "dev_2", 2);
            },
            LedgerFault::UnknownDevice { seq: 4, device: DeviceId::parse("dev_2").unwrap() },
        ),
        (
            "another key signs under a device's id",
            |it| {
                it[3] = by_ada(LedgerEntry { signature: None, ..it[3].clone() }, "dev_1", 2);
            },
            LedgerFault::BadSignature(4),
        ),
        ("a suspension is dropped", |it| drop(it.remove(1)), LedgerFault::Gap { expected: 2, found: 3 }),
        (
            "a suspension is dropped and the rest renumbered",
            |it| {
                it.remove(4);
                it[4].seq = 5;
            },
            LedgerFault::Malformed { seq: 5, why: "it restores a scope that was not suspended" },
        ),
        ("two entries are swapped", |it| it.swap(1, 2), LedgerFault::Gap { expected: 2, found: 3 }),
        ("an entry is repeated", |it| it.insert(1, it[0].clone()), LedgerFault::Gap { expected: 2, found: 1 }),
        ("the beginning is cut off", |it| drop(it.remove(0)), LedgerFault::Gap { expected: 1, found: 2 }),
        (
            "the server makes the first entry",
            |it| it[0] = entry(1, Digest::ZERO, LedgerAction::Suspend, &[], 10),
            LedgerFault::Malformed { seq: 1, why: "a ledger begins with the person's grant" },
        ),
        ("time goes back", |it| it[1].at = at(9), LedgerFault::BackInTime(2)),
        (
            "the server restores a scope that was never suspended",
            |it| it[5].scopes = vec![scope("b")],
            LedgerFault::Malformed { seq: 6, why: "it restores a scope that was not suspended" },
        ),
        (
            "the server restores a scope that was never granted",
            |it| it[5].scopes = vec![scope("z")],
            LedgerFault::Malformed { seq: 6, why: "it restores a scope that was not suspended" },
        ),
        (
            "the server suspends a scope that was never granted",
            |it| it[1].scopes = vec![scope("z")],
            LedgerFault::Malformed { seq: 2, why: "it suspends or removes a scope that was not granted" },
        ),
        (
            "the server's entry names a device",
            |it| it[1].device_id = Some(DeviceId::parse("dev_1").unwrap()),
            LedgerFault::Malformed { seq: 2, why: "an entry of the server must not name a device" },
        ),
        (
            "scopes are not sorted",
            |it| it[0].scopes.swap(0, 1),
            LedgerFault::Malformed { seq: 1, why: "its scopes are not sorted and unique" },
        ),
        (
            "a scope is listed twice",
            |it| it[1].scopes = vec![scope("b"), scope("b")],
            LedgerFault::Malformed { seq: 2, why: "its scopes are not sorted and unique" },
        ),
        (
            "a term for a scope that is not there",
            |it| {
                it[3].terms.insert(scope("z"), GrantTerm::Once);
            },
            LedgerFault::Malformed { seq: 4, why: "it has a term for a scope that it does not list" },
        ),
        (
            "the default term is listed",
            |it| {
                it[3].terms.insert(scope("b"), GrantTerm::UntilRevoked);
            },
            LedgerFault::Malformed { seq: 4, why: "it lists a term that is the default" },
        ),
        (
            "a suspension with a term",
            |it| {
                it[1].terms.insert(scope("b"), GrantTerm::Once);
            },
            LedgerFault::Malformed { seq: 2, why: "it removes permissions, but has terms" },
        ),
    ];
    for (what, tamper, expected) in cases {
        let mut entries = ledger();
        tamper(&mut entries);
        assert_eq!(check(&again(entries)).as_ref(), Err(expected), "{what}");
    }
}

/// If a forger does not recompute the hashes, the signature or the next entry reveals the change.
#[test]
fn changed_ledger_entry_fails_its_signature_or_the_next_entry_hash() {
    for place in 0..5 {
        let mut entries = ledger();
        // The change is well-formed.
        entries[place].manifest_version += 7;
        let found = check(&entries).unwrap_err();
        let next = place as u64 + 1;
        assert!(
            matches!(found, LedgerFault::BadSignature(seq) if seq == next) || found == LedgerFault::Detached(next + 1),
            "{found:?}"
        );
    }
    let mut forged = ledger();
    forged[3].prev_hash = Digest::ZERO;
    assert_eq!(check(&forged), Err(LedgerFault::Detached(4)));
}

#[test]
fn ledger_signature_made_for_another_label_is_refused() {
    let mut entries = ledger();
    let unsigned = LedgerEntry { signature: None, ..entries[0].clone() };
    let elsewhere = pair(1).sign(&labelled("nuncio/device-assertion/v1", &unsigned));
    entries[0].signature = Some(Signature::new(elsewhere.as_ref().try_into().unwrap()));
    assert_eq!(check(&entries[..1]), Err(LedgerFault::BadSignature(1)));
}

#[test]
fn signed_bytes_of_a_ledger_entry_are_its_label_and_canonical_json() {
    let entry = LedgerEntry { signature: None, ..ledger().remove(3) };
    let message = String::from_utf8(entry.message()).unwrap();
    let (label, json) = message.split_once('\n').unwrap();
    assert_eq!(label, "nuncio/grant-ledger/v1");
    let hash = Digest::of_bytes(&[1]);
    let expected = format!(
        r#"{{"action":"reauth","actor":"person:ada","agent_id":"agt_1","at":"1970-01-01T00:00:00.030Z","device_id":"dev_2","manifest_hash":"{hash}","manifest_version":4,"prev_hash":"{}","relation_id":"rel_1","scopes":["b","c"],"seq":4,"terms":{{"c":{{"until":"1970-01-01T00:00:00.100Z"}}}}}}"#,
        entry.prev_hash
    );
    assert_eq!(json, expected);
    assert_eq!(serde_json::from_str::<LedgerEntry>(json).unwrap(), entry);
    let unknown = json.replacen('{', r#"{"extra":1,"#, 1);
    assert!(serde_json::from_str::<LedgerEntry>(&unknown).is_err(), "an unknown field is refused");
}

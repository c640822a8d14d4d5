use nuncio_core::digest::Digest;
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::DeviceId;
use nuncio_core::ledger::{LedgerAction, LedgerActor};
use nuncio_testkit::a2h::DeviceKey;

use super::*;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn files() -> ScopeId {
    ScopeId::parse("filesystem:read").unwrap()
}

fn ada() -> PersonName {
    PersonName::parse("ada").unwrap()
}

/// An agent's record, and the key of the only device that signs ledger entries.
struct KnownAgentFixture {
    key: DeviceKey,
    known: KnownAgent,
}

impl KnownAgentFixture {
    fn new() -> Self {
        let key = DeviceKey::new();
        let mut known = KnownAgent::new(AgentId::parse("agt_1").unwrap(), at(0));
        known.devices.push(KeyedDevice {
            id: DeviceId::parse("dev_1").unwrap(),
            person: ada(),
            name: String::new(),
            key: key.public(),
            enrolled_at: at(0),
            revoked_at: None,
        });
        Self { key, known }
    }

    /// Appends a signed entry to the ledger that the agent has shown.
    fn append_entry(&mut self, action: LedgerAction, term: GrantTerm) {
        let seq = u64::try_from(self.known.entries.len()).unwrap() + 1;
        let entry = LedgerEntry {
            seq,
            prev_hash: self.known.entries.last().map_or(nuncio_core::ledger::ChainHead::START.hash, LedgerEntry::hash),
            relation_id: RelationId::parse("rel_1").unwrap(),
            agent_id: self.known.agent.clone(),
            actor: LedgerActor::Person(ada()),
            action,
            scopes: if action == LedgerAction::Revoke { Vec::new() } else { vec![files()] },
            terms: if term == GrantTerm::UntilRevoked { BTreeMap::new() } else { BTreeMap::from([(files(), term)]) },
            manifest_version: 1,
            manifest_hash: Some(Digest::of_bytes(b"manifest")),
            at: at(i64::try_from(seq).unwrap()),
            device_id: Some(DeviceId::parse("dev_1").unwrap()),
            signature: None,
        };
        let signature = Some(self.key.sign(&entry.message()));
        self.known.entries.push(LedgerEntry { signature, ..entry });
    }

    fn allows(&self, now: i64) -> bool {
        let standing = self.known.standing(&ada());
        standing.is_some_and(|standing| self.known.allows(&standing, &files(), at(now)))
    }
}

#[test]
fn grant_is_valid_only_unchanged_for_its_agent_and_person_by_a_trusted_device() {
    let mut scene = KnownAgentFixture::new();
    assert!(!scene.allows(10));
    scene.append_entry(LedgerAction::Grant, GrantTerm::UntilRevoked);
    assert!(scene.allows(10));
    assert!(scene.known.standing(&PersonName::parse("eve").unwrap()).is_none(), "of another person");
    let mut other = scene.known.clone();
    other.agent = AgentId::parse("agt_2").unwrap();
    assert!(other.standing(&ada()).is_none(), "to another agent");
    let mut unknown = scene.known.clone();
    unknown.devices.clear();
    assert!(unknown.standing(&ada()).is_none(), "by a device nobody vouched for");
    let mut forged = scene.known.clone();
    forged.entries[0].scopes.push(ScopeId::parse("location:read").unwrap());
    assert!(forged.standing(&ada()).is_none(), "with something added");
}

#[test]
fn one_time_grant_allows_no_second_use_until_granted_again() {
    let mut scene = KnownAgentFixture::new();
    scene.append_entry(LedgerAction::Grant, GrantTerm::Once);
    assert!(scene.allows(10));
    scene.known.spend(&files());
    assert!(!scene.allows(10), "it was used");
    scene.append_entry(LedgerAction::Reauth, GrantTerm::Once);
    assert!(scene.allows(10), "and allowed again");
    scene.known.spend(&files());
    assert!(!scene.allows(10));
    scene.append_entry(LedgerAction::Reauth, GrantTerm::Until(at(20)));
    assert_eq!([scene.allows(19), scene.allows(20)], [true, false], "until then");
}

#[test]
fn older_ledger_that_hides_a_revocation_is_rejected() {
    let mut scene = KnownAgentFixture::new();
    scene.append_entry(LedgerAction::Grant, GrantTerm::UntilRevoked);
    let old = scene.known.entries.clone();
    let relation = old[0].relation_id.clone();
    scene.known.record_seen(&relation, 1);
    assert!(scene.allows(10));
    scene.append_entry(LedgerAction::Revoke, GrantTerm::UntilRevoked);
    assert!(!scene.allows(10), "it is over");
    scene.known.record_seen(&relation, 2);
    // The relay hides the revocation and shows the earlier ledger.
    scene.known.entries = old;
    assert!(!scene.allows(10));
    scene.known.record_seen(&relation, 1);
    assert!(!scene.allows(10), "what was seen does not go back");
}

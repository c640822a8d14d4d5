//! Sample people, agents and relations.

use nuncio_core::account::{
    AccountOwner, AgentAccount, AgentConnection, AgentTokenInfo, PublishedManifest, WebhookUrl,
};
use nuncio_core::agent::Sensitivity;
use nuncio_core::digest::Digest;
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::{AgentId, DeviceId, GrantId, PersonName, RelationId, ScopeId};
use nuncio_core::ledger::{LedgerAction, LedgerActor, LedgerEntry};
use nuncio_core::notification::{Notification, RelayParty};
use nuncio_core::person::{Device, Invite, Person};
use nuncio_core::principal::Principal;
use nuncio_core::relation::{ManifestRef, PendingReauth, Relation, ScopeGrant};
use nuncio_core::signature::{PublicKey, Signature};
use nuncio_engine::ports::store::{Change, ConsentChange};
use nuncio_judge::name_history::ManifestNameHistory;
use serde_json::json;

use super::sample::later;

#[must_use]
pub fn name(name: &str) -> PersonName {
    PersonName::parse(name).unwrap()
}

#[must_use]
pub fn person(text: &str) -> Person {
    Person { name: name(text), created_at: later(0) }
}

#[must_use]
pub fn put_person(text: &str) -> Change {
    ConsentChange::PutPerson(person(text)).into()
}

#[must_use]
pub fn invite(code: &str, person: &str) -> Invite {
    Invite {
        code: Digest::of_bytes(code.as_bytes()),
        person: name(person),
        created_at: later(1),
        expires_at: later(100),
        used_by: None,
    }
}

/// A device whose key is derived from its id.
#[must_use]
pub fn device(id: &str, person: &str) -> Device {
    Device {
        id: DeviceId::parse(id).unwrap(),
        person: name(person),
        name: "Adas Gerät 设备".to_owned(),
        key: PublicKey::new(*Digest::of_bytes(id.as_bytes()).as_bytes()).unwrap(),
        enrolled_at: later(2),
        revoked_at: None,
    }
}

#[must_use]
pub fn agent_id(id: &str) -> AgentId {
    AgentId::parse(id).unwrap()
}

/// An account that uses every field.
#[must_use]
pub fn account(id: &str) -> AgentAccount {
    AgentAccount {
        id: agent_id(id),
        owner: AccountOwner::Person(name("ada")),
        display_name: format!("Agent {id} 助手"),
        description: Some("It \"helps\".".to_owned()),
        public: true,
        connection: AgentConnection::Webhook { url: WebhookUrl::parse("https://agent.example/hook").unwrap() },
        health_check_url: Some("https://agent.example/health".parse().unwrap()),
        token: Some(AgentTokenInfo {
            digest: Digest::of_bytes(id.as_bytes()),
            prefix: "hsk_abcdefgh".to_owned(),
            created_at: later(3),
        }),
        created_at: later(3),
        updated_at: later(4),
        manifest_version: 0,
        manifest_hash: None,
        revision: 0,
    }
}

#[must_use]
pub fn create_account(account: &AgentAccount, words: &str) -> Change {
    let words = format!("{} {words}", account.id);
    ConsentChange::CreateAccount { account: account.clone(), words }.into()
}

/// An account with its next manifest version; `None` clears it.
#[must_use]
pub fn published(account: &AgentAccount, manifest: Option<&str>) -> (AgentAccount, PublishedManifest) {
    let mut next = account.clone();
    next.manifest_version += 1;
    next.manifest_hash = manifest.map(|text| Digest::of_bytes(text.as_bytes()));
    next.revision += 1;
    let version = PublishedManifest {
        agent: account.id.clone(),
        version: next.manifest_version,
        hash: next.manifest_hash,
        manifest: manifest.map(str::to_owned),
        by: Principal::Person(name("ada")),
        at: later(5),
        verdict: json!({"breaking": true, "findings": [{"rule": "scope_added"}]}),
        change_note: Some("warum 为什么".to_owned()),
    };
    (next, version)
}

#[must_use]
pub fn publish(account: &AgentAccount, manifest: Option<&str>) -> Change {
    let (account, version) = published(account, manifest);
    let name_history = Box::new(name_history(version.version));
    ConsentChange::Publish { account, words: "published".to_owned(), version: Box::new(version), name_history }.into()
}

/// A name_history that contains the version number.
#[must_use]
pub fn name_history(version: u64) -> ManifestNameHistory {
    let manifest = json!({"tools": [{"name": "t", "n": version}], "permission_scopes": [{"id": "a:b"}]});
    ManifestNameHistory::default().with(version, Some(&manifest))
}

/// A relation with a lasting and a one-time grant.
#[must_use]
pub fn relation(id: &str, person: &str, agent: &str) -> Relation {
    let grant = |scope: &str, term| ScopeGrant {
        id: GrantId::parse(&format!("con_{id}_{}", scope.replace(':', "_"))).unwrap(),
        scope: ScopeId::parse(scope).unwrap(),
        term,
        sensitivity: Sensitivity::Medium,
        given_at: later(6),
    };
    Relation {
        grants: vec![grant("clipboard:read", GrantTerm::Once), grant("location:read", GrantTerm::Until(later(99)))],
        accepted: ManifestRef { version: 1, hash: Some(Digest::of_bytes(b"1")) },
        pending: Some(PendingReauth {
            scopes: vec![ScopeId::parse("location:read").unwrap()],
            version: 2,
            hash: Some(Digest::of_bytes(b"2")),
            since: later(7),
        }),
        ..Relation::new(RelationId::parse(id).unwrap(), name(person), agent_id(agent), later(6))
    }
}

#[must_use]
pub fn create_relation(relation: &Relation, manifest_version: u64) -> Change {
    ConsentChange::CreateRelation { relation: relation.clone(), manifest_version }.into()
}

/// A ledger entry that uses every field.
#[must_use]
pub fn entry(relation: &str, seq: u64) -> LedgerEntry {
    let scope = ScopeId::parse("clipboard:read").unwrap();
    LedgerEntry {
        seq,
        prev_hash: Digest::of_bytes(&seq.to_be_bytes()),
        relation_id: RelationId::parse(relation).unwrap(),
        agent_id: agent_id("agt_1"),
        actor: LedgerActor::Person(name("ada")),
        action: LedgerAction::Grant,
        scopes: vec![scope.clone()],
        terms: [(scope, GrantTerm::Once)].into(),
        manifest_version: 1,
        manifest_hash: Some(Digest::of_bytes(b"1")),
        at: later(6),
        device_id: Some(DeviceId::parse("dev_1").unwrap()),
        signature: Some(Signature::new([7; 64])),
    }
}

/// A notification that contains its number.
#[must_use]
pub fn notification(number: u64) -> Notification {
    Notification::ReauthRequired {
        agent: agent_id("agt_1"),
        relation: Some(RelationId::parse("rel_1").unwrap()),
        version: number,
        hash: Digest::of_bytes(b"x"),
        scopes: vec![ScopeId::parse("location:read").unwrap()],
    }
}

#[must_use]
pub fn recipient(person: &str) -> RelayParty {
    RelayParty::Person(name(person))
}

#[must_use]
pub fn tell(recipient: &RelayParty, number: u64, at: i64) -> Change {
    ConsentChange::PutMail { recipient: recipient.clone(), at: later(at), notification: notification(number) }.into()
}

//! Consent: signed by a device, bound to the manifest that the person saw, and required again after a change.

use std::time::Duration;

use nuncio_core::ids::{DeviceId, PersonName, RelationId, ScopeId};
use nuncio_core::ledger::{self, LedgerEntry};
use nuncio_core::person::Device;
use nuncio_core::signature::{PublicKey, Signature};
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Clock as _;
use nuncio_testkit::Method;
use nuncio_testkit::a2h::TestDevice;
use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::{Value, json};

use super::{A2hTestServer, agent_body, seed, with_required, with_scope};

/// An owner, an agent of theirs with its token, and a person.
async fn cast(world: &A2hTestServer) -> (TestDevice, String, String, TestDevice) {
    let owner = world.person("owner").await;
    let (agent, token) = owner.make_agent(&agent_body(&seed())).await;
    (owner, agent, token, world.person("ada").await)
}

fn check(key: &PublicKey, message: &[u8], signature: &Signature) -> bool {
    UnparsedPublicKey::new(&ED25519, key.as_bytes()).verify(message, signature.as_bytes()).is_ok()
}

/// The entries and device keys of a ledger response.
fn ledger_of(page: &Value) -> (Vec<LedgerEntry>, Vec<Device>) {
    let entries = serde_json::from_value(page["data"].clone()).unwrap();
    let devices = page["devices"].as_array().unwrap().iter().map(|device| Device {
        id: serde_json::from_value::<DeviceId>(device["id"].clone()).unwrap(),
        person: serde_json::from_value::<PersonName>(device["user_id"].clone()).unwrap(),
        name: String::new(),
        key: serde_json::from_value(device["public_key"].clone()).unwrap(),
        enrolled_at: serde_json::from_value(device["enrolled_at"].clone()).unwrap(),
        revoked_at: serde_json::from_value(device["revoked_at"].clone()).unwrap(),
    });
    (entries, devices.collect())
}

/// The request is the example of A2H §2.4 with a signed ledger entry added.
#[tokio::test]
async fn consent_creates_a_relation_only_if_signed_by_a_device_of_the_person() {
    let world = A2hTestServer::start().await;
    let (_, agent, token, ada) = cast(&world).await;
    let body = json!({"agent_id": agent, "granted_scopes": ["filesystem:read"]});
    let asked = ada.send(Method::POST, "/h2a/relations", &body).await;
    assert_eq!(asked.refusal(), (428, "CONSENT_UNSIGNED"));
    let entry: LedgerEntry = serde_json::from_value(asked.body["error"]["params"]["entry"].clone()).unwrap();
    assert_eq!((entry.seq, entry.agent_id.as_str(), entry.manifest_version), (1, agent.as_str(), 1));
    assert_eq!(ada.get("/h2a/relations").await.body["data"], json!([]), "no relation was created");

    // A consent signed by another device, or altered after signing, is refused.
    let bob = world.person("bob").await;
    let with = |entry: LedgerEntry| json!({"agent_id": agent, "granted_scopes": ["filesystem:read"], "entry": entry});
    let forged = ada.send(Method::POST, "/h2a/relations", &with(bob.signed(entry.clone()))).await;
    assert_eq!(forged.refusal(), (422, "CONSENT_FORGED"));
    let mut more = ada.signed(entry.clone());
    more.manifest_version = 9;
    assert_eq!(ada.send(Method::POST, "/h2a/relations", &with(more)).await.refusal(), (428, "CONSENT_UNSIGNED"));

    let made = ada.send(Method::POST, "/h2a/relations", &with(ada.signed(entry))).await;
    assert_eq!(made.status, 201);
    let relation = made.data().clone();
    assert_eq!(made.headers["location"], format!("/a2h/h2a/relations/{}", relation["id"].as_str().unwrap()));
    assert_eq!(relation["granted_scopes"], json!(["filesystem:read"]));
    assert_eq!((&relation["status"], &relation["manifest_version"]), (&json!("active"), &json!(1)));
    assert_eq!(relation["pending_reauth"], Value::Null);

    // Only the person and the agent see the relation.
    let path = format!("/h2a/relations/{}", relation["id"].as_str().unwrap());
    assert_eq!(ada.get(&path).await.data(), &relation);
    assert_eq!(world.server.send(Method::GET, &path, Some(&token), None).await.data(), &relation);
    assert_eq!(bob.get(&path).await.refusal(), (404, "RELATION_NOT_FOUND"));
    let list = ada.get("/h2a/relations").await.body;
    assert_eq!(list, json!({"data": [relation], "next_cursor": null}));
    // A second consent to the same agent is refused.
    let again = ada.send(Method::POST, "/h2a/relations", &body).await;
    assert_eq!(again.refusal(), (409, "RELATION_EXISTS"));
    assert_eq!(again.body["error"]["params"]["relation_id"], relation["id"]);
}

#[tokio::test]
async fn agent_lists_its_active_relations_and_no_others() {
    let world = A2hTestServer::start().await;
    let (owner, agent, token, ada) = cast(&world).await;
    let (other, other_token) = owner.make_agent(&agent_body(&seed())).await;
    let (bob, eve) = (world.person("bob").await, world.person("eve").await);
    let list = async |token: &str, query: &str| {
        world.server.send(Method::GET, &format!("/h2a/relations{query}"), Some(token), None).await.body
    };
    assert_eq!(list(&token, "").await, json!({"data": [], "next_cursor": null}));
    let mut relations = Vec::new();
    for person in [&eve, &ada, &bob] {
        relations.push(person.allow(&agent, json!(["filesystem:read"])).await);
    }
    let elsewhere = ada.allow(&other, json!([])).await;
    relations.sort_by_key(|relation| relation["user_id"].to_string());
    assert_eq!(list(&token, "").await, json!({"data": relations, "next_cursor": null}));
    assert_eq!(list(&other_token, "").await["data"], json!([elsewhere]));
    // Pages have the same relations.
    let first = list(&token, "?limit=2").await;
    assert_eq!(first["data"], json!(relations[..2]));
    let rest = list(&token, &format!("?cursor={}", first["next_cursor"].as_str().unwrap())).await;
    assert_eq!(rest, json!({"data": relations[2..], "next_cursor": null}));
    assert_eq!(list(&token, "?cursor=%20").await["error"]["code"], "BAD_CURSOR");
    // A revoked relation is no longer listed.
    let path = format!("/h2a/relations/{}", relations[0]["id"].as_str().unwrap());
    ada.consent(Method::DELETE, &path, json!({})).await.data();
    assert_eq!(list(&token, "").await["data"], json!(relations[1..]));
    assert_eq!(list("hsk_unknown", "").await["error"]["code"], "UNAUTHORIZED");
}

#[tokio::test]
async fn consent_to_an_outdated_manifest_or_unknown_scope_is_refused() {
    let world = A2hTestServer::start().await;
    let (owner, agent, token, ada) = cast(&world).await;
    let seen = owner.get(&format!("/agents/{agent}")).await.data()["capability_manifest_hash"].clone();
    let ask = async |body: Value| ada.consent(Method::POST, "/h2a/relations", body).await;
    let body = |scopes: Value| json!({"agent_id": agent, "granted_scopes": scopes, "manifest_hash": seen});
    let unknown = ask(body(json!(["filesystem:read", "location:read"]))).await;
    assert_eq!(unknown.refusal(), (422, "SCOPE_UNKNOWN"));
    assert_eq!(unknown.body["error"]["params"]["scopes"], json!(["location:read"]));
    for wrong in [
        json!([{"scope": "filesystem:read", "mode": "until"}]),
        json!([{"scope": "filesystem:read", "mode": "until", "until": "2020-01-01T00:00:00Z"}]),
        json!([{"scope": "filesystem:read", "mode": "session"}]),
        json!([1]),
        json!("filesystem:read"),
    ] {
        assert_eq!(ask(body(wrong.clone())).await.refusal(), (400, "BAD_REQUEST"), "{wrong}");
    }
    assert_eq!(ask(json!({"granted_scopes": []})).await.refusal(), (400, "BAD_REQUEST"), "no agent");
    let nobody = json!({"agent_id": "agt_none", "granted_scopes": []});
    assert_eq!(ask(nobody).await.refusal(), (404, "UNKNOWN_AGENT"));
    // Neither the agent nor an unidentified caller can consent for the person.
    for who in [Some(token.as_str()), None] {
        let refused = world.server.send(Method::POST, "/h2a/relations", who, Some(&body(json!([])))).await;
        assert_eq!(refused.refusal(), (401, "UNAUTHORIZED"));
    }

    // The manifest changes while the person reads it.
    owner.publish(&agent, &with_required(&["mode"])).await;
    let stale = ask(body(json!(["filesystem:read"]))).await;
    assert_eq!(stale.refusal(), (409, "MANIFEST_STALE"));
    assert_eq!(stale.body["error"]["params"]["manifest_version"], 2);
    // The manifest changes between reading the entry and signing it.
    let unsigned = json!({"agent_id": agent, "granted_scopes": ["filesystem:read"]});
    let asked = ada.send(Method::POST, "/h2a/relations", &unsigned).await;
    let entry = serde_json::from_value(asked.body["error"]["params"]["entry"].clone()).unwrap();
    owner.publish(&agent, &with_required(&["mode", "more"])).await;
    let mut signed = unsigned;
    signed["entry"] = json!(ada.signed(entry));
    let stale = ada.send(Method::POST, "/h2a/relations", &signed).await;
    assert_eq!(stale.refusal(), (409, "MANIFEST_STALE"));
    assert_eq!(ada.get("/h2a/relations").await.body["data"], json!([]));
    // A consent may grant no scope, and a repeated scope counts once.
    let twice = json!({"agent_id": agent, "granted_scopes": ["filesystem:read", "filesystem:read"]});
    assert_eq!(ask(twice).await.data()["granted_scopes"], json!(["filesystem:read"]));
}

#[tokio::test]
async fn consent_without_a_required_scope_is_refused() {
    let world = A2hTestServer::start().await;
    let owner = world.person("owner").await;
    let mut manifest = seed();
    manifest["tools"][0]["required"] = json!(true);
    let (agent, _) = owner.make_agent(&agent_body(&manifest)).await;
    let ada = world.person("ada").await;
    let body = json!({"agent_id": agent, "granted_scopes": []});
    let refused = ada.consent(Method::POST, "/h2a/relations", body).await;
    assert_eq!(refused.refusal(), (422, "SCOPE_REQUIRED"));
    assert_eq!(refused.body["error"]["params"]["scopes"], json!(["filesystem:read"]));
}

#[tokio::test]
async fn timed_consent_ends_at_its_time_one_time_consent_after_use_and_both_can_be_replaced() {
    let world = A2hTestServer::start().await;
    let owner = world.person("owner").await;
    let (agent, _) = owner.make_agent(&agent_body(&with_scope("clipboard:read", "medium"))).await;
    let mut ada = world.person("ada").await;
    let end = world.clock.now().after(Duration::from_secs(60));
    let scopes = json!([
        {"scope": "filesystem:read", "mode": "until", "until": end},
        {"scope": "clipboard:read", "mode": "once"},
    ]);
    let relation = ada.allow(&agent, scopes).await;
    assert_eq!(relation["granted_scopes"], json!(["clipboard:read", "filesystem:read"]));
    assert_eq!(relation["grants"][0]["mode"], "once");
    assert_eq!((&relation["grants"][1]["mode"], &relation["grants"][1]["until"]), (&json!("until"), &json!(end)));
    world.clock.advance(Duration::from_secs(60));
    ada.refresh(world.clock.now()).await;
    let path = format!("/h2a/relations/{}", relation["id"].as_str().unwrap());
    assert_eq!(ada.get(&path).await.data()["granted_scopes"], json!(["clipboard:read"]));
    // A one-time consent is used up by the first use.
    let (id, clipboard) = (relation["id"].as_str().unwrap(), ScopeId::parse("clipboard:read").unwrap());
    let consents = world.gateway.engine().consent();
    let id = RelationId::parse(id).unwrap();
    assert!(consents.use_consent(&id, &clipboard).await.unwrap());
    assert_eq!(ada.get(&path).await.data()["granted_scopes"], json!([]));
    assert!(!consents.use_consent(&id, &clipboard).await.unwrap(), "the one-time grant was already used");
    // The person replaces the consent; the device signs the new terms too.
    let body = json!({"granted_scopes": ["filesystem:read"]});
    let changed = ada.consent(Method::PATCH, &path, body).await;
    assert_eq!(changed.data()["granted_scopes"], json!(["filesystem:read"]));
    assert_eq!(changed.data()["grants"][0]["mode"], "until_revoked");
    let mut other = json!({"agent_id": "agt_other", "granted_scopes": []});
    assert_eq!(ada.consent(Method::PATCH, &path, other.clone()).await.refusal(), (400, "BAD_REQUEST"));
    other["agent_id"] = json!(agent);
    assert_eq!(ada.consent(Method::PATCH, &path, other).await.data()["granted_scopes"], json!([]));
}

#[tokio::test]
async fn revoked_relation_cannot_be_changed_and_new_consent_makes_a_new_relation() {
    let world = A2hTestServer::start().await;
    let (_, agent, _, ada) = cast(&world).await;
    let relation = ada.allow(&agent, json!(["filesystem:read"])).await;
    let path = format!("/h2a/relations/{}", relation["id"].as_str().unwrap());
    let bare = world.server.send(Method::DELETE, &path, Some(&ada.token), None).await;
    assert_eq!(bare.refusal(), (428, "CONSENT_UNSIGNED"));
    let gone = ada.consent(Method::DELETE, &path, json!({})).await;
    assert_eq!((&gone.data()["status"], &gone.data()["granted_scopes"]), (&json!("revoked"), &json!([])));
    assert!(gone.data()["revoked_at"].is_string());
    let body = json!({"granted_scopes": ["filesystem:read"]});
    assert_eq!(ada.consent(Method::PATCH, &path, body).await.refusal(), (404, "RELATION_NOT_FOUND"));
    // A new relation has a new id.
    assert_ne!(ada.allow(&agent, json!([])).await["id"], relation["id"]);
    assert_eq!(ada.get("/h2a/relations").await.body["data"].as_array().unwrap().len(), 2);
}

/// Changed scopes are suspended at once, the others stay usable, and new consent ends the suspension.
#[tokio::test]
async fn breaking_manifest_change_suspends_its_scopes_until_new_consent() {
    let world = A2hTestServer::start().await;
    let owner = world.person("owner").await;
    let (agent, _) = owner.make_agent(&agent_body(&with_scope("clipboard:read", "medium"))).await;
    let ada = world.person("ada").await;
    let relation = ada.allow(&agent, json!(["filesystem:read", "clipboard:read"])).await;
    let path = format!("/h2a/relations/{}", relation["id"].as_str().unwrap());
    let mut broken = with_scope("clipboard:read", "medium");
    broken["tools"][0]["input_schema"]["required"] = json!(["path", "mode"]);
    broken["tools"][0]["input_schema"]["properties"]["mode"] = json!({"type": "string"});
    let change = owner.publish(&agent, &broken).await.data()["manifest_change"].clone();
    assert_eq!((&change["breaking"], &change["affected_users"]), (&json!(true), &json!(1)));

    let pending = ada.get(&path).await.data().clone();
    assert_eq!(pending["status"], "pending_reauth");
    assert_eq!(pending["granted_scopes"], json!(["clipboard:read"]));
    assert_eq!(pending["suspended_scopes"], json!(["filesystem:read"]));
    assert_eq!(pending["pending_reauth"]["scopes"], json!(["filesystem:read"]));
    assert_eq!((&pending["manifest_version"], &pending["pending_reauth"]["manifest_version"]), (&json!(1), &json!(2)));

    let body = json!({
        "granted_scopes": ["filesystem:read", "clipboard:read"],
        "manifest_hash": pending["pending_reauth"]["manifest_hash"],
    });
    let renewed = ada.consent(Method::PATCH, &path, body).await;
    assert_eq!(renewed.data()["granted_scopes"], json!(["clipboard:read", "filesystem:read"]));
    assert_eq!((&renewed.data()["status"], &renewed.data()["manifest_version"]), (&json!("active"), &json!(2)));
    // The earlier manifest breaks the current one: a required argument is removed, and the person never agreed to calls
    // without it.
    let back = owner.publish(&agent, &with_scope("clipboard:read", "medium")).await;
    assert_eq!(back.data()["capability_manifest_version"], 3);
}

/// Skipped versions hide no change; restoring the accepted manifest ends the suspension.
#[tokio::test]
async fn new_manifest_is_compared_with_the_version_that_the_person_accepted() {
    let world = A2hTestServer::start().await;
    let (owner, agent, _, ada) = cast(&world).await;
    let relation = ada.allow(&agent, json!(["filesystem:read"])).await;
    let path = format!("/h2a/relations/{}", relation["id"].as_str().unwrap());
    owner.publish(&agent, &with_required(&["mode"])).await;
    // This version alone breaks nothing, but the person has not agreed to `mode` yet.
    let mut later = with_required(&["mode"]);
    later["agent_version"] = json!("1.0.1");
    let change = owner.publish(&agent, &later).await.data()["manifest_change"].clone();
    assert_eq!(change["breaking"], false);
    let pending = ada.get(&path).await.data().clone();
    assert_eq!((&pending["granted_scopes"], &pending["status"]), (&json!([]), &json!("pending_reauth")));

    let mut restored = seed();
    restored["agent_version"] = json!("1.0.2");
    owner.publish(&agent, &restored).await;
    let relation = ada.get(&path).await.data().clone();
    assert_eq!((&relation["granted_scopes"], &relation["status"]), (&json!(["filesystem:read"]), &json!("active")));
    assert_eq!(relation["pending_reauth"], Value::Null);
}

#[tokio::test]
async fn scope_removed_and_added_again_needs_new_consent() {
    let world = A2hTestServer::start().await;
    let (owner, agent, _, ada) = cast(&world).await;
    let relation = ada.allow(&agent, json!(["filesystem:read"])).await;
    let path = format!("/h2a/relations/{}", relation["id"].as_str().unwrap());
    owner.publish(&agent, &Value::Null).await;
    assert_eq!(ada.get(&path).await.data()["grants"], json!([]), "pruned");
    owner.publish(&agent, &seed()).await;
    let back = ada.get(&path).await.data().clone();
    assert_eq!((&back["granted_scopes"], &back["status"]), (&json!([]), &json!("pending_reauth")));
    assert_eq!(back["pending_reauth"]["scopes"], json!(["filesystem:read"]));
}

#[tokio::test]
async fn consent_ledger_verifies_with_public_keys_and_an_altered_one_does_not() {
    let world = A2hTestServer::start().await;
    let (owner, agent, token, ada) = cast(&world).await;
    let relation = ada.allow(&agent, json!(["filesystem:read"])).await;
    let path = format!("/h2a/relations/{}", relation["id"].as_str().unwrap());
    owner.publish(&agent, &with_required(&["mode"])).await;
    ada.consent(Method::PATCH, &path, json!({"granted_scopes": ["filesystem:read"]})).await.data();
    ada.consent(Method::DELETE, &path, json!({})).await.data();

    let as_agent = world.server.send(Method::GET, &format!("{path}/ledger"), Some(&token), None).await.body;
    assert_eq!(as_agent, ada.get(&format!("{path}/ledger")).await.body);
    assert!(as_agent["devices"][0].get("name").is_none(), "an agent does not see the names of devices");
    let (entries, devices) = ledger_of(&as_agent);
    let actions: Vec<_> = as_agent["data"].as_array().unwrap().iter().map(|entry| &entry["action"]).collect();
    assert_eq!(actions, ["grant", "suspend", "reauth", "revoke"]);
    let standing = ledger::verify(&entries, &devices, &check).unwrap();
    assert!(standing.granted.is_empty());
    let head: Value = ada.get(&path).await.data()["ledger_head"].clone();
    assert_eq!(json!(standing.head), head);

    for (what, alter) in [
        (
            "invents a scope",
            (|entries| entries[0].scopes.push("location:read".to_owned().try_into().unwrap()))
                as fn(&mut Vec<LedgerEntry>),
        ),
        ("drops one", |entries| {
            entries.remove(1);
        }),
        ("swaps two", |entries| entries.swap(1, 2)),
        ("changes the time", |entries| entries[0].at = Timestamp::from_millis(0)),
        ("removes a signature", |entries| entries[2].signature = None),
        ("turns a revocation into a grant", |entries| entries[3].action = ledger::LedgerAction::Grant),
    ] {
        let mut altered = entries.clone();
        alter(&mut altered);
        assert!(ledger::verify(&altered, &devices, &check).is_err(), "{what}");
    }
    // The pages of the ledger have the same entries.
    let first = ada.get(&format!("{path}/ledger?limit=3")).await.body;
    let rest = ada.get(&format!("{path}/ledger?cursor={}", first["next_cursor"].as_str().unwrap())).await.body;
    assert_eq!((first["data"].as_array().unwrap().len(), rest["data"].as_array().unwrap().len()), (3, 1));
    let stranger = world.person("eve").await.get(&format!("{path}/ledger")).await;
    assert_eq!(stranger.refusal(), (404, "RELATION_NOT_FOUND"));
}

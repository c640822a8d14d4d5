//! Public keys and backups: uploaded by their owners only, visible to those who may seal to them.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use futures_util::future::join_all;
use nuncio_core::bundle::{KeyBundle, SealMode};
use nuncio_testkit::Method;
use nuncio_testkit::a2h::{A2hResponse, DeviceKey, TestDevice};
use serde_json::{Value, json};

use super::relay::RelayConversationSetup;

const ADAS: &str = "/keys/users/ada/devices";

fn one_time_keys(device: &TestDevice, names: &[&str]) -> Vec<Value> {
    let one = |name: &&str| json!(device.key().one_time_key(&device.id, name, false));
    let fallback = json!(device.key().one_time_key(&device.id, "fallback", true));
    names.iter().map(one).chain([fallback]).collect()
}

fn devices(reply: &A2hResponse) -> Vec<&str> {
    reply.data().as_array().unwrap().iter().map(|bundle| bundle["device_id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn uploaded_device_and_agent_keys_are_found_by_peers() {
    let scene = RelayConversationSetup::start().await;
    let (ada, agent) = (&scene.ada, &scene.agent);
    let bundle = ada.bundle("ada", 1);
    let brought = ada.bring(&json!({"bundle": bundle, "one_time_keys": one_time_keys(ada, &["a", "b"])})).await;
    assert_eq!(brought.data(), &json!({"seq": 1, "one_time_keys": 2}));
    let found = agent.get(ADAS).await;
    assert_eq!(found.body, json!({"data": [bundle], "next_cursor": null}));
    // More one-time keys, and a repeated upload.
    let more = json!({"one_time_keys": [ada.key().one_time_key(&ada.id, "c", false)]});
    assert_eq!(ada.bring(&more).await.data(), &json!({"seq": 1, "one_time_keys": 3}));
    assert_eq!(ada.bring(&json!({"bundle": bundle})).await.data(), &json!({"seq": 1, "one_time_keys": 3}));

    let theirs = agent.key().bundle(agent.recipient(), "dev_of_agent", 1, SealMode::Stateless);
    let path = format!("/agents/{}/keys/register", agent.id);
    assert_eq!(
        agent.send(Method::POST, &path, &json!({"bundle": theirs})).await.data(),
        &json!({"seq": 1, "one_time_keys": 0})
    );
    let path = format!("/keys/agents/{}", agent.id);
    assert_eq!(ada.get(&path).await.data(), &json!([theirs]));
    let both = ada.get(&format!("/keys/groups/{}", scene.conversation)).await;
    assert_eq!(devices(&both), [ada.id.as_str(), "dev_of_agent"]);

    // People see the keys of all people; an agent sees those of people with a relation.
    let bob = scene.world.person("bob").await;
    assert_eq!(devices(&bob.get(ADAS).await), [ada.id.as_str()]);
    bob.bring(&json!({"bundle": bob.bundle("bob", 1)})).await.data();
    assert_eq!(agent.get("/keys/users/bob/devices").await.refusal(), (404, "PERSON_NOT_FOUND"));
    let take = format!("/keys/devices/{}/one-time-key", bob.id);
    assert_eq!(agent.send(Method::POST, &take, &json!({})).await.refusal(), (404, "KEYS_NOT_FOUND"));
    for (path, refusal) in [
        ("/keys/users/nobody/devices", (404, "PERSON_NOT_FOUND")),
        ("/keys/users/A%20B/devices", (404, "PERSON_NOT_FOUND")),
        ("/keys/agents/agt_none", (404, "UNKNOWN_AGENT")),
        ("/keys/groups/cnv_none", (404, "CONVERSATION_NOT_FOUND")),
    ] {
        assert_eq!(ada.get(path).await.refusal(), refusal, "{path}");
        let stranger = scene.world.server.send(Method::GET, path, None, None).await;
        assert_eq!(stranger.refusal(), (401, "UNAUTHORIZED"));
    }
}

#[tokio::test]
async fn key_bundles_that_are_invalid_or_of_another_owner_are_refused() {
    let scene = RelayConversationSetup::start().await;
    let (ada, phone) = (&scene.ada, scene.phone().await);
    let bob = scene.world.person("bob").await;
    let none = ada.bring(&json!({"one_time_keys": one_time_keys(ada, &["a"])})).await;
    assert_eq!(none.refusal(), (404, "KEYS_NOT_FOUND"));
    ada.bring(&json!({"bundle": ada.bundle("ada", 5)})).await.data();
    let refused = (422, "BUNDLE_REFUSED");
    let ours = |bundle: &KeyBundle| json!({"bundle": bundle});
    let changed = |change: fn(&mut KeyBundle)| {
        let mut bundle = ada.bundle("ada", 6);
        change(&mut bundle);
        ours(&bundle)
    };
    let other_key = DeviceKey::new();
    let owner = ada.bundle("ada", 6).keys.owner;
    let mut broken = one_time_keys(ada, &["a"]);
    broken[0]["key_id"] = json!("z");
    let too_many: Vec<_> = (0..101).map(|name| ada.key().one_time_key(&ada.id, &name.to_string(), false)).collect();
    for (what, body) in [
        ("signed by another key", ours(&other_key.bundle(owner.clone(), &ada.id, 6, SealMode::Stateful))),
        ("changed after it was signed", changed(|bundle| bundle.keys.seq += 1)),
        ("another mode than its keys need", changed(|bundle| bundle.keys.mode = SealMode::Stateless)),
        ("of another person", ours(&ada.bundle("bob", 6))),
        ("of another device", ours(&ada.key().bundle(owner, &phone.id, 6, SealMode::Stateful))),
        ("an old number", ours(&ada.bundle("ada", 4))),
        ("the same number, other keys", changed_key(ada, 5)),
        ("a one-time key of another name", json!({"one_time_keys": broken})),
        ("a one-time key of another device", json!({"one_time_keys": one_time_keys(&phone, &["a"])})),
        ("too many", json!({"one_time_keys": too_many})),
    ] {
        assert_eq!(ada.bring(&body).await.refusal(), refused, "{what}");
    }
    let long = json!({"did": "d".repeat(2000), "verification_method": "v", "signature": "s"});
    let mut vouched = ours(&ada.bundle("ada", 6));
    vouched["bundle"]["did"] = long;
    for wrong in [json!({}), json!({"bundle": {}}), json!({"keys": []}), json!({"one_time_keys": {}}), vouched] {
        assert_eq!(ada.bring(&wrong).await.refusal(), (400, "BAD_REQUEST"), "{wrong:.80}");
    }
    // A device can upload only its own keys.
    let path = format!("/users/me/devices/{}/keys", ada.id);
    for other in [&phone, &bob] {
        let refused = other.send(Method::POST, &path, &ours(&ada.bundle("ada", 6))).await;
        assert_eq!(refused.refusal(), (403, "PERMISSION_DENIED"));
    }
    let agents = scene.agent.send(Method::POST, &path, &ours(&ada.bundle("ada", 6))).await;
    assert_eq!(agents.refusal(), (401, "UNAUTHORIZED"));
    // An agent cannot use the id of a device.
    let taken = scene.agent.key().bundle(scene.agent.recipient(), &ada.id, 9, SealMode::Stateless);
    let register = format!("/agents/{}/keys/register", scene.agent.id);
    assert_eq!(scene.agent.send(Method::POST, &register, &ours(&taken)).await.refusal(), refused);
    assert_eq!(bob.get(ADAS).await.data(), &json!([ada.bundle("ada", 5)]));
}

#[tokio::test]
async fn agent_keys_under_the_id_of_a_persons_device_are_refused() {
    let scene = RelayConversationSetup::start().await;
    let (ada, agent) = (&scene.ada, &scene.agent);
    let register = format!("/agents/{}/keys/register", agent.id);
    let squatted = json!({"bundle": agent.key().bundle(agent.recipient(), &ada.id, 9, SealMode::Stateless)});
    assert_eq!(agent.send(Method::POST, &register, &squatted).await.refusal(), (422, "BUNDLE_REFUSED"));
    let keys = one_time_keys(ada, &["a"]);
    ada.bring(&json!({"bundle": ada.bundle("ada", 1), "one_time_keys": keys})).await.data();
    // An agent cannot use the id of a removed device either.
    let phone = scene.phone().await;
    ada.send(Method::DELETE, &format!("/users/me/devices/{}", phone.id), &json!({})).await.data();
    let squatted = json!({"bundle": agent.key().bundle(agent.recipient(), &phone.id, 9, SealMode::Stateless)});
    assert_eq!(agent.send(Method::POST, &register, &squatted).await.refusal(), (422, "BUNDLE_REFUSED"));

    let own = json!({"bundle": agent.key().bundle(agent.recipient(), "main", 1, SealMode::Stateless)});
    assert_eq!(agent.send(Method::POST, &register, &own).await.data(), &json!({"seq": 1, "one_time_keys": 0}));
    let take = format!("/keys/devices/{}/one-time-key", ada.id);
    for (owner, answer) in [
        ("?owner=agent:agt_none", Some((404, "KEYS_NOT_FOUND"))),
        ("?owner=local", Some((400, "BAD_REQUEST"))),
        ("?owner=person:ada", None),
        ("", None),
    ] {
        let taken = agent.send(Method::POST, &format!("{take}{owner}"), &json!({})).await;
        match answer {
            Some(refusal) => assert_eq!(taken.refusal(), refusal, "{owner}"),
            None => assert!(keys.contains(taken.data()), "{owner}"),
        }
    }
}

fn changed_key(device: &TestDevice, seq: u64) -> Value {
    let owner = device.bundle("ada", seq).keys.owner;
    json!({"bundle": device.key().bundle(owner, &device.id, seq, SealMode::Stateless)})
}

#[tokio::test]
async fn each_one_time_key_is_claimed_once_and_then_the_fallback_key_is_returned() {
    let scene = RelayConversationSetup::start().await;
    let names: Vec<String> = (0..40).map(|number| format!("k{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let ada = &scene.ada;
    let keys = one_time_keys(ada, &names);
    ada.bring(&json!({"bundle": ada.bundle("ada", 1), "one_time_keys": keys})).await.data();
    let path = format!("/keys/devices/{}/one-time-key", ada.id);
    let bob = scene.world.person("bob").await;
    let taken = join_all((0..50).map(|number| {
        let (agent, bob, path) = (&scene.agent, &bob, &path);
        async move {
            let answer = match number % 2 {
                0 => agent.send(Method::POST, path, &json!({})).await,
                _ => bob.send(Method::POST, path, &json!({})).await,
            };
            answer.data().clone()
        }
    }))
    .await;
    let (fallback, once): (Vec<_>, Vec<_>) = taken.iter().partition(|key| key["fallback"] == true);
    assert_eq!((fallback.len(), once.len()), (10, 40));
    let mut found: Vec<_> = once.iter().map(|key| key["key_id"].as_str().unwrap()).collect();
    found.sort_unstable();
    assert_eq!(found, names);
    assert!(once.iter().all(|key| keys.contains(key)), "the keys are returned unchanged, with their signatures");
    assert!(fallback.iter().all(|key| **key == keys[40]));
    for unknown in ["dev_none", "A%20B"] {
        let path = format!("/keys/devices/{unknown}/one-time-key");
        assert_eq!(bob.send(Method::POST, &path, &json!({})).await.refusal(), (404, "KEYS_NOT_FOUND"));
    }
}

#[tokio::test]
async fn device_endorsement_is_accepted_only_from_another_device_of_the_same_person() {
    let scene = RelayConversationSetup::start().await;
    let (ada, phone) = (&scene.ada, scene.phone().await);
    let bob = scene.world.person("bob").await;
    let path = format!("/users/me/devices/{}/endorsement", phone.id);
    let signed = |key: &DeviceKey, seq: u64| json!({"signature": key.sign(&phone.bundle("ada", seq).keys.endorsed())});
    let missing = (404, "KEYS_NOT_FOUND");
    assert_eq!(ada.send(Method::POST, &path, &signed(ada.key(), 1)).await.refusal(), missing, "it has none yet");
    phone.bring(&json!({"bundle": phone.bundle("ada", 1)})).await.data();
    let refused = (422, "BUNDLE_REFUSED");
    assert_eq!(ada.send(Method::POST, &path, &signed(bob.key(), 1)).await.refusal(), refused);
    assert_eq!(
        phone.send(Method::POST, &path, &signed(phone.key(), 1)).await.refusal(),
        refused,
        "a device cannot endorse itself"
    );
    assert_eq!(bob.send(Method::POST, &path, &signed(bob.key(), 1)).await.refusal(), missing);
    let vouched = ada.send(Method::POST, &path, &signed(ada.key(), 1)).await.data().clone();
    assert_eq!(vouched["endorsement"]["by"], json!(ada.id));
    assert_eq!(bob.get(ADAS).await.data(), &json!([vouched]));
    // The cross-signature covers the device, not its current keys.
    phone.bring(&json!({"bundle": phone.bundle("ada", 2)})).await.data();
    assert_eq!(bob.get(ADAS).await.data()[0]["endorsement"], vouched["endorsement"]);
    let none = ada.send(Method::POST, "/users/me/devices/dev_none/endorsement", &signed(ada.key(), 2)).await;
    assert_eq!(none.refusal(), missing);
    assert_eq!(ada.send(Method::POST, &path, &json!({"signature": "x"})).await.refusal(), (400, "BAD_REQUEST"));
}

#[tokio::test]
async fn conversation_partners_are_notified_of_key_changes() {
    let scene = RelayConversationSetup::start().await;
    let (ada, phone) = (&scene.ada, scene.phone().await);
    let bob = scene.world.person("bob").await;
    bob.converse("h2h", json!([TestDevice::member("ada")])).await;
    let (mut agents, _) = scene.agent.connect().await;
    let (mut bobs, _) = bob.connect().await;
    let (mut adas, _) = ada.connect().await;
    let changed = json!({"owner_id": "ada", "owner_type": "human"});
    let bring = json!({"bundle": phone.bundle("ada", 1), "one_time_keys": one_time_keys(&phone, &["a"])});
    phone.bring(&bring).await.data();
    for socket in [&mut agents, &mut bobs, &mut adas] {
        let told = socket.event("keys.changed").await;
        assert_eq!(json!({"owner_id": told["owner_id"], "owner_type": told["owner_type"]}), changed);
    }
    // Repeated uploads and one-time keys cause no notification.
    phone.bring(&bring).await.data();
    assert_eq!(devices(&bob.get(ADAS).await), [phone.id.as_str()]);
    ada.server.send(Method::DELETE, &format!("/users/me/devices/{}", phone.id), Some(&ada.token), None).await.data();
    for socket in [&mut agents, &mut bobs, &mut adas] {
        let told = socket.event("keys.changed").await;
        assert_eq!(told["owner_id"], "ada");
    }
    assert_eq!(devices(&bob.get(ADAS).await), [""; 0]);
    let take = format!("/keys/devices/{}/one-time-key", phone.id);
    assert_eq!(bob.send(Method::POST, &take, &json!({})).await.refusal(), (404, "KEYS_NOT_FOUND"));
}

#[tokio::test]
async fn key_backup_is_returned_unchanged_and_only_to_its_owner() {
    let scene = RelayConversationSetup::start().await;
    let (ada, bob) = (&scene.ada, scene.world.person("bob").await);
    let key = URL_SAFE_NO_PAD.encode([5; 32]);
    let backup = json!({
        "backup_a": STANDARD.encode([1; 60]), "backup_b": STANDARD.encode([2; 60]),
        "argon2_salt": STANDARD.encode([3; 32]), "argon2_params": {"m": 65536, "t": 3, "p": 4},
        "public_key": key, "signing_public_key": json!(ada.key().public()), "device_id": ada.id,
    });
    let missing = (404, "BACKUP_NOT_FOUND");
    let at = "/keys/backup";
    assert_eq!(ada.get(at).await.refusal(), missing);
    let delete = || ada.server.send(Method::DELETE, at, Some(&ada.token), None);
    assert_eq!(delete().await.refusal(), missing);
    let kept = ada.send(Method::POST, at, &backup).await.data().clone();
    let mut expected = backup.clone();
    expected["updated_at"] = kept["updated_at"].clone();
    assert_eq!(kept, expected);
    assert_eq!(ada.get(at).await.data(), &expected);
    assert_eq!(bob.get(at).await.refusal(), missing, "a person sees only their own backup");

    let changed = |name: &str, value: Value| {
        let mut changed = backup.clone();
        changed[name] = value;
        changed
    };
    let bad = (400, "BAD_REQUEST");
    for (body, refusal) in [
        (changed("backup_a", json!("")), bad),
        (changed("backup_b", json!("not base64")), bad),
        (changed("argon2_salt", json!(STANDARD.encode([3; 31]))), bad),
        (changed("argon2_params", json!({"m": 0, "t": 3, "p": 4})), bad),
        (changed("argon2_params", json!({"m": 1, "t": 3})), bad),
        (changed("public_key", json!("x")), bad),
        (changed("device_id", json!("a b")), bad),
        (changed("passphrase", json!("secret")), bad),
        (changed("backup_a", json!(STANDARD.encode(vec![1; 20_000]))), (413, "BODY_TOO_LARGE")),
    ] {
        assert_eq!(ada.send(Method::PUT, at, &body).await.refusal(), refusal, "{:.200}", body.to_string());
    }
    for other in [scene.agent.get(at).await, scene.agent.send(Method::PUT, at, &backup).await] {
        assert_eq!(other.refusal(), (401, "UNAUTHORIZED"), "agents have no backup");
    }
    assert_eq!(ada.get(at).await.data(), &expected);
    let second = changed("backup_a", json!(STANDARD.encode([9; 60])));
    ada.send(Method::PUT, at, &second).await.data();
    assert_eq!(ada.get(at).await.data()["backup_a"], second["backup_a"]);
    assert_eq!(delete().await.status, 200);
    assert_eq!(ada.get(at).await.refusal(), missing);
}

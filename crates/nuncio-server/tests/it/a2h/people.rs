//! People enrol with an invite and a device key, and authenticate with its signatures.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nuncio_core::ids::PersonName;
use nuncio_engine::ports::Clock as _;
use nuncio_engine::record::AuditFilter;
use nuncio_server::admin::{AdminCommand, KeyCreationCommand};
use nuncio_testkit::Method;
use nuncio_testkit::a2h::{DeviceKey, TestDevice};
use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::{Value, json};

use super::A2hTestServer;
use crate::agents::DESK;

#[tokio::test]
async fn invite_enrols_one_device_that_proves_its_key() {
    let world = A2hTestServer::start().await;
    let code = world.invite("ada").await;
    let (key, other) = (DeviceKey::new(), DeviceKey::new());
    let enroll = async |body: Value| world.server.send(Method::POST, "/auth/enroll", None, Some(&body)).await;

    // A caller who knows the code but signs with another key or gives another name is refused.
    let mut forged = key.enrolment(&code, "laptop");
    forged["public_key"] = json!(other.public());
    assert_eq!(enroll(forged).await.refusal(), (401, "DEVICE_REFUSED"));
    let mut renamed = key.enrolment(&code, "laptop");
    renamed["device_name"] = json!("phone");
    assert_eq!(enroll(renamed).await.refusal(), (401, "DEVICE_REFUSED"));
    assert_eq!(enroll(key.enrolment("inv_wrong", "laptop")).await.refusal(), (403, "INVITE_INVALID"));
    let mut weak = key.enrolment(&code, "laptop");
    weak["public_key"] = json!("A".repeat(43));
    assert_eq!(enroll(weak).await.refusal(), (400, "BAD_REQUEST"));

    let answer = enroll(key.enrolment(&code, "laptop")).await;
    assert_eq!(answer.status, 201);
    let data = answer.data();
    assert_eq!((&data["device"]["user_id"], &data["device"]["name"]), (&json!("ada"), &json!("laptop")));
    assert_eq!((&data["token_type"], &data["expires_in"]), (&json!("Bearer"), &json!(300)));
    assert_eq!(enroll(other.enrolment(&code, "phone")).await.refusal(), (403, "INVITE_INVALID"));
    // A key that is enrolled cannot enrol a second device.
    let again = world.invite("ada").await;
    assert_eq!(enroll(key.enrolment(&again, "twin")).await.refusal(), (401, "DEVICE_REFUSED"));
}

#[tokio::test]
async fn fingerprint_in_the_invite_is_that_of_the_key_that_signs_device_tokens() {
    let world = A2hTestServer::start().await;
    let order = AdminCommand::UserInvite { name: PersonName::parse("ada").unwrap(), seconds: None };
    let invite = world.gateway.order(order).await.unwrap();
    assert_eq!(invite["server"], json!(world.gateway.server().url()));
    let device = TestDevice::enrol(&world.server, invite["code"].as_str().unwrap()).await;
    let keys = world.server.send(Method::GET, "/auth/keys", None, None).await;
    let keys = keys.data();
    assert_eq!(keys["fingerprint"], invite["fingerprint"]);
    assert_eq!(keys["audience"], json!(device.audience));

    // Verified with the published key, without code of this server.
    let parts: Vec<&str> = device.token.split('.').collect();
    let part = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
    let head: Value = serde_json::from_slice(&part(parts[0])).unwrap();
    let claims: Value = serde_json::from_slice(&part(parts[1])).unwrap();
    let jwk = keys["keys"].as_array().unwrap().iter().find(|key| key["kid"] == head["kid"]).unwrap();
    let public = part(jwk["x"].as_str().unwrap());
    let signed = format!("{}.{}", parts[0], parts[1]);
    UnparsedPublicKey::new(&ED25519, public).verify(signed.as_bytes(), &part(parts[2])).unwrap();
    assert_eq!((&head["alg"], &claims["sub"]), (&json!("EdDSA"), &json!("ada")));
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 300);
    // The token names the key of the device.
    assert_eq!(claims["device_key"], json!(device.key().public()));

    let set = world.gateway.raw("GET /.well-known/jwks.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let set = set.await.unwrap();
    assert!(set.body.contains(head["kid"].as_str().unwrap()), "{}", set.body);
}

#[tokio::test]
async fn device_token_lasts_five_minutes_and_a_new_signature_gets_a_new_token() {
    let world = A2hTestServer::start().await;
    let mut ada = world.person("ada").await;
    assert_eq!(ada.get("/users/me").await.data()["user_id"], "ada");
    world.clock.advance(Duration::from_secs(299));
    assert_eq!(ada.get("/users/me").await.status, 200);
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(ada.get("/users/me").await.refusal(), (401, "UNAUTHORIZED"));
    ada.refresh(world.clock.now()).await;
    assert_eq!(ada.get("/users/me").await.data()["device_id"], json!(ada.id));
}

#[tokio::test]
async fn device_login_signature_is_accepted_once_and_only_by_its_server() {
    let world = A2hTestServer::start().await;
    let (ada, bob) = (world.person("ada").await, world.person("bob").await);
    let now = world.clock.now();
    let ask = async |body: &Value| world.server.send(Method::POST, "/auth/token", None, Some(body)).await;
    let good = ada.assertion(now);
    assert_eq!(ask(&good).await.status, 200);
    assert_eq!(ask(&good).await.refusal(), (401, "DEVICE_REFUSED"), "a replay");
    let nonce = "0123456789abcdef";
    let elsewhere = ada.key().assertion(&ada.id, "https://elsewhere.example", now, nonce);
    assert_eq!(ask(&elsewhere).await.refusal(), (401, "DEVICE_REFUSED"));
    let old = ada.key().assertion(&ada.id, &ada.audience, now, nonce);
    world.clock.advance(Duration::from_secs(121));
    assert_eq!(ask(&old).await.refusal(), (401, "DEVICE_REFUSED"));
    let now = world.clock.now();
    let short = ada.key().assertion(&ada.id, &ada.audience, now, "short");
    assert_eq!(ask(&short).await.refusal(), (401, "DEVICE_REFUSED"));
    let of_another = bob.key().assertion(&ada.id, &ada.audience, now, nonce);
    assert_eq!(ask(&of_another).await.refusal(), (401, "DEVICE_REFUSED"));
}

#[tokio::test]
async fn revoked_device_is_refused_at_once() {
    let world = A2hTestServer::start().await;
    let laptop = world.person("ada").await;
    let phone = TestDevice::enrol(&world.server, &world.invite("ada").await).await;
    let bob = world.person("bob").await;
    let devices = laptop.get("/users/me/devices").await;
    assert_eq!(devices.body["data"].as_array().unwrap().len(), 2);
    assert_eq!(devices.body["next_cursor"], Value::Null);

    let path = format!("/users/me/devices/{}", phone.id);
    let of_another = world.server.send(Method::DELETE, &path, Some(&bob.token), None).await;
    assert_eq!(of_another.refusal(), (404, "DEVICE_NOT_FOUND"));
    let gone = world.server.send(Method::DELETE, &path, Some(&laptop.token), None).await;
    assert!(gone.data()["revoked_at"].is_string());
    assert_eq!(phone.get("/users/me").await.refusal(), (401, "UNAUTHORIZED"));
    let assertion = phone.assertion(world.clock.now());
    let again = world.server.send(Method::POST, "/auth/token", None, Some(&assertion)).await;
    assert_eq!(again.refusal(), (401, "DEVICE_REFUSED"));
    assert_eq!(laptop.get("/users/me").await.status, 200);

    let order = AdminCommand::UserRevoke { name: PersonName::parse("ada").unwrap(), device: None };
    assert_eq!(world.gateway.order(order).await.unwrap()["revoked"].as_array().unwrap().len(), 1);
    assert_eq!(laptop.get("/users/me").await.status, 401);
    let users = world.gateway.order(AdminCommand::UserList).await.unwrap();
    assert_eq!((&users["users"][0]["name"], &users["users"][0]["devices"]), (&json!("ada"), &json!(0)));
}

#[tokio::test]
async fn device_token_is_refused_outside_a2h() {
    let world = A2hTestServer::start().await;
    let ada = world.person("ada").await;
    assert_eq!(ada.get("/users/me").await.status, 200);
    world.gateway.key(&[]).await;
    let body = json!({"agent": {"name": DESK, "tools": []}});
    assert_eq!(world.gateway.aap_with_key(&ada.token).post("/sessions", body).await.0, 401);
    // A device token is refused outside A2H even if the server is open to `local`.
    let open = A2hTestServer::start().await;
    let token = open.person("ada").await.token;
    for wrong in [format!("{token}A"), token] {
        assert_eq!(open.gateway.aap_with_key(&wrong).get("/sessions").await.0, 401);
        assert_eq!(open.gateway.aap_with_key(&wrong).get("/meta").await.0, 200, "a public document");
    }
}

#[tokio::test]
async fn invite_expires_at_the_time_set_by_the_operator() {
    let world = A2hTestServer::start().await;
    let order = AdminCommand::UserInvite { name: PersonName::parse("ada").unwrap(), seconds: Some(60) };
    let invite = world.gateway.order(order).await.unwrap();
    assert_eq!(invite["expires_at"], json!(world.clock.now().after(Duration::from_secs(60))));
    world.clock.advance(Duration::from_secs(60));
    let body = DeviceKey::new().enrolment(invite["code"].as_str().unwrap(), "laptop");
    let late = world.server.send(Method::POST, "/auth/enroll", None, Some(&body)).await;
    assert_eq!(late.refusal(), (403, "INVITE_INVALID"));
}

#[tokio::test]
async fn only_devices_of_a_person_can_invite_further_devices_of_that_person() {
    let world = A2hTestServer::start().await;
    let ada = world.person("ada").await;
    let invite = async |token: Option<&str>, body: Value| {
        world.server.send(Method::POST, "/users/me/devices", token, Some(&body)).await
    };
    let (_, agent) = ada.make_agent(&json!({"display_name": "Notes"})).await;
    assert_eq!(invite(None, json!({})).await.refusal(), (401, "UNAUTHORIZED"));
    assert_eq!(invite(Some(&agent), json!({})).await.refusal(), (401, "UNAUTHORIZED"));
    assert_eq!(invite(Some(&ada.token), json!({"name": "ben"})).await.refusal(), (400, "BAD_REQUEST"));
    let key = AdminCommand::KeyCreate(KeyCreationCommand {
        name: None,
        person: Some(PersonName::parse("ada").unwrap()),
        scopes: Vec::new(),
        signing: false,
        operator: false,
        term: None,
    });
    let key = world.gateway.order(key).await.unwrap()["key"].as_str().unwrap().to_owned();
    let refused = invite(Some(&key), json!({})).await;
    assert!(refused.status == 401 || refused.status == 403, "{refused:?}");

    let invited = invite(Some(&ada.token), json!({})).await;
    assert_eq!(invited.status, 201);
    let invited = invited.data();
    let keys = world.server.send(Method::GET, "/auth/keys", None, None).await;
    assert_eq!((&invited["user"], &invited["fingerprint"]), (&json!("ada"), &keys.data()["fingerprint"]));
    assert_eq!(invited["server"], json!(ada.audience));
    let phone = TestDevice::enrol(&world.server, invited["code"].as_str().unwrap()).await;
    let devices = phone.get("/users/me/devices").await;
    assert_eq!(devices.data().as_array().unwrap().len(), 2);
    // The audit log records who invited.
    let records = world
        .gateway
        .order(AdminCommand::AuditList { after: Some(0), limit: 100, filter: AuditFilter::default() })
        .await
        .unwrap();
    let records = records["records"].as_array().unwrap().clone();
    let by =
        |record: &Value| record["record"]["happened"] == "person_invited" && record["record"]["by"] == "person:ada";
    assert_eq!(records.iter().filter(|record| by(record)).count(), 1, "{records:?}");
    // The number of open invites is limited.
    let mut last = invite(Some(&ada.token), json!({})).await;
    for _ in 0..8 {
        last = invite(Some(&ada.token), json!({})).await;
    }
    assert_eq!(last.refusal(), (409, "LIMIT_REACHED"));
}

//! Enrolment and login of devices.

use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::audit::AuditEvent;
use nuncio_core::ids::{DeviceId, PersonName};
use nuncio_core::person::DeviceAssertion;
use nuncio_core::principal::Principal;
use nuncio_core::signature::Signature;
use nuncio_engine::consent::ConsentSettings;
use nuncio_engine::people::DeviceEnrolmentRequest;
use nuncio_engine::ports::store::{StoreInfoChange, info};
use nuncio_engine::ports::{Clock as _, Store as _};
use nuncio_engine::{AuthenticationMethod, Caller};
use ring::signature::Ed25519KeyPair;

use super::world::{EnrolledPhone, TestEngine, enrolment, sign};

const HERE: &str = "https://here.example";

fn operator() -> Caller {
    Caller::new(Principal::Operator)
}

fn ada() -> PersonName {
    PersonName::parse("ada").unwrap()
}

fn pair(seed: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
}

fn assertion(world: &TestEngine, phone: &EnrolledPhone, nonce: &str) -> DeviceAssertion {
    DeviceAssertion {
        device_id: phone.device.id.clone(),
        audience: HERE.to_owned(),
        at: world.clock.now(),
        nonce: nonce.to_owned(),
    }
}

#[tokio::test]
async fn invite_code_enrols_exactly_one_device() {
    let world = TestEngine::new().await;
    let invite = world.engine.people().invite_person(ada(), &operator()).await.unwrap();
    let device = world.engine.people().enrol_device(enrolment(&pair(1), &invite.code)).await.unwrap();
    assert_eq!((device.person.clone(), device.name.as_str()), (ada(), "laptop"));
    assert_eq!(world.engine.people().list().await.unwrap().len(), 1);
    assert_eq!(world.engine.people().devices(&ada()).await.unwrap(), std::slice::from_ref(&device));
    let again = world.engine.people().enrol_device(enrolment(&pair(2), &invite.code)).await.unwrap_err();
    assert_eq!(again.code, ErrorCode::InviteInvalid);
    let events: Vec<_> = world.records().await.into_iter().map(|record| record.event).collect();
    assert_eq!(events, [AuditEvent::PersonInvited, AuditEvent::DeviceEnrolled]);
}

#[tokio::test]
async fn enrolment_with_invalid_invite_name_or_key_signature_is_refused() {
    let world = TestEngine::new().await;
    let code = world.engine.people().invite_person(ada(), &operator()).await.unwrap().code;
    let good = enrolment(&pair(1), &code);
    let other = enrolment(&pair(2), &code);
    let refused: [(&str, DeviceEnrolmentRequest, ErrorCode); 5] = [
        ("an unknown code", enrolment(&pair(1), "inv_nope"), ErrorCode::InviteInvalid),
        (
            "a key of another device",
            DeviceEnrolmentRequest { key: other.key, ..good.clone() },
            ErrorCode::DeviceRefused,
        ),
        (
            "a signature of zeros",
            DeviceEnrolmentRequest { signature: Signature::new([0; 64]), ..good.clone() },
            ErrorCode::DeviceRefused,
        ),
        (
            "another name than the signed one",
            DeviceEnrolmentRequest { name: "other".into(), ..good.clone() },
            ErrorCode::DeviceRefused,
        ),
        (
            "a name with an invisible character",
            DeviceEnrolmentRequest { name: "lap\u{202e}top".into(), ..good.clone() },
            ErrorCode::BadRequest,
        ),
    ];
    for (what, new, code) in refused {
        assert_eq!(world.engine.people().enrol_device(new).await.unwrap_err().code, code, "{what}");
    }
    assert_eq!(world.engine.people().devices(&ada()).await.unwrap(), []);
    world.clock.advance(Duration::from_secs(7 * 24 * 3600));
    let late = world.engine.people().enrol_device(good).await.unwrap_err();
    assert_eq!((late.code, late.message.contains("expired")), (ErrorCode::InviteInvalid, true));
}

#[tokio::test]
async fn reused_device_key_and_devices_or_invites_over_the_limit_are_refused() {
    let rules = ConsentSettings { devices_per_person: 2, invites_per_person: 1, ..ConsentSettings::default() };
    let world = TestEngine::with(rules).await;
    world.device("ada", 1).await;
    let code = world.engine.people().invite_person(ada(), &operator()).await.unwrap().code;
    let too_many = world.engine.people().invite_person(ada(), &operator()).await.unwrap_err();
    assert_eq!((too_many.code, too_many.params()), (ErrorCode::LimitReached, serde_json::json!({"limit": 1})));
    assert_eq!(
        world.engine.people().enrol_device(enrolment(&pair(1), &code)).await.unwrap_err().code,
        ErrorCode::DeviceRefused
    );
    let second = world.engine.people().enrol_device(enrolment(&pair(2), &code)).await.unwrap();
    let code = world.engine.people().invite_person(ada(), &operator()).await.unwrap().code;
    assert_eq!(
        world.engine.people().enrol_device(enrolment(&pair(3), &code)).await.unwrap_err().code,
        ErrorCode::LimitReached
    );
    world.engine.people().revoke_device(&ada(), &second.id, &operator()).await.unwrap();
    world.engine.people().enrol_device(enrolment(&pair(3), &code)).await.unwrap();
}

#[tokio::test]
async fn device_login_signature_is_accepted_only_once_even_after_restart() {
    let world = TestEngine::new().await;
    let phone = world.person("ada").await;
    let one = assertion(&world, &phone, "nonce-number-one");
    let signature = sign(&phone.pair, &one.message());
    assert_eq!(world.engine.people().assert_device(&one, &signature, HERE).await.unwrap(), phone.device);
    let world = world.restarted().await;
    let again = world.engine.people().assert_device(&one, &signature, HERE).await.unwrap_err();
    assert_eq!((again.code, again.message.contains("was sent before")), (ErrorCode::DeviceRefused, true));
    let two = assertion(&world, &phone, "nonce-number-two");
    world.engine.people().assert_device(&two, &sign(&phone.pair, &two.message()), HERE).await.unwrap();
}

#[tokio::test]
async fn login_signature_for_wrong_server_nonce_device_key_or_time_is_refused() {
    let world = TestEngine::new().await;
    let (phone, eve) = (world.person("ada").await, world.person("eve").await);
    let good = || assertion(&world, &phone, "a-nonce-of-its-own");
    let old = DeviceAssertion { at: world.clock.now(), ..good() };
    let unknown = DeviceAssertion { device_id: DeviceId::parse("dev_9").unwrap(), ..good() };
    let cases = [
        ("another server", DeviceAssertion { audience: "https://there.example".into(), ..good() }, &phone),
        ("a short nonce", DeviceAssertion { nonce: "short".into(), ..good() }, &phone),
        ("an unknown device", unknown, &phone),
        ("a key of another person", good(), &eve),
    ];
    for (what, assertion, signer) in cases {
        let signature = sign(&signer.pair, &assertion.message());
        let error = world.engine.people().assert_device(&assertion, &signature, HERE).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::DeviceRefused, "{what}");
    }
    let altered = DeviceAssertion { nonce: "another-nonce-here".into(), ..good() };
    let signature = sign(&phone.pair, &good().message());
    assert_eq!(
        world.engine.people().assert_device(&altered, &signature, HERE).await.unwrap_err().code,
        ErrorCode::DeviceRefused
    );
    world.clock.advance(Duration::from_millis(120_001));
    let signature = sign(&phone.pair, &old.message());
    let late = world.engine.people().assert_device(&old, &signature, HERE).await.unwrap_err();
    assert!(late.message.contains("clock"), "{late}");
}

#[tokio::test]
async fn revoked_device_is_refused_at_once() {
    let world = TestEngine::new().await;
    let (phone, second) = (world.device("ada", 1).await, world.device("ada", 2).await);
    assert_eq!(world.engine.people().valid_device(&second.device.id).await.unwrap(), Some(second.device.clone()));
    let eve = PersonName::parse("eve").unwrap();
    let not_hers = world.engine.people().revoke_device(&eve, &second.device.id, &operator()).await.unwrap_err();
    assert_eq!(not_hers.code, ErrorCode::DeviceNotFound);
    world.engine.people().revoke_device(&ada(), &second.device.id, &phone.caller()).await.unwrap();
    assert_eq!(world.engine.people().valid_device(&second.device.id).await.unwrap(), None);
    let assertion = assertion(&world, &second, "nonce-number-one");
    let signature = sign(&second.pair, &assertion.message());
    assert_eq!(
        world.engine.people().assert_device(&assertion, &signature, HERE).await.unwrap_err().code,
        ErrorCode::DeviceRefused
    );
    let twice = world.engine.people().revoke_device(&ada(), &second.device.id, &operator()).await.unwrap_err();
    assert_eq!(twice.code, ErrorCode::DeviceNotFound);
    assert_eq!(world.engine.people().devices(&eve).await.unwrap_err().code, ErrorCode::PersonNotFound);
}

#[tokio::test]
async fn agent_token_authenticates_until_rotated_or_revoked() {
    let world = TestEngine::new().await;
    let phone = world.person("ada").await;
    let made = world.engine.manifests().create_agent(&phone.caller(), super::world::new_agent()).await.unwrap();
    let id = made.account.id.clone();
    let who = async |token: &str| world.engine.accounts().authenticate_agent_token(token).await.unwrap();
    let caller = who(&made.token).await.unwrap();
    assert_eq!(
        (caller.principal, caller.authentication),
        (Principal::Agent(id.clone()), AuthenticationMethod::AgentToken)
    );
    let other = if made.token.ends_with('x') { 'y' } else { 'x' };
    let almost = format!("{}{other}", &made.token[..made.token.len() - 1]);
    for nobody in ["", "hsk_", "nk_abc", &made.token[..20], &almost, &format!("{} ", made.token), &"h".repeat(100_000)]
    {
        assert_eq!(who(nobody).await, None);
    }
    let (account, rotated) = world.engine.accounts().rotate_agent_token(&phone.caller(), &id).await.unwrap();
    assert!(rotated.starts_with(&account.token.unwrap().prefix));
    assert_eq!(who(&made.token).await, None);
    assert!(who(&rotated).await.is_some());
    let eve = world.person("eve").await;
    assert_eq!(
        world.engine.accounts().rotate_agent_token(&eve.caller(), &id).await.unwrap_err().code,
        ErrorCode::NotOwner
    );
    world.engine.accounts().revoke_agent_token(&phone.caller(), &id).await.unwrap();
    assert_eq!(who(&rotated).await, None);
    let events: Vec<_> = world.records().await.into_iter().map(|record| record.event).collect();
    assert!(events.ends_with(&[AuditEvent::TokenRevoked]) && events.contains(&AuditEvent::TokenRotated));
}

#[tokio::test]
async fn login_signature_from_before_a_restore_is_refused() {
    let world = TestEngine::new().await;
    let phone = world.person("ada").await;
    let older = assertion(&world, &phone, "nonce-number-one");
    world.clock.advance(Duration::from_secs(1));
    let restored = world.clock.now().as_millis().to_string();
    let entry = StoreInfoChange::Put { name: info::SIGNATURES_SINCE.to_owned(), value: restored };
    world.store.commit(vec![entry.into()]).await.unwrap();
    let world = world.restarted().await;
    let signed = |one: &DeviceAssertion| sign(&phone.pair, &one.message());
    let refused = world.engine.people().assert_device(&older, &signed(&older), HERE).await.unwrap_err();
    assert_eq!((refused.code, refused.message.contains("was sent before")), (ErrorCode::DeviceRefused, true));
    let newer = assertion(&world, &phone, "nonce-number-two");
    world.engine.people().assert_device(&newer, &signed(&newer), HERE).await.unwrap();
}

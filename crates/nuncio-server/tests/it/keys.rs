//! Expiry and rotation of keys.

use std::time::Duration;

use nuncio_core::ErrorCode;
use nuncio_core::audit::AuditEvent;
use nuncio_core::grant::KeyScopes;
use nuncio_core::ids::ScopeId;
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::access::NewApiKeyRequest;
use nuncio_engine::ports::Clock as _;
use nuncio_engine::ports::store::{KeyExpiry, KeyRole};
use nuncio_server::admin::{AdminCommand, KeyCreationCommand, KeyRotationCommand, this_account};
use nuncio_server::settings::LoopbackAccess;
use nuncio_testkit::{AapClient, Gateway, ManualClock};
use serde_json::{Value, json};

use crate::agents::{DESK, call, call_once, count, desk, messages, result_of, scope, tool};

const HOUR: Duration = Duration::from_secs(3600);

fn agent() -> String {
    let skill = "skill = { type = \"task\", access = \"public\", auth = \"api_key\", method = \"GET\" }";
    desk(&[scope("notes:write", "medium"), count("scope = \"notes:write\""), tool("found", "printf found", skill)])
}

async fn start(clock: &ManualClock) -> Gateway {
    Gateway::builder().agent(DESK, &agent()).clock(clock).start().await
}

/// Creates a key by an operator's command; the result holds its id and secret.
async fn create(gateway: &Gateway, name: &str, scopes: &[&str], term: Option<KeyExpiry>) -> Value {
    let scopes = scopes.iter().map(|scope| ScopeId::parse(scope).unwrap()).collect();
    let order = AdminCommand::KeyCreate(KeyCreationCommand {
        name: Some(name.to_owned()),
        person: None,
        scopes,
        signing: false,
        operator: false,
        term,
    });
    gateway.order(order).await.unwrap()
}

fn rotate(which: &str) -> AdminCommand {
    AdminCommand::KeyRotate(KeyRotationCommand { which: which.to_owned(), term: None, overlap_seconds: 0 })
}

fn client(gateway: &Gateway, key: &Value) -> AapClient {
    gateway.aap_with_key(key["key"].as_str().unwrap())
}

/// Status and error code of a request with the given key.
async fn asked(gateway: &Gateway, key: &Value) -> (u16, String) {
    let (status, body) = client(gateway, key).get("/sessions").await;
    (status, body["code"].as_str().unwrap_or_default().to_owned())
}

fn ok() -> (u16, String) {
    (200, String::new())
}

fn refused(code: &str) -> (u16, String) {
    (401, code.to_owned())
}

#[tokio::test]
async fn expired_key_is_refused_and_requests_without_a_key_stay_refused() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let key = create(&gateway, "app", &[], Some(KeyExpiry::Seconds(3600))).await;
    let end = clock.now().after(HOUR).to_string();
    assert_eq!(key["expires_at"], end.as_str());
    let session = client(&gateway, &key).session(DESK, &[]).await;
    clock.advance(HOUR - Duration::from_millis(1));
    assert_eq!(asked(&gateway, &key).await, ok(), "the key is valid until its end");

    clock.advance(Duration::from_millis(1));
    assert_eq!(asked(&gateway, &key).await, refused("key_expired"));
    let (status, body) = client(&gateway, &key).get(&format!("/sessions/{session}")).await;
    assert_eq!(status, 401);
    assert!(body["error"].as_str().unwrap().contains(&end), "the message contains the end time: {body}");
    assert_eq!(client(&gateway, &key).get("/meta").await.0, 200, "a public document");
    assert_eq!(gateway.aap().get("/sessions").await.0, 401, "an expired key keeps the server closed");
    let bearer = format!("Bearer {}", key["key"].as_str().unwrap());
    for path in ["/metrics", "/a2h/users/me"] {
        let head =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {bearer}\r\nConnection: close\r\n\r\n");
        let answer = gateway.raw(head).await.unwrap();
        assert_eq!(answer.status, 401, "{path}: {answer:?}");
        assert!(answer.body.to_ascii_lowercase().contains("key_expired"), "{path}: {answer:?}");
    }
    let head = format!(
        "GET /skills/{DESK}/found/invoke HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {}\r\nConnection: close\r\n\r\n",
        key["key"].as_str().unwrap()
    );
    let invoked = gateway.raw(head).await.unwrap();
    assert_eq!(invoked.status, 401, "{invoked:?}");
    let error = &invoked.json()["error"];
    assert_eq!(
        (&error["code"], &error["details"]["reason"]),
        (&json!("AUTH_REQUIRED"), &json!("key_expired")),
        "{error}"
    );
    let listed = gateway.order(AdminCommand::KeyList).await.unwrap();
    assert_eq!((&listed["keys"][0]["expires_at"], &listed["keys"][0]["revoked_at"]), (&json!(end), &Value::Null));

    // A restart does not open the server either.
    let data = gateway.stop().await;
    let next = Gateway::builder().agent(DESK, &agent()).data(data).clock(&clock).start().await;
    assert_eq!(asked(&next, &key).await, refused("key_expired"));
    assert_eq!(next.aap().get("/sessions").await.0, 401);
}

#[tokio::test]
async fn expired_key_is_refused_on_an_open_loopback_server() {
    let clock = ManualClock::new();
    let builder = Gateway::builder().agent(DESK, &agent()).clock(&clock);
    let gateway = builder.settings(|settings| settings.access.loopback = Some(LoopbackAccess::Open)).start().await;
    let key = create(&gateway, "app", &[], Some(KeyExpiry::Seconds(3600))).await;
    clock.advance(HOUR);
    assert_eq!(asked(&gateway, &key).await, refused("key_expired"), "the request does not count as local");
    assert_eq!(gateway.aap().get("/sessions").await.0, 200);
}

#[tokio::test]
async fn running_turn_loses_the_scopes_of_an_expired_key() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let key = create(&gateway, "app", &[], Some(KeyExpiry::Seconds(60))).await;
    let aap = client(&gateway, &key);
    let session = aap.session(DESK, &[("count", true)]).await;
    let script = json!([[{"sleep": 60_000}, call("c1", "count", json!({}))], [{"text": "done"}]]);
    let mut stream = aap.stream(&session, "message", script).await;
    stream.up_to("turn_start").await;
    clock.pass(Duration::from_secs(60)).await;
    let events = stream.rest().await;
    let said = events.iter().map(|event| event.data.to_string()).collect::<String>();
    assert!(said.contains("notes:write has not been granted"), "{said}");
}

#[tokio::test]
async fn key_with_an_expiry_in_the_past_is_not_created() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let now = clock.now();
    for term in [KeyExpiry::Seconds(0), KeyExpiry::Until(now), KeyExpiry::Until(Timestamp::from_millis(0))] {
        let order = AdminCommand::KeyCreate(KeyCreationCommand {
            name: None,
            person: None,
            scopes: Vec::new(),
            signing: false,
            operator: false,
            term: Some(term),
        });
        let error = gateway.order(order).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::BadRequest, "{term:?}");
        assert!(error.message.contains("--expires"), "the message names the flag: {}", error.message);
    }
    assert_eq!(gateway.order(AdminCommand::KeyList).await.unwrap()["keys"], json!([]));
    assert_eq!(gateway.aap().get("/sessions").await.0, 200, "without keys the server is open to this machine");
}

#[tokio::test]
async fn rotated_key_keeps_its_grants_and_its_old_secret_is_refused() {
    let gateway = start(&ManualClock::new()).await;
    let old = create(&gateway, "app", &["console:tasks"], None).await;
    let id = old["id"].as_str().unwrap();
    let grant = AdminCommand::GrantCreate {
        principal: Principal::try_from(format!("key:{id}")).unwrap(),
        agent: nuncio_core::ids::AgentName::parse(DESK).unwrap(),
        scopes: vec![ScopeId::parse("notes:write").unwrap()],
        until: None,
        once: false,
    };
    gateway.order(grant).await.unwrap();
    let session = client(&gateway, &old).session(DESK, &[("count", true)]).await;

    let new = gateway.order(rotate("app")).await.unwrap();
    assert_ne!(new["key"], old["key"]);
    for same in ["id", "name", "kind", "scopes", "role", "person", "created_at", "expires_at"] {
        assert_eq!(new[same], old[same], "{same}");
    }
    assert!(new["rotated_at"].is_string() && new["previous"].is_null(), "{new}");
    assert_eq!(asked(&gateway, &old).await, refused("unauthorized"));
    let answer = client(&gateway, &new).play(&session, call_once("c1", "count", json!({}))).await;
    assert_eq!(result_of(messages(&answer), "c1"), "counted", "the new key keeps session and grant");

    let again = gateway.order(rotate(id)).await.unwrap();
    assert_eq!(asked(&gateway, &new).await, refused("unauthorized"));
    assert_eq!(asked(&gateway, &again).await, ok());
    let listed = gateway.order(AdminCommand::KeyList).await.unwrap();
    assert_eq!(listed["keys"].as_array().unwrap().len(), 1, "it is one key: {listed}");
    for secret in [&old, &new, &again].map(|key| key["key"].as_str().unwrap()) {
        assert!(!listed.to_string().contains(secret));
    }
}

#[tokio::test]
async fn key_rotation_is_recorded_with_the_account_that_ordered_it() {
    let gateway = start(&ManualClock::new()).await;
    let key = create(&gateway, "app", &[], None).await;
    gateway.order(rotate("app")).await.unwrap();
    gateway.order(rotate("nobody")).await.unwrap_err();
    let records = gateway.audit_events().await;
    let rotations: Vec<_> = records.iter().filter(|record| record.action.as_deref() == Some("key_rotate")).collect();
    let states: Vec<_> =
        rotations.iter().map(|record| (record.event, record.subject.as_deref().unwrap_or_default())).collect();
    let id = key["id"].as_str().unwrap();
    assert_eq!(
        states,
        [
            (AuditEvent::OperatorOrdered, "app"),
            (AuditEvent::OperatorOrderDone, id),
            (AuditEvent::OperatorOrdered, "nobody"),
            (AuditEvent::OperatorOrderFailed, "nobody"),
        ]
    );
    let by = this_account();
    assert!(rotations.iter().all(|record| record.by == by.principal && record.account == by.account));
}

/// Rotates the key `app`, whose previous secret stays valid for an hour.
fn rotate_command_with_overlap() -> AdminCommand {
    AdminCommand::KeyRotate(KeyRotationCommand { which: "app".to_owned(), term: None, overlap_seconds: 3600 })
}

#[tokio::test]
async fn old_secret_of_a_rotated_key_is_valid_only_during_the_overlap() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let first = create(&gateway, "app", &[], None).await;
    let second = gateway.order(rotate_command_with_overlap()).await.unwrap();
    assert_eq!(second["previous"], json!({"until": clock.now().after(HOUR)}));
    assert_eq!((asked(&gateway, &first).await, asked(&gateway, &second).await), (ok(), ok()));

    clock.advance(HOUR);
    assert_eq!(asked(&gateway, &first).await, refused("unauthorized"));
    let third = gateway.order(rotate_command_with_overlap()).await.unwrap();
    assert_eq!((asked(&gateway, &second).await, asked(&gateway, &third).await), (ok(), ok()));
    clock.advance(HOUR);
    assert_eq!(asked(&gateway, &second).await, refused("unauthorized"));
    assert_eq!(asked(&gateway, &third).await, ok());

    // Revoking a key invalidates both secrets.
    let fourth = gateway.order(rotate_command_with_overlap()).await.unwrap();
    gateway.order(AdminCommand::KeyRevoke { which: "app".to_owned() }).await.unwrap();
    for key in [&third, &fourth] {
        assert_eq!(asked(&gateway, key).await, refused("unauthorized"));
    }
    assert_eq!(
        gateway.order(rotate("app")).await.unwrap_err().code,
        ErrorCode::KeyNotFound,
        "a revoked key cannot be rotated"
    );
}

#[tokio::test]
async fn second_overlap_is_refused_while_the_first_lasts_and_a_rotation_without_one_ends_both_secrets() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let first = create(&gateway, "app", &[], None).await;
    let second = gateway.order(rotate_command_with_overlap()).await.unwrap();
    let error = gateway.order(rotate_command_with_overlap()).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::BadRequest);
    let until = clock.now().after(HOUR).to_string();
    assert!(error.message.contains(&until) && error.message.contains("without --overlap"), "{}", error.message);
    assert_eq!((asked(&gateway, &first).await, asked(&gateway, &second).await), (ok(), ok()), "nothing has changed");

    let third = gateway.order(rotate("app")).await.unwrap();
    for old in [&first, &second] {
        assert_eq!(asked(&gateway, old).await, refused("unauthorized"));
    }
    assert_eq!(asked(&gateway, &third).await, ok());
}

#[tokio::test]
async fn rotation_overlap_does_not_extend_the_old_secret_beyond_its_expiry() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let old = create(&gateway, "app", &[], Some(KeyExpiry::Seconds(60))).await;
    let end = old["expires_at"].clone();
    let order = AdminCommand::KeyRotate(KeyRotationCommand {
        which: "app".to_owned(),
        term: Some(KeyExpiry::Seconds(7200)),
        overlap_seconds: 3600,
    });
    let new = gateway.order(order).await.unwrap();
    assert_eq!(new["previous"]["until"], end);
    clock.advance(Duration::from_secs(60));
    assert_eq!(asked(&gateway, &old).await, refused("unauthorized"));
    assert_eq!(asked(&gateway, &new).await, ok());
}

#[tokio::test]
async fn key_rotation_renews_a_relative_expiry_and_keeps_an_absolute_one() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let monthly = create(&gateway, "monthly", &[], Some(KeyExpiry::Seconds(3600))).await;
    let end = clock.now().after(HOUR);
    let fixed = create(&gateway, "fixed", &[], Some(KeyExpiry::Until(end))).await;
    let kept = gateway.order(rotate("fixed")).await.unwrap();
    assert_eq!((&kept["expires_at"], &fixed["expires_at"]), (&json!(end), &json!(end)));

    clock.advance(HOUR);
    assert_eq!(asked(&gateway, &monthly).await, refused("key_expired"));
    let renewed = gateway.order(rotate("monthly")).await.unwrap();
    assert_eq!(renewed["expires_at"], json!(clock.now().after(HOUR)));
    assert_eq!(asked(&gateway, &renewed).await, ok());
    assert_eq!(asked(&gateway, &monthly).await, refused("unauthorized"));

    let error = gateway.order(rotate("fixed")).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::BadRequest);
    assert!(error.message.contains("--expires"), "{}", error.message);
    assert_eq!(asked(&gateway, &kept).await, refused("key_expired"), "nothing has changed");
    let order = AdminCommand::KeyRotate(KeyRotationCommand {
        which: "fixed".to_owned(),
        term: Some(KeyExpiry::Seconds(60)),
        overlap_seconds: 3600,
    });
    let renewed = gateway.order(order).await.unwrap();
    assert!(renewed["previous"].is_null(), "an expired secret counts no more, whatever the overlap: {renewed}");
    assert_eq!(asked(&gateway, &renewed).await, ok());
    assert_eq!(asked(&gateway, &kept).await, refused("unauthorized"));
}

#[tokio::test]
async fn rotation_by_an_ambiguous_key_name_changes_nothing() {
    let gateway = start(&ManualClock::new()).await;
    let one = create(&gateway, "app", &[], None).await;
    // Earlier versions created several keys with one name.
    let same_name = NewApiKeyRequest {
        name: Some("app".to_owned()),
        person: None,
        scopes: KeyScopes::All,
        role: KeyRole::App,
        term: None,
    };
    let (_, secret) = gateway.engine().access().create_key(same_name).await.unwrap();
    let two = json!({"key": secret});
    let error = gateway.order(rotate("app")).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::KeyNotFound);
    assert!(error.message.contains("rotate one by its id"), "{}", error.message);
    assert_eq!((asked(&gateway, &one).await, asked(&gateway, &two).await), (ok(), ok()));
}

#[tokio::test]
async fn secrets_of_a_rotated_key_and_their_expiry_survive_a_restart() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let first = create(&gateway, "app", &[], Some(KeyExpiry::Seconds(7200))).await;
    let order = rotate_command_with_overlap();
    let second = gateway.order(order).await.unwrap();
    let data = gateway.stop().await;
    let next = Gateway::builder().agent(DESK, &agent()).data(data).clock(&clock).start().await;
    assert_eq!((asked(&next, &first).await, asked(&next, &second).await), (ok(), ok()));
    clock.advance(HOUR);
    assert_eq!(asked(&next, &first).await, refused("unauthorized"));
    clock.advance(HOUR);
    assert_eq!(asked(&next, &second).await, refused("key_expired"));
}

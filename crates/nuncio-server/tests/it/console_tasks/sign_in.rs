//! Signing in to the console with a key, and the end of sessions.

use std::time::Duration;

use nuncio_core::grant::KeyScopes;
use nuncio_core::ids::{PersonName, ScopeId};
use nuncio_core::principal::Principal;
use nuncio_engine::access::NewApiKeyRequest;
use nuncio_engine::ports::store::KeyExpiry;
use nuncio_server::admin::{AdminCommand, KeyRotationCommand};
use nuncio_testkit::ManualClock;

use super::{InboxBrowser, start};

const IDLE: Duration = Duration::from_secs(12 * 60 * 60);

#[tokio::test]
async fn local_visitor_needs_no_sign_in_while_no_keys_exist() {
    let gateway = start(&ManualClock::new()).await;
    let mut browser = InboxBrowser::of(&gateway);
    assert_eq!(browser.get("/console").await.header("location"), Some("/console/tasks"));
    let inbox = browser.get("/console/tasks").await;
    assert_eq!(inbox.status, 200);
    assert!(inbox.body.contains("No tasks") && !inbox.body.contains("Sign out"), "{}", inbox.body);
    assert_eq!(browser.get("/console/sign-in").await.header("location"), Some("/console/tasks"));

    gateway.key(&[]).await;
    let answer = browser.get("/console/tasks").await;
    assert_eq!((answer.status, answer.header("location")), (303, Some("/console/sign-in?next=/console/tasks")));
}

#[tokio::test]
async fn sign_in_cookie_is_http_only_strict_secure_over_tls_and_without_the_key() {
    let gateway = start(&ManualClock::new()).await;
    let key = gateway.key(&["console:tasks"]).await;
    let mut browser = InboxBrowser::of(&gateway);
    let page = browser.get("/console/sign-in?next=/console/tasks/task_1").await;
    assert!(page.status == 200 && page.body.contains("/console/tasks/task_1"), "{}", page.body);
    let form = [("key", key.secret.as_str()), ("next", "/console/tasks/task_1")];
    let answer = browser.post("/console/sign-in", &form).await;
    assert_eq!((answer.status, answer.header("location")), (303, Some("/console/tasks/task_1")));
    let cookie = answer.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/console"] {
        assert!(cookie.split("; ").any(|it| it == part), "{part} in {cookie}");
    }
    assert!(!cookie.contains(&key.secret) && !cookie.contains("Secure"), "{cookie}");
    let inbox = browser.get("/console/tasks").await;
    assert!(inbox.status == 200 && inbox.body.contains("Sign out") && !inbox.body.contains(&key.secret));

    browser.says[0].1 = format!("https://{}", gateway.address());
    let by_tls = browser.post("/console/sign-in", &form).await;
    assert!(by_tls.header("set-cookie").unwrap().ends_with("; Secure"), "{by_tls:?}");
}

#[tokio::test]
async fn visitor_is_shown_by_person_name_then_key_name_then_key_id() {
    let gateway = start(&ManualClock::new()).await;
    let make = async |name: Option<&str>, person: Option<&str>| {
        let scopes = KeyScopes::Only(vec![ScopeId::parse("console:tasks").unwrap()]);
        let person = person.map(|person| PersonName::parse(person).unwrap());
        gateway
            .engine()
            .access()
            .create_key(NewApiKeyRequest {
                name: name.map(str::to_owned),
                person,
                scopes,
                role: nuncio_engine::ports::store::KeyRole::App,
                term: None,
            })
            .await
            .unwrap()
    };
    let (ada, bob, nobody) =
        (make(Some("laptop"), Some("ada")).await, make(Some("<b>bob"), None).await, make(None, None).await);
    for ((key, secret), shown) in [(&ada, "ada"), (&bob, "&#60;b&#62;bob"), (&nobody, nobody.0.id.as_str())] {
        let page = InboxBrowser::signed_in(&gateway, secret).await.get("/console/tasks").await.body;
        assert!(page.contains(&format!("</span>{shown}</span>")), "{}: {page}", key.id);
    }
}

#[tokio::test]
async fn wrong_sign_in_key_is_refused_and_delays_its_address() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let key = gateway.key(&[]).await;
    let mut browser = InboxBrowser::of(&gateway);
    let empty = browser.post("/console/sign-in", &[("key", " ")]).await;
    assert!(empty.status == 422 && empty.body.contains("Enter a key."), "{empty:?}");
    for _ in 0..11 {
        let wrong = browser.post("/console/sign-in", &[("key", "nk_wrong<b>")]).await;
        assert_eq!(wrong.status, 401);
        assert!(wrong.body.contains("This key is not valid.") && !wrong.body.contains("nk_wrong"), "{}", wrong.body);
        assert_eq!(wrong.header("set-cookie"), None);
    }
    for tried in ["nk_wrong", &key.secret] {
        let refused = browser.post("/console/sign-in", &[("key", tried)]).await;
        assert_eq!((refused.status, refused.header("retry-after")), (429, Some("3")));
        assert_eq!(refused.header("set-cookie"), None);
    }
    clock.advance(Duration::from_secs(2));
    InboxBrowser::signed_in(&gateway, &key.secret).await;
}

#[tokio::test]
async fn key_without_the_inbox_scope_or_for_signing_cannot_sign_in() {
    let gateway = start(&ManualClock::new()).await;
    let (key, signing) = (
        gateway.key(&["rooms:read"]).await,
        NewApiKeyRequest {
            name: None,
            person: None,
            scopes: KeyScopes::All,
            role: nuncio_engine::ports::store::KeyRole::App,
            term: None,
        },
    );
    let mut browser = InboxBrowser::of(&gateway);
    let answer = browser.post("/console/sign-in", &[("key", &key.secret)]).await;
    assert!(answer.status == 403 && answer.body.contains("<code>console:tasks</code>"), "{answer:?}");
    assert_eq!(answer.header("set-cookie"), None);
    assert_eq!(browser.get("/console/tasks").await.status, 303);
    // A signing key is never sent, so it cannot be used to sign in.
    let (_, secret) = gateway.engine().access().create_signing_key(signing).await.unwrap();
    assert_eq!(browser.post("/console/sign-in", &[("key", &secret)]).await.status, 401);
}

#[tokio::test]
async fn sign_in_creates_a_new_session_and_ends_the_previous_one() {
    let gateway = start(&ManualClock::new()).await;
    let key = gateway.key(&[]).await;
    let mut browser = InboxBrowser::of(&gateway);
    let name = format!("nuncio-console-{}", gateway.address().port());
    browser.cookie = Some(format!("{name}=chosen-by-a-stranger"));
    assert_eq!(
        browser.get("/console/tasks").await.status,
        303,
        "a session id that the server did not issue is refused"
    );
    browser.post("/console/sign-in", &[("key", &key.secret)]).await;
    let first = browser.cookie.clone().unwrap();
    assert!(!first.contains("stranger"));
    browser.post("/console/sign-in", &[("key", &key.secret)]).await;
    assert_ne!(browser.cookie.clone().unwrap(), first);
    assert_eq!(browser.get("/console/tasks").await.status, 200);
    browser.cookie = Some(first);
    assert_eq!(browser.get("/console/tasks").await.status, 303);
}

#[tokio::test]
async fn session_ends_on_sign_out_idle_time_and_key_revocation() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let (key, _other) = (gateway.key(&[]).await, gateway.key(&[]).await);
    let mut browser = InboxBrowser::signed_in(&gateway, &key.secret).await;
    let token = browser.token("/console/tasks").await;
    let before = browser.cookie.clone();
    browser.post("/console/sign-out", &[("csrf", "wrong")]).await;
    assert_eq!(browser.get("/console/tasks").await.status, 200, "a request without the CSRF token does not sign out");
    let out = browser.post("/console/sign-out", &[("csrf", &token)]).await;
    assert_eq!((out.status, out.header("location"), &browser.cookie), (303, Some("/console/sign-in"), &None));
    browser.cookie = before;
    assert_eq!(browser.get("/console/tasks").await.status, 303);

    let mut browser = InboxBrowser::signed_in(&gateway, &key.secret).await;
    clock.advance(IDLE - Duration::from_secs(1));
    assert_eq!(browser.get("/console/tasks").await.status, 200);
    clock.advance(IDLE - Duration::from_secs(1));
    // Polling by a page does not extend the session.
    assert_eq!(browser.get("/console/state").await.status, 200);
    clock.advance(Duration::from_secs(1));
    assert_eq!(browser.get("/console/state").await.status, 401);
    assert_eq!(browser.get("/console/tasks").await.status, 303);

    let mut browser = InboxBrowser::signed_in(&gateway, &key.secret).await;
    let Principal::Key(id) = &key.caller.principal else { panic!("the caller of a key is a key principal") };
    gateway.order(AdminCommand::KeyRevoke { which: id.to_string() }).await.unwrap();
    assert_eq!(browser.get("/console/tasks").await.status, 303);
}

#[tokio::test]
async fn session_ends_when_its_secret_is_replaced_or_its_key_expires() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let key = gateway.key(&[]).await;
    let Principal::Key(id) = &key.caller.principal else { panic!("the caller of a key is a key principal") };
    let rotate = |overlap_seconds, term| {
        AdminCommand::KeyRotate(KeyRotationCommand { which: id.to_string(), term, overlap_seconds })
    };
    let mut browser = InboxBrowser::signed_in(&gateway, &key.secret).await;
    let rotated = gateway.order(rotate(0, None)).await.unwrap();
    assert_eq!(browser.get("/console/tasks").await.status, 303, "a session of the old secret must sign in again");

    let mut browser = InboxBrowser::signed_in(&gateway, rotated["key"].as_str().unwrap()).await;
    let rotated = gateway.order(rotate(60, Some(KeyExpiry::Seconds(120)))).await.unwrap();
    assert_eq!(
        browser.get("/console/tasks").await.status,
        200,
        "a session of the old secret is valid during the overlap"
    );
    clock.advance(Duration::from_secs(60));
    assert_eq!(browser.get("/console/tasks").await.status, 303);

    let mut browser = InboxBrowser::signed_in(&gateway, rotated["key"].as_str().unwrap()).await;
    clock.advance(Duration::from_secs(60));
    assert_eq!(browser.get("/console/tasks").await.status, 303, "the key has expired");
}

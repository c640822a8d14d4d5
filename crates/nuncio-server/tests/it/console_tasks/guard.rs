//! Protection of the console against cross-site requests, missing tokens and oversized forms.

use nuncio_core::task::TaskState;
use nuncio_testkit::{Gateway, ManualClock};

use super::{InboxBrowser, WEIGH, ask, place, start, state};
use crate::agents::{DESK, desk};

#[tokio::test]
async fn form_without_a_valid_csrf_token_changes_nothing_and_keeps_typed_text() {
    let gateway = start(&ManualClock::new()).await;
    let (task, _turn) = ask(&gateway, &gateway.aap(), "B7").await;
    let mut local = InboxBrowser::of(&gateway);
    local.step(&task, "take", &[]).await;
    let key = gateway.key(&[]).await;
    let (mut ada, mut eve) =
        (InboxBrowser::signed_in(&gateway, &key.secret).await, InboxBrowser::signed_in(&gateway, &key.secret).await);
    ada.step(&task, "take", &[("over", "yes")]).await;
    let before = state(&gateway, &task).await;
    let others = eve.token("/console/tasks").await;
    for (deed, form) in
        [("take", vec![]), ("give-back", vec![]), ("refuse", vec![("reason", "no")]), ("finish", vec![("f/kg", "2.5")])]
    {
        for token in [None, Some(""), Some("wrong"), Some(others.as_str())] {
            let sent: Vec<_> = token.map(|token| ("csrf", token)).into_iter().chain(form.clone()).collect();
            let answer = ada.post(&format!("{}/{deed}", place(&task)), &sent).await;
            assert_eq!(answer.status, 403, "{deed} {token:?}");
            assert!(answer.body.contains("this page has expired"), "{}", answer.body);
            assert_eq!(answer.body.contains("value=\"2.5\""), deed == "finish");
        }
    }
    assert_eq!(state(&gateway, &task).await, before);
}

#[tokio::test]
async fn cross_origin_form_post_is_refused() {
    let gateway = start(&ManualClock::new()).await;
    let (task, _turn) = ask(&gateway, &gateway.aap(), "B7").await;
    let key = gateway.key(&[]).await;
    let mut browser = InboxBrowser::signed_in(&gateway, &key.secret).await;
    let token = browser.token(&place(&task)).await;
    let own = format!("http://{}", gateway.address());
    let elsewhere: [&[(&'static str, &str)]; 7] = [
        &[],
        &[("Origin", "https://evil.example")],
        &[("Origin", "null")],
        &[("Origin", "http://localhost:1")],
        &[("Origin", &own), ("Sec-Fetch-Site", "cross-site")],
        &[("Origin", &own), ("Sec-Fetch-Site", "same-site")],
        &[("Sec-Fetch-Site", "none")],
    ];
    for says in elsewhere {
        browser.says = says.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        for (path, form) in [
            (format!("{}/take", place(&task)), ("csrf", token.as_str())),
            ("/console/sign-out".to_owned(), ("csrf", token.as_str())),
            ("/console/sign-in".to_owned(), ("key", key.secret.as_str())),
        ] {
            let answer = browser.post(&path, &[form]).await;
            assert_eq!((answer.status, answer.header("set-cookie")), (403, None), "{path} {says:?}");
        }
    }
    assert_eq!(state(&gateway, &task).await, TaskState::Open);
    browser.says = vec![("Origin", own)];
    assert_eq!(browser.post(&format!("{}/take", place(&task)), &[("csrf", &token)]).await.status, 303);
}

#[tokio::test]
async fn session_cookie_is_ignored_on_requests_that_no_own_page_sent() {
    let gateway = start(&ManualClock::new()).await;
    let (task, _turn) = ask(&gateway, &gateway.aap(), "secret shelf").await;
    let key = gateway.key(&[]).await;
    let mut browser = InboxBrowser::signed_in(&gateway, &key.secret).await;
    let token = browser.token(&place(&task)).await;
    let (own, shown) = (browser.says.clone(), place(&task));
    for says in
        [vec![], vec![("Sec-Fetch-Site", "cross-site".to_owned())], vec![("Sec-Fetch-Site", "same-site".to_owned())]]
    {
        browser.says = says.clone();
        for path in [shown.as_str(), "/console/tasks"] {
            let page = browser.get(path).await;
            assert!(!page.body.contains("secret shelf") && !page.body.contains("csrf"), "{says:?} {path}: {page:?}");
        }
        assert_eq!(browser.get("/console/state").await.status, 401, "{says:?}");
        assert_eq!(browser.post(&format!("{shown}/take"), &[("csrf", &token)]).await.status, 403, "{says:?}");
    }
    assert_eq!(state(&gateway, &task).await, TaskState::Open);
    browser.says = own;
    assert!(browser.get(&shown).await.body.contains("secret shelf"), "the session is still there");
}

#[tokio::test]
async fn foreign_origin_cannot_use_the_console_of_a_loopback_server() {
    let gateway = start(&ManualClock::new()).await;
    let (task, _turn) = ask(&gateway, &gateway.aap(), "B7").await;
    let mut browser = InboxBrowser::of(&gateway);
    let token = browser.token(&place(&task)).await;
    browser.says = vec![("Origin", "https://evil.example".to_owned())];
    assert_eq!(browser.post(&format!("{}/take", place(&task)), &[("csrf", &token)]).await.status, 403);
    assert_eq!(state(&gateway, &task).await, TaskState::Open);
}

#[tokio::test]
async fn inbox_requires_sign_in_even_on_a_server_open_to_the_network() {
    let gateway = Gateway::builder().agent(DESK, &desk(&[WEIGH.to_owned()])).open_to_anyone().start().await;
    let aap = gateway.key(&[]).await.aap;
    let (task, _turn) = ask(&gateway, &aap, "secret shelf").await;
    // A server that is open to the network still requires a sign-in for the inbox.
    let mut stranger = InboxBrowser::of(&gateway);
    let next = format!("/console/sign-in?next={}", place(&task));
    let shown = stranger.get(&place(&task)).await;
    assert_eq!((shown.status, shown.header("location")), (303, Some(next.as_str())));
    assert_eq!(stranger.get("/console/tasks").await.status, 303);
    for deed in ["take", "finish", "refuse", "give-back"] {
        let answer = stranger.post(&format!("{}/{deed}", place(&task)), &[("csrf", ""), ("f/kg", "1")]).await;
        assert_eq!((answer.status, answer.header("location")), (303, Some(next.as_str())), "{deed}");
    }
    let asked = stranger.get(&format!("/console/state?task={}", task.id)).await;
    assert_eq!((asked.status, asked.body.contains("version")), (401, false));
    let page = stranger.get("/").await.body;
    assert!(!page.contains("secret shelf") && !page.contains("class=\"count\""), "{page}");
    assert_eq!(state(&gateway, &task).await, TaskState::Open);
}

#[tokio::test]
async fn page_opened_by_a_cross_site_link_is_reloaded_from_the_own_origin() {
    let gateway = start(&ManualClock::new()).await;
    let key = gateway.key(&[]).await;
    let mut browser = InboxBrowser::signed_in(&gateway, &key.secret).await;
    let cookie = browser.cookie.take();
    browser.says = vec![("Sec-Fetch-Site", "cross-site".to_owned()), ("Sec-Fetch-Mode", "navigate".to_owned())];
    let between = browser.get("/console/tasks/task_1").await;
    assert_eq!(between.status, 200);
    assert!(
        between.body.contains("http-equiv=\"refresh\" content=\"0; url=/console/tasks/task_1\""),
        "{}",
        between.body
    );
    browser.says = vec![("Sec-Fetch-Site", "same-origin".to_owned())];
    assert_eq!(browser.get("/console/tasks").await.status, 303, "without a cookie the page requires a key");
    browser.cookie = cookie;
    assert_eq!(browser.get("/console/tasks").await.status, 200);
}

#[tokio::test]
async fn inbox_pages_send_strict_security_headers_and_are_not_cached() {
    let gateway = start(&ManualClock::new()).await;
    let (task, _turn) = ask(&gateway, &gateway.aap(), "B7").await;
    let mut browser = InboxBrowser::of(&gateway);
    let (shown, posted) = (place(&task), format!("{}/finish", place(&task)));
    let pages = [
        browser.get("/console/tasks").await,
        browser.get(&shown).await,
        browser.get("/console/tasks/task_unknown").await,
        browser.get("/console/state").await,
        browser.post(&posted, &[]).await,
    ];
    for page in pages {
        let policy = page.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.split("; ").any(|directive| directive == part), "{part} in {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(page.header("cache-control"), Some("no-store"));
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(page.header("referrer-policy"), Some("same-origin"));
    }
    assert_eq!(browser.get(&posted).await.header("location"), Some(shown.as_str()));
    assert_eq!(browser.get("/console/tasks/task_unknown").await.status, 404);
    assert_eq!(browser.get("/console/tasks/%3Cscript%3E").await.status, 404);
    assert_eq!(browser.post(&format!("{shown}/explode"), &[]).await.status, 404);
}

#[tokio::test]
async fn malformed_or_oversized_form_is_refused() {
    let gateway = start(&ManualClock::new()).await;
    let (task, _turn) = ask(&gateway, &gateway.aap(), "B7").await;
    let mut browser = InboxBrowser::of(&gateway);
    let path = format!("{}/finish", place(&task));
    let json = browser.send("POST", &path, "Content-Type: application/json\r\n", "{\"csrf\": 1}").await;
    assert_eq!(json.status, 415);
    let large = "x".repeat(1024 * 1024 + 1);
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    assert_eq!(browser.send("POST", &path, form, &format!("csrf={large}")).await.status, 413);
    assert_eq!(state(&gateway, &task).await, TaskState::Open);
}

#[tokio::test]
async fn text_of_callers_and_visitors_is_escaped_on_inbox_pages() {
    let gateway = start(&ManualClock::new()).await;
    let hostile = "<script>alert(1)</script>\"><img src=x>";
    let (task, _turn) = ask(&gateway, &gateway.aap(), hostile).await;
    let mut browser = InboxBrowser::of(&gateway);
    browser.step(&task, "take", &[]).await;
    let shown = browser.get(&place(&task)).await.body;
    let typed = browser.step(&task, "finish", &[("f/kg", hostile), ("f/note", hostile)]).await.body;
    browser.step(&task, "refuse", &[("reason", hostile)]).await;
    let over = browser.get(&place(&task)).await.body;
    for page in [shown, typed, over] {
        assert!(!page.contains("<script>alert") && !page.contains("<img"), "{page}");
        assert!(page.contains("&#60;script&#62;alert(1)"), "{page}");
    }
}

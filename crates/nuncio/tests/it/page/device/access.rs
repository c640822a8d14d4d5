//! Access to the device pages, and refusal of requests from other sites.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use super::*;
use crate::client::builder;

/// Starts another web site, which answers every request with `page`; returns its URL.
fn site(page: String) -> String {
    format!("http://localhost:{}/", recording_site(page).0)
}

fn recording_site(page: String) -> (u16, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let heads = Arc::new(Mutex::new(String::new()));
    let recorded = Arc::clone(&heads);
    std::thread::spawn(move || {
        for mut visitor in listener.incoming().map_while(Result::ok) {
            let mut request = [0; 4096];
            let read = visitor.read(&mut request).unwrap_or(0);
            recorded.lock().unwrap().push_str(&String::from_utf8_lossy(&request[..read]));
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{page}",
                page.len()
            );
            let _ = visitor.write_all(answer.as_bytes());
        }
    });
    (at.port(), heads)
}

#[tokio::test(flavor = "multi_thread")]
async fn device_page_cookie_is_not_sent_to_another_port_of_the_host() {
    let ada = DevicePagesSetup::ada().await;
    let (port, heads) = recording_site("<!doctype html><title>evil</title>".to_owned());
    for path in ["", "agents", "open", "calls/x"] {
        ada.browser.go(&format!("http://127.0.0.1:{port}/{path}")).await;
    }
    let heads = heads.lock().unwrap().clone();
    assert!(heads.contains("GET /calls/x"), "{heads}");
    assert!(!heads.to_ascii_lowercase().contains("cookie:"), "{heads}");
    // The other site does not learn the secret path of the device pages from the referrer either.
    let base = ada.page("");
    let (_, path) = base.rsplit_once('/').unwrap();
    assert!(!heads.contains(path), "{heads}");
    ada.go("/agents").await;
    assert_eq!(ada.browser.eval("document.body.dataset.token !== ''").await, true, "the person is still in");
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_in_link_works_once_and_device_pages_refuse_requests_without_sign_in() {
    let ada = DevicePagesSetup::ada().await;
    let http = builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    assert_eq!(http.get(&ada.link).send().await.unwrap().status(), 403, "the browser used it up");
    // A link preview may fetch the link; the person can still use it.
    let fresh = ada.home.nuncio(&["--json", "device", "open"]).arg("--home").arg(ada.home.path("laptop")).run().json();
    let fresh = fresh["url"].as_str().unwrap().to_owned();
    for request in [http.get(&fresh), http.head(&fresh), http.get(&fresh)] {
        let shown = request.send().await.unwrap();
        assert_eq!((shown.status().as_u16(), shown.headers().contains_key("set-cookie")), (200, false));
    }
    let other = Browser::open(BrowserSettings::default()).await;
    for (language, width, dark) in [("en", 1280, false), ("zh-CN", 1280, true), ("zh-CN", 360, false)] {
        other.go(&format!("{fresh}&lang={language}")).await;
        other.look(BrowserSettings { width, dark, ..BrowserSettings::default() }).await;
        let what = format!("open-{language}-{width}");
        accessible(&other, &what).await;
        save_screenshot(&other, &what).await;
    }
    open_pages(&other, &fresh).await;
    assert_eq!(other.eval("document.body.dataset.token !== ''").await, true);
    for path in ["", "/calls", "/events", "/agents", "/agents/script", "/nothing"] {
        let answer = http.get(ada.page(path)).send().await.unwrap();
        assert_eq!(answer.status(), 401, "{path}");
        assert!(answer.headers()["content-security-policy"].to_str().unwrap().contains("default-src 'none'"));
        assert_eq!(answer.headers()["cache-control"], "no-store");
        assert!(!answer.text().await.unwrap().contains("ada"), "{path} says whose it is");
    }
    // A host name that resolves to this address is refused (DNS rebinding).
    let port = ada.page("").rsplit(':').next().unwrap().split('/').next().unwrap().to_owned();
    for host in
        ["evil.example".to_owned(), format!("evil.example:{port}"), "localhost:1".to_owned(), "127.0.0.1".to_owned()]
    {
        let answer = http.get(ada.page("")).header("host", &host).send().await.unwrap();
        assert_eq!(answer.status(), 421, "{host}");
    }
    // After the pages are locked, a new link is needed.
    ada.browser.click(".who button").await;
    ada.browser.until("document.querySelector('h1').innerText === 'These pages are locked now'").await;
    ada.go("/").await;
    assert_eq!(ada.browser.eval("document.querySelector('h1').innerText").await, "These pages are locked");
    save_screenshot(&ada.browser, "locked").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cross_site_page_cannot_approve_a_call() {
    let ada = DevicePagesSetup::ada().await;
    ada.allow(&["location:read"]).await;
    ada.go("/calls").await;
    let answer = ada.calls("c1", "where_am_i", json!({}));
    let waiting = until("the call waits", async || {
        ada.go("/calls").await;
        let text = ada.browser.eval("document.body.innerText").await;
        let waiting: Value = serde_json::from_str(text.as_str().unwrap()).unwrap_or_default();
        waiting[0]["id"].as_str().map(str::to_owned)
    })
    .await;
    // The other site knows the id of the call, and the browser has the session cookie.
    let (device, call) = (ada.page(""), ada.page(&format!("/calls/{waiting}")));
    let page = format!(
        "<!doctype html><title>evil</title><form id=f method=post action='{call}' target=hidden>\
         <input name=answer value=allow><input name=csrf value=x></form><iframe name=hidden></iframe>\
         <iframe src='{device}'></iframe><script>\
         window.done = [];\
         const tell = name => it => window.done.push(name + ' ' + (it.status ?? it));\
         const body = new URLSearchParams({{answer: 'allow', csrf: 'x'}});\
         fetch('{call}', {{method: 'POST', body, credentials: 'include', mode: 'no-cors'}}).then(tell('post'), tell('post'));\
         fetch('{device}/calls', {{credentials: 'include'}}).then(it => it.text()).then(tell('read'), tell('read'));\
         new EventSource('{device}/events', {{withCredentials: true}}).onerror = tell('events');\
         document.getElementById('f').submit();\
         </script>"
    );
    let evil = site(page);
    ada.browser.go(&evil).await;
    ada.browser.until("window.done.length >= 3").await;
    let done = ada.browser.eval("window.done.join('\\n')").await;
    assert!(done.as_str().unwrap().contains("read TypeError"), "another site reads nothing: {done}");
    // A form post with the headers of another site is refused.
    let http = builder().build().unwrap();
    for (name, value) in
        [("origin", evil.trim_end_matches('/')), ("sec-fetch-site", "cross-site"), ("sec-fetch-site", "same-site")]
    {
        let posted = http
            .post(&call)
            .header(name, value)
            .header("content-type", "application/x-www-form-urlencoded")
            .body("answer=allow")
            .send()
            .await
            .unwrap();
        assert_eq!(posted.status(), 403, "{name}: {value}");
    }
    let answer = answer.await.unwrap();
    assert!(answer.contains("did not answer in time"), "the call was not approved: {answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn form_posts_with_a_wrong_token_content_type_or_field_are_refused() {
    let ada = DevicePagesSetup::ada().await;
    ada.go("/").await;
    let token = ada.browser.eval("document.body.dataset.token").await;
    let status = async |path: &str, body: &str, kind: &str| {
        let script = format!(
            "const done = arguments[0]; fetch(document.body.dataset.base + {path:?}, {{method: 'POST', body: {body:?}, headers: {{'content-type': {kind:?}}}}})\
             .then(it => done(it.status), it => done(String(it)))"
        );
        ada.browser.run_async(&script).await
    };
    let token = token.as_str().unwrap();
    const FORM: &str = "application/x-www-form-urlencoded";
    for (path, body, kind, expected) in [
        ("/calls/x", "answer=allow".to_owned(), FORM, 403),
        ("/calls/x", "csrf=wrong&answer=allow".to_owned(), FORM, 403),
        ("/calls/x", format!("csrf={token}&answer=allow"), "application/json", 415),
        ("/calls/x", format!("csrf={token}"), FORM, 422),
        ("/calls/x", format!("csrf={token}&answer=yes"), FORM, 422),
        ("/calls/x", format!("csrf={token}&answer=allow"), FORM, 410),
        ("/agents/no such/allow", format!("csrf={token}"), FORM, 404),
        ("/agents/agt_none/revoke", format!("csrf={token}"), FORM, 502),
    ] {
        assert_eq!(status(path, &body, kind).await, expected, "{path} {body} {kind}");
    }
    let huge = format!("csrf={token}&answer={}", "x".repeat(1_100_000));
    assert_eq!(status("/calls/x", &huge, FORM).await, 413);
}

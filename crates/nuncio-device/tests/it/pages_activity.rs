//! Tests of the pages of the audit log and of the devices over HTTP, and of their access control.

use std::net::SocketAddr;
use std::sync::Arc;

use nuncio_core::digest::{Digest, canonical};
use nuncio_core::invite_link::InviteLink;
use nuncio_device::guard::SensitivityFloors;
use nuncio_device::pages::{SecretPagesPath, SharedPagesState, serve};
use nuncio_device::prompt::PromptAnswer;
use nuncio_engine::ports::Clock as _;
use nuncio_server::SystemEntropy;
use nuncio_testkit::{RawHttpResponse, eventually};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::scene::{RelayAndAgentFixture, RunningDevice};

/// Path of a page with the base prefix; the path of the first page is the base itself.
pub(crate) fn below_base(base: &str, path: &str) -> String {
    let rest = path.strip_prefix('/').filter(|rest| !base.is_empty() && (rest.is_empty() || rest.starts_with('?')));
    format!("{base}{}", rest.unwrap_or(path))
}

/// Removes the base prefix that [`below_base`] adds.
pub(crate) fn without_base(base: &str, path: &str) -> String {
    let rest = path.strip_prefix(base).unwrap_or(path);
    if rest.is_empty() || rest.starts_with('?') { format!("/{rest}") } else { rest.to_owned() }
}

/// HTTP client signed in to the pages of a device. Paths are given and returned without the base prefix.
pub(crate) struct SignedInPagesClient {
    at: SocketAddr,
    base: String,
    cookie: String,
    token: String,
    _stop: DropGuard,
}

impl SignedInPagesClient {
    pub(crate) async fn at(scene: &RelayAndAgentFixture, running: &RunningDevice) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let shared = SharedPagesState::new(Arc::new(scene.clock.clone()), SecretPagesPath::random(&SystemEntropy));
        let link = shared.access.link(at, &SystemEntropy, scene.clock.now());
        let stop = CancellationToken::new();
        tokio::spawn(serve(running.device.clone(), shared, listener, stop.clone()));
        Self::by(&link, at, stop).await
    }

    /// Signs in with a one-time link.
    pub(crate) async fn by(link: &str, at: SocketAddr, stop: CancellationToken) -> Self {
        let (base, link) = link.split_once(&at.to_string()).unwrap().1.split_once("/open").unwrap();
        let (base, _stop) = (base.to_owned(), stop.drop_guard());
        let mut reader = Self { at, base, cookie: String::new(), token: String::new(), _stop };
        let shown = reader.get(&format!("/open{link}")).await;
        let token = shown.body.split("name=\"token\" value=\"").nth(1).unwrap().split('"').next().unwrap();
        let opened = reader.post("/open", &[("token", token)]).await;
        let limit = format!("; Path={};", reader.base);
        assert!(opened.header("set-cookie").unwrap().contains(&limit), "{opened:?}");
        reader.cookie = opened.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        let page = reader.get("/").await;
        reader.token = page.body.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        reader
    }

    pub(crate) async fn send(&self, head: &str, body: &str) -> RawHttpResponse {
        let (method, rest) = head.split_once(' ').unwrap();
        let (path, rest) = rest.split_once(' ').unwrap();
        let head = format!("{method} {} {rest}", below_base(&self.base, path));
        let mut stream = TcpStream::connect(self.at).await.unwrap();
        let request =
            format!("{head}\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", self.at, body.len());
        let _ = stream.write_all(request.as_bytes()).await;
        self.answer(stream).await
    }

    pub(crate) async fn answer(&self, stream: TcpStream) -> RawHttpResponse {
        let mut answer = RawHttpResponse::read(stream).await.unwrap();
        for (_, value) in answer.headers.iter_mut().filter(|(name, _)| name == "location") {
            *value = without_base(&self.base, value);
        }
        answer.body = answer.body.replace(&format!("\"{}/", self.base), "\"/");
        answer
    }

    pub(crate) async fn get(&self, path: &str) -> RawHttpResponse {
        self.send(&format!("GET {path} HTTP/1.1\r\nCookie: {}\r\nSec-Fetch-Site: same-origin", self.cookie), "").await
    }

    /// Sends the start of a `GET` request, without the empty line at its end.
    pub(crate) async fn begin(&self, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.at).await.unwrap();
        let path = below_base(&self.base, path);
        let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n", self.at, self.cookie);
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    /// Submits a form with the session cookie, origin and CSRF token that our own pages send.
    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> RawHttpResponse {
        self.post_as(path, "same-origin", &self.cookie, &self.token, fields).await
    }

    async fn post_as(
        &self,
        path: &str,
        site: &str,
        cookie: &str,
        token: &str,
        fields: &[(&str, &str)],
    ) -> RawHttpResponse {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.append_pair("csrf", token).extend_pairs(fields);
        let kind = "Content-Type: application/x-www-form-urlencoded";
        let head = format!("POST {path} HTTP/1.1\r\nCookie: {cookie}\r\nSec-Fetch-Site: {site}\r\n{kind}");
        self.send(&head, &form.finish()).await
    }
}

/// Text of each audit entry on a page.
fn entries(page: &RawHttpResponse) -> Vec<String> {
    assert_eq!(page.status, 200, "{}", page.body);
    page.body.split("<li class=\"entry").skip(1).map(|part| words(part.split("<details>").next().unwrap())).collect()
}

/// Text of a piece of HTML without its markup.
fn words(html: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for c in html.split_once('>').unwrap().1.chars() {
        match c {
            '<' => inside = true,
            '>' => inside = false,
            c if !inside => out.push(c),
            _ => {}
        }
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Waits until the audit log has `count` entries.
async fn happened(running: &RunningDevice, count: usize) {
    eventually("it is written down", async || (running.device.audit().entries().unwrap().len() == count).then_some(()))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_page_lists_calls_newest_first_and_filters_them() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["filesystem:read", "notification:send"]).await;
    let reader = SignedInPagesClient::at(&scene, &ada).await;
    let empty = reader.get("/happened").await;
    assert!(empty.body.contains("No entries yet"), "{}", empty.body);

    scene.call("tell", json!({})).await.unwrap();
    ada.prompt.will_say(&[PromptAnswer::No]);
    scene.call("read_file", json!({"path": "a"})).await.unwrap_err();
    scene.call("where", json!({})).await.unwrap_err();
    scene.call("tell", json!({"path": "broken"})).await.unwrap_err();
    scene.call("tell", json!({"nonsense": 1})).await.unwrap_err();
    ada.prompt.will_say(&[PromptAnswer::Yes]);
    scene.call("read_file", json!({"path": "b"})).await.unwrap();
    happened(&ada, 6).await;

    let page = reader.get("/happened").await;
    assert!(page.body.contains("6 entries, verified just now"));
    let all = entries(&page);
    let expect = [
        ("Notes ran read_file", "Ran You were asked and agreed."),
        ("Notes wanted to run tell", "Failed The arguments are not valid. Nothing ran. You were not asked."),
        ("Notes wanted to run tell", "Failed It failed on this device. It may have had an effect. You were not"),
        ("Notes wanted to run where", "Refused You have not granted this permission. You were not asked."),
        ("Notes wanted to run read_file", "Refused You denied it. You were asked."),
        ("Notes ran tell", "Ran You were not asked."),
    ];
    assert_eq!(all.len(), expect.len(), "{all:?}");
    for (entry, (title, what)) in all.iter().zip(expect) {
        assert!(entry.starts_with(title) && entry.contains(what), "{entry} is not {title} {what}");
    }
    assert!(all[0].contains("filesystem:read"), "{}", all[0]);

    let count = async |query: &str| entries(&reader.get(&format!("/happened?{query}")).await).len();
    assert_eq!(count(&format!("agent={}", scene.id)).await, 6);
    assert_eq!(count("agent=agt_other").await, 0);
    assert_eq!(count("outcome=denied").await, 2);
    assert_eq!(count("outcome=error&scope=notification%3Asend").await, 2);
    assert_eq!(count("scope=location%3Aread").await, 1);
    assert_eq!(count("before=3").await, 2);
    let today = scene.clock.now().to_string()[..10].to_owned();
    assert_eq!(count(&format!("day={today}")).await, 6);
    assert_eq!(count("day=1999-01-01&offset=60").await, 0);
    let narrow = reader.get("/happened?outcome=denied&lang=zh-CN").await;
    assert!(narrow.body.contains("href=\"/happened?outcome=denied&#38;lang=en\""), "{}", narrow.body);
    assert!(narrow.body.contains("符合条件的有 2 条。") && narrow.body.contains("你拒绝了。"), "{}", narrow.body);
    assert!(narrow.body.contains("<option value=\"denied\" selected>"), "what was chosen stays chosen");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_agent_name_is_shown_on_the_audit_page_as_one_short_line_of_text() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    let reader = SignedInPagesClient::at(&scene, &ada).await;
    scene.call("tell", json!({})).await.unwrap();
    happened(&ada, 1).await;
    let record = format!("device/agent/{}", scene.id);
    let known: Value = serde_json::from_slice(&ada.key_store().load(&record).unwrap().unwrap()).unwrap();
    let id = scene.id.to_string();
    let long = "x".repeat(10_000);
    for (name, shown) in [
        ("<script>alert(1)</script>", "&#60;script&#62;alert(1)&#60;/script&#62; ran tell".to_owned()),
        ("{tool}{agent}", "{tool}{agent} ran tell".to_owned()),
        ("a\u{202E}b\nc", "a b c ran tell".to_owned()),
        ("", format!("{id} ran tell")),
        (" \u{2066} ", format!("{id} ran tell")),
        (&long, format!("{}… ran tell", "x".repeat(60))),
    ] {
        let mut known = known.clone();
        known["name"] = json!(name);
        ada.key_store().save(vec![(record.clone(), Some(serde_json::to_vec(&known).unwrap()))]).unwrap();
        let page = reader.get("/happened").await;
        let entry = &entries(&page)[0];
        assert!(entry.starts_with(&shown), "{name:?} is shown as {entry}");
        assert!(!page.body.contains("<script>alert"), "{name:?}");
        assert!(page.body.len() < 20_000, "{name:?}: {}", page.body.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn page_of_older_audit_entries_does_not_shift_when_an_entry_is_added() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    let reader = SignedInPagesClient::at(&scene, &ada).await;
    for _ in 0..53 {
        scene.call("tell", json!({})).await.unwrap();
    }
    happened(&ada, 53).await;
    let first = reader.get("/happened?outcome=ok").await;
    assert_eq!(entries(&first).len(), 50);
    let older = first.body.split("rel=\"next\"").next().unwrap().rsplit("href=\"").next().unwrap();
    let older = older.split('"').next().unwrap().replace("&#38;", "&").replace("&amp;", "&");
    assert_eq!(older, "/happened?outcome=ok&before=4");
    // A new entry does not change the page of older entries.
    scene.call("tell", json!({})).await.unwrap();
    happened(&ada, 54).await;
    let last = reader.get(&older).await;
    assert_eq!(entries(&last).len(), 3);
    assert!(!last.body.contains("rel=\"next\"") && last.body.contains(">Newest</a>"));
}

#[tokio::test(flavor = "multi_thread")]
async fn tampered_audit_log_is_flagged_on_its_page_and_still_exported() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    let reader = SignedInPagesClient::at(&scene, &ada).await;
    for _ in 0..3 {
        scene.call("tell", json!({})).await.unwrap();
    }
    happened(&ada, 3).await;
    let lines = reader.get("/happened/export?outcome=denied").await;
    assert_eq!(lines.status, 200);
    assert_eq!(lines.header("content-type"), Some("application/x-ndjson"));
    let file = lines.header("content-disposition").unwrap();
    assert!(file.starts_with("attachment; filename=\"what-happened-") && file.ends_with(".ndjson\""), "{file}");
    let ours = ada.device.audit().entries().unwrap();
    assert_eq!(lines.body.lines().count(), 3, "everything, whatever is asked for");
    for (line, entry) in lines.body.lines().zip(&ours) {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let hash = line.as_object_mut().unwrap().shift_remove("hash").unwrap();
        assert_eq!(line, json!(entry));
        assert_eq!(hash, json!(Digest::of_bytes(&canonical(&line))));
    }

    let second = "device/audit/00000000000000000002";
    let touched =
        String::from_utf8(ada.key_store().load(second).unwrap().unwrap()).unwrap().replace("\"ok\"", "\"denied\"");
    ada.key_store().save(vec![(second.to_owned(), Some(touched.into_bytes()))]).unwrap();
    let page = reader.get("/happened").await;
    assert!(page.body.contains("This record was tampered with") && page.body.contains("At entry 3:"), "{}", page.body);
    assert!(page.body.contains("<li class=\"entry alarm\" id=\"entry-3\">"));
    assert_eq!(entries(&page).len(), 3, "it is shown all the same");
    assert_eq!(reader.get("/happened/export").await.body.lines().count(), 3);

    ada.key_store().save(vec![("device/audit/00000000000000000003".to_owned(), None)]).unwrap();
    ada.key_store().save(vec![(second.to_owned(), None)]).unwrap();
    let page = reader.get("/happened").await;
    assert!(page.body.contains("Entries are missing at the end: 2."), "{}", page.body);
    ada.key_store().save(vec![("device/audit-state".to_owned(), Some(b"[]".to_vec()))]).unwrap();
    let page = reader.get("/happened").await;
    assert!(page.status == 200 && page.body.contains("The record cannot be read:"), "{}", page.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_in_link_works_once_and_only_by_form_submission_from_its_own_page() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.device("ada").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let shared = SharedPagesState::new(Arc::new(scene.clock.clone()), SecretPagesPath::random(&SystemEntropy));
    let link = shared.access.link(at, &SystemEntropy, scene.clock.now());
    let (_, path) = link.split_once(&at.to_string()).unwrap();
    let (base, token) = path.split_once("/open?token=").unwrap();
    let stop = CancellationToken::new();
    tokio::spawn(serve(ada.device.clone(), shared, listener, stop.clone()));
    let (cookie, csrf) = (String::new(), String::new());
    let reader = SignedInPagesClient { at, base: base.to_owned(), cookie, token: csrf, _stop: stop.drop_guard() };

    let open = format!("/open?token={token}");
    for method in ["GET", "HEAD", "GET"] {
        let shown = reader.send(&format!("{method} {open} HTTP/1.1"), "").await;
        assert_eq!((shown.status, shown.header("set-cookie")), (200, None), "{method}");
    }
    let form = [("token", token)];
    for (site, fields, status) in [
        ("cross-site", &form[..], 403),
        ("same-site", &form, 403),
        ("none", &form, 403),
        ("same-origin", &[("token", "wrong")], 403),
        ("same-origin", &[], 403),
        ("same-origin", &form, 303),
        ("same-origin", &form, 403),
    ] {
        let answer = reader.post_as("/open", site, "", "", fields).await;
        assert_eq!(answer.status, status, "{site} {fields:?}");
        assert_eq!(answer.header("set-cookie").is_some(), status == 303, "{site} {fields:?}");
    }
    assert_eq!(reader.get(&open).await.status, 403, "it was used");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_outside_the_secret_base_path_get_404_even_with_session_cookie() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    let reader = SignedInPagesClient::at(&scene, &ada).await;
    assert_eq!(reader.get("/").await.status, 200);
    let outside = SignedInPagesClient { base: String::new(), _stop: CancellationToken::new().drop_guard(), ..reader };
    for path in ["/", "/agents", "/calls", "/events", "/open", "/assets/x/device.js", "/favicon.ico", "//x"] {
        let answer = outside.get(path).await;
        assert_eq!((answer.status, answer.header("location")), (404, None), "{path}");
        assert!(!answer.body.contains('<') && answer.body.contains("nuncio device open"), "{}", answer.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_session_or_csrf_token_are_refused_and_bad_queries_ignored() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    let reader = SignedInPagesClient::at(&scene, &ada).await;
    scene.call("tell", json!({})).await.unwrap();
    happened(&ada, 1).await;
    let own = ada.device.identity().device.to_string();
    for path in ["/happened", "/happened/export", "/devices", &format!("/devices/{own}/remove")] {
        let stranger = reader.send(&format!("GET {path} HTTP/1.1"), "").await;
        assert_eq!(stranger.status, 401, "{path}");
        assert!(!stranger.body.contains("call_") && !stranger.body.contains("laptop"), "{path}");
        let other = reader.send(&format!("GET {path} HTTP/1.1\r\nCookie: {}x", reader.cookie), "").await;
        assert_eq!(other.status, 401, "{path}");
    }
    for (path, fields) in [
        ("/devices/invite".to_owned(), &[][..]),
        ("/devices/backup".to_owned(), &[("passphrase", "correct horse battery"), ("again", "correct horse battery")]),
        ("/devices/recover".to_owned(), &[("passphrase", "correct horse battery")]),
        (format!("/devices/{own}/trust"), &[("key", "00")]),
        (format!("/devices/{own}/remove"), &[]),
    ] {
        for (status, site, cookie, token) in [
            (403, "cross-site", reader.cookie.as_str(), reader.token.as_str()),
            (403, "none", &reader.cookie, &reader.token),
            (401, "same-origin", "", &reader.token),
            (403, "same-origin", &reader.cookie, "wrong"),
            (403, "same-origin", &reader.cookie, ""),
        ] {
            let answer = reader.post_as(&path, site, cookie, token, fields).await;
            assert_eq!(answer.status, status, "{path} {site}");
        }
        let head = format!(
            "POST {path} HTTP/1.1\r\nCookie: {}\r\nSec-Fetch-Site: same-origin\r\nContent-Type: application/json",
            reader.cookie
        );
        assert_eq!(reader.send(&head, "{}").await.status, 415, "{path}");
    }
    for query in ["agent=%3Cscript%3Ealert(1)%3C/script%3E", "day=2026-99-99", "before=x", &"x=y&".repeat(1500)] {
        let page = reader.get(&format!("/happened?{query}")).await;
        assert_eq!(entries(&page).len(), 1, "{query}");
        // The query appears only in the page's link to the other language.
        let bare = page.body.replace("%3Cscript%3Ealert(1)%3C/script%3E&#38;lang=", "");
        assert!(!bare.contains("alert(1)"), "{query}");
        assert_eq!(page.body.contains("is not valid and was ignored"), !query.starts_with("x="), "{query}");
    }
    assert_eq!(ada.device.own_devices().list().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn device_pages_invite_confirm_and_remove_another_device() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    let reader = SignedInPagesClient::at(&scene, &ada).await;
    let alone = reader.get("/devices").await;
    assert!(alone.body.contains("this device") && !alone.body.contains("/trust"), "{}", alone.body);

    let invite = reader.post("/devices/invite", &[]).await;
    assert_eq!(invite.status, 200, "{}", invite.body);
    let command = invite.body.split("id=\"command\">").nth(1).unwrap().split("</code>").next().unwrap();
    let command = words(&format!(">{command}"));
    let link = command.strip_prefix("nuncio device join '").and_then(|rest| rest.strip_suffix('\''));
    let link = InviteLink::parse(link.unwrap_or_else(|| panic!("{command}"))).unwrap();
    assert_eq!(link.server, ada.device.identity().url);
    assert_eq!(link.fingerprint, ada.device.identity().server_key.fingerprint());
    let other = scene.enrolled(link.code, SensitivityFloors::new()).await;
    let id = other.device.identity().device.to_string();

    let theirs = SignedInPagesClient::at(&scene, &other).await;
    let number = |page: &RawHttpResponse, standing: &str| {
        let card = page.body.split(&format!("standing-{standing}")).nth(1)?;
        let number = card.split("<p class=\"number few\">").nth(1)?.split("</p>").next()?;
        Some(words(&format!(">{number}")))
    };
    let here = eventually("it waits", async || number(&reader.get("/devices").await, "waiting")).await;
    assert_eq!(here.len(), 7, "{here}");
    assert_eq!(number(&theirs.get("/devices").await, "this"), Some(here), "both show the same");

    let page = reader.get("/devices").await;
    let key = page.body.split("name=\"key\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let path = format!("/devices/{id}/trust");
    let wrong = reader.post(&path, &[("key", &"0".repeat(64))]).await;
    assert_eq!(wrong.status, 409, "{}", wrong.body);
    assert_eq!(reader.post(&path, &[("key", "no key")]).await.status, 404);
    assert_eq!(reader.post(&path, &[]).await.status, 404);
    assert!(number(&reader.get("/devices").await, "waiting").is_some(), "nothing was trusted by that");
    let trusted = reader.post(&path, &[("key", &key)]).await;
    assert_eq!((trusted.status, trusted.header("location")), (303, Some("/devices?after=trusted")));
    let after = reader.get("/devices?after=trusted").await;
    assert!(
        after.body.contains("standing-trusted") && after.body.contains("class=\"news\" role=\"status\">Confirmed.")
    );

    let own = ada.device.identity().device.to_string();
    let question = reader.get(&format!("/devices/{id}/remove")).await;
    assert!(question.body.contains("stay valid") && question.body.contains("Remove this device?"), "{}", question.body);
    assert_eq!(reader.get(&format!("/devices/{own}/remove")).await.status, 303, "not this one");
    assert_eq!(reader.get("/devices/dev_other/remove").await.status, 404);
    assert_eq!(reader.get("/devices/%3Cscript%3E/remove").await.status, 404);
    let itself = reader.post(&format!("/devices/{own}/remove"), &[]).await;
    assert_eq!(itself.status, 409, "{}", itself.body);
    let removed = reader.post(&format!("/devices/{id}/remove"), &[]).await;
    assert_eq!((removed.status, removed.header("location")), (303, Some("/devices?after=removed")));
    let after = reader.get("/devices?after=removed").await;
    assert!(after.body.contains("standing-removed") && !after.body.contains("standing-trusted"));
    assert_eq!(reader.post(&format!("/devices/{id}/remove"), &[]).await.status, 303, "twice is once");
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_page_returns_file_and_recovery_needs_its_passphrase() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    let reader = SignedInPagesClient::at(&scene, &ada).await;
    let good = "correct horse battery";
    for (fields, why) in [
        (&[("passphrase", "short"), ("again", "short")][..], "at least 12"),
        (&[("passphrase", good), ("again", "another horse battery")], "do not match"),
        (&[("passphrase", good)], "do not match"),
        (&[], "at least 12"),
    ] {
        let refused = reader.post("/devices/backup", fields).await;
        assert_eq!(refused.status, 422, "{fields:?}");
        let told = refused.body.split("role=\"alert\">").nth(1).unwrap().split("</p>").next().unwrap();
        assert!(told.contains(why) && told.contains("Nothing was backed up"), "{told}");
        assert!(!refused.body.contains(good), "a passphrase is not written back");
    }
    let file = reader.post("/devices/backup", &[("passphrase", good), ("again", good)]).await;
    assert_eq!((file.status, file.header("content-type")), (200, Some("application/json")), "{}", file.body);
    let name = file.header("content-disposition").unwrap();
    assert_eq!(name, format!("attachment; filename=\"nuncio-{}.backup.json\"", ada.device.identity().device));
    let file: nuncio_device::DeviceBackupFile = serde_json::from_str(&file.body).unwrap();
    assert_eq!(&file.device, ada.device.identity());

    assert_eq!(reader.get("/devices/backup?lang=zh-CN").await.header("location"), Some("/devices?lang=zh-CN"));

    let own = reader.post("/devices/recover", &[("passphrase", good)]).await;
    assert!(own.status == 409 && own.body.contains("nothing to recover"), "{}", own.body);
    let wrong = reader.post("/devices/recover", &[("passphrase", "another horse battery")]).await;
    assert!(wrong.status == 409 && wrong.body.contains("cannot be opened"), "{}", wrong.body);
    // A new device recovers the keys of the first one.
    let next = scene.device("ada").await;
    let theirs = SignedInPagesClient::at(&scene, &next).await;
    let done = theirs.post("/devices/recover", &[("passphrase", good)]).await;
    assert_eq!((done.status, done.header("location")), (303, Some("/devices?after=recovered")), "{}", done.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn page_event_stream_reports_new_audit_entries_and_device_changes() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    let reader = SignedInPagesClient::at(&scene, &ada).await;
    let mut stream = TcpStream::connect(reader.at).await.unwrap();
    let (base, at, cookie) = (&reader.base, reader.at, &reader.cookie);
    let request = format!("GET {base}/events HTTP/1.1\r\nHost: {at}\r\nCookie: {cookie}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut heard = String::new();
    let mut hears = async |what: &str| {
        while !heard.contains(what) {
            let mut bytes = [0; 4096];
            let count = stream.read(&mut bytes).await.unwrap();
            assert_ne!(count, 0, "the event stream of the page ended: {heard}");
            heard.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    };
    hears("event: calls").await;
    scene.call("tell", json!({})).await.unwrap();
    hears("event: news\ndata: {\"kind\":\"happened\"}").await;
    let invited = ada.device.own_devices().invite().await.unwrap();
    let _other = scene.enrolled(invited.code, SensitivityFloors::new()).await;
    hears("event: news\ndata: {\"kind\":\"devices\"}").await;
}

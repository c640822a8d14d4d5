//! Tests of the conversation pages over HTTP, without scripts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nuncio_device::DeviceEvent;
use nuncio_device::pages::{SecretPagesPath, SharedPagesState, serve};
use nuncio_device::talk::{ChatContent, MAX_TEXT};
use nuncio_engine::ports::fetch::{AddressTrust, FetchRequest, FetchResponse};
use nuncio_engine::ports::{Clock as _, Fetch};
use nuncio_server::SystemEntropy;
use nuncio_testkit::a2h::PeerDependencies;
use nuncio_testkit::eventually;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use url::form_urlencoded::Serializer;

use super::pages_activity::{below_base, without_base};
use super::scene::{RelayAndAgentFixture, RunningDevice};

/// HTTP client signed in to the pages of a device.
struct TalkPagesClient {
    at: SocketAddr,
    base: String,
    fetch: Arc<dyn Fetch>,
    cookie: String,
    token: String,
    stop: CancellationToken,
}

impl Drop for TalkPagesClient {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl TalkPagesClient {
    async fn of(scene: &RelayAndAgentFixture, running: &RunningDevice) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (at, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let shared = SharedPagesState::new(Arc::new(scene.clock.clone()), SecretPagesPath::random(&SystemEntropy));
        let link = shared.access.link(at, &SystemEntropy, scene.clock.now());
        let pages = serve(running.device.clone(), shared, listener, stop.clone());
        tokio::spawn(async move { pages.await.unwrap() });
        let fetch = PeerDependencies::direct().fetch;
        let (base, token) = link.split_once(&at.to_string()).unwrap().1.split_once("/open?token=").unwrap();
        let mut visitor = Self { at, base: base.to_owned(), fetch, cookie: String::new(), token: String::new(), stop };
        let opened = visitor.send("/open", &[("token", token)]).await;
        let cookie = header(&opened, "set-cookie");
        visitor.cookie = cookie.split(';').next().unwrap().to_owned();
        let home = visitor.get("/agents").await;
        visitor.token = between(&home, "data-token=\"", "\"");
        visitor
    }

    async fn ask(
        &self,
        method: &'static str,
        path: &str,
        headers: &[(&str, &str)],
        form: Option<&[(&str, &str)]>,
    ) -> FetchResponse {
        let given = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let body = form.map(|form| Serializer::new(String::new()).extend_pairs(form).finish().into());
        let kind = body.as_ref().map(|_| "application/x-www-form-urlencoded".to_owned());
        let asked = FetchRequest {
            method,
            url: format!("http://{}{}", self.at, below_base(&self.base, path)).parse().unwrap(),
            headers: given.chain(kind.map(|kind| ("content-type".to_owned(), kind))).collect(),
            body,
            trust: AddressTrust::Configured,
            timeout: Duration::from_secs(30),
            max_bytes: 4 * 1024 * 1024,
        };
        let mut answer = self.fetch.fetch(asked).await.unwrap();
        for (_, value) in answer.headers.iter_mut().filter(|(name, _)| name == "location") {
            *value = without_base(&self.base, value);
        }
        answer
    }

    async fn get(&self, path: &str) -> String {
        let answer = self.ask("GET", path, &[("cookie", &self.cookie)], None).await;
        assert_eq!(answer.status, 200, "{path}");
        String::from_utf8(answer.body.to_vec()).unwrap()
    }

    /// Submits a form with the session cookie, origin and CSRF token that our own pages send.
    async fn send(&self, path: &str, fields: &[(&str, &str)]) -> FetchResponse {
        let origin = format!("http://{}", self.at);
        let form: Vec<_> = fields.iter().copied().chain([("csrf", self.token.as_str())]).collect();
        self.ask("POST", path, &[("cookie", &self.cookie), ("origin", &origin)], Some(&form)).await
    }
}

fn header(answer: &FetchResponse, name: &str) -> String {
    answer.headers.iter().find(|(key, _)| key == name).unwrap_or_else(|| panic!("no {name}")).1.clone()
}

fn between(text: &str, before: &str, after: &str) -> String {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("no {before}")).1;
    rest.split_once(after).unwrap().0.to_owned()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[tokio::test(flavor = "multi_thread")]
async fn conversation_form_submitted_twice_sends_once_and_page_escapes_html() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    let ada_reads = TalkPagesClient::of(&scene, &ada).await;
    let path = format!("/talk/{}", scene.id);
    let page = ada_reads.get(&path).await;
    assert!(page.contains("No messages yet.") && page.contains("only you and the agent can read this"), "{page}");
    let name = between(&page, "name=\"client_id\" value=\"", "\"");
    let words = [("client_id", name.as_str()), ("text", "Good <b>morning</b>.\r\nSee https://a.example/x.")];
    // The same form is submitted twice.
    for _ in 0..2 {
        let said = ada_reads.send(&path, &words).await;
        assert_eq!((said.status, header(&said, "location")), (303, format!("{path}#end")));
    }
    let sent = async || {
        let page = ada_reads.get(&path).await;
        page.contains("data-state=\"sent\"").then_some(page)
    };
    let page = eventually("it is sent", sent).await;
    assert!(page.contains("Good &#60;b&#62;morning&#60;/b&#62;.\nSee <a href=\"https://a.example/x\""), "{page}");
    assert_eq!(page.matches("class=\"said ").count(), 1);
    eventually("the agent hears it", async || (scene.agent.heard.lock().unwrap().len() == 1).then_some(())).await;
    scene.agent.say("ada", text("<script>alert(1)</script>\u{202e}")).await.unwrap();
    let answered = async || {
        let page = ada_reads.get(&format!("{path}?lang=zh-CN")).await;
        page.contains("class=\"said its").then_some(page)
    };
    let page = eventually("it answers", answered).await;
    assert!(!page.contains("<script>alert") && !page.contains('\u{202e}') && page.contains("lang=\"zh-CN\""));
    let told: Value = serde_json::from_str(&ada_reads.get(&format!("{path}/lines")).await).unwrap();
    assert_eq!(told["lines"][1]["parts"][0]["text"], "<script>alert(1)</script> ");
    assert_eq!(told["lines"][0]["parts"][1], json!({"text": "https://a.example/x", "href": "https://a.example/x"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_text_stays_in_the_form_and_failed_message_can_be_retried() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.device("ada").await;
    let ada_reads = TalkPagesClient::of(&scene, &ada).await;
    let path = format!("/talk/{}", scene.id);
    let long = "long ".repeat(MAX_TEXT / 4);
    for (words, why) in [("  ", "The message is empty."), (long.as_str(), "at most 64 KB")] {
        let refused = ada_reads.send(&path, &[("client_id", "m_1"), ("text", words)]).await;
        let page = String::from_utf8(refused.body.to_vec()).unwrap();
        assert!(refused.status == 422 && page.contains(why) && page.contains(words), "{}", refused.status);
    }
    let page = ada_reads.get(&path).await;
    assert!(page.contains("You have not allowed this agent anything"), "{page}");
    ada_reads.send(&path, &[("client_id", "m_1"), ("text", "Hello?")]).await;
    let failed = async || {
        let page = ada_reads.get(&path).await;
        page.contains("data-state=\"failed\"").then_some(page)
    };
    let page = eventually("it fails", failed).await;
    assert!(page.contains("Not sent: you have not allowed this agent anything"), "{page}");
    scene.allow(&ada, &["notification:send"], nuncio_core::grant::GrantTerm::UntilRevoked).await;
    assert_eq!(ada_reads.send(&format!("{path}/again"), &[("client_id", "m_1")]).await.status, 303);
    let sent = async || ada_reads.get(&path).await.contains("data-state=\"sent\"").then_some(());
    eventually("it is sent", sent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conversation_pages_refuse_requests_without_session_origin_or_csrf_token() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    let ada_reads = TalkPagesClient::of(&scene, &ada).await;
    let path = format!("/talk/{}", scene.id);
    let here = format!("http://{}", ada_reads.at);
    let (cookie, token) = (ada_reads.cookie.as_str(), ada_reads.token.as_str());
    let words = [("client_id", "m_1"), ("text", "Not mine."), ("csrf", token)];
    for (what, path, headers, form, status) in [
        ("no cookie", path.clone(), vec![("origin", here.as_str())], &words[..], 401),
        ("another site", path.clone(), vec![("cookie", cookie), ("origin", "http://evil.example")], &words[..], 403),
        ("no origin", path.clone(), vec![("cookie", cookie)], &words[..], 403),
        ("no token", path.clone(), vec![("cookie", cookie), ("origin", here.as_str())], &words[..2], 403),
        ("no name", path.clone(), vec![("cookie", cookie), ("origin", here.as_str())], &words[1..], 404),
        ("no token to retry", format!("{path}/again"), vec![("cookie", cookie), ("origin", &here)], &words[..2], 403),
        ("no token to drop", format!("{path}/drop"), vec![("cookie", cookie), ("origin", &here)], &words[..2], 403),
        ("no agent", "/talk/%3Cscript%3E".to_owned(), vec![("cookie", cookie), ("origin", &here)], &words[..], 404),
    ] {
        let answer = ada_reads.ask("POST", &path, &headers, Some(form)).await;
        assert_eq!(answer.status, status, "{what}");
    }
    let wrong_names = ["", "a b", "../../x", &"x".repeat(65), "<script>"];
    for name in wrong_names {
        let answer = ada_reads.send(&path, &[("client_id", name), ("text", "x")]).await;
        assert_eq!(answer.status, 404, "{name}");
    }
    // Just above the limit: the server does not read much larger bodies to the end, and the client might miss the
    // response.
    let huge = "x".repeat(1024 * 1024);
    assert_eq!(ada_reads.send(&path, &[("client_id", "m_1"), ("text", &huge)]).await.status, 413);
    assert!(ada.device.messages().page(&scene.id, None, 10).unwrap().messages.is_empty());
    for path in [path.clone(), format!("{path}/lines")] {
        let answer = ada_reads.ask("GET", &path, &[], None).await;
        assert_eq!(answer.status, 401);
    }
    // Invalid positions are ignored.
    for query in ["before=", "before=x", "before=0000-0000000000000001", "before=99999999999-1", "before=-1"] {
        ada_reads.get(&format!("{path}/lines?{query}")).await;
        ada_reads.get(&format!("{path}?{query}")).await;
    }
    let unknown = ada_reads.ask("GET", "/talk/agt_nobody", &[("cookie", cookie)], None).await;
    assert!(unknown.status == 404 || unknown.status == 502, "{}", unknown.status);
}

#[tokio::test(flavor = "multi_thread")]
async fn conversation_page_shows_the_last_fifty_messages_and_links_to_older_ones() {
    let scene = RelayAndAgentFixture::start().await;
    let ada = scene.ada(&["notification:send"]).await;
    let ada_reads = TalkPagesClient::of(&scene, &ada).await;
    let path = format!("/talk/{}", scene.id);
    let mut news = ada.device.events();
    for number in 1..=60 {
        scene.agent.say("ada", text(&format!("line {number};"))).await.unwrap();
        while !matches!(news.recv().await.unwrap(), DeviceEvent::Talk { .. }) {}
    }
    let page = ada_reads.get(&path).await;
    assert!(!page.contains("line 10;") && page.contains("line 11;") && page.contains("line 60;"));
    let older = between(&page, "id=\"older\" href=\"", "\"");
    let page = ada_reads.get(&without_base(&ada_reads.base, &older)).await;
    assert!(page.contains("line 1;") && page.contains("line 10;") && !page.contains("line 11;"));
    assert!(page.contains("Jump to the latest") && !page.contains("id=\"say\"") && !page.contains("id=\"older\""));
    let last = ada.device.messages().page(&scene.id, None, 1).unwrap().messages.remove(0);
    assert_eq!(last.record.content, ChatContent::Text { text: "line 60;".to_owned(), cut: false });
}

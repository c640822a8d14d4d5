//! Browser protections of the chat page: content security policy, framing, caching and escaping.

use serde_json::{Value, json};

use super::ChatPageSetup;
use crate::client::{builder, call};
use crate::home::{SCRIPTED, TestAgentFolder};
use crate::webdriver::BrowserSettings;

#[tokio::test]
async fn text_of_agents_people_and_tools_is_never_rendered_as_markup() {
    let visit = ChatPageSetup::script().await;
    let hostile = "<img src=x onerror=\"window.hurt = 1\"><script>window.hurt = 2</script><b>bold</b>";
    visit
        .play(json!([
            [{"thinking": hostile}, {"text": hostile}, call("c1", "lookup", json!({"key": hostile}))],
            [{"text": hostile}],
        ]))
        .await;
    visit.browser.click(".ask .primary").await;
    visit.is("idle").await;
    visit.say(hostile).await;
    visit.wait_for_text(&format!("You said: {hostile}")).await;
    visit.is("idle").await;
    assert!(visit.transcript().await.contains(hostile));
    visit.browser.reload().await;
    visit.wait_for_text(&format!("You said: {hostile}")).await;
    let marked = "document.querySelectorAll('#transcript :is(img, script, b), #sessions :is(img, script, b)').length";
    assert_eq!(visit.browser.eval(marked).await, 0);
    assert_eq!(visit.browser.eval("window.hurt ?? null").await, json!(null));
    visit.assert_no_browser_errors().await;
}

#[tokio::test]
async fn agent_with_https_images_widens_only_the_image_policy() {
    let policy = async |agent: &str| {
        let home = TestAgentFolder::with_agent(agent);
        let server = home.start();
        let page = builder().build().unwrap().get(server.url()).send().await.unwrap();
        page.headers()["content-security-policy"].to_str().unwrap().to_owned()
    };
    let strict = policy(SCRIPTED).await;
    assert_eq!(policy(&format!("{SCRIPTED}\n[capabilities]\nimages = [\"data\"]\n")).await, strict);
    let wider = policy(&format!("{SCRIPTED}\n[capabilities]\nimages = [\"https\"]\n")).await;
    assert_eq!(wider, strict.replace("img-src 'self' data:;", "img-src 'self' data: https:;"));
    assert_ne!(wider, strict);
}

#[tokio::test]
async fn content_security_policy_is_strict_and_no_resource_is_external() {
    let visit = ChatPageSetup::to(TestAgentFolder::with_agent(SCRIPTED), BrowserSettings::default()).await;
    visit.say("hello").await;
    visit.wait_for_text("You said: hello").await;
    let elsewhere = "performance.getEntriesByType('resource').map(entry => entry.name).filter(name => !name.startsWith(location.origin + '/'))";
    assert_eq!(visit.browser.eval(elsewhere).await, json!([]));
    // The content security policy blocks forbidden actions of any script.
    let tried = "try { document.body.insertAdjacentHTML('beforeend', '<p id=slipped></p>') } catch {} return document.getElementById('slipped')";
    visit.assert_no_browser_errors().await;
    assert_eq!(visit.browser.run(tried, &[]).await, json!(null));

    let http = builder().build().unwrap();
    let page = http.get(visit.server.url()).send().await.unwrap();
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.split("; ").any(|directive| directive == part), "{part} in {policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(page.headers()["x-content-type-options"], "nosniff");
    assert_eq!(page.headers()["referrer-policy"], "no-referrer");
}

#[tokio::test]
async fn assets_are_cached_forever_and_the_page_is_revalidated() {
    let visit = ChatPageSetup::script().await;
    let http = builder().build().unwrap();
    let page = http.get(visit.server.url()).send().await.unwrap();
    assert_eq!(page.headers()["cache-control"], "no-cache");
    let tag = page.headers()["etag"].clone();
    let again = http.get(visit.server.url()).header("if-none-match", &tag).send().await.unwrap();
    assert_eq!(again.status(), 304);
    let chinese = http.get(visit.server.url()).header("accept-language", "zh").header("if-none-match", &tag);
    assert_eq!(chinese.send().await.unwrap().status(), 200);

    let script = visit.browser.eval("document.querySelector('script[type=module]').src").await;
    let script = script.as_str().unwrap();
    let file = http.get(script).send().await.unwrap();
    assert_eq!(file.headers()["cache-control"], "public, max-age=31536000, immutable");
    assert_eq!(file.headers()["content-type"], "text/javascript; charset=utf-8");
    assert!(file.headers().contains_key("content-security-policy"));
    let again = http.get(script).header("if-none-match", &file.headers()["etag"]).send().await.unwrap();
    assert_eq!(again.status(), 304);
    for nothing in [script.replace("main.js", "nothing.js"), script.replace("/assets/", "/assets/0")] {
        assert_eq!(http.get(nothing).send().await.unwrap().status(), 404);
    }
    let posted = http.post(visit.server.url()).send().await.unwrap();
    assert_eq!(posted.status(), 405);
}

#[tokio::test]
async fn cross_site_link_opens_the_page_but_framing_is_refused() {
    let visit = ChatPageSetup::script().await;
    let url = visit.server.url();
    visit.browser.go("data:text/html,<title>elsewhere</title>").await;
    visit.browser.run(&format!("location.href = '{url}'"), &[]).await;
    visit.browser.until("document.getElementById('message') !== null && document.body.dataset.state !== null").await;
    visit.assert_no_browser_errors().await;
    // The browser received the page, and shows an error in the frame instead.
    visit.browser.go(&format!("data:text/html,<iframe src='{url}'></iframe>")).await;
    visit.browser.enter_frame().await;
    assert_eq!(visit.browser.eval("document.getElementById('message')").await, json!(null));
}

#[tokio::test]
async fn every_curl_command_shown_on_the_page_gets_its_expected_answer() {
    let visit = ChatPageSetup::script().await;
    let commands =
        visit.browser.eval("[...document.querySelectorAll('[data-command]')].map(part => part.textContent)").await;
    let commands = commands.as_array().unwrap();
    let expected = [
        ("/aap/meta", "\"agents\""),
        ("/aap/sessions ", "\"sessionId\""),
        ("/.well-known/skill-sharing", "\"skills\""),
        ("/skills/script/echo/invoke ", "\"accepted\""),
        ("/skills/script/fail/invoke ", "\"accepted\""),
    ];
    for (path, answer) in expected {
        let command = commands.iter().filter_map(Value::as_str).find(|command| command.contains(path));
        let command = command.unwrap_or_else(|| panic!("nothing for {path}: {commands:?}"));
        let ran = std::process::Command::new("sh").args(["-c", &format!("{command} --noproxy '*'")]).output().unwrap();
        let output = String::from_utf8(ran.stdout).unwrap();
        assert!(output.contains(answer), "{command}\n{output}{}", String::from_utf8_lossy(&ran.stderr));
    }
}

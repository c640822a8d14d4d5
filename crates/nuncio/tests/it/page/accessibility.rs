//! The chat page in both languages, both themes, on a phone, by keyboard and for screen readers.

use serde_json::{Value, json};

use super::ChatPageSetup;
use crate::client::call;
use crate::home::TestAgentFolder;
use crate::webdriver::{Browser, BrowserSettings, ENTER, ESCAPE, SHIFT, TAB, test_variable};

const CHINESE: BrowserSettings = BrowserSettings { width: 1280, dark: false, language: "zh-CN" };

#[tokio::test]
async fn page_uses_the_browser_language_until_another_is_chosen_and_keeps_the_choice() {
    let visit = ChatPageSetup::to(TestAgentFolder::hotel(), CHINESE).await;
    let browser = &visit.browser;
    assert_eq!(browser.eval("document.documentElement.lang").await, "zh-CN");
    assert_eq!(browser.eval("document.getElementById('send').innerText").await, "发送");
    let tools = browser.eval("document.querySelector('.about .tools').innerText").await;
    // The names of the scopes come from the agent file, in the language of the page.
    assert!(
        ["查看预订", "预订和取消客房", "敏感度：高"].iter().all(|word| tools.as_str().unwrap().contains(word)),
        "{tools}"
    );
    visit.say("12月24日到26日有空房吗？两个人").await;
    let question = browser.until("document.querySelector('.ask .question')?.innerText").await;
    assert_eq!(question, "允许 豪华大酒店助手 使用“查询空房”吗？");
    let session = visit.session().await;

    browser.click("[data-language=en]").await;
    browser.until("document.documentElement.lang === 'en'").await;
    visit.is("waiting").await;
    assert_eq!(visit.session().await, session);
    assert_eq!(browser.eval("document.querySelector('.ask .primary').innerText").await, "Allow");
    browser.click(".ask .primary").await;
    visit.wait_for_text("room-203").await;

    browser.go(visit.server.url()).await;
    browser.until("document.documentElement.lang === 'en' && location.search === '?lang=en'").await;
    visit.assert_no_browser_errors().await;
}

#[tokio::test]
async fn page_theme_follows_the_system_until_one_is_chosen() {
    let visit = ChatPageSetup::script().await;
    let browser = &visit.browser;
    let ground = "getComputedStyle(document.body).backgroundColor";
    let light = browser.eval(ground).await;
    browser.look(BrowserSettings { dark: true, ..BrowserSettings::default() }).await;
    let dark = browser.eval(ground).await;
    assert_ne!(light, dark);
    browser.click("#theme").await;
    assert_eq!(browser.eval(ground).await, light);
    browser.reload().await;
    assert_eq!(browser.eval(ground).await, light);
    visit.assert_no_browser_errors().await;
}

#[tokio::test]
async fn chat_page_on_a_phone_never_scrolls_horizontally() {
    let visit =
        ChatPageSetup::to(TestAgentFolder::hotel(), BrowserSettings { width: 360, ..BrowserSettings::default() }).await;
    let browser = &visit.browser;
    let fits = async |what: &str| {
        let width = browser.eval("Math.max(document.documentElement.scrollWidth, innerWidth)").await;
        assert_eq!(width, 360, "{what}");
        let beyond = "[...document.querySelectorAll('body *')].filter(part => part.checkVisibility() && part.getBoundingClientRect().right > 361).map(part => part.outerHTML.slice(0, 120))";
        assert_eq!(browser.eval(beyond).await, json!([]), "{what}");
    };
    fits("at first").await;
    visit.say("Find a room from 2026-12-24 to 2026-12-26 for 2 guests").await;
    visit.is("waiting").await;
    fits("a question").await;
    browser.click(".ask .buttons .secondary").await;
    fits("a reason").await;
    browser.click(".why .plain").await;
    browser.click(".ask .primary").await;
    visit.wait_for_text("room-203").await;
    browser.run("document.querySelector('.call details').open = true", &[]).await;
    fits("a result").await;
    browser.click("[data-show=about]").await;
    browser.run("for (const part of document.querySelectorAll('.about details')) part.open = true", &[]).await;
    fits("what it can do").await;
    assert_eq!(browser.eval("document.querySelector('#message').checkVisibility()").await, false);
    browser.click("[data-show=list]").await;
    fits("the list").await;
    browser.click("#sessions a").await;
    visit.assert_no_browser_errors().await;
}

#[tokio::test]
async fn page_is_usable_with_the_keyboard_alone() {
    let visit = ChatPageSetup::script().await;
    let browser = &visit.browser;
    let focused = "document.activeElement.id || document.activeElement.className || document.activeElement.textContent";
    // The message field has the focus at first, and the skip link at the top of the page leads to it.
    browser.until("document.activeElement.id === 'message'").await;
    browser.run("document.querySelector('.wordmark').focus()", &[]).await;
    browser.press(Some(SHIFT), &[TAB]).await;
    assert_eq!(browser.eval(focused).await, "skip");
    let ring = browser.eval("getComputedStyle(document.activeElement).outlineStyle").await;
    assert_eq!(ring, "solid", "the focus is seen");
    browser.press(None, &[ENTER]).await;
    assert_eq!(browser.eval(focused).await, "message");

    browser.type_keys("one").await;
    browser.press(Some(SHIFT), &[ENTER]).await;
    browser.type_keys("two").await;
    assert_eq!(browser.eval("document.getElementById('message').value").await, "one\ntwo");
    browser.press(None, &[ENTER]).await;
    visit.wait_for_text("You said: one\ntwo").await;
    visit.is("idle").await;

    let script =
        json!({"script": [[call("c1", "add", json!({"a": 1, "b": 2}))], [{"text": "waiting "}, {"sleep": 600_000}]]});
    browser.type_keys(&script.to_string()).await;
    browser.press(None, &[ENTER]).await;
    visit.is("waiting").await;
    // By keyboard: from the field back to the prompt, start a denial, cancel it, then allow.
    browser.press(Some(SHIFT), &[TAB]).await;
    assert_eq!(browser.eval("document.activeElement.textContent").await, "Deny");
    browser.press(None, &[ENTER]).await;
    assert_eq!(browser.eval("document.activeElement.closest('.why') !== null").await, true);
    browser.press(None, &[ESCAPE]).await;
    assert_eq!(browser.eval("document.activeElement.textContent").await, "Deny");
    browser.press(Some(SHIFT), &[TAB]).await;
    assert_eq!(browser.eval("document.activeElement.textContent").await, "Allow");
    browser.press(None, &[ENTER]).await;
    visit.wait_for_text("waiting").await;
    assert_eq!(browser.eval(focused).await, "message");

    browser.press(None, &[ESCAPE]).await;
    visit.is("idle").await;
    assert!(visit.transcript().await.contains("You stopped the answer."));
    visit.assert_no_browser_errors().await;
}

#[tokio::test]
async fn axe_finds_no_serious_accessibility_violations_in_light_and_dark_theme() {
    for dark in [false, true] {
        let visit =
            ChatPageSetup::to(TestAgentFolder::hotel(), BrowserSettings { dark, ..BrowserSettings::default() }).await;
        let browser = &visit.browser;
        accessible(browser, "the page at first").await;
        visit.say("Find a room from 2026-12-24 to 2026-12-26 for 2 guests").await;
        visit.is("waiting").await;
        accessible(browser, "a question").await;
        browser.click(".ask .buttons .secondary").await;
        accessible(browser, "a reason").await;
        browser.click(".why button[type=submit]").await;
        visit.is("idle").await;
        visit.say("Find a room from 2026-12-24 to 2026-12-26 for 2 guests").await;
        browser.click(".ask .primary").await;
        visit.wait_for_text("room-203").await;
        browser.run("for (const part of document.querySelectorAll('details')) part.open = true", &[]).await;
        accessible(browser, "everything open").await;
        browser.look(BrowserSettings { width: 360, dark, ..BrowserSettings::default() }).await;
        for view in ["chat", "about", "list"] {
            browser.click(&format!("[data-show={view}]")).await;
            accessible(browser, view).await;
        }
    }
    let chinese = ChatPageSetup::to(TestAgentFolder::script(), CHINESE).await;
    chinese.play(json!([[{"thinking": "想一想。"}, {"throw": "坏了"}]])).await;
    chinese.browser.until("document.querySelector('.note.wrong')").await;
    accessible(&chinese.browser, "an error, in Chinese").await;
}

/// Runs axe-core on the current page; fails on serious violations.
pub(super) async fn accessible(browser: &Browser, what: &str) {
    let axe = std::fs::read_to_string(test_variable("NUNCIO_TEST_AXE")).unwrap();
    browser.run(&axe, &[]).await;
    let found = browser
        .run_async("const done = arguments[arguments.length - 1]; axe.run().then(done, error => done(String(error)))")
        .await;
    let violations = found["violations"].as_array().unwrap_or_else(|| panic!("{what}: {found}"));
    let serious: Vec<&Value> = violations
        .iter()
        .filter(|violation| ["serious", "critical"].contains(&violation["impact"].as_str().unwrap_or_default()))
        .collect();
    let summaries: Vec<_> = serious
        .iter()
        .map(|violation| format!("{}: {}", violation["id"], violation["nodes"][0]["failureSummary"]))
        .collect();
    assert!(serious.is_empty(), "{what}: {summaries:#?}");
    let minor: Vec<_> = violations.iter().map(|violation| violation["id"].to_string()).collect();
    println!("{what}: {} rules passed, minor: {minor:?}", found["passes"].as_array().map_or(0, Vec::len));
}

//! Prompts for calls on the device pages: shown completely, answered once, and denied without an answer.

use super::*;
use crate::webdriver::{ENTER, ESCAPE, TAB};

const CARD: &str = "document.querySelector('.call')";

#[tokio::test(flavor = "multi_thread")]
async fn device_page_shows_a_call_and_runs_it_only_when_allowed() {
    let mut ada = DevicePagesSetup::ada().await;
    ada.allow(&["filesystem:read", "location:read"]).await;
    ada.go("/").await;
    let answer = ada.calls("c1", "read_file", json!({"path": "treasure.md"}));
    let card = ada.browser.until(&format!("{CARD}?.innerText")).await;
    let card = card.as_str().unwrap();
    for words in [
        "script wants to run read_file",
        "\"path\": \"treasure.md\"",
        "Read local files",
        "Medium sensitivity",
        "Asked for ada",
        "In a conversation with script",
        "only for this app in this conversation",
        "by the keys it presented",
        "s left",
    ] {
        assert!(card.contains(words), "{words}: {card}");
    }
    assert!(!card.contains("ses_") && !card.contains("key_"), "{card}");
    assert!(ada.browser.eval("document.title").await.as_str().unwrap().starts_with("(1) "));
    assert_eq!(ada.browser.eval("document.activeElement.dataset.part").await, "deny", "Deny has the focus");
    accessible(&ada.browser, "a call").await;
    save_screenshot(&ada.browser, "call-1280").await;
    ada.browser.look(BrowserSettings { width: 360, dark: true, ..BrowserSettings::default() }).await;
    save_screenshot(&ada.browser, "call-360-dark").await;
    ada.browser.look(BrowserSettings::default()).await;
    ada.browser.until("document.querySelector('[data-part=allow]').getAttribute('aria-disabled') === 'false'").await;
    ada.browser.click("[data-part=allow]").await;
    let answer = answer.await.unwrap();
    assert!(answer.contains(NOTE), "{answer}");
    ada.browser.until(&format!("!{CARD}")).await;

    // "Allow this once", the primary choice, allows one call; the 24 hours are a choice of their own.
    assert_eq!(ada.browser.eval("document.querySelector('.call')").await, json!(null));
    let again = ada.calls("c1b", "read_file", json!({"path": "treasure.md"}));
    ada.browser.until("document.querySelector('[data-part=day]')?.getAttribute('aria-disabled') === 'false'").await;
    let classes = "[...document.querySelectorAll('.call .buttons button')].map(it => [it.innerText, it.className])";
    assert_eq!(
        ada.browser.eval(classes).await,
        json!([["Deny", "secondary"], ["Allow this once", "primary"], ["Allow for 24 hours", "secondary"]])
    );
    ada.browser.click("[data-part=day]").await;
    assert!(again.await.unwrap().contains(NOTE));
    ada.browser.until(&format!("!{CARD}")).await;

    // After that, a tool of medium sensitivity does not ask; one of high sensitivity asks each time, and Enter means no.
    let silent = ada.calls("c2", "read_file", json!({"path": "treasure.md"})).await.unwrap();
    assert!(silent.contains(NOTE), "{silent}");
    let call = ada.calls("c3", "where_am_i", json!({}));
    ada.browser.until(CARD).await;
    assert_eq!(ada.browser.eval("document.querySelector('[data-part=day]')").await, json!(null));
    ada.browser.until("document.querySelector('[data-part=deny]').getAttribute('aria-disabled') === 'false'").await;
    ada.browser.press(None, &[ENTER]).await;
    let call = call.await.unwrap();
    assert!(call.contains("the person refused the call"), "{call}");
    ada.assert_no_browser_errors().await;
    let log = ada.log();
    let became: Vec<_> = log.iter().map(|entry| (entry["status"].clone(), entry["asked"].clone())).collect();
    let expected = [("ok", true), ("ok", true), ("ok", false), ("denied", true)];
    assert_eq!(became, expected.map(|(status, asked)| (json!(status), json!(asked))));
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_call_changes_the_tab_icon_and_notifies_while_the_page_is_in_the_background() {
    let ada = DevicePagesSetup::ada().await;
    ada.allow(&["location:read"]).await;
    ada.go("/").await;
    let icon = "document.querySelector('link[rel=icon]').href.split('/').pop()";
    assert_eq!(ada.browser.eval(icon).await, "icon.svg");
    // The browser of the test shows no system notices, and its only tab is never in the background.
    ada.browser
        .run(
            "window.notices = []; window.inBackground = true; \
             window.Notification = class { static permission = 'granted'; \
             constructor(title) { window.notices.push(title); } addEventListener() {} }; \
             Object.defineProperty(document, 'hidden', { get: () => window.inBackground })",
            &[],
        )
        .await;
    let deny = async |answer: JoinHandle<String>| {
        ada.browser
            .until("document.querySelector('[data-part=deny]')?.getAttribute('aria-disabled') === 'false'")
            .await;
        assert_eq!(ada.browser.eval(icon).await, "waiting.svg");
        ada.browser.click("[data-part=deny]").await;
        answer.await.unwrap();
        ada.browser.until(&format!("!{CARD} && {icon} === 'icon.svg'")).await;
    };
    deny(ada.calls("c1", "where_am_i", json!({}))).await;
    assert_eq!(ada.browser.eval("window.notices").await, json!(["script wants to run where_am_i"]));
    ada.browser.run("window.inBackground = false", &[]).await;
    deny(ada.calls("c2", "where_am_i", json!({}))).await;
    assert_eq!(ada.browser.eval("window.notices.length").await, 1, "a visible page needs no notice");
    ada.assert_no_browser_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clicks_in_the_first_half_second_of_a_prompt_are_ignored() {
    let ada = DevicePagesSetup::ada().await;
    ada.allow(&["location:read"]).await;
    ada.go("/").await;
    // A click at the moment when the card appears was meant for another element.
    ada.browser
        .run(
            "window.clicked = 0; new MutationObserver(() => { const button = document.querySelector('[data-part=allow]'); \
             if (button && !window.clicked) { window.clicked = 1; button.click(); } })\
             .observe(document.body, { childList: true, subtree: true })",
            &[],
        )
        .await;
    let answer = ada.calls("c1", "where_am_i", json!({}));
    ada.browser.until("window.clicked === 1").await;
    ada.browser.until("document.querySelector('[data-part=deny]')?.getAttribute('aria-disabled') === 'false'").await;
    ada.browser.click("[data-part=deny]").await;
    let answer = answer.await.unwrap();
    assert!(answer.contains("the person refused the call"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn second_click_of_a_double_click_does_not_answer_the_next_call() {
    let ada = DevicePagesSetup::ada().await;
    ada.allow(&["location:read"]).await;
    ada.go("/").await;
    let answer = ada.call_all(&[call("c1", "where_am_i", json!({})), call("c2", "where_am_i", json!({}))]);
    let ready =
        "[...document.querySelectorAll('[data-part=allow]')].filter((it) => it.ariaDisabled === 'false').length";
    ada.browser.until(&format!("{ready} === 2")).await;
    // The second click comes at the moment when the first card disappears.
    ada.browser
        .run(
            "window.clicked = 0; new MutationObserver(() => { const left = document.querySelectorAll('.call'); \
             if (left.length === 1 && !window.clicked) { window.clicked = 1; \
             left[0].querySelector('[data-part=allow]').click(); } })\
             .observe(document.body, { childList: true, subtree: true })",
            &[],
        )
        .await;
    ada.browser.click("[data-part=allow]").await;
    ada.browser.until("window.clicked === 1").await;
    ada.browser.until(&format!("{ready} === 1")).await;
    ada.browser.click("[data-part=deny]").await;
    let answer = answer.await.unwrap();
    assert!(answer.contains("Berlin") && answer.contains("the person refused the call"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn prompt_over_another_page_must_be_answered_and_keeps_typed_text() {
    let ada = DevicePagesSetup::ada().await;
    ada.allow(&["location:read"]).await;
    ada.go("/agents").await;
    ada.browser.write("#agent", "half a wo").await;
    let answer = ada.calls("c1", "where_am_i", json!({}));
    ada.browser.until("document.querySelector('#ask[open] .call')").await;
    assert_eq!(ada.browser.eval("document.activeElement.dataset.part").await, "deny");
    accessible(&ada.browser, "a call before another page").await;
    save_screenshot(&ada.browser, "call-before-page").await;
    // Esc does not close the prompt, and the keyboard focus stays inside it.
    for _ in 0..3 {
        ada.browser.press(None, &[ESCAPE]).await;
        assert_eq!(ada.browser.eval("document.querySelector('#ask').open").await, true);
    }
    ada.browser.until("document.querySelector('[data-part=allow]').getAttribute('aria-disabled') === 'false'").await;
    ada.browser.press(None, &[TAB]).await;
    assert_eq!(ada.browser.eval("document.activeElement.dataset.part").await, "allow");
    ada.browser.press(None, &[ENTER]).await;
    let answer = answer.await.unwrap();
    assert!(answer.contains("Berlin"), "{answer}");
    ada.browser.until("!document.querySelector('#ask').open").await;
    assert_eq!(ada.browser.eval("document.querySelector('#agent').value").await, "half a wo");
    ada.assert_no_browser_errors().await;
}

/// One prompt times out unanswered, and the device is killed during another.
#[tokio::test(flavor = "multi_thread")]
async fn unanswered_prompt_and_killed_device_run_nothing() {
    let mut ada = DevicePagesSetup::reading(BrowserSettings { language: "zh-CN", ..BrowserSettings::default() }).await;
    ada.allow(&["location:read"]).await;
    ada.go("/").await;
    let answer = ada.calls("c1", "where_am_i", json!({}));
    let card = ada.browser.until(&format!("{CARD}?.innerText")).await;
    assert!(card.as_str().unwrap().contains("script 想要运行 where_am_i"), "{card}");
    assert!(
        ada.browser
            .until("document.querySelector('.call.soon')?.innerText")
            .await
            .as_str()
            .unwrap()
            .contains("不回答即视为拒绝")
    );
    let answer = answer.await.unwrap();
    assert!(answer.contains("did not answer in time"), "{answer}");
    ada.browser.until(&format!("!{CARD} && !document.getElementById('no-calls').hidden")).await;
    // The card is gone; a visible notice says that the call ended.
    let ended = ada.browser.until("document.querySelector('.notices li p')?.innerText").await;
    assert_eq!(ended, "script 运行 where_am_i 的请求已结束，未在本页得到答复。");
    accessible(&ada.browser, "the notice of an ended call").await;

    let answer = ada.calls("c2", "where_am_i", json!({}));
    ada.browser.until(CARD).await;
    ada.device.take().unwrap().kill9();
    // The page shows that the device stopped, and has no prompt left.
    ada.browser.until(&format!("!document.getElementById('lost').hidden && !{CARD}")).await;
    assert_eq!(ada.browser.eval("document.querySelectorAll('.notices li').length").await, 1, "how it ends is unknown");
    save_screenshot(&ada.browser, "lost").await;
    ada.device = Some(run(&ada.home));
    let answer = answer.await.unwrap();
    assert!(!answer.contains("Berlin"), "{answer}");
    let log = ada.log();
    assert_eq!((log.len(), &log[0]["reason"]), (2, &json!("user_timeout")));
    assert_ne!(log[1]["status"], "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_notification_is_shown_on_the_page_as_text_not_markup() {
    let ada = DevicePagesSetup::ada().await;
    ada.allow(&["notification:send"]).await;
    ada.go("/agents").await;
    ada.browser.until("document.querySelector('#ask')").await;
    // There is no desktop, so the page shows the notification, as text and not as markup.
    let shown = until("the page listens", async || {
        let card = ada.calls("c1", "tell", json!({"path": "x", "title": "<b>Rain</b> at five"})).await.unwrap();
        card.contains("shown").then_some(card)
    })
    .await;
    assert!(shown.contains("true"), "{shown}");
    let notice = ada.browser.until("document.querySelector('.notices li')?.innerText").await;
    let notice = notice.as_str().unwrap();
    assert!(notice.contains("Notification from script:") && notice.contains("<b>Rain</b> at five"), "{notice}");
    accessible(&ada.browser, "a notice").await;
    save_screenshot(&ada.browser, "notice").await;
    // Calls that timed out for the agent have shown their notifications too; all are closed.
    let close_one = "document.querySelector('.notices button')?.click()";
    ada.browser.until(&format!("({close_one}, !document.querySelector('.notices li'))")).await;
    ada.assert_no_browser_errors().await;
}

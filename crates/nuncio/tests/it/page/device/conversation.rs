//! Page of the end-to-end encrypted conversation with an agent: messages, streamed answers and stored history.

use super::*;
use crate::webdriver::{ENTER, SHIFT, TAB};

const LINES: &str = "[...document.querySelectorAll('#talk > li:not(.growing)')].map(line => \
                     (line.classList.contains('mine') ? 'me: ' : 'it: ') + line.querySelector('.words')?.innerText)";

/// Script condition: the page shows these messages, and all of them are sent.
fn messages_shown(lines: &[&str]) -> String {
    let expected = serde_json::to_string(lines).unwrap();
    format!(
        "JSON.stringify({LINES}) === {expected:?} && [...document.querySelectorAll('#talk > [data-state]')].every(line => line.dataset.state === 'sent')"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn message_is_answered_and_the_conversation_survives_a_device_restart() {
    let mut ada = DevicePagesSetup::ada().await;
    ada.allow(&["filesystem:read"]).await;
    ada.go("/agents").await;
    ada.browser.click("a[href*='/talk/']").await;
    ada.browser.until("document.querySelector('h1')?.innerText === 'script'").await;
    assert_eq!(ada.browser.eval("document.querySelector('#nothing').hidden").await, false);
    // Shift and Enter start a new line; Enter sends the message.
    ada.browser.click("#saying").await;
    ada.browser.type_keys("Good morning.").await;
    ada.browser.press(Some(SHIFT), &[ENTER]).await;
    ada.browser.type_keys("How are <b>you</b>?").await;
    ada.browser.press(None, &[ENTER]).await;
    let first = ["me: Good morning.\nHow are <b>you</b>?", "it: You said: Good morning.\nHow are <b>you</b>?"];
    ada.browser.until(&messages_shown(&first)).await;
    assert_eq!(ada.browser.eval("document.querySelector('#saying').value").await, "");
    assert_eq!(ada.browser.eval("document.activeElement.id").await, "saying");
    // An empty message is not sent.
    ada.browser.press(None, &[ENTER]).await;
    ada.browser.until("document.querySelector('#wrong').innerText === 'The message is empty.'").await;
    ada.browser.type_keys("See https://a.example/b and javascript:alert(1)").await;
    ada.browser.press(None, &[ENTER]).await;
    let link = "[...document.querySelectorAll('.words a')].map(link => link.href + ' ' + link.rel).join()";
    let rel = "noopener noreferrer nofollow";
    let twice = format!("{link} === 'https://a.example/b {rel},https://a.example/b {rel}'");
    ada.browser.until(&twice).await;
    assert_eq!(ada.browser.eval("document.querySelector('#wrong').hidden").await, true);
    ada.assert_no_browser_errors().await;
    for_everyone(&ada, "/talk/script", "talk").await;
    // The page shows the same messages after a restart of the device.
    ada.browser.go("about:blank").await;
    ada.device.take().into_iter().for_each(Server::stop);
    ada.device = Some(run(&ada.home));
    ada.link = ada.device.as_ref().unwrap().greeting["pages"].as_str().unwrap().to_owned();
    open_pages(&ada.browser, &ada.link).await;
    ada.go("/talk/script").await;
    let all = format!("{LINES}.length === 4 && {LINES}[1] === {:?}", first[1]);
    ada.browser.until(&all).await;
    ada.assert_no_browser_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streamed_answer_is_shown_in_parts_and_announced_once() {
    let ada = DevicePagesSetup::ada().await;
    ada.allow(&["filesystem:read"]).await;
    ada.go("/talk/script").await;
    // The page records every intermediate text of the streamed message.
    ada.browser
        .run(
            "window.seen = []; new MutationObserver(() => { \
             const words = document.querySelector('.growing .words')?.textContent; if (words) window.seen.push(words); })\
             .observe(document.body, { childList: true, subtree: true, characterData: true })",
            &[],
        )
        .await;
    let pauses =
        json!({"script": [[{"text": "The first sentence. And "}, {"sleep": 700}, {"text": "the second one."}]]});
    ada.browser.run("document.querySelector('#saying').value = arguments[0]", &[json!(pauses.to_string())]).await;
    ada.browser.click("#say button").await;
    let announcements = "document.querySelector('#announcements').innerText";
    let whole = "it: The first sentence. And the second one.";
    ada.browser.until(&format!("{LINES}[1] === {whole:?} && !document.querySelector('.growing')")).await;
    ada.browser.until(&format!("{announcements}.includes('And the second one.')")).await;
    assert_eq!(ada.browser.eval("window.seen.some(words => words === 'The first sentence. And ')").await, true);
    let times = format!("{announcements}.split('The first sentence.').length");
    assert_eq!(ada.browser.eval(&times).await, 2, "said once");
    ada.assert_no_browser_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prompt_over_the_conversation_page_keeps_typed_text() {
    let ada = DevicePagesSetup::ada().await;
    ada.allow(&["location:read"]).await;
    ada.go("/talk/script").await;
    ada.browser.click("#saying").await;
    ada.browser.type_keys("half a wo").await;
    let answer = ada.calls("c1", "where_am_i", json!({}));
    ada.browser.until("document.querySelector('#ask[open] .call')").await;
    ada.browser.until("document.querySelector('[data-part=deny]').getAttribute('aria-disabled') === 'false'").await;
    ada.browser.press(None, &[ENTER]).await;
    assert!(answer.await.unwrap().contains("the person refused the call"));
    ada.browser.until("!document.querySelector('#ask').open && document.activeElement.id === 'saying'").await;
    ada.browser.type_keys("rd").await;
    ada.browser.press(None, &[ENTER]).await;
    ada.browser.until(&messages_shown(&["me: half a word", "it: You said: half a word"])).await;
    ada.assert_no_browser_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_message_shows_the_reason_and_is_resent_by_keyboard() {
    let ada = DevicePagesSetup::ada().await;
    ada.go("/talk/script").await;
    assert!(
        ada.browser.eval("document.querySelector('.notice').innerText").await.as_str().unwrap().contains("not allowed")
    );
    ada.browser.click("#saying").await;
    ada.browser.type_keys("Hello?").await;
    ada.browser.press(None, &[ENTER]).await;
    ada.browser
        .until(
            "document.querySelector('[data-state=failed] .how-far')?.innerText.includes('not allowed this agent anything')",
        )
        .await;
    for_everyone(&ada, "/talk/script", "talk-failed").await;
    ada.allow(&["filesystem:read"]).await;
    ada.go("/talk/script?lang=en").await;
    ada.browser.until("document.querySelector('[data-state=failed] button')").await;
    ada.browser.run("document.querySelector('#talk').previousElementSibling.tabIndex = -1; document.querySelector('.sealed a').focus()", &[]).await;
    ada.browser.press(None, &[TAB]).await;
    assert_eq!(ada.browser.eval("document.activeElement.innerText").await, "Send again");
    ada.browser.press(None, &[ENTER]).await;
    ada.browser.until(&messages_shown(&["me: Hello?", "it: You said: Hello?"])).await;
    ada.assert_no_browser_errors().await;
}

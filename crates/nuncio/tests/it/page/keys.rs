//! The chat page of a server that requires a key.

use serde_json::json;

use super::ChatPageSetup;
use super::accessibility::accessible;
use crate::home::TestAgentFolder;
use crate::webdriver::{BrowserSettings, ENTER, ESCAPE};

#[tokio::test]
async fn page_asks_for_a_key_and_stores_it_only_for_its_browser_tab() {
    let home = TestAgentFolder::script();
    let key = home.key(&[]);
    let visit = ChatPageSetup::to(home, BrowserSettings::default()).await;
    let browser = &visit.browser;
    browser.until("document.getElementById('key-dialog').open").await;
    assert_eq!(browser.eval("document.activeElement.type").await, "password");
    accessible(browser, "asking for a key").await;
    visit.assert_no_browser_errors().await;

    browser.write("#key", &format!("wrong{ENTER}")).await;
    browser.until("document.getElementById('key-error').innerText === 'This key is not valid.'").await;
    assert_eq!(browser.eval("sessionStorage.length").await, 0);
    assert!(browser.browser_errors().await.iter().all(|complaint| complaint.contains("401")));

    browser.run("document.getElementById('key').value = ''", &[]).await;
    browser.write("#key", &format!("{key}{ENTER}")).await;
    browser.until("!document.getElementById('key-dialog').open").await;
    visit.say("with a key").await;
    visit.wait_for_text("You said: with a key").await;
    let stored = browser.eval("[Object.values(sessionStorage), Object.values(localStorage), document.cookie]").await;
    assert_eq!(stored, json!([[key], [], ""]));
    // The example commands contain a placeholder instead of the key.
    let commands =
        browser.eval("[...document.querySelectorAll('[data-command]')].map(part => part.textContent).join(' ')").await;
    let commands = commands.as_str().unwrap();
    assert!(commands.contains("Bearer $NUNCIO_KEY") && !commands.contains(&key), "{commands}");

    visit.is("idle").await;
    browser.reload().await;
    visit.wait_for_text("You said: with a key").await;
    browser.click("#forget-key").await;
    browser.until("document.getElementById('key-dialog').open").await;
    assert_eq!(browser.eval("sessionStorage.length").await, 0);
    assert_eq!(browser.eval("document.getElementById('transcript').childElementCount").await, 0);
}

#[tokio::test]
async fn page_asks_for_a_key_once_the_server_requires_one_and_keeps_the_typed_message() {
    let visit = ChatPageSetup::script().await;
    let browser = &visit.browser;
    browser.until("document.activeElement.id === 'message'").await;
    let key = visit.home.key(&[]);
    visit.say("do not lose me").await;
    browser.until("document.getElementById('key-dialog').open").await;
    browser.press(None, &[ESCAPE]).await;
    browser.until("!document.getElementById('key-dialog').open").await;
    assert_eq!(browser.eval("document.getElementById('message').value").await, "do not lose me");
    browser.write("#message", ENTER).await;
    browser.until("document.getElementById('key-dialog').open").await;
    browser.write("#key", &format!("{key}{ENTER}")).await;
    browser.until("!document.getElementById('key-dialog').open").await;
    browser.write("#message", ENTER).await;
    visit.wait_for_text("You said: do not lose me").await;
}

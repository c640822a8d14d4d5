//! Conversations on the chat page: sending, streaming, stopping and resuming.

use std::fs;

use serde_json::json;

use super::ChatPageSetup;
use crate::client::call;
use crate::webdriver::Browser;

#[tokio::test]
async fn answer_is_shown_while_it_streams_and_can_be_stopped() {
    let visit = ChatPageSetup::script().await;
    visit.play(json!([[{"thinking": "Hm, let me see. "}, {"text": "The first half."}, {"sleep": 600_000}]])).await;
    // The turn still runs for ten minutes, so the visible text was streamed.
    visit.wait_for_text("The first half.").await;
    visit.is("running").await;
    let thinking = "document.querySelector('.thinking')";
    assert_eq!(visit.browser.eval(&format!("{thinking}.open")).await, false);
    assert_eq!(visit.browser.eval(&format!("{thinking}.querySelector('.text').textContent")).await, "Hm, let me see. ");
    let announced = visit.browser.eval("document.getElementById('announcements').textContent").await;
    assert!(announced.as_str().unwrap().contains("Script is answering"), "{announced}");

    visit.browser.click("#stop").await;
    visit.is("idle").await;
    assert!(visit.transcript().await.contains("You stopped the answer."));
    visit.say("Still there?").await;
    visit.wait_for_text("You said: Still there?").await;
    visit.is("idle").await;
    visit.assert_no_browser_errors().await;
}

#[tokio::test]
async fn page_reloaded_mid_answer_resumes_the_stream_without_repetition() {
    let visit = ChatPageSetup::gated().await;
    let script = json!([
        [{"thinking": "First the gate. "}, {"text": "Half of it."}, call("c1", "gate", json!({}))],
        [{"text": "And the rest."}],
    ]);
    visit.play(script).await;
    visit.browser.click(".ask .primary").await;
    crate::process::until("the tool runs", async || visit.home.path("begun").exists().then_some(())).await;
    let session = visit.session().await;

    visit.browser.reload().await;
    visit.is("running").await;
    visit.wait_for_text("Half of it.").await;
    assert_eq!(visit.session().await, session);
    fs::write(visit.home.path("go"), "").unwrap();
    visit.wait_for_text("And the rest.").await;
    visit.is("idle").await;
    let whole = visit.transcript().await;

    // The stream received over two connections equals the stored history: nothing is missing or repeated.
    for once in ["Half of it.", "And the rest."] {
        let messages = visit
            .browser
            .eval(&format!(
                "[...document.querySelectorAll('.agent > .text')].filter(part => part.textContent === {once:?}).length"
            ))
            .await;
        assert_eq!(messages, 1, "{once}\n{whole}");
    }
    assert_eq!(visit.browser.eval("document.querySelectorAll('.call').length").await, 1);
    visit.browser.reload().await;
    visit.wait_for_text("And the rest.").await;
    visit.is("idle").await;
    assert_eq!(visit.transcript().await, whole);
    visit.assert_no_browser_errors().await;
}

#[tokio::test]
async fn page_reloaded_during_a_second_turn_shows_each_answer_once() {
    let visit = ChatPageSetup::script().await;
    visit.say("one").await;
    visit.wait_for_text("You said: one").await;
    visit.is("idle").await;
    visit.play(json!([[{"text": "begun "}, {"sleep": 600_000}]])).await;
    visit.wait_for_text("begun").await;
    visit.browser.reload().await;
    visit.is("running").await;
    visit.wait_for_text("begun").await;
    let texts =
        visit.browser.eval("[...document.querySelectorAll('.agent > .text')].map(part => part.textContent)").await;
    assert_eq!(texts, json!(["You said: one", "begun "]));
    visit.browser.click("#stop").await;
    visit.is("idle").await;
    visit.assert_no_browser_errors().await;
}

#[tokio::test]
async fn earlier_conversation_is_listed_and_can_be_continued() {
    let visit = ChatPageSetup::script().await;
    visit.say("about apples").await;
    visit.is("idle").await;
    let apples = visit.session().await;
    visit.browser.click("#new-conversation").await;
    assert_eq!(visit.browser.eval("document.getElementById('transcript').childElementCount").await, 0);
    visit.say("about pears").await;
    visit.wait_for_text("You said: about pears").await;
    visit.is("idle").await;
    assert_ne!(visit.session().await, apples);

    visit.browser.go(visit.server.url()).await;
    let titles = "[...document.querySelectorAll('#sessions a')].map(link => link.querySelector('span').textContent)";
    visit.browser.until(&format!("({titles}).join() === 'about pears,about apples'")).await;
    visit.browser.click(&format!("#sessions a[href='#{apples}']")).await;
    visit.wait_for_text("You said: about apples").await;
    visit.say("more of them").await;
    visit.wait_for_text("You said: more of them").await;
    assert_eq!(visit.server.aap().history(&apples).await.len(), 4);
    visit.assert_no_browser_errors().await;
}

#[tokio::test]
async fn conversation_in_the_list_has_a_date_and_is_deleted_after_confirmation() {
    let visit = ChatPageSetup::script().await;
    visit.say("about apples").await;
    visit.is("idle").await;
    let apples = visit.session().await;
    visit.browser.reload().await;
    visit.browser.until("document.querySelector('#sessions span')?.textContent === 'about apples'").await;
    let dated = "!Number.isNaN(Date.parse(document.querySelector('#sessions time').dateTime))";
    assert_eq!(visit.browser.eval(dated).await, true);

    visit.browser.click("#sessions .delete").await;
    visit.browser.click("#sessions .buttons button:last-child").await;
    assert_eq!(visit.server.aap().history(&apples).await.len(), 2, "nothing is deleted without confirmation");
    visit.browser.click("#sessions .delete").await;
    visit.browser.click("#sessions .buttons button:first-child").await;
    visit.browser.until("document.querySelector('#sessions .none') && location.hash === ''").await;
    assert_eq!(visit.browser.eval("document.getElementById('transcript').childElementCount").await, 0);
    gone(&visit.browser, visit.server.url()).await;
}

#[tokio::test]
async fn server_kill_mid_answer_is_shown_as_an_interruption_and_the_chat_continues() {
    let ChatPageSetup { browser, server, home } = ChatPageSetup::script().await;
    let visit = ChatPageSetup { browser, server, home };
    visit.play(json!([[{"text": "so far "}, {"sleep": 600_000}]])).await;
    visit.wait_for_text("so far").await;
    let ChatPageSetup { browser, server, home } = visit;
    let port = server.url().rsplit(':').next().unwrap().to_owned();
    server.kill9();
    browser.until("!document.getElementById('trouble').hidden").await;
    let server =
        home.nuncio(&["--json", "serve", "--listen", &format!("localhost:{port}"), crate::home::SCRIPT]).start();
    browser.until("document.querySelector('.note.wrong')?.innerText.includes('interrupted')").await;
    assert_eq!(browser.eval("document.getElementById('trouble').hidden").await, true);
    let visit = ChatPageSetup { browser, server, home };
    visit.is("idle").await;
    visit.say("and now?").await;
    visit.wait_for_text("You said: and now?").await;
}

#[tokio::test]
async fn page_shows_error_codes_and_reports_a_conversation_that_does_not_exist() {
    let visit = ChatPageSetup::script().await;
    visit.play(json!([[{"throw": "the model went away"}]])).await;
    let error = visit.browser.until("document.querySelector('.note.wrong')?.innerText").await;
    let error = error.as_str().unwrap();
    assert!(error.contains("the model went away") && error.contains("brain_failed"), "{error}");

    gone(&visit.browser, visit.server.url()).await;
}

async fn gone(browser: &Browser, url: &str) {
    browser.go("about:blank").await;
    browser.go(&format!("{url}/#ses_00000000000000000000000000")).await;
    browser.until("document.querySelector('.note.wrong')?.innerText.includes('no longer exists')").await;
}

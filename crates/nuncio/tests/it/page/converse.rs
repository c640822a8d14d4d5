//! Asking, listening, stopping, coming back.

use std::fs;

use serde_json::json;

use super::Visit;
use crate::client::call;
use crate::webdriver::Browser;

#[tokio::test]
async fn a_question_is_answered_word_by_word() {
    let visit = Visit::script().await;
    visit.play(json!([[{"thinking": "Hm, let me see. "}, {"text": "The first half."}, {"sleep": 600_000}]])).await;
    // The turn has ten minutes to go: what is seen now came as it was said.
    visit.hears("The first half.").await;
    visit.is("running").await;
    let thinking = "document.querySelector('.thinking')";
    assert_eq!(visit.browser.eval(&format!("{thinking}.open")).await, false);
    assert_eq!(visit.browser.eval(&format!("{thinking}.querySelector('.text').textContent")).await, "Hm, let me see. ");
    let heard = visit.browser.eval("document.getElementById('announcements').textContent").await;
    assert!(heard.as_str().unwrap().contains("Script is answering"), "{heard}");

    visit.browser.click("#stop").await;
    visit.is("idle").await;
    assert!(visit.transcript().await.contains("You stopped the answer."));
    visit.say("Still there?").await;
    visit.hears("You said: Still there?").await;
    visit.is("idle").await;
    visit.no_complaints().await;
}

#[tokio::test]
async fn a_page_loaded_again_in_mid_answer_goes_on_to_the_end() {
    let visit = Visit::gated().await;
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
    visit.hears("Half of it.").await;
    assert_eq!(visit.session().await, session);
    fs::write(visit.home.path("go"), "").unwrap();
    visit.hears("And the rest.").await;
    visit.is("idle").await;
    let whole = visit.transcript().await;

    // What came over two connections is what a history read at leisure shows, each thing once.
    for once in ["Half of it.", "And the rest."] {
        let said = visit
            .browser
            .eval(&format!(
                "[...document.querySelectorAll('.agent > .text')].filter(part => part.textContent === {once:?}).length"
            ))
            .await;
        assert_eq!(said, 1, "{once}\n{whole}");
    }
    assert_eq!(visit.browser.eval("document.querySelectorAll('.call').length").await, 1);
    visit.browser.reload().await;
    visit.hears("And the rest.").await;
    visit.is("idle").await;
    assert_eq!(visit.transcript().await, whole);
    visit.no_complaints().await;
}

#[tokio::test]
async fn a_turn_without_tools_is_shown_once_when_the_page_is_loaded_again() {
    let visit = Visit::script().await;
    visit.say("one").await;
    visit.hears("You said: one").await;
    visit.is("idle").await;
    visit.play(json!([[{"text": "begun "}, {"sleep": 600_000}]])).await;
    visit.hears("begun").await;
    visit.browser.reload().await;
    visit.is("running").await;
    visit.hears("begun").await;
    let texts =
        visit.browser.eval("[...document.querySelectorAll('.agent > .text')].map(part => part.textContent)").await;
    assert_eq!(texts, json!(["You said: one", "begun "]));
    visit.browser.click("#stop").await;
    visit.is("idle").await;
    visit.no_complaints().await;
}

#[tokio::test]
async fn an_earlier_conversation_is_listed_and_can_be_gone_on_with() {
    let visit = Visit::script().await;
    visit.say("about apples").await;
    visit.is("idle").await;
    let apples = visit.session().await;
    visit.browser.click("#new-conversation").await;
    assert_eq!(visit.browser.eval("document.getElementById('transcript').childElementCount").await, 0);
    visit.say("about pears").await;
    visit.hears("You said: about pears").await;
    visit.is("idle").await;
    assert_ne!(visit.session().await, apples);

    visit.browser.go(visit.server.url()).await;
    let titles = "[...document.querySelectorAll('#sessions a')].map(link => link.innerText.trim())";
    visit.browser.until(&format!("({titles}).join() === 'about pears,about apples'")).await;
    visit.browser.click(&format!("#sessions a[href='#{apples}']")).await;
    visit.hears("You said: about apples").await;
    visit.say("more of them").await;
    visit.hears("You said: more of them").await;
    assert_eq!(visit.server.aap().history(&apples).await.len(), 4);
    visit.no_complaints().await;
}

#[tokio::test]
async fn a_server_that_dies_and_comes_back_ends_the_answer_readably() {
    let Visit { browser, server, home } = Visit::script().await;
    let visit = Visit { browser, server, home };
    visit.play(json!([[{"text": "so far "}, {"sleep": 600_000}]])).await;
    visit.hears("so far").await;
    let Visit { browser, server, home } = visit;
    let port = server.url().rsplit(':').next().unwrap().to_owned();
    server.kill9();
    browser.until("!document.getElementById('trouble').hidden").await;
    let server =
        home.nuncio(&["--json", "serve", "--listen", &format!("localhost:{port}"), crate::home::SCRIPT]).start();
    browser.until("document.querySelector('.note.wrong')?.innerText.includes('interrupted')").await;
    assert_eq!(browser.eval("document.getElementById('trouble').hidden").await, true);
    let visit = Visit { browser, server, home };
    visit.is("idle").await;
    visit.say("and now?").await;
    visit.hears("You said: and now?").await;
}

#[tokio::test]
async fn an_error_is_told_with_its_code_and_a_conversation_that_is_gone_is_said_to_be() {
    let visit = Visit::script().await;
    visit.play(json!([[{"throw": "the model went away"}]])).await;
    let told = visit.browser.until("document.querySelector('.note.wrong')?.innerText").await;
    let told = told.as_str().unwrap();
    assert!(told.contains("the model went away") && told.contains("brain_failed"), "{told}");

    gone(&visit.browser, visit.server.url()).await;
}

async fn gone(browser: &Browser, url: &str) {
    browser.go("about:blank").await;
    browser.go(&format!("{url}/#ses_00000000000000000000000000")).await;
    browser.until("document.querySelector('.note.wrong')?.innerText.includes('no longer exists')").await;
}

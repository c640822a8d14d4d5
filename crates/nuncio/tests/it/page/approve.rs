//! Permission prompts for tool calls on the chat page.

use serde_json::{Value, json};

use super::ChatPageSetup;
use crate::client::call;

fn add(id: &str, a: i64, b: i64) -> Value {
    call(id, "add", json!({"a": a, "b": b}))
}

#[tokio::test]
async fn chat_page_shows_the_arguments_of_a_call_and_runs_it_when_allowed() {
    let visit = ChatPageSetup::script().await;
    visit.play(json!([[add("c1", 20, 22)], [{"text": "It is "}, {"echo": "results"}]])).await;
    visit.is("waiting").await;
    let question = visit.browser.eval("document.querySelector('.ask .question').innerText").await;
    assert_eq!(question, "May Script use “Add”?");
    let arguments = visit.browser.eval("document.querySelector('.arguments').innerText").await;
    assert!(visit.browser.eval("document.querySelector('.arguments').checkVisibility()").await == true);
    assert!(["a", "20", "b", "22"].iter().all(|part| arguments.as_str().unwrap().contains(part)), "{arguments}");
    visit.browser.click(".ask .primary").await;
    visit.wait_for_text("It is [\"42\"]").await;
    visit.is("idle").await;
    assert_eq!(visit.browser.eval("document.querySelector('.call').dataset.state").await, "done");
    visit.assert_no_browser_errors().await;
}

#[tokio::test]
async fn denied_call_does_not_run_and_the_agent_gets_the_typed_reason() {
    let visit = ChatPageSetup::script().await;
    visit.play(json!([[add("c1", 1, 2)], [{"text": "I see: "}, {"echo": "results"}]])).await;
    visit.browser.click(".ask .buttons .secondary").await;
    visit.browser.write(".why input", "too expensive").await;
    visit.browser.click(".why button[type=submit]").await;
    visit.wait_for_text("Tool call denied: too expensive").await;
    assert_eq!(visit.browser.eval("document.querySelector('.call').dataset.state").await, "denied");
    let records = visit.home.audit();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0]["decision"]["by"], "client", "{records:?}");
    assert_eq!(records[0]["outcome"]["result"], "not_run", "{records:?}");
    visit.assert_no_browser_errors().await;
}

#[tokio::test]
async fn several_calls_are_decided_one_by_one_and_the_decisions_are_sent_together() {
    let visit = ChatPageSetup::script().await;
    visit.play(json!([[add("c1", 1, 2), add("c2", 3, 4)], [{"echo": "results"}]])).await;
    visit.is("waiting").await;
    visit.browser.click(".call:nth-of-type(1) .ask .primary").await;
    visit.browser.until("document.querySelector('.call .ask.quiet')").await;
    visit.is("waiting").await;
    visit.browser.click(".ask .buttons .secondary").await;
    visit.browser.click(".why button[type=submit]").await;
    visit.wait_for_text("[\"3\",\"Tool call denied\"]").await;
    visit.assert_no_browser_errors().await;
}

#[tokio::test]
async fn trusted_tool_is_not_asked_about_again_in_the_conversation() {
    let visit = ChatPageSetup::script().await;
    visit.play(json!([[add("c1", 1, 2)], [{"echo": "results"}]])).await;
    visit.browser.click(".ask .switch input").await;
    visit.browser.click(".ask .primary").await;
    visit.wait_for_text("[\"3\"]").await;
    visit.is("idle").await;
    assert_eq!(visit.browser.eval("document.querySelector('[data-tool=add] [data-trust]').checked").await, true);
    visit.play(json!([[add("c2", 3, 4)], [{"echo": "results"}]])).await;
    visit.wait_for_text("[\"7\"]").await;
    assert_eq!(visit.browser.eval("document.querySelectorAll('.ask').length").await, 0);

    // A reload restores the trust with the conversation; a new conversation starts without it.
    visit.is("idle").await;
    visit.browser.reload().await;
    visit.wait_for_text("[\"7\"]").await;
    assert_eq!(visit.browser.eval("document.querySelector('[data-tool=add] [data-trust]').checked").await, true);
    visit.browser.click("#new-conversation").await;
    assert_eq!(visit.browser.eval("document.querySelector('[data-tool=add] [data-trust]').checked").await, false);
    visit.assert_no_browser_errors().await;
}

#[tokio::test]
async fn pending_call_survives_a_reload_and_a_new_message_abandons_it() {
    let visit = ChatPageSetup::script().await;
    visit.play(json!([[{"text": "May I? "}, add("c1", 1, 2)], [{"text": "done"}]])).await;
    visit.is("waiting").await;
    visit.browser.reload().await;
    visit.is("waiting").await;
    assert_eq!(visit.browser.eval("document.querySelectorAll('.call').length").await, 1);
    visit.say("never mind").await;
    visit.wait_for_text("You said: never mind").await;
    assert_eq!(visit.browser.eval("document.querySelector('.call').dataset.state").await, "left");
    assert_eq!(visit.browser.eval("document.querySelectorAll('.ask').length").await, 0);
    visit.assert_no_browser_errors().await;
}

#[tokio::test]
async fn tools_and_options_chosen_on_the_chat_page_reach_the_agent() {
    let visit = ChatPageSetup::script().await;
    visit.browser.click("[data-tool=lookup] [data-on]").await;
    visit.browser.run("const model = document.querySelector('[data-option=model]'); model.value = 'large'", &[]).await;
    visit.browser.write("[data-option=apiKey]", "s3cret").await;
    visit.play(json!([[{"echo": "tools"}]])).await;
    visit.wait_for_text("[\"add\",\"echo\",\"fail\"]").await;
    let session = visit.session().await;
    let (_, shown) = visit.server.aap().get(&format!("/sessions/{session}")).await;
    assert_eq!(shown["agent"]["options"], json!({"model": "large", "apiKey": "***"}));
    let chosen = ["add", "echo", "fail"].map(|name| json!({"name": name, "trust": false}));
    assert_eq!(shown["agent"]["tools"], json!(chosen));
    assert_eq!(visit.browser.eval("document.querySelector('[data-option=apiKey]').value").await, "");

    visit.is("idle").await;
    visit.browser.click("[data-tool=lookup] [data-on]").await;
    visit.play(json!([[{"text": "now "}, {"echo": "tools"}]])).await;
    visit.wait_for_text("now [\"add\",\"lookup\",\"echo\",\"fail\"]").await;
    visit.assert_no_browser_errors().await;
}

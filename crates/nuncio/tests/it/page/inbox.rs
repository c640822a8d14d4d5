//! `/console/tasks` in a real browser: a person does a task of an agent.

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::accessibility::accessible;
use crate::client::{Client, call};
use crate::home::{SCRIPTED, TestAgentFolder};
use crate::process::{Server, until};
use crate::webdriver::{Browser, BrowserSettings, ENTER, TAB};

/// Tool that a person performs, with every kind of form field in its result.
const PICKUP: &str = r#"
[[tool]]
name = "pickup"
title = "Pick up a parcel"
description = "Somebody picks up a parcel at a shelf."
timeout_ms = 600000
run = { human = { instructions = "Fetch the parcel from shelf {{ args.shelf }} and weigh it.\nThen bring it to the desk." } }
[tool.input]
type = "object"
required = ["shelf"]
properties = { shelf = { type = "string" }, parcel = { type = "object" } }
[tool.output]
type = "object"
required = ["weight_kg", "condition"]
additionalProperties = false
[tool.output.properties]
weight_kg = { type = "number", title = "Weight in kg", exclusiveMinimum = 0, maximum = 30, description = "Without the pallet." }
condition = { enum = ["intact", "damaged"], title = "Condition" }
picked_up = { type = "string", format = "date-time", title = "Picked up" }
sealed = { type = "boolean", title = "All seals are whole" }
seals = { type = "array", items = { type = "string" }, title = "Numbers of the seals" }
note = { type = "string", title = "Note" }
[tool.output.properties.place]
type = "object"
title = "Where it is now"
required = ["desk"]
properties = { desk = { type = "integer", minimum = 1, title = "Desk" }, with = { type = "string", maxLength = 40, title = "Handed to" } }
"#;

/// A browser at the inbox with one open task.
struct InboxPageSetup {
    browser: Browser,
    turn: JoinHandle<Value>,
    server: Server,
    _home: TestAgentFolder,
}

impl InboxPageSetup {
    async fn of(reader: BrowserSettings) -> Self {
        let home = TestAgentFolder::with_agent(&format!("{SCRIPTED}{PICKUP}"));
        let key = home.key(&["--person", "ada", "--scope", "console:tasks"]);
        let app = home.key(&["--name", "app"]);
        let server = home.start();
        let turn = hand_over(&server, &app, "B7").await;
        until("work waits", async || {
            let listed = home.json_command(&["task", "list"]).json();
            (!listed["tasks"].as_array().unwrap().is_empty()).then_some(())
        })
        .await;
        let browser = Browser::open(reader).await;
        browser.go(&format!("{}/console", server.url())).await;
        browser.until("document.activeElement.id === 'key'").await;
        accessible(&browser, "signing in").await;
        browser.write("#key", &format!("wrong{ENTER}")).await;
        browser.until("document.getElementById('key-wrong')").await;
        browser.until("document.activeElement.id === 'key'").await;
        browser.write("#key", &format!("{key}{ENTER}")).await;
        browser.until("document.querySelector('main.inbox .tasks a')").await;
        Self { browser, turn, server, _home: home }
    }

    /// Opens the only task and takes it.
    async fn take(&self) {
        self.browser.click(".tasks a").await;
        self.browser.click("main.task .primary").await;
        self.browser.until("document.getElementById('result-form')").await;
    }

    async fn text(&self, css: &str) -> String {
        let text = self.browser.until(&format!("document.querySelector({css:?})?.innerText")).await;
        text.as_str().unwrap().to_owned()
    }

    async fn set(&self, css: &str, value: &str) {
        let script = "const field = document.querySelector(arguments[0]); field.value = arguments[1]; field.dispatchEvent(new Event('input', {bubbles: true}))";
        self.browser.run(script, &[json!(css), json!(value)]).await;
    }
}

/// Starts a turn that creates a task and waits for the task's result.
async fn hand_over(server: &Server, key: &str, shelf: &str) -> JoinHandle<Value> {
    let client = Client::new(&format!("{}/aap", server.url()), Some(key));
    let session = client.session("script", &[("pickup", true)]).await;
    let parcel = json!({"from": "Kim <b>&</b> Co.", "pieces": [1, 2]});
    let script = json!([[call("c1", "pickup", json!({"shelf": shelf, "parcel": parcel}))], [{"echo": "results"}]]);
    tokio::spawn(async move { client.play(&session, script).await })
}

#[tokio::test(flavor = "multi_thread")]
async fn signed_in_person_takes_fills_in_and_finishes_a_task() {
    let shift = InboxPageSetup::of(BrowserSettings::default()).await;
    let browser = &shift.browser;
    // The browser logs the failed sign-in with a wrong key.
    let complaints = browser.browser_errors().await;
    assert!(complaints.iter().all(|complaint| complaint.contains("401")), "{complaints:?}");
    let row = shift.text(".tasks a").await;
    assert!(row.contains("Pick up a parcel") && row.contains(" min"), "{row}");
    assert_eq!(browser.eval("document.cookie").await, "", "no script can read the session");
    accessible(browser, "the inbox").await;
    shift.take().await;
    assert_eq!(
        shift.text(".given .words").await,
        "Fetch the parcel from shelf B7 and weigh it.\nThen bring it to the desk."
    );
    let inputs = shift.text(".inputs").await;
    assert!(inputs.contains("Kim <b>&</b> Co."), "{inputs}");
    assert_eq!(browser.eval("document.querySelectorAll('.inputs b').length").await, 0);
    accessible(browser, "the form").await;

    browser.write("[name='f/weight_kg']", "31").await;
    browser.write("[name='f/note']", "One corner\nis wet").await;
    browser.write("[name='f/place/desk']", "two").await;
    browser.click("#result-form .primary").await;
    browser.until("document.activeElement.className === 'problems'").await;
    assert_eq!(shift.text(".problems p").await, "3 fields need correction");
    let wrong = "[...document.querySelectorAll('.wrong')].map(part => part.innerText)";
    let expected = ["This must be at most 30.", "Choose one from the list.", "This must be a whole number, such as 3."];
    assert_eq!(browser.eval(wrong).await, json!(expected));
    assert_eq!(browser.eval("document.querySelector(\"[name='f/note']\").value").await, "One corner\nis wet");
    accessible(browser, "what is wrong").await;
    browser.click(".problems a").await;
    browser.until("location.hash === '#field-1'").await;

    browser.run("document.querySelector(\"[name='f/weight_kg']\").value = ''", &[]).await;
    browser.write("[name='f/weight_kg']", "2.5").await;
    browser.run("document.querySelector(\"[name='f/condition']\").selectedIndex = 1", &[]).await;
    browser.run("document.querySelector(\"[name='f/place/desk']\").value = '2'", &[]).await;
    browser.write("[name='f/seals']", "A-1\n\nA-2").await;
    browser.click("[name='f/sealed']").await;
    shift.set("[name='f/picked_up']", "2026-11-15T11:30").await;
    browser.click("#result-form .primary").await;
    let news = shift.text(".news").await;
    assert_eq!(news, "“Pick up a parcel” is done. The result was sent to the requester.");
    assert_eq!(shift.text(".nothing-title").await, "No tasks");
    accessible(browser, "an empty inbox").await;
    let complaints = browser.browser_errors().await;
    assert!(complaints.iter().all(|complaint| complaint.contains("422")), "{complaints:?}");

    let answer = shift.turn.await.unwrap();
    let content = answer["messages"][1]["content"].as_str().unwrap();
    let mut result: Value = serde_json::from_str(content).unwrap();
    let picked_up = result["picked_up"].take();
    assert!(picked_up.as_str().unwrap().starts_with("2026-11-15T11:30:00"), "{picked_up}");
    assert_eq!(
        result,
        json!({"weight_kg": 2.5, "condition": "intact", "note": "One corner\nis wet", "sealed": true, "picked_up": null,
            "seals": ["A-1", "A-2"], "place": {"desk": 2}})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn inbox_works_in_chinese_on_a_phone_in_dark_theme_by_keyboard() {
    let shift = InboxPageSetup::of(BrowserSettings { width: 360, dark: true, language: "zh-CN" }).await;
    let browser = &shift.browser;
    let fits = async |what: &str| {
        let width = browser.eval("Math.max(document.documentElement.scrollWidth, innerWidth)").await;
        assert_eq!(width, 360, "{what}");
        let beyond = "[...document.querySelectorAll('body *')].filter(part => part.checkVisibility() && part.getBoundingClientRect().right > 361).map(part => part.outerHTML.slice(0, 120))";
        assert_eq!(browser.eval(beyond).await, json!([]), "{what}");
        accessible(browser, what).await;
    };
    assert_eq!(browser.eval("document.documentElement.lang").await, "zh-CN");
    assert!(shift.text(".tasks a").await.contains("分钟后"));
    fits("the inbox").await;
    // By keyboard alone: from the top of the page past the header to the task, then take it.
    browser.press(None, &[TAB, ENTER]).await;
    browser.until("document.activeElement.id === 'main'").await;
    browser.press(None, &[TAB]).await;
    assert_eq!(browser.eval("document.activeElement.matches('.tasks a')").await, true);
    browser.press(None, &[ENTER]).await;
    browser.until("document.querySelector('main.task')").await;
    fits("a task").await;
    browser.run("document.querySelector('main.task .primary').focus()", &[]).await;
    assert_eq!(browser.eval("document.activeElement.innerText").await, "认领");
    browser.press(None, &[ENTER]).await;
    browser.until("document.getElementById('result-form')").await;
    fits("the form").await;
    browser.click("#result-form .primary").await;
    assert_eq!(shift.text(".problems p").await, "有 2 处需要修改");
    fits("what is wrong").await;
    browser.click(".refuse summary").await;
    fits("a reason").await;
    browser.write("#reason", "货架是空的").await;
    browser.click(".refuse .danger").await;
    assert_eq!(shift.text(".news").await, "“Pick up a parcel”已拒绝，请求方会收到通知。");
    fits("an empty inbox").await;
    let answer = shift.turn.await.unwrap();
    assert!(answer["messages"][1]["content"].as_str().unwrap().contains("货架是空的"), "{answer}");

    browser.click(".who button").await;
    browser.until("document.getElementById('key')").await;
    browser.go(&format!("{}/console/tasks", shift.server.url())).await;
    browser.until("location.pathname === '/console/sign-in'").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inbox_list_refreshes_itself_and_an_open_form_only_shows_a_notice() {
    let home = TestAgentFolder::with_agent(&format!("{SCRIPTED}{PICKUP}"));
    let server = home.start();
    let browser = Browser::open(BrowserSettings::default()).await;
    browser.go(&format!("{}/console/tasks", server.url())).await;
    browser.until("document.querySelector('.nothing')").await;
    let _turn = hand_over(&server, "", "B7").await;
    // The list has no focus, so it shows the new task by itself.
    browser.until("document.querySelector('.tasks a')").await;
    browser.click(".tasks a").await;
    browser.click("main.task .primary").await;
    browser.write("[name='f/note']", "do not lose me").await;
    let id = home.json_command(&["task", "list"]).json()["tasks"][0]["id"].as_str().unwrap().to_owned();
    home.json_command(&["task", "take", &id, "--over", "--as", "bob"]).json();
    browser.until("document.querySelector('#changed > span').checkVisibility()").await;
    assert_eq!(browser.eval("document.querySelector(\"[name='f/note']\").value").await, "do not lose me");
    assert_eq!(browser.browser_errors().await, Vec::<String>::new());

    browser.go(server.url()).await;
    assert_eq!(browser.until("document.querySelector('.inbox-link')?.innerText").await, "Inbox 1");
    accessible(&browser, "the first page with its way to the inbox").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cross_site_link_opens_the_task_when_signed_in_but_framing_is_refused() {
    let shift = InboxPageSetup::of(BrowserSettings::default()).await;
    let browser = &shift.browser;
    browser.click(".tasks a").await;
    let address = browser.until("document.querySelector('main.task') && location.href").await;
    browser.go("data:text/html,<title>elsewhere</title>").await;
    browser.run(&format!("location.href = {address}"), &[]).await;
    browser.until("document.querySelector('main.task') !== null").await;
    browser.go(&format!("data:text/html,<iframe src={address}></iframe>")).await;
    browser.enter_frame().await;
    assert_eq!(browser.eval("document.querySelector('main')").await, json!(null));
}

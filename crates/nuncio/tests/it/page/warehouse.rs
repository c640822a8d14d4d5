//! The warehouse example of the Skill Sharing specification: a user asks an agent of one server, which invokes a skill
//! of the warehouse's server, and a person there does the task in a browser.

use serde_json::{Value, json};

use super::accessibility::accessible;
use crate::process::until;
use crate::skill_stories::{PICKUP, consumer_of, example};
use crate::webdriver::{Browser, BrowserSettings, ENTER};

#[tokio::test(flavor = "multi_thread")]
async fn person_finishes_a_task_for_an_agent_of_another_server_in_the_browser() {
    let home = example("warehouse", |text| text);
    let app = home.key(&["--name", "shop", "--scope", "pickup:request"]);
    let person = home.key(&["--person", "mei", "--scope", "console:tasks"]);
    let warehouse = home.start();

    // The shop's agent has a tool that invokes the skill of the warehouse.
    let shop = consumer_of(&warehouse, PICKUP, "api_key = \"{{ secrets.key }}\"", &app);
    let agent = std::fs::read_to_string(shop.path("agent.toml")).unwrap();
    let inputs = "type = \"object\", properties = { order = { type = \"string\" }, shelf = { type = \"string\" } }";
    let agent = agent.replace("type = \"object\"", inputs);
    shop.write_agent(&format!("{agent}skill = {{ type = \"task\" }}\n"));
    let server = shop.start();
    let target = format!("script/remote@{}", server.url().trim_end_matches('/').strip_prefix("http://").unwrap());
    let arguments = ["--json", "invoke", &target, "-i", "order=A-1001", "-i", "shelf=B7"];
    let invocation =
        shop.nuncio(&arguments).env("XDG_DATA_HOME", shop.path("share").to_str().unwrap()).start_interactive();

    let browser = Browser::open(BrowserSettings::default()).await;
    browser.go(&format!("{}/console/tasks", warehouse.url())).await;
    browser.write("#key", &format!("{person}{ENTER}")).await;
    let row = browser.until("document.querySelector('.tasks a')?.innerText").await;
    assert!(row.as_str().unwrap().contains("Warehouse pickup"), "{row}");
    browser.click(".tasks a").await;
    browser.click("main.task .primary").await;
    let labels =
        browser.until("document.querySelector('#result-form') && document.querySelector('.given .words').innerText");
    assert_eq!(labels.await, "Fetch the parcel of order A-1001 from shelf B7, weigh it and hand it over.");
    accessible(&browser, "the warehouse's form").await;
    let listed = home.json_command(&["task", "list"]).json();
    assert_eq!(listed["tasks"][0]["state"]["by"], "mei", "{listed}");
    until("the shop sees that somebody is at work", async || invocation.stdout().contains("running").then_some(()))
        .await;

    browser.click("[name='f/picked_up']").await;
    browser.write("[name='f/weight_kg']", "2.4").await;
    browser.write("[name='f/handed_to']", "courier").await;
    browser.write("[name='f/remark']", "纸箱有点湿").await;
    browser.click("#result-form .primary").await;
    browser.until("document.querySelector('.news')").await;
    assert_eq!(browser.browser_errors().await, Vec::<String>::new());

    let ran = invocation.wait_for_end();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let last: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    let done = json!({"picked_up": true, "weight_kg": 2.4, "handed_to": "courier", "remark": "纸箱有点湿"});
    assert_eq!((&last["event"], &last["output"]), (&json!("result"), &done), "{ran:?}");

    // Both servers have an audit record with the caller and the outcome.
    for (home, caller) in [(&home, "key"), (&shop, "local")] {
        let audit = home.audit();
        assert_eq!((audit.len(), &audit[0]["outcome"]["result"]), (1, &json!("completed")), "{audit:?}");
        assert!(audit[0]["caller"].to_string().contains(caller), "{audit:?}");
    }
}

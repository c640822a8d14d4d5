//! `/console/tasks` through a browser without scripts: sign-in, forms and refused requests.

use nuncio_core::task::{HumanTask, TaskState};
use nuncio_testkit::{AapClient, Gateway, ManualClock, RawHttpResponse, eventually};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::agents::{DESK, call_once, desk};

#[path = "console_tasks/guard.rs"]
mod guard;
#[path = "console_tasks/sign_in.rs"]
mod sign_in;
#[path = "console_tasks/work.rs"]
mod work;

/// A tool that a person carries out, with a form for the result.
const WEIGH: &str = r#"
[[tool]]
name = "weigh"
title = "Weigh a parcel"
description = "Somebody weighs a parcel."
input = { type = "object", required = ["shelf"], properties = { shelf = { type = "string" } } }
output = { type = "object", required = ["kg"], additionalProperties = false, properties = { kg = { type = "number", exclusiveMinimum = 0 }, note = { type = "string" } } }
run = { human = { instructions = "Weigh the parcel on shelf {{ args.shelf }}." } }
"#;

async fn start(clock: &ManualClock) -> Gateway {
    Gateway::builder().agent(DESK, &desk(&[WEIGH.to_owned()])).clock(clock).start().await
}

async fn ask(gateway: &Gateway, aap: &AapClient, shelf: &str) -> (HumanTask, JoinHandle<Value>) {
    let session = aap.session(DESK, &[("weigh", true)]).await;
    let (aap, script) = (aap.clone(), call_once("c1", "weigh", json!({"shelf": shelf})));
    let turn = tokio::spawn(async move { aap.play(&session, script).await });
    let wanted = json!(shelf);
    let task = eventually("the task is in the inbox", async || {
        let tasks = gateway.engine().inbox().open_tasks().await.unwrap();
        tasks.into_iter().find(|task| task.inputs["shelf"] == wanted)
    })
    .await;
    (task, turn)
}

async fn state(gateway: &Gateway, task: &HumanTask) -> TaskState {
    gateway.engine().inbox().task(&task.id).await.unwrap().state
}

struct InboxBrowser<'a> {
    gateway: &'a Gateway,
    cookie: Option<String>,
    says: Vec<(&'static str, String)>,
}

impl<'a> InboxBrowser<'a> {
    fn of(gateway: &'a Gateway) -> Self {
        let origin = ("Origin", format!("http://{}", gateway.address()));
        Self { gateway, cookie: None, says: vec![origin, ("Sec-Fetch-Site", "same-origin".to_owned())] }
    }

    async fn signed_in(gateway: &'a Gateway, key: &str) -> Self {
        let mut browser = Self::of(gateway);
        let answer = browser.post("/console/sign-in", &[("key", key)]).await;
        assert_eq!((answer.status, answer.header("location")), (303, Some("/console/tasks")), "{}", answer.body);
        browser
    }

    async fn get(&mut self, path: &str) -> RawHttpResponse {
        self.send("GET", path, "", "").await
    }

    async fn post(&mut self, path: &str, form: &[(&str, &str)]) -> RawHttpResponse {
        let body = form.iter().map(|(name, value)| format!("{}={}", quoted(name), quoted(value)));
        let body = body.collect::<Vec<_>>().join("&");
        self.send("POST", path, "Content-Type: application/x-www-form-urlencoded\r\n", &body).await
    }

    async fn send(&mut self, method: &str, path: &str, more: &str, body: &str) -> RawHttpResponse {
        let says = self.says.iter().filter(|(name, _)| method == "POST" || *name != "Origin");
        let mut head: String = says.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        if let Some(cookie) = &self.cookie {
            head += &format!("Cookie: {cookie}\r\n");
        }
        let (host, length) = (self.gateway.address(), body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{head}{more}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        let answer = self.gateway.raw(request).await.unwrap();
        if let Some(set) = answer.header("set-cookie") {
            self.cookie = set.split(';').next().map(str::to_owned).filter(|cookie| !cookie.ends_with('='));
        }
        answer
    }

    /// The CSRF token of the forms on the page at `path`.
    async fn token(&mut self, path: &str) -> String {
        let page = self.get(path).await;
        token(&page).unwrap_or_else(|| panic!("no token at {path}: {}", page.body))
    }

    /// Sends a form of a task's page.
    async fn step(&mut self, task: &HumanTask, deed: &str, form: &[(&str, &str)]) -> RawHttpResponse {
        let token = self.token(&place(task)).await;
        self.post(&format!("{}/{deed}", place(task)), &[&[("csrf", token.as_str())], form].concat()).await
    }
}

fn place(task: &HumanTask) -> String {
    format!("/console/tasks/{}", task.id)
}

fn token(page: &RawHttpResponse) -> Option<String> {
    page.body.split("name=\"csrf\" value=\"").nth(1)?.split('"').next().map(str::to_owned)
}

fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric();
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

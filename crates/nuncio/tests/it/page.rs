//! The console's chat page, in a real browser, served by the real program.

use serde_json::{Value, json};

use crate::home::{SCRIPTED, TestAgentFolder, shell_tool};
use crate::process::Server;
use crate::webdriver::{Browser, BrowserSettings, ENTER};

#[path = "page/accessibility.rs"]
mod accessibility;
#[path = "page/approve.rs"]
mod approve;
#[path = "page/converse.rs"]
mod converse;
#[path = "page/device.rs"]
mod device;
#[path = "page/guard.rs"]
mod guard;
#[path = "page/inbox.rs"]
mod inbox;
#[path = "page/join.rs"]
mod join;
#[path = "page/keys.rs"]
mod keys;
#[path = "page/markdown.rs"]
mod markdown;
#[path = "page/warehouse.rs"]
mod warehouse;

struct ChatPageSetup {
    browser: Browser,
    server: Server,
    home: TestAgentFolder,
}

/// Shell line of a tool that answers once a file named `go` exists.
const GATE: &str = "touch begun; while [ ! -e go ]; do sleep 0.02; done; echo went";

impl ChatPageSetup {
    /// Opens the page of the script example in a desktop window.
    async fn script() -> Self {
        Self::to(TestAgentFolder::script(), BrowserSettings::default()).await
    }

    async fn gated() -> Self {
        Self::to(
            TestAgentFolder::with_agent(&format!("{SCRIPTED}{}", shell_tool("gate", GATE))),
            BrowserSettings::default(),
        )
        .await
    }

    async fn to(home: TestAgentFolder, reader: BrowserSettings) -> Self {
        let server = home.start();
        let browser = Browser::open(reader).await;
        browser.go(server.url()).await;
        Self { browser, server, home }
    }

    /// Types a message and sends it.
    async fn say(&self, text: &str) {
        self.browser.write("#message", &format!("{text}{ENTER}")).await;
    }

    /// Sends a script for the script brain to play.
    async fn play(&self, script: Value) {
        self.say(&json!({"script": script}).to_string()).await;
    }

    async fn wait_for_text(&self, text: &str) {
        let agent_text = "[...document.querySelectorAll('.agent')].map(part => part.innerText).join('\\n')";
        self.browser.until(&format!("({agent_text}).includes({})", json!(text))).await;
    }

    /// Waits until the conversation has the state `idle`, `running` or `waiting`.
    async fn is(&self, state: &str) {
        self.browser.until(&format!("document.body.dataset.state === {state:?}")).await;
    }

    async fn transcript(&self) -> String {
        self.browser.eval("document.getElementById('transcript').innerText").await.as_str().unwrap().to_owned()
    }

    async fn session(&self) -> String {
        let hash = self.browser.until("location.hash.startsWith('#ses_') && location.hash").await;
        hash.as_str().unwrap()[1..].to_owned()
    }

    async fn assert_no_browser_errors(&self) {
        assert_eq!(self.browser.browser_errors().await, Vec::<String>::new());
    }
}

//! The web pages of `nuncio device run` in a real browser, with a real agent and relay.

use std::fs;
use std::path::PathBuf;

use nuncio_server::fetch::install_crypto;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::accessibility::accessible;
use crate::client::{Client, call};
use crate::home::{SCRIPTED, TestAgentFolder};
use crate::process::{Server, until};
use crate::webdriver::{Browser, BrowserSettings};

#[path = "device/access.rs"]
mod access;
#[path = "device/activity.rs"]
mod activity;
#[path = "device/calls.rs"]
mod calls;
#[path = "device/consent.rs"]
mod consent;
#[path = "device/conversation.rs"]
mod conversation;
#[path = "device/welcome.rs"]
mod welcome;

const NOTE: &str = "the treasure lies under the third oak";

fn agent(more: &str) -> String {
    let scope = |id: &str, label: &str, sensitivity: &str| {
        format!("\n[[scope]]\nid = {id:?}\nlabel = {label:?}\nsensitivity = {sensitivity:?}\n")
    };
    let tool = |name: &str, description: &str, scope: &str| {
        format!(
            "\n[[tool]]\nname = {name:?}\ndescription = {description:?}\nscope = {scope:?}\ntimeout_ms = 5000\n\
             input = {{ type = \"object\", properties = {{ path = {{ type = \"string\" }}, title = {{ type = \"string\" }} }}, additionalProperties = false }}\n\
             run = {{ device = true }}\n"
        )
    };
    let scopes = scope("filesystem:read", "Read local files", "medium")
        + &scope("location:read", "Read your location", "high")
        + &scope("notification:send", "Send notifications", "low")
        + &scope("garden:water", "Water the garden", "low");
    let tools = tool("read_file", "Reads a file of the person's.", "filesystem:read")
        + &tool("where_am_i", "Says where the person is.", "location:read")
        + &tool("tell", "Tells the person something.", "notification:send")
        + &tool("water", "Waters the garden.", "garden:water");
    format!("{SCRIPTED}{scopes}{tools}{more}")
}

struct DevicePagesSetup {
    browser: Browser,
    device: Option<Server>,
    link: String,
    client: Client,
    session: String,
    _server: Server,
    home: TestAgentFolder,
}

impl DevicePagesSetup {
    async fn ada() -> Self {
        Self::reading(BrowserSettings::default()).await
    }

    /// A person with a running device and its pages open.
    async fn reading(reader: BrowserSettings) -> Self {
        install_crypto();
        let home = TestAgentFolder::with_agent(&agent(""));
        let key = home.key(&["--person", "ada"]);
        let server = home.start();
        let code = home.json_command(&["user", "invite", "ada"]).json()["code"].as_str().unwrap().to_owned();
        let folder = home.path("laptop");
        home.nuncio(&["--json", "device", "enrol", server.url(), &code]).arg("--home").arg(&folder).run().json();
        fs::write(folder.join("place.toml"), "latitude = 52.5\nlongitude = 13.4\nlabel = \"Berlin\"\n").unwrap();
        fs::create_dir(home.path("notes")).unwrap();
        fs::write(home.path("notes/treasure.md"), NOTE).unwrap();
        let client = server.aap_with_key(&key);
        let session = client.session("script", &[]).await;
        let device = run(&home);
        let link = device.greeting["pages"].as_str().unwrap().to_owned();
        let browser = Browser::open(reader).await;
        open_pages(&browser, &link).await;
        Self { browser, device: Some(device), link, client, session, _server: server, home }
    }

    fn page(&self, path: &str) -> String {
        format!("{}{path}", self.link.split("/open").next().unwrap())
    }

    async fn go(&self, path: &str) {
        self.browser.go(&self.page(path)).await;
    }

    /// Grants the agent these scopes on its page.
    async fn allow(&self, scopes: &[&str]) {
        self.go("/agents/script").await;
        for scope in scopes {
            let switch = format!("#on-{}", scope.replace(':', "-"));
            if self.browser.eval(&format!("document.querySelector({switch:?}).checked")).await == false {
                self.browser.click(&switch).await;
            }
        }
        self.browser.click("#consent button[type=submit]").await;
        self.browser.until("document.querySelector('.news')").await;
    }

    fn calls(&self, id: &str, tool: &str, arguments: Value) -> JoinHandle<String> {
        self.call_all(&[call(id, tool, arguments)])
    }

    fn call_all(&self, calls: &[Value]) -> JoinHandle<String> {
        let (client, session) = (self.client.clone(), self.session.clone());
        let script = json!([calls, [{"text": "It says: "}, {"echo": "results"}]]);
        tokio::spawn(async move { client.play(&session, script).await.to_string() })
    }

    fn log(&mut self) -> Vec<Value> {
        // Only one process at a time can use the device folder.
        self.device.take().into_iter().for_each(Server::stop);
        let log = self.home.nuncio(&["--json", "device", "audit"]).arg("--home").arg(self.home.path("laptop")).run();
        log.json()["entries"].as_array().unwrap().clone()
    }

    async fn assert_no_browser_errors(&self) {
        assert_eq!(self.browser.browser_errors().await, Vec::<String>::new());
    }
}

/// Opens a one-time sign-in link and confirms it.
async fn open_pages(browser: &Browser, link: &str) {
    browser.go(link).await;
    browser.click("#open button").await;
    browser.until("!document.getElementById('open') && document.getElementById('main')").await;
}

/// Starts `nuncio device run` with prompts on its pages.
fn run(home: &TestAgentFolder) -> Server {
    let run = home.nuncio(&["--json", "device", "run", "--port", "0"]).arg("--folder").arg(home.path("notes"));
    run.arg("--home").arg(home.path("laptop")).start()
}

/// Saves a screenshot for manual review.
pub(super) async fn save_screenshot(browser: &Browser, name: &str) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../screenshots");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{name}.png")), browser.screenshot().await).unwrap();
}

/// Checks in two languages, two themes and two widths that a page has no serious accessibility violations and does not
/// scroll sideways. Saves a screenshot of each.
async fn for_everyone(person: &DevicePagesSetup, path: &str, name: &str) {
    let browser = &person.browser;
    for language in ["zh-CN", "en"] {
        let joint = if path.contains('?') { '&' } else { '?' };
        person.go(&format!("{path}{joint}lang={language}")).await;
        browser.until(&format!("document.documentElement.lang === {language:?}")).await;
        for (width, dark) in [(1280, false), (1280, true), (360, false), (360, true)] {
            browser.look(BrowserSettings { width, dark, ..BrowserSettings::default() }).await;
            let what = format!("{name}-{language}-{width}-{}", if dark { "dark" } else { "light" });
            accessible(browser, &what).await;
            let sideways = "document.documentElement.scrollWidth > document.documentElement.clientWidth";
            assert_eq!(browser.eval(sideways).await, false, "{what} scrolls sideways");
            save_screenshot(browser, &what).await;
        }
    }
    browser.look(BrowserSettings::default()).await;
}

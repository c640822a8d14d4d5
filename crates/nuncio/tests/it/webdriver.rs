//! A real Chromium, driven by WebDriver. `cargo xtask test` installs it and sets its path.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::builder;
use crate::process::{PATIENCE, kill_tree, until};

/// Code points that WebDriver uses for special keys.
pub(crate) const ENTER: &str = "\u{E007}";
pub(crate) const ESCAPE: &str = "\u{E00C}";
pub(crate) const SHIFT: &str = "\u{E008}";
pub(crate) const TAB: &str = "\u{E004}";

#[derive(Debug, Clone, Copy)]
pub(crate) struct BrowserSettings {
    pub(crate) width: u32,
    pub(crate) dark: bool,
    pub(crate) language: &'static str,
}

impl Default for BrowserSettings {
    fn default() -> Self {
        Self { width: 1280, dark: false, language: "en-GB" }
    }
}

/// A browser window, closed when dropped.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    http: reqwest::Client,
    _profile: TempDir,
}

pub(crate) fn test_variable(variable: &str) -> String {
    std::env::var(variable)
        .unwrap_or_else(|_| panic!("{variable} is not set: run `cargo xtask test`, which installs what is needed"))
}

impl Browser {
    pub(crate) async fn open(reader: BrowserSettings) -> Self {
        let (driver, port) = start_driver();
        let profile = tempfile::tempdir().unwrap();
        let http = builder().timeout(PATIENCE).build().unwrap();
        let mut browser = Self { driver, port, session: String::new(), http, _profile: profile };
        let flags = [
            "--headless".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--disable-quic".to_owned(),
            "--no-first-run".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-sync".to_owned(),
            format!("--accept-lang={}", reader.language),
            format!("--user-data-dir={}", browser._profile.path().display()),
        ];
        let options = json!({
            "binary": test_variable("NUNCIO_TEST_CHROMIUM"),
            "args": flags,
            "prefs": {"intl.accept_languages": reader.language},
        });
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let made = browser.ask(Method::POST, "/session", &wanted).await;
        browser.session = made["sessionId"].as_str().unwrap().to_owned();
        browser.look(reader).await;
        browser
    }

    /// Sets the window size and the colour scheme that the page sees.
    pub(crate) async fn look(&self, reader: BrowserSettings) {
        let scheme = if reader.dark { "dark" } else { "light" };
        // Animations are off, so that screenshots show final colours.
        let media = json!({"features": [
            {"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"},
        ]});
        self.devtools("Emulation.setEmulatedMedia", &media).await;
        let size = json!({"width": reader.width, "height": 800, "deviceScaleFactor": 1, "mobile": reader.width < 600});
        self.devtools("Emulation.setDeviceMetricsOverride", &size).await;
    }

    /// Makes the page believe that it is used with a finger, as on a phone.
    pub(crate) async fn use_touch(&self) {
        self.devtools("Emulation.setTouchEmulationEnabled", &json!({"enabled": true, "maxTouchPoints": 1})).await;
    }

    pub(crate) async fn go(&self, url: &str) {
        self.post("/url", &json!({"url": url})).await;
    }

    pub(crate) async fn reload(&self) {
        self.post("/refresh", &json!({})).await;
    }

    pub(crate) async fn eval(&self, expression: &str) -> Value {
        self.run(&format!("return {expression}"), &[]).await
    }

    pub(crate) async fn run(&self, script: &str, arguments: &[Value]) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": arguments})).await
    }

    pub(crate) async fn run_async(&self, script: &str) -> Value {
        self.post("/execute/async", &json!({"script": script, "args": []})).await
    }

    /// Waits until a script expression is neither null nor false, and returns its value.
    pub(crate) async fn until(&self, expression: &str) -> Value {
        until(expression, async || match self.eval(expression).await {
            Value::Null | Value::Bool(false) => None,
            seen => Some(seen),
        })
        .await
    }

    /// Waits for an element, and clicks it.
    pub(crate) async fn click(&self, css: &str) {
        let element = self.element(css).await;
        self.post(&format!("/element/{element}/click"), &json!({})).await;
    }

    /// Waits for an element, and types into it.
    pub(crate) async fn write(&self, css: &str, text: &str) {
        let element = self.element(css).await;
        self.post(&format!("/element/{element}/value"), &json!({"text": text})).await;
    }

    /// Presses keys one after the other in the focused element; the key `held` is held down meanwhile.
    pub(crate) async fn press(&self, held: Option<&str>, keys: &[&str]) {
        let down = |key: &str| json!({"type": "keyDown", "value": key});
        let up = |key: &str| json!({"type": "keyUp", "value": key});
        let mut actions: Vec<_> = held.into_iter().map(down).collect();
        actions.extend(keys.iter().flat_map(|key| [down(key), up(key)]));
        actions.extend(held.into_iter().map(up));
        let body = json!({"actions": [{"type": "key", "id": "keyboard", "actions": actions}]});
        self.post("/actions", &body).await;
    }

    /// Types a text into the focused element.
    pub(crate) async fn type_keys(&self, text: &str) {
        let keys: Vec<_> = text.chars().map(String::from).collect();
        self.press(None, &keys.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }

    /// A screenshot of the page as PNG.
    pub(crate) async fn screenshot(&self) -> Vec<u8> {
        let whole = json!({"captureBeyondViewport": true});
        let seen = self.devtools("Page.captureScreenshot", &whole).await;
        STANDARD.decode(seen["data"].as_str().unwrap()).unwrap()
    }

    /// Switches to the first frame of the page.
    pub(crate) async fn enter_frame(&self) {
        self.post("/frame", &json!({"id": 0})).await;
    }

    pub(crate) async fn browser_errors(&self) -> Vec<String> {
        let entries = self.post("/se/log", &json!({"type": "browser"})).await;
        entries.as_array().unwrap().iter().map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
    }

    async fn element(&self, css: &str) -> String {
        let visible = format!("document.querySelector({css:?})?.checkVisibility()");
        self.until(&visible).await;
        let found = self.post("/element", &json!({"using": "css selector", "value": css})).await;
        found.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned()
    }

    async fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.post("/goog/cdp/execute", &json!({"cmd": command, "params": parameters})).await
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        self.ask(Method::POST, &format!("/session/{}{path}", self.session), body).await
    }

    async fn ask(&self, method: Method, path: &str, body: &Value) -> Value {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        let response = self.http.request(method, url).json(body).send().await.unwrap();
        let status = response.status();
        let mut answer: Value = response.json().await.unwrap();
        assert!(status.is_success(), "{path} {body}: {}", answer["value"]["message"]);
        answer["value"].take()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The session is closed first, which ends the browser; a killed driver would leave the browser running.
        if let Ok(mut driver) = TcpStream::connect(("127.0.0.1", self.port)) {
            let _ = driver.set_read_timeout(Some(Duration::from_secs(5)));
            let _ = write!(
                driver,
                "DELETE /session/{} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\r\n",
                self.session, self.port
            );
            let _ = driver.read(&mut [0; 1024]);
        }
        kill_tree(&mut self.driver);
    }
}

/// Starts chromedriver on a free port, and returns its process and port.
fn start_driver() -> (Child, u16) {
    let mut driver = Command::new(test_variable("NUNCIO_TEST_CHROMEDRIVER"))
        .arg("--port=0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let port = lines
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| line.split_once("started successfully on port ")?.1.trim_end_matches('.').parse().ok());
    // Further output of the driver is discarded, so that its pipe does not fill up.
    std::thread::spawn(move || lines.for_each(drop));
    let Some(port) = port else {
        let _ = driver.kill();
        panic!("chromedriver does not start");
    };
    (driver, port)
}

//! Tests of the desktop tools with a real bus, virtual screen, clipboard and notification daemon.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::agent::Sensitivity;
use nuncio_core::ids::{AgentId, CallId, ConversationId, ScopeId, ToolName};
use nuncio_core::time::Timestamp;
use nuncio_device::pages::{Language, NotifyingPrompt};
use nuncio_device::prompt::{AgentVerification, DenyAllPrompts, PermissionPrompt as _, PromptAnswer, PromptQuestion};
use nuncio_device::tools::{
    ClipboardTool, DesktopEnvironment, DesktopNotificationTool, GeoClueLocationTool, LocalTool as _, LocalToolFailure,
};
use nuncio_device::{SanitisedTextByLanguage, ScopeTexts};
use nuncio_testkit::eventually;
use serde_json::{Value, json};

const TIME: Duration = Duration::from_secs(30);

/// Configuration of a D-Bus daemon that starts no services by itself.
const BUS: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:dir=FOLDER</listen>
  <policy context="default">
    <allow send_destination="*"/>
    <allow receive_sender="*"/>
    <allow own="*"/>
  </policy>
</busconfig>"#;

/// Process that is killed when this value is dropped at the end of the test.
pub(crate) struct ChildKilledOnDrop(pub(crate) Child);

impl ChildKilledOnDrop {
    /// Starts the process and waits for its first line of output.
    fn saying(command: &mut Command) -> (Self, String) {
        let name = format!("{command:?} starts: run `cargo xtask test`, which installs it");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect(&name);
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "{command:?} says nothing");
        (Self(child), line.trim().to_owned())
    }
}

impl Drop for ChildKilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) struct TestDbusDaemon {
    _process: ChildKilledOnDrop,
    pub(crate) address: String,
    pub(crate) folder: tempfile::TempDir,
}

impl TestDbusDaemon {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bus.conf");
        std::fs::write(&file, BUS.replace("FOLDER", folder.path().to_str().unwrap())).unwrap();
        let mut daemon = Command::new("dbus-daemon");
        daemon.args(["--nofork", "--print-address=1", "--config-file"]).arg(file);
        let (process, address) = ChildKilledOnDrop::saying(&mut daemon);
        Self { _process: process, address, folder }
    }

    pub(crate) fn desktop(&self, more: &[(&str, &str)]) -> DesktopEnvironment {
        let variables = [("DBUS_SESSION_BUS_ADDRESS", self.address.as_str())];
        let variables = variables.iter().chain(more);
        DesktopEnvironment::new(variables.map(|(name, value)| ((*name).to_owned(), OsString::from(value))))
    }
}

/// Starts a virtual screen (Xvfb) and returns its display name.
fn screen() -> (ChildKilledOnDrop, String) {
    let mut screen = Command::new("Xvfb");
    // By default Xvfb resets when the last client leaves, and refuses clients meanwhile.
    screen.args(["-noreset", "-displayfd", "1", "-screen", "0", "640x480x24"]);
    let (screen, display) = ChildKilledOnDrop::saying(&mut screen);
    (screen, format!(":{display}"))
}

async fn notify(desktop: &DesktopEnvironment, arguments: Value) -> Result<Value, LocalToolFailure> {
    DesktopNotificationTool(desktop.clone()).run(&arguments, TIME).await
}

/// Starts a virtual screen and a notification daemon, and waits until it shows notifications.
async fn notification_daemon(
    bus: &TestDbusDaemon,
    desktop: &DesktopEnvironment,
) -> (ChildKilledOnDrop, ChildKilledOnDrop) {
    let (screen, display) = screen();
    let mut dunst = Command::new("dunst");
    dunst.env("DBUS_SESSION_BUS_ADDRESS", &bus.address).env("DISPLAY", &display).env("HOME", bus.folder.path());
    let dunst = ChildKilledOnDrop(dunst.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("dunst starts"));
    eventually("it shows notices", async || notify(desktop, json!({"title": "first"})).await.ok()).await;
    (screen, dunst)
}

/// Closes all notifications and returns the daemon's list of them.
fn shown_notifications(bus: &TestDbusDaemon) -> String {
    let ask = |method: &str| {
        let to = ["--session", "--print-reply", "--dest=org.freedesktop.Notifications"];
        let mut ask = Command::new("dbus-send");
        ask.args(to).args(["/org/freedesktop/Notifications", &format!("org.dunstproject.cmd0.{method}")]);
        let said = ask.env("DBUS_SESSION_BUS_ADDRESS", &bus.address).output().unwrap();
        assert!(said.status.success(), "{said:?}");
        String::from_utf8(said.stdout).unwrap()
    };
    ask("NotificationCloseAll");
    ask("NotificationListHistory")
}

#[tokio::test]
async fn markup_in_a_desktop_notification_is_escaped() {
    let bus = TestDbusDaemon::start();
    let desktop = bus.desktop(&[]);
    let nobody = notify(&desktop, json!({"title": "hello"})).await;
    assert!(matches!(nobody, Err(LocalToolFailure::Unavailable(_))), "no notification service runs yet: {nobody:?}");

    let _daemon = notification_daemon(&bus, &desktop).await;
    let body = "Grüße, <a href=\"https://example.com\">here</a> & now\u{202e}";
    let shown = notify(&desktop, json!({"title": "Your <b>train</b>", "body": body})).await;
    assert_eq!(shown, Ok(json!({"shown": true})));

    let history = shown_notifications(&bus);
    // The daemon puts its own markup around our text.
    for part in [
        "\"Nuncio\"",
        "\"Your <b>train</b>\"",
        "<b>Your &lt;b&gt;train&lt;/b&gt;</b>",
        "Grüße, &lt;a href=\"https://example.com\"&gt;here&lt;/a&gt; &amp; now",
    ] {
        assert!(history.contains(part), "{part}: {history}");
    }
}

#[tokio::test]
async fn waiting_question_is_shown_as_a_desktop_notification() {
    let bus = TestDbusDaemon::start();
    let desktop = bus.desktop(&[]);
    let _daemon = notification_daemon(&bus, &desktop).await;
    let prompt = NotifyingPrompt {
        prompt: Arc::new(DenyAllPrompts),
        desktop: DesktopNotificationTool(desktop),
        language: Language::English,
    };
    let question = PromptQuestion {
        id: "1".to_owned(),
        agent: AgentId::parse("agt_1").unwrap(),
        agent_name: "Notes".to_owned(),
        verified: AgentVerification::FirstContact,
        call: CallId::parse("call_1").unwrap(),
        conversation: ConversationId::parse("cnv_1").unwrap(),
        tool: ToolName::parse("read_file").unwrap(),
        description: SanitisedTextByLanguage::default(),
        arguments: "{}".to_owned(),
        scope: ScopeId::parse("filesystem:read").unwrap(),
        scope_words: ScopeTexts::default(),
        sensitivity: Sensitivity::Medium,
        source: None,
        until: Timestamp::from_millis(0),
    };
    assert_eq!(prompt.ask(&question).await, PromptAnswer::No, "the answer is that of the inner prompt");
    let is_shown = async || shown_notifications(&bus).contains("Notes wants to run read_file").then_some(());
    eventually("the notification is shown", is_shown).await;
}

#[tokio::test]
async fn clipboard_tool_returns_the_text_in_the_clipboard() {
    let (_screen, display) = screen();
    let desktop = DesktopEnvironment::new([("DISPLAY".to_owned(), OsString::from(&display))]);
    let read = async || ClipboardTool(desktop.clone()).run(&json!({}), TIME).await;
    let empty = read().await;
    assert!(matches!(empty, Err(LocalToolFailure::Failed(_))), "nothing was copied yet: {empty:?}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "Grüße\nfrom here").unwrap();
    let mut copy = Command::new("xclip");
    copy.args(["-selection", "clipboard", "-i"]).arg(file.path()).env("DISPLAY", &display);
    assert!(copy.stdout(Stdio::null()).status().unwrap().success());
    assert_eq!(read().await, Ok(json!({"text": "Grüße\nfrom here"})));
}

#[tokio::test]
async fn location_tool_returns_the_location_or_refusal_of_the_system_service() {
    let bus = TestDbusDaemon::start();
    let desktop = bus.desktop(&[("DBUS_SYSTEM_BUS_ADDRESS", &bus.address)]);
    let find = async || GeoClueLocationTool(desktop.clone()).run(&json!({}), TIME).await;
    let nobody = find().await;
    let Err(LocalToolFailure::Unavailable(why)) = nobody else { panic!("{nobody:?}") };
    assert!(why.contains("place.toml"), "{why}");

    let python = std::env::var_os("NUNCIO_TEST_DBUS_PYTHON")
        .expect("NUNCIO_TEST_DBUS_PYTHON must name a Python that has the package dbus-fast: run `cargo xtask test`");
    let service = |allowed: &str| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/geoclue.py");
        ChildKilledOnDrop::saying(Command::new(&python).arg(script).arg(&bus.address).arg(allowed)).0
    };
    let refusing = service("somebody else");
    let refused = find().await;
    let Err(LocalToolFailure::Unavailable(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("'nuncio' disallowed") && why.contains("place.toml"), "{why}");
    drop(refusing);
    let _finding = service("nuncio");
    let place = json!({"latitude": 52.52, "longitude": -13.405, "accuracy_m": 25.0, "source": "system"});
    assert_eq!(find().await, Ok(place));
}

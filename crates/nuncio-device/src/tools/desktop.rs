//! Tools of the desktop session: clipboard and notifications.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::programs::{ProgramToRun, installed};
use super::{LocalTool, LocalToolFailure};
use crate::dbus;

/// Environment variables that locate the desktop session.
const NAMES: [&str; 6] = [
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
];

/// Default address of the system bus on Linux.
const SYSTEM_BUS: &str = "unix:path=/run/dbus/system_bus_socket";

/// Desktop session, described by environment variables.
#[derive(Debug, Clone, Default)]
pub struct DesktopEnvironment(BTreeMap<String, OsString>);

impl DesktopEnvironment {
    /// Desktop session of this process.
    #[must_use]
    pub fn here() -> Self {
        Self::new(std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))))
    }

    /// Desktop session described by these environment variables; unknown variables are ignored.
    #[must_use]
    pub fn new(variables: impl IntoIterator<Item = (String, OsString)>) -> Self {
        let known = |(name, value): &(String, OsString)| NAMES.contains(&name.as_str()) && !value.is_empty();
        Self(variables.into_iter().filter(known).collect())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(|value| value.to_str())
    }

    pub(crate) fn session_bus(&self) -> Option<String> {
        let beside = || {
            let socket = Path::new(self.0.get("XDG_RUNTIME_DIR")?).join("bus");
            Some(format!("unix:path={}", socket.to_str().filter(|_| socket.exists())?))
        };
        self.text("DBUS_SESSION_BUS_ADDRESS").map(str::to_owned).or_else(beside)
    }

    pub(super) fn system_bus(&self) -> &str {
        self.text("DBUS_SYSTEM_BUS_ADDRESS").unwrap_or(SYSTEM_BUS)
    }
}

/// Tool that reads the clipboard with an installed program.
#[derive(Debug, Clone)]
pub struct ClipboardTool(pub DesktopEnvironment);

/// Programs that read the clipboard: name, environment variable that must be set, and arguments.
const READERS: [(&str, &str, &[&str]); 3] = [
    ("wl-paste", "WAYLAND_DISPLAY", &["--no-newline"]),
    ("xclip", "DISPLAY", &["-selection", "clipboard", "-o"]),
    ("xsel", "DISPLAY", &["-b", "-o"]),
];

#[async_trait]
impl LocalTool for ClipboardTool {
    async fn run(&self, _: &Value, time: Duration) -> Result<Value, LocalToolFailure> {
        let Self(desktop) = self;
        if !READERS.iter().any(|(_, display, _)| desktop.0.contains_key(*display)) {
            return Err(LocalToolFailure::Unavailable(
                "this device has no desktop session with a clipboard".to_owned(),
            ));
        }
        let ours = READERS.iter().filter(|(_, display, _)| desktop.0.contains_key(*display));
        let found = ours.filter_map(|(name, _, arguments)| Some((installed(name)?, *arguments))).next();
        let Some((path, arguments)) = found else {
            let message = "this device has no program that reads the clipboard: install wl-clipboard, xclip or xsel";
            return Err(LocalToolFailure::Unavailable(message.to_owned()));
        };
        let arguments: Vec<_> = arguments.iter().map(ToString::to_string).collect();
        let program = ProgramToRun {
            path: &path,
            arguments: &arguments,
            input: Vec::new(),
            folder: Path::new("/"),
            environment: &desktop.0,
            reach: None,
        };
        Ok(json!({"text": String::from_utf8_lossy(&program.run(time).await?)}))
    }
}

/// Tool that shows a desktop notification; fails with [`LocalToolFailure::Unavailable`] without a desktop.
#[derive(Debug, Clone)]
pub struct DesktopNotificationTool(pub DesktopEnvironment);

impl DesktopNotificationTool {
    /// Title and body of the notification that the arguments describe.
    pub(crate) fn title_and_body(arguments: &Value) -> Result<(String, String), LocalToolFailure> {
        let text =
            |names: &[&str]| names.iter().find_map(|name| arguments[name].as_str()).map(nuncio_core::text::plain);
        let Some(title) = text(&["title", "message", "text", "body"]) else {
            return Err(LocalToolFailure::Arguments("`title` or `body` is missing: write the text to show".to_owned()));
        };
        let body = text(&["body", "message", "text"]).filter(|body| *body != title).unwrap_or_default();
        Ok((title, body))
    }
}

#[async_trait]
impl LocalTool for DesktopNotificationTool {
    async fn run(&self, arguments: &Value, time: Duration) -> Result<Value, LocalToolFailure> {
        let (title, body) = Self::title_and_body(arguments)?;
        let Some(address) = self.0.session_bus() else {
            return Err(dbus::no_desktop("the address of the session bus is not set"));
        };
        dbus::notify(&address, &title, &body, time).await?;
        Ok(json!({"shown": true}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn desktop_tools_are_unavailable_without_a_desktop() {
        let time = Duration::from_secs(20);
        let gone = tempfile::tempdir().unwrap().path().join("bus");
        let gone = ("DBUS_SESSION_BUS_ADDRESS".to_owned(), OsString::from(format!("unix:path={}", gone.display())));
        let (nothing, dead) = (DesktopEnvironment::default(), DesktopEnvironment::new([gone]));
        for desktop in [&nothing, &dead] {
            let shown = DesktopNotificationTool(desktop.clone()).run(&json!({"title": "hello"}), time).await;
            assert!(matches!(shown, Err(LocalToolFailure::Unavailable(_))), "{shown:?}");
            let read = ClipboardTool(desktop.clone()).run(&json!({}), time).await;
            assert!(matches!(read, Err(LocalToolFailure::Unavailable(_))), "{read:?}");
        }
        let nothing_to_say = DesktopNotificationTool(nothing).run(&json!({"colour": "red"}), time).await;
        assert!(matches!(nothing_to_say, Err(LocalToolFailure::Arguments(_))), "{nothing_to_say:?}");
    }
}

//! Tests of the system keyring with a real GNOME Keyring on its own bus.

use std::io::Write as _;
use std::process::{Command, Stdio};

use nuncio_device::tools::DesktopEnvironment;
use nuncio_device::{Keyring, KeyringError};
use nuncio_testkit::eventually;

use crate::tools_desktop::{ChildKilledOnDrop, TestDbusDaemon};

/// Starts an unlocked GNOME Keyring on the bus.
fn start_keyring(bus: &TestDbusDaemon) -> ChildKilledOnDrop {
    let mut daemon = Command::new("gnome-keyring-daemon");
    daemon.args(["--foreground", "--components=secrets", "--unlock"]).env("DBUS_SESSION_BUS_ADDRESS", &bus.address);
    daemon.env("HOME", bus.folder.path()).env("XDG_RUNTIME_DIR", bus.folder.path()).env_remove("XDG_DATA_HOME");
    daemon.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = daemon.spawn().expect("gnome-keyring-daemon starts: run `cargo xtask test`, which installs it");
    // The keyring reads its password until the end of input.
    child.stdin.take().unwrap().write_all(b"a password").unwrap();
    ChildKilledOnDrop(child)
}

#[tokio::test]
async fn secrets_are_stored_in_keyring_loaded_in_a_new_session_and_deleted() {
    let bus = TestDbusDaemon::start();
    let desktop = bus.desktop(&[]);
    let absent = Keyring::open(&desktop).await.unwrap_err();
    assert!(matches!(absent, KeyringError::Absent(_)), "{absent:?}");

    let _daemon = start_keyring(&bus);
    let ready = async || {
        let mut keyring = Keyring::open(&desktop).await.ok()?;
        keyring.store("one", "A device", b"first").await.ok().map(|()| keyring)
    };
    let mut keyring = eventually("the keyring answers", ready).await;
    keyring.store("two", "Another device", &[0, 255, 7]).await.unwrap();
    keyring.store("one", "A device", b"second").await.unwrap();
    drop(keyring);
    // A second session, as after a restart.
    let mut keyring = Keyring::open(&desktop).await.unwrap();
    assert_eq!(keyring.load("one").await.unwrap().as_deref(), Some(&b"second"[..]));
    assert_eq!(keyring.load("two").await.unwrap().as_deref(), Some(&[0, 255, 7][..]));
    assert_eq!(keyring.load("three").await.unwrap(), None);
    keyring.delete("one").await.unwrap();
    keyring.delete("one").await.unwrap();
    assert_eq!(keyring.load("one").await.unwrap(), None);
    assert_eq!(keyring.load("two").await.unwrap().as_deref(), Some(&[0, 255, 7][..]));
}

#[tokio::test]
async fn opening_keyring_without_a_session_bus_fails_as_absent() {
    let absent = Keyring::open(&DesktopEnvironment::default()).await.unwrap_err();
    assert!(matches!(absent, KeyringError::Absent(_)), "{absent:?}");
}

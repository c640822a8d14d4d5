//! `nuncio device join`: from an invite link to a running device whose pages are open.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anstream::eprintln;
use nuncio_a2h::client::DeviceInvitation;
use nuncio_core::invite_link::InviteLink;
use nuncio_engine::ports::fetch::AddressTrust;
use owo_colors::OwoColorize as _;

use super::home::home_flag;
use super::texts::{DeviceTexts, fill};
use super::{PageOpening, PreparedDeviceRun, enrol_device, print_enrolled, serve};
use crate::cli::DeviceHomeOptions;
use crate::output::{shell_quote, wrong_usage};

/// What `join` does after enrolment.
pub(super) enum AfterJoin {
    /// Answer calls, with the pages on this port.
    Run { folders: Vec<PathBuf>, port: Option<u16>, opening: PageOpening },
    /// End; `nuncio device run` starts the device later.
    Exit,
}

pub(super) async fn join(
    home: &DeviceHomeOptions,
    link: &str,
    name: &str,
    after: AfterJoin,
    json: bool,
) -> anyhow::Result<()> {
    let invitation = invitation(link)?;
    let AfterJoin::Run { folders, port, opening } = after else {
        let (device, number) = enrol_device(home, &invitation, name).await?;
        return print_enrolled(home, &device, number, json);
    };
    let again = run_again(home, &folders, port);
    // Wrong options are found before the invite is used up.
    let prepared = PreparedDeviceRun::new(home, folders, port).await?;
    let (device, number) = enrol_device(home, &invitation, name).await?;
    if !json {
        print_enrolled(home, &device, number, json)?;
        let hint = fill(DeviceTexts::of_environment().stop_and_start, &[("command", &again)]);
        eprintln!("{}", hint.dimmed());
    }
    // The folder is locked until the device is dropped.
    drop(device);
    serve(home, prepared, opening, json).await
}

/// The command that starts the joined device again with the same options.
fn run_again(home: &DeviceHomeOptions, folders: &[PathBuf], port: Option<u16>) -> String {
    let mut command = format!("nuncio device run{}", home_flag(home));
    for folder in folders {
        command.push_str(&format!(" --folder {}", shell_quote(&folder.display().to_string())));
    }
    command.extend(port.map(|port| format!(" --port {port}")));
    command
}

/// Reads an invite link; the error does not repeat it, because it is a secret.
pub(super) fn invitation(link: &str) -> anyhow::Result<DeviceInvitation> {
    let link = InviteLink::parse(link).map_err(|why| wrong_usage(format!("this is not an invite link: {why}")))?;
    Ok(DeviceInvitation {
        url: link.server,
        trust: AddressTrust::Configured,
        code: link.code,
        fingerprint: Some(link.fingerprint),
    })
}

/// Opens a page in the person's browser, if this is a desktop session with a terminal.
pub(super) fn open_in_browser(link: &str) {
    let has_display = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    if !std::io::stdout().is_terminal() || !(has_display || cfg!(target_os = "macos")) {
        return;
    }
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    // The printed link remains if no browser opens.
    let mut command = Command::new(opener);
    let started = command.arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if let Ok(mut opener) = started {
        std::thread::spawn(move || opener.wait());
    }
}

//! `nuncio user`: people with an account, and their devices.

use anstream::{eprintln, println};
use nuncio_core::address::{is_in_clear, is_local};
use nuncio_core::ids::{DeviceId, PersonName};
use nuncio_server::admin::AdminCommand;
use nuncio_server::admin::replies::{ForgottenUser, RevokedDevices, UserDevices, UserInvitation, UserList};
use owo_colors::OwoColorize as _;
use url::Url;

use super::confirm::require_yes;
use super::operator::{parsed, run_command, span_seconds};
use crate::cli::{DataDirCommand, UserSubcommand};
use crate::output::{print_list, qr_code, text};

pub(crate) async fn run(
    DataDirCommand { command, data }: DataDirCommand<UserSubcommand>,
    json: bool,
) -> anyhow::Result<()> {
    match command {
        UserSubcommand::Invite { name, expires } => {
            let seconds = expires.map(|text| parsed(invite_seconds(&text))).transpose()?;
            let command = AdminCommand::UserInvite { name: parsed(PersonName::parse(&name))?, seconds };
            run_command(&data, command, json, |invitation| print_invitation(&invitation)).await
        }
        UserSubcommand::List => run_command(&data, AdminCommand::UserList, json, print_users).await,
        UserSubcommand::Devices { name } => {
            let command = AdminCommand::UserDevices { name: parsed(PersonName::parse(&name))? };
            run_command(&data, command, json, print_devices).await
        }
        UserSubcommand::Forget { name, yes } => {
            let name = parsed(PersonName::parse(&name))?;
            let effect =
                format!("The account of {name} and this person's devices, conversations and tasks are erased.");
            require_yes(&effect, yes, json).await?;
            let command = AdminCommand::UserForget { name };
            run_command(&data, command, json, |ForgottenUser { forgotten, redacted }| {
                println!("Erased. {redacted} records and ledger entries that named them now say {forgotten}.");
            })
            .await
        }
        UserSubcommand::Revoke { name, device, all: _ } => {
            let name = parsed(PersonName::parse(&name))?;
            let device = device.map(|id| parsed(DeviceId::parse(&id))).transpose()?;
            run_command(&data, AdminCommand::UserRevoke { name, device }, json, print_revoked).await
        }
    }
}

/// Parses how long an invite is valid: a whole number of minutes, hours or days, thirty days at most.
fn invite_seconds(text: &str) -> Result<u64, String> {
    const MONTH_SECONDS: u64 = 30 * 86_400;
    span_seconds(text)
        .filter(|seconds| (1..=MONTH_SECONDS).contains(seconds))
        .ok_or_else(|| format!("{text:?} is not a duration for an invite: write 30m, 12h or 3d, at most 30d"))
}

/// Prints the link alone on standard output, so that it can be piped; the rest on standard error. While no server
/// runs there is no link, and the code is printed instead.
fn print_invitation(invitation: &UserInvitation) {
    eprintln!("{} is invited until {}.", invitation.user.bold(), invitation.expires_at);
    let Some(link) = &invitation.link else {
        println!("{}", invitation.code);
        eprintln!("{}  {}", "server key".dimmed(), invitation.fingerprint.grouped());
        return eprintln!(
            "{}",
            "No server runs, so there is no link yet. Start it and invite again, or enrol later with the code and the \
             key: nuncio device enrol URL CODE --fingerprint KEY"
                .dimmed()
        );
    };
    println!("{}", link.cyan());
    print_qr_code(link);
    eprintln!(
        "{}",
        "Send the link to that person alone: it lets one device in, once. Opened in a browser, it explains what to do. \
         `nuncio device join LINK --folder DIR` also shares a folder with agents that they allow."
            .dimmed()
    );
    if let Some(limit) = link_limit(link) {
        eprintln!("{} {limit}", "note".yellow().bold());
    }
}

/// Why other machines cannot use an invite link; `None` if they can.
fn link_limit(link: &str) -> Option<&'static str> {
    let url = Url::parse(link).ok()?;
    if is_local(&url) {
        return Some(
            "The link works on this machine alone. For other machines, serve with --public-url https://YOUR-HOST (behind \
             a proxy) or with --tls-cert and --tls-key, then invite again.",
        );
    }
    is_in_clear(&url).then_some(
        "The link uses plain http, so devices on other machines refuse it. Serve with --tls-cert and --tls-key, or with \
         --public-url https://YOUR-HOST behind a proxy, then invite again.",
    )
}

/// Prints the QR code of an invite link on standard error.
pub(crate) fn print_qr_code(link: &str) {
    if let Some(code) = qr_code(link) {
        eprintln!("{code}");
    }
}

fn print_users(UserList { users }: UserList) {
    let none = "There are no accounts; `nuncio user invite NAME` creates one.";
    print_list(&users, &["NAME", "DEVICES", "SINCE"], none, |user| {
        vec![text(&user.name), text(user.devices), text(user.since)]
    });
}

fn print_devices(UserDevices { devices, .. }: UserDevices) {
    let none = "This person has no device yet; the invite code enrols one.";
    print_list(&devices, &["ID", "NAME", "STATE", "SINCE"], none, |device| {
        let state = if device.revoked_at.is_none() { "valid" } else { "taken away" };
        vec![text(&device.id), text(&device.name), state.to_owned(), text(device.enrolled_at)]
    });
}

fn print_revoked(reply: RevokedDevices) {
    if reply.revoked.is_empty() {
        println!("This person had no device.");
    }
    for device in reply.revoked {
        println!("Removed {} ({}): it no longer acts for anyone.", device.id.bold(), text(device.name));
    }
}

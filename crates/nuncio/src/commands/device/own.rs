//! Commands about the person's devices: list, invite, trust, remove, back up, restore and recover.

use std::path::Path;
use std::sync::Arc;

use anstream::{eprintln, println};
use nuncio_core::Code;
use nuncio_core::digest::Digest;
use nuncio_core::ids::DeviceId;
use nuncio_device::prompt::DenyAllPrompts;
use nuncio_device::tools::LocalTools;
use nuncio_device::{BackupFile, Device};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::commands::{DeviceCommand, carry_out, lock_idle_home, run_command};
use super::home::home_flag;
use super::passphrase::PassphraseUse;
use super::{device_error, print_enrolled, write_private_file};
use crate::cli::{DeviceHomeOptions, PassphraseSource};
use crate::commands::confirm::confirm;
use crate::commands::operator::parsed;
use crate::commands::user::print_qr_code;
use crate::output::{WrongUsage, cell, fault, items, show, table, wrong_usage};

/// Continues a suggested command in the next line, since it has an id and a path.
const NEXT_LINE: &str = " \\\n        ";

pub(super) async fn list(home: &DeviceHomeOptions, json: bool) -> anyhow::Result<()> {
    run_command(home, DeviceCommand::Devices, json, |answer| {
        let devices = items(&answer["devices"]);
        let row = |device: &Value| {
            let standing = match device["standing"].as_str() {
                Some("this") => "this one",
                Some("no_keys") => "no keys yet",
                Some(other) => other,
                None => "-",
            };
            vec![cell(&device["id"]), standing.to_owned(), cell(&device["name"])]
        };
        table(&["DEVICE", "STANDING", "NAME"], devices.iter().map(row));
        if let Some(this) = devices.iter().find(|device| device["this"] == true) {
            eprintln!("\n{}", "Fingerprint of this device, for comparison:".dimmed());
            print_fingerprint(this);
        }
        for device in devices.iter().filter(|device| device["standing"] == "waiting") {
            eprintln!("\n{} waits for your confirmation.", cell(&device["id"]).bold());
            eprintln!("If it is yours, its own screen shows the same:");
            print_fingerprint(device);
            eprintln!(
                "{} nuncio device trust {}{}",
                "then:".dimmed(),
                cell(&device["id"]),
                home_flag(home).replacen(' ', NEXT_LINE, 1)
            );
        }
    })
    .await
}

fn print_fingerprint(device: &Value) {
    if let Some(number) = device["number"].as_str() {
        eprintln!("  {}  {}", "number".dimmed(), number.bold());
    }
    for (label, line) in ["key", ""].into_iter().zip(fingerprint_lines(&device["fingerprint"])) {
        eprintln!("  {:<6}  {line}", label.dimmed());
    }
}

fn fingerprint_lines(fingerprint: &Value) -> [String; 2] {
    let grouped = fingerprint.as_str().and_then(Digest::parse).map(|digest| digest.grouped()).unwrap_or_default();
    let (one, other) = grouped.split_at_checked(36).unwrap_or((&grouped, ""));
    [one, other].map(|line| line.trim().to_owned())
}

/// Prints the invite link alone on standard output, so that it can be piped; the rest on standard error.
pub(super) async fn invite(home: &DeviceHomeOptions, json: bool) -> anyhow::Result<()> {
    run_command(home, DeviceCommand::Invite, json, |answer| {
        let link = cell(&answer["link"]);
        eprintln!("Your other device can join until {} with this link:", cell(&answer["expires_at"]));
        println!("{}", link.cyan());
        print_qr_code(&link);
        eprintln!("{}", "On the other device, run `nuncio device join LINK`.".dimmed());
        eprintln!("{}", "Then compare the number on both screens; here it is shown by:".dimmed());
        eprintln!("  nuncio device devices{}", home_flag(home));
    })
    .await
}

pub(super) async fn trust(home: &DeviceHomeOptions, device: &str, yes: bool, json: bool) -> anyhow::Result<()> {
    let device = parsed(DeviceId::parse(device))?;
    let fingerprint = if yes { None } else { confirm_fingerprint(home, &device, json).await? };
    let command = DeviceCommand::Trust { device: device.clone(), fingerprint };
    run_command(home, command, json, |_| println!("{} is yours: what it signed counts here.", device.bold())).await
}

/// Fingerprint of a device; if the device waits for trust, the person compares it first. `None` for an unknown device.
async fn confirm_fingerprint(
    home: &DeviceHomeOptions,
    device: &DeviceId,
    json: bool,
) -> anyhow::Result<Option<Digest>> {
    let answer = carry_out(home, DeviceCommand::Devices).await?;
    let devices = items(&answer["devices"]);
    let Some(shown) = devices.iter().find(|shown| shown["id"] == device.as_str()) else { return Ok(None) };
    let fingerprint = shown["fingerprint"].as_str().and_then(Digest::parse);
    if shown["standing"] != "waiting" {
        return Ok(fingerprint);
    }
    if !json {
        eprintln!("{} says that it is yours.", device.bold());
        eprintln!("Its own screen must show:");
        print_fingerprint(shown);
    }
    match confirm("Is it the same?", json).await? {
        Some(false) => Err(anyhow::anyhow!("nothing was trusted")),
        None => Err(wrong_usage("compare the number with the other device's screen, then use --yes")),
        Some(true) => Ok(fingerprint),
    }
}

pub(super) async fn remove(home: &DeviceHomeOptions, device: &str, json: bool) -> anyhow::Result<()> {
    let device = parsed(DeviceId::parse(device))?;
    run_command(home, DeviceCommand::Remove { device: device.clone() }, json, |_| {
        println!("{} no longer acts for you.", device.bold());
        println!("Permissions that you granted on it stay valid.");
    })
    .await
}

pub(super) async fn backup(
    home: &DeviceHomeOptions,
    file: Option<&Path>,
    passphrase: &PassphraseSource,
    json: bool,
) -> anyhow::Result<()> {
    let passphrase = passphrase.read(PassphraseUse::New).await?;
    let backup = carry_out(home, DeviceCommand::Backup { passphrase }).await?;
    if let Some(file) = file {
        let unusable = |why| fault(Code::DataDirUnusable, format!("{} cannot be written: {why}", file.display()));
        write_private_file(file, &format!("{backup:#}\n")).map_err(unusable)?;
    }
    let answer = json!({"device": backup["device"]["device"], "kept_at": backup["device"]["url"], "file": file});
    show(json, &answer, |answer| {
        println!("The keys of {} are kept at {}.", cell(&answer["device"]).bold(), cell(&answer["kept_at"]).cyan());
        if let Some(file) = file {
            println!("They are in {} too.", file.display());
        }
        eprintln!("{}", "Nobody can open the backup without the passphrase; keep the two apart.".dimmed());
    });
    Ok(())
}

pub(super) async fn restore(
    home: &DeviceHomeOptions,
    file: &Path,
    passphrase: &PassphraseSource,
    json: bool,
) -> anyhow::Result<()> {
    let unusable = |why: &dyn std::fmt::Display| WrongUsage(format!("{}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|why| unusable(&why))?;
    let backup: BackupFile =
        serde_json::from_str(&text).map_err(|why| unusable(&format!("it is not a device backup: {why}")))?;
    let passphrase = passphrase.read(PassphraseUse::Known).await?;
    let config = lock_idle_home(home, LocalTools::default(), Arc::new(DenyAllPrompts)).await?;
    let device = Device::restore(config, &backup, &passphrase.0).await.map_err(device_error)?;
    print_enrolled(home, &device, None, json)
}

pub(super) async fn recover(home: &DeviceHomeOptions, passphrase: &PassphraseSource, json: bool) -> anyhow::Result<()> {
    let passphrase = passphrase.read(PassphraseUse::Known).await?;
    run_command(home, DeviceCommand::Recover { passphrase }, json, |answer| {
        let before = cell(&answer["recovered"]);
        println!("{} vouches for this device.", before.bold());
        println!("Permissions that you granted on it are valid here.");
        eprintln!(
            "{} nuncio device remove {before}{}",
            "if it is lost:".dimmed(),
            home_flag(home).replacen(' ', NEXT_LINE, 1)
        );
    })
    .await
}

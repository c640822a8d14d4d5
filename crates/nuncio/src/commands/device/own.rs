//! The person's own devices: a further one, a lost one, and one that comes back.

use std::path::Path;
use std::sync::Arc;

use anstream::{eprintln, println};
use nuncio_core::Code;
use nuncio_core::digest::Digest;
use nuncio_core::ids::DeviceId;
use nuncio_device::prompt::DenyAll;
use nuncio_device::tools::Tools;
use nuncio_device::{BackupFile, Device};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::commands::{DeviceCommand, carry_out, take_alone};
use super::passphrase::{self, PassphraseUse, confirmed};
use super::{came_in, device_error, written};
use crate::cli::DeviceHome;
use crate::commands::operator::{parsed, show};
use crate::output::{WrongUsage, cell, fault, items, table};

/// `nuncio device devices`
pub(super) async fn list(home: &DeviceHome, json: bool) -> anyhow::Result<()> {
    let answer = carry_out(home, DeviceCommand::Devices).await?;
    show(json, &answer, |answer| {
        let devices = items(&answer["devices"]);
        let row = |device: &Value| {
            let standing = match device["standing"].as_str() {
                Some("this") => "this one",
                Some("no_keys") => "no keys yet",
                Some(word) => word,
                None => "-",
            };
            vec![cell(&device["id"]), standing.to_owned(), cell(&device["name"])]
        };
        table(&["DEVICE", "STANDING", "NAME"], &devices.iter().map(row).collect::<Vec<_>>());
        if let Some(this) = devices.iter().find(|device| device["this"] == true) {
            eprintln!("\n{}", "Fingerprint of this device, for comparison:".dimmed());
            compare(this);
        }
        for device in devices.iter().filter(|device| device["standing"] == "waiting") {
            eprintln!("\n{} waits for your word.", cell(&device["id"]).bold());
            eprintln!("If it is yours, its own screen shows the same:");
            compare(device);
            eprintln!("{} nuncio device trust {}", "then:".dimmed(), cell(&device["id"]));
        }
    });
    Ok(())
}

fn compare(device: &Value) {
    if let Some(number) = device["number"].as_str() {
        eprintln!("  {}  {}", "number".dimmed(), number.bold());
    }
    for (word, line) in ["key", ""].into_iter().zip(lines_of(&device["fingerprint"])) {
        eprintln!("  {:<6}  {line}", word.dimmed());
    }
}

fn lines_of(fingerprint: &Value) -> [String; 2] {
    let grouped = fingerprint.as_str().and_then(Digest::parse).map(|digest| digest.grouped()).unwrap_or_default();
    let (one, other) = grouped.split_at_checked(36).unwrap_or((&grouped, ""));
    [one, other].map(|line| line.trim().to_owned())
}

/// `nuncio device invite`: the code alone on standard output, so that it can be piped; the rest beside it.
pub(super) async fn invite(home: &DeviceHome, json: bool) -> anyhow::Result<()> {
    let answer = carry_out(home, DeviceCommand::Invite).await?;
    show(json, &answer, |answer| {
        eprintln!("Your other device can enrol until {} with:", cell(&answer["expires_at"]));
        println!("{}", cell(&answer["code"]));
        eprintln!("{:<10}  {}", "enrol at".dimmed(), cell(&answer["url"]).cyan());
        for (word, line) in ["server key", ""].into_iter().zip(lines_of(&answer["fingerprint"])) {
            eprintln!("{:<10}  {line}", word.dimmed());
        }
        eprintln!("{}", "Then `nuncio device devices` here: compare the number on both screens.".dimmed());
    });
    Ok(())
}

/// `nuncio device trust`
pub(super) async fn trust(home: &DeviceHome, device: &str, yes: bool, json: bool) -> anyhow::Result<()> {
    let device = parsed(DeviceId::parse(device))?;
    let fingerprint = if yes { None } else { compared(home, &device, json).await? };
    let answer = carry_out(home, DeviceCommand::Trust { device: device.clone(), fingerprint }).await?;
    show(json, &answer, |_| println!("{} is yours: what it signed counts here.", device.bold()));
    Ok(())
}

/// Shows what is to be compared, where somebody sits there, and what they saw if it is the same.
async fn compared(home: &DeviceHome, device: &DeviceId, json: bool) -> anyhow::Result<Option<Digest>> {
    let answer = carry_out(home, DeviceCommand::Devices).await?;
    let devices = items(&answer["devices"]);
    let named = |shown: &&Value| shown["id"] == device.as_str() && shown["standing"] == "waiting";
    let Some(shown) = devices.iter().find(named) else { return Ok(None) };
    if !json {
        eprintln!("{} says that it is yours.", device.bold());
        eprintln!("Its own screen must show:");
        compare(shown);
    }
    match confirmed("Is it the same?", json).await? {
        Some(false) => Err(WrongUsage("nothing was trusted".to_owned()).into()),
        Some(true) | None => Ok(shown["fingerprint"].as_str().and_then(Digest::parse)),
    }
}

/// `nuncio device remove`
pub(super) async fn remove(home: &DeviceHome, device: &str, json: bool) -> anyhow::Result<()> {
    let device = parsed(DeviceId::parse(device))?;
    let answer = carry_out(home, DeviceCommand::Remove { device: device.clone() }).await?;
    show(json, &answer, |_| {
        println!("{} no longer acts for you.", device.bold());
        println!("Permissions that you granted on it stay valid.");
    });
    Ok(())
}

/// `nuncio device backup`
pub(super) async fn backup(
    home: &DeviceHome,
    file: Option<&Path>,
    passphrase_file: Option<&Path>,
    json: bool,
) -> anyhow::Result<()> {
    let passphrase = passphrase::read(passphrase_file, PassphraseUse::New).await?;
    let backup = carry_out(home, DeviceCommand::Backup { passphrase }).await?;
    if let Some(file) = file {
        let unusable = |why| fault(Code::DataDirUnusable, format!("{} cannot be written: {why}", file.display()));
        written(file, &format!("{backup:#}\n")).map_err(unusable)?;
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

/// `nuncio device restore`
pub(super) async fn restore(
    home: &DeviceHome,
    file: &Path,
    passphrase_file: Option<&Path>,
    json: bool,
) -> anyhow::Result<()> {
    let unusable = |why: &dyn std::fmt::Display| WrongUsage(format!("{}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|why| unusable(&why))?;
    let backup: BackupFile =
        serde_json::from_str(&text).map_err(|why| unusable(&format!("it is not a device backup: {why}")))?;
    let passphrase = passphrase::read(passphrase_file, PassphraseUse::Known).await?;
    let config = take_alone(home, Tools::default(), Arc::new(DenyAll)).await?;
    let device = Device::restore(config, &backup, &passphrase.0).await.map_err(device_error)?;
    came_in(home, &device, None, json)
}

/// `nuncio device recover`
pub(super) async fn recover(home: &DeviceHome, passphrase_file: Option<&Path>, json: bool) -> anyhow::Result<()> {
    let passphrase = passphrase::read(passphrase_file, PassphraseUse::Known).await?;
    let answer = carry_out(home, DeviceCommand::Recover { passphrase }).await?;
    show(json, &answer, |answer| {
        let before = cell(&answer["recovered"]);
        println!("{} vouches for this device.", before.bold());
        println!("Permissions that you granted on it are valid here.");
        eprintln!("{} nuncio device remove {before}", "if it is lost:".dimmed());
    });
    Ok(())
}

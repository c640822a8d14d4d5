//! Commands about the person's devices: list, invite, trust, remove, back up, restore and recover.

use std::path::Path;
use std::sync::Arc;

use anstream::{eprintln, println};
use nuncio_core::ErrorCode;
use nuncio_core::digest::Digest;
use nuncio_core::ids::DeviceId;
use nuncio_device::prompt::DenyAllPrompts;
use nuncio_device::tools::LocalTools;
use nuncio_device::{Device, DeviceBackupFile};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::commands::{DeviceCommand, carry_out, lock_idle_home, run_command};
use super::home::home_flag;
use super::passphrase::PassphraseUse;
use super::texts::{DeviceTexts, fill};
use super::{device_error, print_enrolled, write_private_file};
use crate::cli::{DeviceHomeOptions, PassphraseSource};
use crate::commands::confirm::confirm;
use crate::commands::operator::parsed;
use crate::commands::user::print_qr_code;
use crate::output::{WrongUsageError, cell, fault, items, padded, show, table, wrong_usage};

/// Continues a suggested command in the next line, since it has an id and a path.
const NEXT_LINE: &str = " \\\n        ";

pub(super) async fn list(home: &DeviceHomeOptions, json: bool) -> anyhow::Result<()> {
    run_command(home, DeviceCommand::Devices, json, |answer| {
        let texts = DeviceTexts::of_environment();
        let devices = items(&answer["devices"]);
        let row =
            |device: &Value| vec![cell(&device["id"]), texts.value(&cell(&device["standing"])), cell(&device["name"])];
        table(&[texts.device_heading, texts.standing_heading, texts.name_heading], devices.iter().map(row));
        if let Some(this) = devices.iter().find(|device| device["this"] == true) {
            eprintln!("\n{}", texts.own_fingerprint.dimmed());
            print_fingerprint(&texts, this);
        }
        for device in devices.iter().filter(|device| device["standing"] == "waiting") {
            let id = cell(&device["id"]);
            eprintln!("\n{}", fill(texts.waits_for_you, &[("device", &id.bold())]));
            eprintln!("{}", texts.if_yours);
            print_fingerprint(&texts, device);
            let home = home_flag(home).replacen(' ', NEXT_LINE, 1);
            eprintln!("{} nuncio device trust {id}{home}", texts.then.dimmed());
        }
    })
    .await
}

fn print_fingerprint(texts: &DeviceTexts, device: &Value) {
    if let Some(number) = device["number"].as_str() {
        eprintln!("  {}  {}", padded(texts.number, 6).dimmed(), number.bold());
    }
    for (label, line) in [texts.key, ""].into_iter().zip(fingerprint_lines(&device["fingerprint"])) {
        eprintln!("  {}  {line}", padded(label, 6).dimmed());
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
        let texts = DeviceTexts::of_environment();
        let link = cell(&answer["link"]);
        eprintln!("{}", fill(texts.can_join_until, &[("time", &cell(&answer["expires_at"]))]));
        println!("{}", link.cyan());
        print_qr_code(&link);
        eprintln!("{}", texts.run_there.dimmed());
        eprintln!("{}", texts.then_compare.dimmed());
        eprintln!("  nuncio device devices{}", home_flag(home));
    })
    .await
}

pub(super) async fn trust(home: &DeviceHomeOptions, device: &str, yes: bool, json: bool) -> anyhow::Result<()> {
    let device = parsed(DeviceId::parse(device))?;
    let fingerprint = if yes { None } else { confirm_fingerprint(home, &device, json).await? };
    let command = DeviceCommand::Trust { device: device.clone(), fingerprint };
    let done = fill(DeviceTexts::of_environment().is_yours, &[("device", &device.bold())]);
    run_command(home, command, json, |_| println!("{done}")).await
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
    let texts = DeviceTexts::of_environment();
    if !json {
        eprintln!("{}", fill(texts.says_yours, &[("device", &device.bold())]));
        eprintln!("{}", texts.must_show);
        print_fingerprint(&texts, shown);
    }
    match confirm(texts.is_it_same, json).await? {
        Some(false) => Err(anyhow::anyhow!("nothing was trusted")),
        None => Err(wrong_usage("compare the number with the other device's screen, then use --yes")),
        Some(true) => Ok(fingerprint),
    }
}

pub(super) async fn remove(home: &DeviceHomeOptions, device: &str, json: bool) -> anyhow::Result<()> {
    let device = parsed(DeviceId::parse(device))?;
    run_command(home, DeviceCommand::Remove { device: device.clone() }, json, |_| {
        let texts = DeviceTexts::of_environment();
        println!("{}", fill(texts.no_longer_acts, &[("device", &device.bold())]));
        println!("{}", texts.grants_stay);
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
        let unusable = |why| fault(ErrorCode::DataDirUnusable, format!("{} cannot be written: {why}", file.display()));
        write_private_file(file, &format!("{backup:#}\n")).map_err(unusable)?;
    }
    let answer = json!({"device": backup["device"]["device"], "kept_at": backup["device"]["url"], "file": file});
    show(json, &answer, |answer| {
        let texts = DeviceTexts::of_environment();
        let (device, url) = (cell(&answer["device"]), cell(&answer["kept_at"]));
        println!("{}", fill(texts.kept_at, &[("device", &device.bold()), ("url", &url.cyan())]));
        if let Some(file) = file {
            println!("{}", fill(texts.also_in_file, &[("file", &file.display())]));
        }
        eprintln!("{}", texts.keep_apart.dimmed());
    });
    Ok(())
}

pub(super) async fn restore(
    home: &DeviceHomeOptions,
    file: &Path,
    passphrase: &PassphraseSource,
    json: bool,
) -> anyhow::Result<()> {
    let unusable = |why: &dyn std::fmt::Display| WrongUsageError(format!("{}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|why| unusable(&why))?;
    let backup: DeviceBackupFile =
        serde_json::from_str(&text).map_err(|why| unusable(&format!("it is not a device backup: {why}")))?;
    let passphrase = passphrase.read(PassphraseUse::Known).await?;
    let config = lock_idle_home(home, LocalTools::default(), Arc::new(DenyAllPrompts)).await?;
    let device = Device::restore(config, &backup, &passphrase.0).await.map_err(device_error)?;
    print_enrolled(home, &device, None, json)
}

pub(super) async fn recover(home: &DeviceHomeOptions, passphrase: &PassphraseSource, json: bool) -> anyhow::Result<()> {
    let passphrase = passphrase.read(PassphraseUse::Known).await?;
    run_command(home, DeviceCommand::Recover { passphrase }, json, |answer| {
        let texts = DeviceTexts::of_environment();
        let before = cell(&answer["recovered"]);
        println!("{}", fill(texts.vouches, &[("device", &before.bold())]));
        println!("{}", texts.grants_valid);
        let home = home_flag(home).replacen(' ', NEXT_LINE, 1);
        eprintln!("{} nuncio device remove {before}{home}", texts.if_lost.dimmed());
    })
    .await
}

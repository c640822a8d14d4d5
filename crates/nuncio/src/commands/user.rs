//! `nuncio user`: people, and the devices they speak by.

use anstream::{eprintln, println};
use nuncio_core::ids::{DeviceId, PersonName};
use nuncio_server::admin::AdminCommand;
use owo_colors::OwoColorize as _;
use serde_json::Value;

use super::operator::{carry_out, list, parsed, show, span_seconds};
use crate::cli::User;
use crate::output::{cell, items};

pub(crate) async fn run(command: User, json: bool) -> anyhow::Result<()> {
    match command {
        User::Invite { name, expires, data } => {
            let seconds = expires.map(|text| parsed(seconds(&text))).transpose()?;
            let order = AdminCommand::UserInvite { name: parsed(PersonName::parse(&name))?, seconds };
            let answer = carry_out(&data.path, order).await?;
            show(json, &answer, invited);
        }
        User::List { data } => {
            let answer = carry_out(&data.path, AdminCommand::UserList).await?;
            show(json, &answer, people);
        }
        User::Devices { name, data } => {
            let order = AdminCommand::UserDevices { name: parsed(PersonName::parse(&name))? };
            let answer = carry_out(&data.path, order).await?;
            show(json, &answer, devices);
        }
        User::Forget { name, data } => {
            let order = AdminCommand::UserForget { name: parsed(PersonName::parse(&name))? };
            let answer = carry_out(&data.path, order).await?;
            show(json, &answer, |answer| {
                println!(
                    "Erased. {} records and ledger entries that named them now say {}.",
                    answer["redacted"],
                    cell(&answer["forgotten"])
                );
            });
        }
        User::Revoke { name, device, all: _, data } => {
            let name = parsed(PersonName::parse(&name))?;
            let device = device.map(|id| parsed(DeviceId::parse(&id))).transpose()?;
            let answer = carry_out(&data.path, AdminCommand::UserRevoke { name, device }).await?;
            show(json, &answer, revoked);
        }
    }
    Ok(())
}

/// A span of time in seconds: a whole number of minutes, hours or days, thirty days at most.
fn seconds(text: &str) -> Result<u64, String> {
    const MONTH: u64 = 30 * 86_400;
    span_seconds(text)
        .filter(|seconds| (1..=MONTH).contains(seconds))
        .ok_or_else(|| format!("{text:?} is no time for an invite: write 30m, 12h or 3d, at most 30d"))
}

/// The code alone on standard output, so that it can be piped; the rest beside it.
fn invited(answer: &Value) {
    eprintln!("{} is invited until {}.", cell(&answer["user"]).bold(), cell(&answer["expires_at"]));
    println!("{}", cell(&answer["code"]));
    match answer["server"].as_str() {
        Some(url) => eprintln!("{}  {}", "enrol at".dimmed(), url.cyan()),
        None => eprintln!("{}", "Start the server so that a device can enrol.".dimmed()),
    }
    eprintln!("{}  {}", "server key".dimmed(), grouped(&cell(&answer["fingerprint"])));
    eprintln!(
        "{}",
        "Hand over all three on a way you trust: the code lets one device in, once; the key tells it that it \
         talks to this server and to no other."
            .dimmed()
    );
}

/// A fingerprint as people compare it: eight groups of eight.
fn grouped(hex: &str) -> String {
    let groups = hex.as_bytes().chunks(8).map(|group| String::from_utf8_lossy(group).into_owned());
    groups.collect::<Vec<_>>().join(" ")
}

fn people(answer: &Value) {
    let none = "There are no accounts; `nuncio user invite NAME` creates one.";
    list(items(&answer["users"]), &["NAME", "DEVICES", "SINCE"], none, |user| {
        vec![cell(&user["name"]), cell(&user["devices"]), cell(&user["since"])]
    });
}

fn devices(answer: &Value) {
    let none = "This person has no device yet; the invite code enrols one.";
    list(items(&answer["devices"]), &["ID", "NAME", "STATE", "SINCE"], none, |device| {
        let state = if device["revoked_at"].is_null() { "valid".to_owned() } else { "taken away".to_owned() };
        vec![cell(&device["id"]), cell(&device["name"]), state, cell(&device["enrolled_at"])]
    });
}

fn revoked(answer: &Value) {
    let devices = items(&answer["revoked"]);
    if devices.is_empty() {
        println!("This person had no device.");
    }
    for device in devices {
        let (id, name) = (cell(&device["id"]), cell(&device["name"]));
        println!("Removed {} ({name}): it no longer acts for anyone.", id.bold());
    }
}

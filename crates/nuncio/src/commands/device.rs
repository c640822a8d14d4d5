//! `nuncio device`: a person's own device, which asks its person before it acts.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use anstream::{eprintln, println};
use nuncio_a2h::client::Invitation;
use nuncio_core::digest::Digest;
use nuncio_device::policy::PolicyFile;
use nuncio_device::prompt::{DenyAll, FirstAnswer, Prompt};
use nuncio_device::tools::Tools;
use nuncio_device::{Device, DeviceError, DeviceEvent};
use nuncio_engine::ports::fetch::Trust;
use nuncio_server::telemetry::{self, LogFormat};
use owo_colors::OwoColorize as _;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::operator::{parsed, show};
use crate::cli::{DeviceHome, DeviceSubcommand};
use crate::output::{WrongUsage, cell, fault};

mod agents;
mod commands;
mod home;
mod log;
mod mcp;
mod own;
mod pages;
mod passphrase;
mod socket;
mod storage;
mod terminal;

use commands::{DeviceCommand, DeviceCommands, carry_out, take_alone};
use home::{folder_of, opened, prepare_folder, tools_of};
use pages::{Opener, Pages};
use terminal::Terminal;

pub(crate) async fn run(command: DeviceSubcommand, json: bool) -> anyhow::Result<()> {
    match command {
        DeviceSubcommand::Enrol { url, code, fingerprint, name, home } => {
            let fingerprint = fingerprint.map(|text| parsed(fingerprint_of(&text))).transpose()?;
            let invitation = Invitation { url, trust: Trust::Configured, code, fingerprint };
            enrol(&home, &invitation, &name, json).await
        }
        DeviceSubcommand::Run { tty, policy, folders, port, no_pages, home } => {
            let _logs = telemetry::start("warn", LogFormat::Text);
            let mut tools = tools_of(&folder_of(&home)?, folders)?;
            let pages = if no_pages { None } else { Some(Pages::at(port, &prepare_folder(&home)?).await?) };
            if let Some(pages) = &pages {
                tools = pages.noticing(tools)?;
            }
            let prompt = prompt(tty, policy.as_deref(), pages.as_ref())?;
            serve(&home, prompt, tools, pages, json).await
        }
        DeviceSubcommand::Agents { home } => agents::list(&home, json).await,
        DeviceSubcommand::Allow { agent, scopes, all_low, once, time, home } => {
            agents::allow(&home, &agent, agents::AllowRequest { scopes, all_low, once, time }, json).await
        }
        DeviceSubcommand::Revoke { agent, home } => agents::revoke(&home, &agent, json).await,
        DeviceSubcommand::Audit { export, home } => log::audit(&home, export.as_deref(), json).await,
        DeviceSubcommand::Verify { agent, home } => agents::verify(&home, &agent, json).await,
        DeviceSubcommand::Accept { agent, yes, home } => agents::accept(&home, &agent, yes, json).await,
        DeviceSubcommand::Devices { home } => own::list(&home, json).await,
        DeviceSubcommand::Invite { home } => own::invite(&home, json).await,
        DeviceSubcommand::Trust { device, yes, home } => own::trust(&home, &device, yes, json).await,
        DeviceSubcommand::Remove { device, home } => own::remove(&home, &device, json).await,
        DeviceSubcommand::Backup { file, passphrase, home } => {
            own::backup(&home, file.as_deref(), passphrase.passphrase_file.as_deref(), json).await
        }
        DeviceSubcommand::Restore { file, passphrase, home } => {
            own::restore(&home, &file, passphrase.passphrase_file.as_deref(), json).await
        }
        DeviceSubcommand::Recover { passphrase, home } => {
            own::recover(&home, passphrase.passphrase_file.as_deref(), json).await
        }
        DeviceSubcommand::Open { home } => {
            let answer = carry_out(&home, DeviceCommand::Open).await?;
            show(json, &answer, |answer| println!("{}", cell(&answer["url"])));
            Ok(())
        }
        DeviceSubcommand::Storage { source, key_file, passphrase, home } => {
            storage::storage(&home, source, key_file, &passphrase, json).await
        }
        DeviceSubcommand::Status { home } => log::status(&home, json).await,
    }
}

/// Maps a device error to a command error.
fn device_error(error: DeviceError) -> anyhow::Error {
    fault(error.code, error.message)
}

/// Writes a file that only its owner may read, completely or not at all.
fn written(file: &Path, text: &str) -> std::io::Result<()> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    let mut options = std::fs::OpenOptions::new();
    let mut opened = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    opened.write_all(text.as_bytes())?;
    opened.sync_all()?;
    std::fs::rename(beside, file)
}

async fn enrol(home: &DeviceHome, invitation: &Invitation, name: &str, json: bool) -> anyhow::Result<()> {
    let config = take_alone(home, Tools::default(), Arc::new(DenyAll)).await?;
    let device = Device::enrol(config, invitation, name).await.map_err(device_error)?;
    device.peer().publish_keys().await.map_err(|error| device_error(error.into()))?;
    let devices = device.devices().await.unwrap_or_default();
    let number = devices.into_iter().find(|own| own.this).and_then(|own| own.number);
    came_in(home, &device, number, json)
}

fn came_in(home: &DeviceHome, device: &Device, number: Option<String>, json: bool) -> anyhow::Result<()> {
    let folder = folder_of(home)?.display().to_string();
    let identity = device.identity();
    let mut answer = json!({
        "person": identity.person, "device": identity.device, "url": identity.url, "home": folder,
    });
    let (sealed_by, value) = storage::describe(&folder_of(home)?);
    answer["sealed_by"] = value;
    if let Some(number) = &number {
        answer["number"] = number.as_str().into();
    }
    show(json, &answer, |answer| {
        println!("This is {}, a device of {}.", cell(&answer["device"]).bold(), cell(&answer["person"]).bold());
        eprintln!("{} {folder}", "Its keys are in".dimmed());
        eprintln!("{} {sealed_by}.", "They are encrypted with".dimmed());
        if let Some(number) = number {
            eprintln!("{} {}", "Compare on the device that invited it:".dimmed(), number.bold());
        }
    });
    Ok(())
}

fn prompt(tty: bool, policy: Option<&Path>, pages: Option<&Pages>) -> anyhow::Result<Arc<dyn Prompt>> {
    let Some(file) = policy else {
        return Ok(
            match (tty.then(|| Arc::new(Terminal::new(pages.is_none())) as Arc<dyn Prompt>), pages.map(Pages::prompt)) {
                (Some(terminal), Some(pages)) => Arc::new(FirstAnswer(terminal, pages)),
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => Arc::new(DenyAll),
            },
        );
    };
    let unusable = |why: &dyn std::fmt::Display| WrongUsage(format!("{}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|why| unusable(&why))?;
    Ok(Arc::new(PolicyFile::parse(&text).map_err(|why| unusable(&why))?))
}

async fn serve(
    home: &DeviceHome,
    prompt: Arc<dyn Prompt>,
    tools: Tools,
    pages: Option<Pages>,
    json: bool,
) -> anyhow::Result<()> {
    let config = take_alone(home, tools, prompt).await?;
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let device = match (Device::open(config.clone()).map_err(device_error)?, &pages) {
        (Some(device), _) => device,
        (None, None) => opened(home, config)?,
        (None, Some(pages)) => {
            let link = pages.opener.link();
            show(json, &json!({"pages": link}), |_| {
                println!("There is no device here yet. Enrol this machine at: {}", link.cyan());
            });
            let stop = CancellationToken::new();
            let came = tokio::select! {
                came = pages.welcome(config, stop.clone()) => came?,
                _ = interrupt.recv() => None,
                _ = terminate.recv() => None,
            };
            stop.cancel();
            let Some(device) = came else { return Ok(()) };
            device
        }
    };
    let opener = pages.as_ref().map(|pages| pages.opener.clone());
    let commands =
        socket::listen(&folder_of(home)?, DeviceCommands { device: device.clone(), opener: opener.clone() })?;
    let identity = device.identity();
    let link = opener.as_ref().map(Opener::link);
    let (sealed_by, value) = storage::describe(&folder_of(home)?);
    let answer = json!({
        "url": identity.url, "person": identity.person, "device": identity.device, "pages": link, "sealed_by": value,
    });
    show(json, &answer, |answer| {
        let of = cell(&answer["person"]);
        println!("{} of {} answers at {}.", cell(&answer["device"]).bold(), of.bold(), cell(&answer["url"]).cyan());
        if let Some(link) = &link {
            println!("One-time link to its pages: {}", link.cyan());
        }
        println!("Its stored data is encrypted with {sealed_by}.");
    });
    let stop = CancellationToken::new();
    let watching = tokio::spawn(asked_again(device.clone()));
    let shown = pages.map(|pages| tokio::spawn(pages.serve(device.clone(), stop.clone())));
    let done = tokio::select! {
        done = device.run(stop.clone()) => done.map_err(device_error),
        () = commands => Ok(()),
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    };
    watching.abort();
    stop.cancel();
    if let Some(shown) = shown {
        // A browser that holds on to a page does not hold the device up.
        let _ = tokio::time::timeout(std::time::Duration::from_secs(2), shown).await;
    }
    done
}

/// Prints a notice when a changed agent asks for consent again.
async fn asked_again(device: Device) {
    let mut news = device.events();
    loop {
        match news.recv().await {
            Ok(DeviceEvent::Agent { agent }) => {
                let known = device.agents().unwrap_or_default().into_iter().find(|known| known.agent == agent);
                let standing = known.as_ref().and_then(|known| known.standing(&device.identity().person));
                if standing.is_some_and(|standing| !standing.suspended.is_empty()) {
                    let name = known.map(|known| known.name).unwrap_or_default();
                    eprintln!(
                        "{} changed and asks again: {}",
                        name.bold(),
                        format!("nuncio device allow {agent}").cyan()
                    );
                }
            }
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// Parses a fingerprint, with or without groups.
fn fingerprint_of(text: &str) -> Result<Digest, String> {
    let hex: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    Digest::parse(&hex).ok_or_else(|| format!("{text:?} is not a fingerprint: it has 64 characters from 0 to f"))
}

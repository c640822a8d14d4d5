//! `nuncio device`: this machine as a person's device, which asks before it runs tools for agents.

use std::fmt::Display;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anstream::{eprintln, println};
use nuncio_a2h::client::DeviceInvitation;
use nuncio_core::digest::Digest;
use nuncio_device::policy::PromptPolicyFile;
use nuncio_device::prompt::{DenyAllPrompts, FirstAnswerPrompt, PermissionPrompt};
use nuncio_device::tools::LocalTools;
use nuncio_device::{Device, DeviceError, DeviceEvent, ServerConnectionState};
use nuncio_engine::ports::fetch::AddressTrust;
use nuncio_server::telemetry::{self, LogFormat};
use owo_colors::OwoColorize as _;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::operator::parsed;
use crate::cli::{DeviceArguments, DeviceHomeOptions, DeviceSubcommand};
use crate::output::{WrongUsageError, cell, fault, show};

mod agents;
mod commands;
mod home;
mod join;
mod log;
mod mcp;
mod own;
mod pages;
mod passphrase;
mod socket;
mod storage;
mod terminal;
mod texts;

use commands::{DeviceCommand, DeviceCommandExecutor, lock_idle_home, run_command};
use home::{folder_of, home_flag, opened, prepare_folder, shares_folder, tools_of};
use join::AfterJoin;
use pages::{OneTimePageLinks, PagesListener};
use terminal::TerminalPrompt;
use texts::{DeviceTexts, fill};

pub(crate) async fn run(DeviceArguments { command, home }: DeviceArguments, json: bool) -> anyhow::Result<()> {
    match command {
        DeviceSubcommand::Join { link, code: None, name, folders, port, no_open, no_run, .. } => {
            let _logs = telemetry::start("warn", LogFormat::Text);
            let opening = if no_open { PageOpening::LinkOnly } else { PageOpening::Browser };
            let after = if no_run { AfterJoin::Exit } else { AfterJoin::Run { folders, port, opening } };
            join::join(&home, &link, &name, after, json).await
        }
        DeviceSubcommand::Join { link: url, code: Some(code), fingerprint, name, .. } => {
            enrol(&home, parsed(Url::parse(&url))?, code, fingerprint, &name, json).await
        }
        DeviceSubcommand::Enrol { url, code, fingerprint, name } => {
            enrol(&home, url, code, fingerprint, &name, json).await
        }
        DeviceSubcommand::Run { tty, policy, folders, port, no_pages, .. } => {
            let _logs = telemetry::start("warn", LogFormat::Text);
            let mut tools = tools_of(&folder_of(&home)?, folders)?;
            let pages = if no_pages { None } else { Some(PagesListener::at(port, &prepare_folder(&home)?).await?) };
            if let Some(pages) = &pages {
                tools = pages.with_notifications(tools)?;
            }
            let prompt = prompt(tty, policy.as_deref(), pages.as_ref())?;
            serve(&home, PreparedDeviceRun { prompt, tools, pages }, PageOpening::LinkOnly, json).await
        }
        DeviceSubcommand::Agents => agents::list(&home, json).await,
        DeviceSubcommand::Allow { agent, scopes, all_low, once, time } => {
            let term = agents::grant_term(time.as_deref(), once)?;
            agents::allow(&home, &agent, &scopes, all_low, term, json).await
        }
        DeviceSubcommand::Revoke { agent } => agents::revoke(&home, &agent, json).await,
        DeviceSubcommand::Audit { export } => log::audit(&home, export.as_deref(), json).await,
        DeviceSubcommand::Verify { agent } => agents::verify(&home, &agent, json).await,
        DeviceSubcommand::Accept { agent, yes } => agents::accept(&home, &agent, yes, json).await,
        DeviceSubcommand::Devices => own::list(&home, json).await,
        DeviceSubcommand::Invite => own::invite(&home, json).await,
        DeviceSubcommand::Trust { device, yes } => own::trust(&home, &device, yes, json).await,
        DeviceSubcommand::Remove { device } => own::remove(&home, &device, json).await,
        DeviceSubcommand::Backup { file, passphrase } => own::backup(&home, file.as_deref(), &passphrase, json).await,
        DeviceSubcommand::Restore { file, passphrase } => own::restore(&home, &file, &passphrase, json).await,
        DeviceSubcommand::Recover { passphrase } => own::recover(&home, &passphrase, json).await,
        DeviceSubcommand::Open => {
            run_command(&home, DeviceCommand::Open, json, |reply| println!("{}", cell(&reply["url"]))).await
        }
        DeviceSubcommand::Storage { source, key_file, passphrase } => {
            storage::storage(&home, source, key_file, &passphrase, json).await
        }
        DeviceSubcommand::Status => log::status(&home, json).await,
    }
}

fn device_error(error: DeviceError) -> anyhow::Error {
    fault(error.code, error.message)
}

/// Writes a file that only its owner may read, completely or not at all.
fn write_private_file(file: &Path, text: &str) -> std::io::Result<()> {
    let mut temporary = file.as_os_str().to_owned();
    temporary.push(".new");
    let mut options = std::fs::OpenOptions::new();
    let mut opened = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    opened.write_all(text.as_bytes())?;
    opened.sync_all()?;
    std::fs::rename(temporary, file)
}

async fn enrol(
    home: &DeviceHomeOptions,
    url: Url,
    code: String,
    fingerprint: Option<String>,
    name: &str,
    json: bool,
) -> anyhow::Result<()> {
    let fingerprint = fingerprint.map(|text| parsed(parse_fingerprint(&text))).transpose()?;
    let invitation = DeviceInvitation { url, trust: AddressTrust::Configured, code, fingerprint };
    let (device, number) = enrol_device(home, &invitation, name).await?;
    print_enrolled(home, &device, number, json)
}

/// Enrols a device and publishes its keys; the number is for comparison on the device that invited it.
async fn enrol_device(
    home: &DeviceHomeOptions,
    invitation: &DeviceInvitation,
    name: &str,
) -> anyhow::Result<(Device, Option<String>)> {
    let config = lock_idle_home(home, LocalTools::default(), Arc::new(DenyAllPrompts)).await?;
    let device = Device::enrol(config, invitation, name).await.map_err(device_error)?;
    device.peer().keys().publish_keys().await.map_err(|error| device_error(error.into()))?;
    let devices = device.own_devices().list().await.unwrap_or_default();
    let number = devices.into_iter().find(|own| own.this).and_then(|own| own.number);
    Ok((device, number))
}

fn print_enrolled(home: &DeviceHomeOptions, device: &Device, number: Option<String>, json: bool) -> anyhow::Result<()> {
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
        let texts = DeviceTexts::of_environment();
        let (device, person) = (cell(&answer["device"]), cell(&answer["person"]));
        println!("{}", fill(texts.this_is, &[("device", &device.bold()), ("person", &person.bold())]));
        eprintln!("{} {folder}", texts.keys_are_in.dimmed());
        eprintln!("{}", fill(texts.encrypted_with, &[("source", &sealed_by)]));
        if let Some(number) = number {
            eprintln!("{} {}", texts.compare_there.dimmed(), number.bold());
        }
    });
    Ok(())
}

fn prompt(
    tty: bool,
    policy: Option<&Path>,
    pages: Option<&PagesListener>,
) -> anyhow::Result<Arc<dyn PermissionPrompt>> {
    let Some(file) = policy else {
        let terminal = tty.then(|| Arc::new(TerminalPrompt::new(pages.is_none())) as Arc<dyn PermissionPrompt>);
        return Ok(match (terminal, pages.map(PagesListener::prompt)) {
            (Some(terminal), Some(pages)) => Arc::new(FirstAnswerPrompt(terminal, pages)),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => Arc::new(DenyAllPrompts),
        });
    };
    let unusable = |why: &dyn std::fmt::Display| WrongUsageError(format!("{}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|why| unusable(&why))?;
    Ok(Arc::new(PromptPolicyFile::parse(&text).map_err(|why| unusable(&why))?))
}

/// Whether a started device opens its pages in a browser or only prints the link to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageOpening {
    Browser,
    LinkOnly,
}

/// Parts of a running device that depend on command-line options.
struct PreparedDeviceRun {
    prompt: Arc<dyn PermissionPrompt>,
    tools: LocalTools,
    pages: Option<PagesListener>,
}

impl PreparedDeviceRun {
    /// A device that asks on its pages.
    async fn new(home: &DeviceHomeOptions, folders: Vec<PathBuf>, port: Option<u16>) -> anyhow::Result<Self> {
        let tools = tools_of(&folder_of(home)?, folders)?;
        let pages = PagesListener::at(port, &prepare_folder(home)?).await?;
        Ok(Self { tools: pages.with_notifications(tools)?, prompt: pages.prompt(), pages: Some(pages) })
    }
}

async fn serve(
    home: &DeviceHomeOptions,
    PreparedDeviceRun { prompt, tools, pages }: PreparedDeviceRun,
    opening: PageOpening,
    json: bool,
) -> anyhow::Result<()> {
    let shares_folder = shares_folder(&tools)?;
    let config = lock_idle_home(home, tools, prompt).await?;
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let device = match (Device::open(config.clone()).map_err(device_error)?, &pages) {
        (Some(device), _) => device,
        (None, None) => opened(home, config)?,
        (None, Some(pages)) => {
            let link = pages.links.link();
            show(json, &json!({"pages": link}), |_| {
                println!("{}", fill(DeviceTexts::of_environment().no_device_yet, &[("link", &link.cyan())]));
            });
            let stop = CancellationToken::new();
            let enrolled = tokio::select! {
                enrolled = pages.welcome(config, stop.clone()) => enrolled?,
                _ = interrupt.recv() => None,
                _ = terminate.recv() => None,
            };
            stop.cancel();
            let Some(device) = enrolled else { return Ok(()) };
            device
        }
    };
    let links = pages.as_ref().map(|pages| pages.links.clone());
    let commands =
        socket::listen(&folder_of(home)?, DeviceCommandExecutor { device: device.clone(), links: links.clone() })?;
    let identity = device.identity();
    let link = links.as_ref().map(OneTimePageLinks::link);
    let (sealed_by, value) = storage::describe(&folder_of(home)?);
    let answer = json!({
        "url": identity.url, "person": identity.person, "device": identity.device, "pages": link, "sealed_by": value,
    });
    show(json, &answer, |answer| {
        let texts = DeviceTexts::of_environment();
        let [device, person, url] = ["device", "person", "url"].map(|name| cell(&answer[name]));
        let values: [(&str, &dyn Display); 3] =
            [("device", &device.bold()), ("person", &person.bold()), ("url", &url.cyan())];
        println!("{}", fill(texts.answers_at, &values));
        if let Some(link) = &link {
            println!("{}", fill(texts.one_time_link, &[("link", &link.cyan())]));
        }
        println!("{}", fill(texts.data_encrypted_with, &[("source", &sealed_by)]));
        if !shares_folder {
            eprintln!("{}", texts.shares_no_folder.dimmed());
        }
    });
    if let (PageOpening::Browser, false, Some(link)) = (opening, json, &link) {
        join::open_in_browser(link);
    }
    let stop = CancellationToken::new();
    let watching = tokio::spawn(print_consent_requests(device.clone(), home_flag(home)));
    let connection = tokio::spawn(print_connection_changes(device.clone()));
    let page_server = pages.map(|pages| tokio::spawn(pages.serve(device.clone(), stop.clone())));
    let result = tokio::select! {
        result = device.run(stop.clone()) => result.map_err(device_error),
        () = commands => Ok(()),
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    };
    watching.abort();
    connection.abort();
    stop.cancel();
    if let Some(page_server) = page_server {
        // An open browser connection delays the exit by at most two seconds.
        let _ = tokio::time::timeout(std::time::Duration::from_secs(2), page_server).await;
    }
    result
}

/// Prints what to do when the server no longer accepts this device.
async fn print_connection_changes(device: Device) {
    let mut connection = device.connection();
    while connection.changed().await.is_ok() {
        let state = *connection.borrow_and_update();
        if state == ServerConnectionState::Removed
            && let Some(advice) = log::connection_advice(Some(state.as_str()))
        {
            eprintln!("{}", advice.red());
        }
    }
}

/// Prints a notice when a changed agent asks for consent again.
async fn print_consent_requests(device: Device, home_flag: String) {
    let mut events = device.events();
    loop {
        match events.recv().await {
            Ok(DeviceEvent::Agent { agent }) => {
                let agents = device.consents().agents().unwrap_or_default();
                let known = agents.into_iter().find(|known| known.agent == agent);
                let ledger = known.as_ref().and_then(|known| known.standing(&device.identity().person));
                if ledger.is_some_and(|ledger| !ledger.suspended.is_empty()) {
                    let name = known.map(|known| known.name).unwrap_or_default();
                    let command = format!("nuncio device allow {agent}{home_flag}");
                    let values: [(&str, &dyn Display); 2] = [("agent", &name.bold()), ("command", &command.cyan())];
                    eprintln!("{}", fill(DeviceTexts::of_environment().asks_again, &values));
                }
            }
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// Parses a fingerprint in hexadecimal, with or without white space between groups.
fn parse_fingerprint(text: &str) -> Result<Digest, String> {
    let hex: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    Digest::parse(&hex).ok_or_else(|| format!("{text:?} is not a fingerprint: it has 64 characters from 0 to f"))
}

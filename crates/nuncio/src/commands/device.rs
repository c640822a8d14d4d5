//! `nuncio device`: a person's own device, which asks before it acts.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use anstream::{eprintln, println};
use nuncio_a2h::client::Invitation;
use nuncio_core::Code;
use nuncio_core::agent::Sensitivity;
use nuncio_core::digest::Digest;
use nuncio_core::grant::Term;
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{AgentId, DeviceId, ScopeId};
use nuncio_device::policy::PolicyFile;
use nuncio_device::prompt::{Nobody, Prompt};
use nuncio_device::tools::Tools;
use nuncio_device::{Ask, Device, DeviceError, Given};
use nuncio_engine::ports::Clock as _;
use nuncio_engine::ports::fetch::Trust;
use nuncio_server::SystemClock;
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::desk::{parsed, show};
use crate::cli::{Device as Command, DeviceHome};
use crate::output::{WrongUsage, cell, fault, table};

mod home;
mod terminal;

use home::{config, folder_of, opened, tools_of};
use terminal::Terminal;

/// Runs the command.
pub(crate) async fn run(command: Command, json: bool) -> anyhow::Result<()> {
    match command {
        Command::Enrol { url, code, fingerprint, name, home } => {
            let fingerprint = fingerprint.map(|text| parsed(fingerprint_of(&text))).transpose()?;
            let invitation = Invitation { url, trust: Trust::Configured, code, fingerprint };
            enrol(&home, &invitation, &name, json).await
        }
        Command::Run { tty, policy, folders, home } => {
            let tools = tools_of(&folder_of(&home)?, folders)?;
            serve(&home, prompt(tty, policy.as_deref())?, tools, json).await
        }
        Command::Agents { home } => agents(&device(&home)?, json),
        Command::Allow { agent, scopes, all_low, once, time, home } => {
            let term = match time {
                Some(text) => Term::Until(SystemClock.now().after(parsed(span(&text))?)),
                None if once => Term::Once,
                None => Term::UntilRevoked,
            };
            let scopes = scopes.iter().map(|text| parsed(ScopeId::parse(text))).collect::<anyhow::Result<Vec<_>>>()?;
            allow(&device(&home)?, &parsed(AgentId::parse(&agent))?, Wish { scopes, all_low, term }, json).await
        }
        Command::Revoke { agent, home } => {
            let agent = parsed(AgentId::parse(&agent))?;
            device(&home)?.revoke(&agent).await.map_err(told)?;
            show(json, &json!({"revoked": agent}), |_| println!("{} may do nothing here now.", agent.bold()));
            Ok(())
        }
        Command::Audit { export, home } => audit(&device(&home)?, export.as_deref(), json),
        Command::Verify { agent, home } => {
            let agent = parsed(AgentId::parse(&agent))?;
            let number = device(&home)?.peer().safety_number(&Recipient::Agent(agent.clone())).await;
            let number = number.map_err(|error| told(error.into()))?;
            let none = || fault(Code::KeysNotFound, format!("{agent} has no keys yet that could be compared"));
            let number = number.ok_or_else(none)?;
            show(json, &json!({"agent": agent, "safety_number": number}), |_| {
                println!("{number}");
                eprintln!("{}", "The agent's owner sees the same number, if nobody is between you.".dimmed());
            });
            Ok(())
        }
        Command::Trust { device: other, home } => {
            let other = parsed(DeviceId::parse(&other))?;
            device(&home)?.trust(&other).await.map_err(told)?;
            show(json, &json!({"trusted": other}), |_| {
                println!("{} is yours: what it signed counts here.", other.bold());
            });
            Ok(())
        }
        Command::Status { home } => status(&home, json),
    }
}

/// An error of the device's, as commands say it.
fn told(error: DeviceError) -> anyhow::Error {
    fault(error.code, error.message)
}

/// The device that lives there, for a command that answers no calls.
fn device(home: &DeviceHome) -> anyhow::Result<Device> {
    opened(config(home, Tools::default(), Arc::new(Nobody))?)
}

async fn enrol(home: &DeviceHome, invitation: &Invitation, name: &str, json: bool) -> anyhow::Result<()> {
    let device = Device::enrol(config(home, Tools::default(), Arc::new(Nobody))?, invitation, name).await;
    let device = device.map_err(told)?;
    device.peer().publish_keys().await.map_err(|error| told(error.into()))?;
    let folder = folder_of(home)?.display().to_string();
    let answer = json!({
        "person": device.identity().person, "device": device.identity().device, "url": device.identity().url,
        "home": folder,
    });
    show(json, &answer, |answer| {
        println!("This is {}, a device of {}.", cell(&answer["device"]).bold(), cell(&answer["person"]).bold());
        eprintln!("{} {folder}", "Its keys are in".dimmed());
    });
    Ok(())
}

/// Who answers questions.
fn prompt(tty: bool, policy: Option<&Path>) -> anyhow::Result<Arc<dyn Prompt>> {
    let Some(file) = policy else {
        return Ok(if tty { Arc::new(Terminal::new()) } else { Arc::new(Nobody) });
    };
    let unusable = |why: &dyn std::fmt::Display| WrongUsage(format!("{}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|why| unusable(&why))?;
    Ok(Arc::new(PolicyFile::parse(&text).map_err(|why| unusable(&why))?))
}

async fn serve(home: &DeviceHome, prompt: Arc<dyn Prompt>, tools: Tools, json: bool) -> anyhow::Result<()> {
    let device = opened(config(home, tools, prompt)?)?;
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let identity = device.identity();
    let answer = json!({"url": identity.url, "person": identity.person, "device": identity.device});
    show(json, &answer, |answer| {
        let of = cell(&answer["person"]);
        println!("{} of {} answers at {}.", cell(&answer["device"]).bold(), of.bold(), cell(&answer["url"]).cyan());
    });
    let stop = CancellationToken::new();
    tokio::select! {
        done = device.run(stop.clone()) => done.map_err(told),
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}

fn agents(device: &Device, json: bool) -> anyhow::Result<()> {
    let person = &device.identity().person;
    let now = SystemClock.now();
    let known = device.agents().map_err(told)?;
    let shown: Vec<Value> = known
        .iter()
        .map(|known| {
            let standing = known.standing(person);
            let granted: Vec<_> = standing
                .iter()
                .flat_map(|standing| standing.granted.keys().filter(|scope| known.allows(standing, scope, now)))
                .collect();
            let suspended = standing.as_ref().map(|standing| &standing.suspended);
            json!({"agent": known.agent, "name": known.name, "allowed": granted, "suspended": suspended})
        })
        .collect();
    show(json, &json!({"agents": shown}), |answer| {
        let row = |agent: &Value| ["agent", "name", "allowed"].map(|key| cell(&agent[key])).to_vec();
        let rows: Vec<_> = answer["agents"].as_array().into_iter().flatten().map(row).collect();
        match rows.is_empty() {
            true => println!("You deal with no agent; `nuncio device allow AGENT` shows what one asks."),
            false => table(&["AGENT", "NAME", "ALLOWED"], &rows),
        }
    });
    Ok(())
}

/// What the person wants to allow.
struct Wish {
    scopes: Vec<ScopeId>,
    all_low: bool,
    term: Term,
}

async fn allow(device: &Device, agent: &AgentId, wish: Wish, json: bool) -> anyhow::Result<()> {
    let ask = device.look(agent).await.map_err(told)?;
    let mut given = Given::new();
    for scope in &wish.scopes {
        if !ask.scopes.iter().any(|asked| asked.id == *scope) {
            return Err(WrongUsage(format!("{agent} does not ask for {scope}")).into());
        }
        given.insert(scope.clone(), wish.term);
    }
    let low = ask.scopes.iter().filter(|asked| wish.all_low && asked.sensitivity == Sensitivity::Low);
    given.extend(low.map(|asked| (asked.id.clone(), wish.term)));
    if given.is_empty() {
        show(json, &json!({"ask": ask}), |_| asked(&ask));
        return Ok(());
    }
    device.allow(&ask, &given).await.map_err(told)?;
    let allowed: Vec<_> = given.keys().collect();
    show(json, &json!({"agent": agent, "allowed": allowed}), |answer| {
        println!("{} may now, and nothing else: {}", ask.name.bold(), cell(&answer["allowed"]));
    });
    Ok(())
}

/// What an agent asks, for people.
fn asked(ask: &Ask) {
    println!("{} ({}) asks for:", ask.name.bold(), ask.agent);
    let rows: Vec<_> = ask
        .scopes
        .iter()
        .map(|scope| {
            let label = scope.label.get("en").cloned().unwrap_or_default();
            let state = match (scope.granted, scope.suspended) {
                (_, true) => "suspended",
                (true, _) => "allowed",
                _ => "-",
            };
            vec![scope.id.to_string(), cell(&json!(scope.sensitivity)), state.to_owned(), label]
        })
        .collect();
    table(&["SCOPE", "STAKE", "STATE", "WHAT IT MEANS"], &rows);
    eprintln!("{}", "Nothing was allowed. Name the scopes to allow, or use --all-low.".dimmed());
}

fn audit(device: &Device, export: Option<&Path>, json: bool) -> anyhow::Result<()> {
    let count = device.verify_audit().map_err(|why| fault(Code::AuditBroken, why.to_string()))?;
    let entries = device.audit().map_err(told)?;
    if let Some(file) = export {
        let unusable = |why| fault(Code::DataDirUnusable, format!("{} cannot be written: {why}", file.display()));
        let lines: String = entries.iter().map(|entry| format!("{}\n", json!(entry))).collect();
        let mut options = std::fs::OpenOptions::new();
        let opened = options.write(true).create(true).truncate(true).mode(0o600).open(file);
        opened.and_then(|mut opened| opened.write_all(lines.as_bytes())).map_err(unusable)?;
        show(json, &json!({"verified": count, "file": file}), |_| {
            println!("{count} entries hold together and are in {}.", file.display());
        });
        return Ok(());
    }
    show(json, &json!({"verified": count, "entries": entries}), |answer| {
        let row = |entry: &Value| {
            let why = if entry["reason"].is_null() { &entry["status"] } else { &entry["reason"] };
            vec![cell(&entry["timestamp"]), cell(&entry["tool_name"]), cell(why)]
        };
        let rows: Vec<_> = answer["entries"].as_array().into_iter().flatten().map(row).collect();
        table(&["WHEN", "TOOL", "WHAT BECAME OF IT"], &rows);
        eprintln!("{}", format!("{count} entries, and they hold together.").dimmed());
    });
    Ok(())
}

fn status(home: &DeviceHome, json: bool) -> anyhow::Result<()> {
    let device = device(home)?;
    let identity = device.identity();
    let audit = device.verify_audit();
    let answer = json!({
        "person": identity.person, "device": identity.device, "url": identity.url,
        "home": folder_of(home)?.display().to_string(),
        "agents": device.agents().map_err(told)?.len(),
        "audit": audit.as_ref().map_or_else(|why| json!(why.to_string()), |count| json!(count)),
    });
    show(json, &answer, |answer| {
        let names = ["person", "device", "url", "home", "agents", "audit"];
        for name in names {
            println!("{:<8}{}", name.dimmed(), cell(&answer[name]));
        }
    });
    Ok(())
}

/// A fingerprint as people hand it on, in groups or not.
fn fingerprint_of(text: &str) -> Result<Digest, String> {
    let hex: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    Digest::parse(&hex).ok_or_else(|| format!("{text:?} is no fingerprint: it has 64 digits from 0 to f"))
}

/// A span of time: a whole number of minutes, hours or days.
fn span(text: &str) -> Result<std::time::Duration, String> {
    let wrong = || format!("{text:?} is no span of time: write 30m, 12h or 3d");
    let unit = match text.chars().last() {
        Some('m') => 60,
        Some('h') => 3600,
        Some('d') => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    let seconds = number.checked_mul(unit).filter(|seconds| (1..=366 * 86_400).contains(seconds));
    seconds.map(std::time::Duration::from_secs).ok_or_else(wrong)
}

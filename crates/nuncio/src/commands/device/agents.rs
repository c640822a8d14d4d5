//! Commands about agents: list, allow, revoke, verify and accept.

use std::fmt::Display;

use anstream::{eprintln, println};
use nuncio_core::digest::Digest;
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::{AgentId, DeviceId, ScopeId};
use nuncio_engine::ports::Clock as _;
use nuncio_server::SystemClock;
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::commands::{DeviceCommand, carry_out, run_command};
use super::home::home_flag;
use super::texts::{DeviceTexts, fill};
use crate::cli::DeviceHomeOptions;
use crate::commands::chat::clean::clean;
use crate::commands::confirm::confirm;
use crate::commands::language::user_language;
use crate::commands::operator::{parsed, span_seconds};
use crate::output::{cell, items, padded, print_list, show, table, wrong_usage};

pub(super) async fn list(home: &DeviceHomeOptions, json: bool) -> anyhow::Result<()> {
    run_command(home, DeviceCommand::Agents, json, |answer| {
        let command = format!("nuncio device allow AGENT{}", home_flag(home));
        let texts = DeviceTexts::of_environment();
        let none = fill(texts.no_agents, &[("command", &command)]);
        let headings = [texts.agent_heading, texts.name_heading, texts.allowed_heading];
        print_list(items(&answer["agents"]), &headings, &none, |agent| {
            ["agent", "name", "allowed"].map(|key| cell(&agent[key])).to_vec()
        });
    })
    .await
}

pub(super) async fn allow(
    home: &DeviceHomeOptions,
    agent: &str,
    scopes: &[String],
    all_low: bool,
    term: GrantTerm,
    json: bool,
) -> anyhow::Result<()> {
    let scopes = scopes.iter().map(|text| parsed(ScopeId::parse(text))).collect::<anyhow::Result<Vec<_>>>()?;
    let command = DeviceCommand::Allow { agent: parsed(AgentId::parse(agent))?, scopes, all_low, term };
    let mut answer = carry_out(home, command).await?;
    let name = answer.as_object_mut().and_then(|answer| answer.shift_remove("name")).unwrap_or_default();
    show(json, &answer, |answer| match &answer["ask"] {
        Value::Null => {
            let (name, scopes) = (cell(&name), cell(&answer["allowed"]));
            let values: [(&str, &dyn Display); 2] = [("agent", &name.bold()), ("scopes", &scopes)];
            println!("{}", fill(DeviceTexts::of_environment().may_now, &values));
        }
        request => print_request(request),
    });
    Ok(())
}

/// How long a permission is granted: for the typed duration, for one call, or until it is revoked.
pub(super) fn grant_term(time: Option<&str>, once: bool) -> anyhow::Result<GrantTerm> {
    Ok(match time {
        Some(text) => GrantTerm::Until(SystemClock.now().after(parsed(parse_duration(text))?)),
        None if once => GrantTerm::Once,
        None => GrantTerm::UntilRevoked,
    })
}

fn print_request(request: &Value) {
    let language = user_language();
    let texts = DeviceTexts::of(language);
    let (name, id) = (cell(&request["name"]), cell(&request["agent"]));
    println!("{}", fill(texts.asks_for, &[("agent", &name.bold()), ("id", &id)]));
    let row = |scope: &Value| {
        let state = match (&scope["granted"], &scope["suspended"]) {
            (_, Value::Bool(true)) => texts.suspended,
            (Value::Bool(true), _) => texts.allowed,
            _ => "-",
        };
        let label = [language.tag(), "en"].into_iter().find_map(|tag| scope["label"][tag].as_str());
        let label = clean(label.unwrap_or_default()).into_owned();
        vec![cell(&scope["id"]), texts.value(&cell(&scope["sensitivity"])), state.to_owned(), label]
    };
    let headings = [texts.scope_heading, texts.sensitivity_heading, texts.state_heading, texts.meaning_heading];
    table(&headings, items(&request["scopes"]).iter().map(row));
    eprintln!("{}", texts.nothing_changed.dimmed());
}

pub(super) async fn revoke(home: &DeviceHomeOptions, agent: &str, json: bool) -> anyhow::Result<()> {
    let agent = parsed(AgentId::parse(agent))?;
    let command = DeviceCommand::Revoke { agent: agent.clone() };
    let done = fill(DeviceTexts::of_environment().may_nothing, &[("agent", &agent.bold())]);
    run_command(home, command, json, |_| println!("{done}")).await
}

pub(super) async fn verify(home: &DeviceHomeOptions, agent: &str, json: bool) -> anyhow::Result<()> {
    run_command(home, DeviceCommand::Verify { agent: parsed(AgentId::parse(agent))? }, json, |answer| {
        println!("{}", cell(&answer["safety_number"]));
        eprintln!("{}", DeviceTexts::of_environment().number_why.dimmed());
    })
    .await
}

pub(super) async fn accept(home: &DeviceHomeOptions, agent: &str, yes: bool, json: bool) -> anyhow::Result<()> {
    let agent = parsed(AgentId::parse(agent))?;
    let changed = carry_out(home, DeviceCommand::Changed { agent: agent.clone() }).await?;
    let texts = DeviceTexts::of_environment();
    if !json {
        eprintln!("{}", fill(texts.keys_changed, &[("agent", &agent.bold())]));
        eprintln!("{}.", cell(&changed["why"]));
        for (label, number) in [(texts.number_before, &changed["was"]), (texts.number_now, &changed["is"])] {
            eprintln!("{}{}", padded(label, 8).dimmed(), cell(number));
        }
        eprintln!("{}", texts.ask_owner.dimmed());
        let command = format!("nuncio agent safety-number {agent} {}", cell(&changed["person"]));
        eprintln!("{} {command}", texts.owner_sees.dimmed());
    }
    match if yes { Some(true) } else { confirm(texts.do_they, json).await? } {
        Some(true) => {}
        Some(false) => anyhow::bail!("nothing was accepted"),
        None => return Err(wrong_usage("compare the numbers, then use --yes")),
    }
    let device: DeviceId = parsed(serde_json::from_value(changed["device"].clone()))?;
    let fingerprint: Digest = parsed(serde_json::from_value(changed["fingerprint"].clone()))?;
    let accepted = carry_out(home, DeviceCommand::Accept { agent: agent.clone(), device, fingerprint }).await?;
    let answer = json!({
        "agent": agent, "accepted": changed["device"], "was": changed["was"],
        "safety_number": accepted["safety_number"],
    });
    show(json, &answer, |_| println!("{}", fill(texts.keys_accepted, &[("agent", &agent.bold())])));
    Ok(())
}

/// Parses a duration: a whole number of minutes, hours or days, at most 366 days.
fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    let seconds = span_seconds(text).filter(|seconds| (1..=366 * 86_400).contains(seconds));
    let invalid = || format!("{text:?} is not a duration: write 30m, 12h or 3d");
    seconds.map(std::time::Duration::from_secs).ok_or_else(invalid)
}

//! Commands about agents: list, allow, revoke, verify and accept.

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
use crate::cli::DeviceHomeOptions;
use crate::commands::chat::clean::clean;
use crate::commands::confirm::confirm;
use crate::commands::operator::{parsed, span_seconds};
use crate::output::{cell, items, print_list, show, table, wrong_usage};

pub(super) async fn list(home: &DeviceHomeOptions, json: bool) -> anyhow::Result<()> {
    run_command(home, DeviceCommand::Agents, json, |answer| {
        let command = format!("nuncio device allow AGENT{}", home_flag(home));
        let none = format!("There are no agents yet; `{command}` shows what an agent requests.");
        print_list(items(&answer["agents"]), &["AGENT", "NAME", "ALLOWED"], &none, |agent| {
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
        Value::Null => println!("{} may now, and nothing else: {}", cell(&name).bold(), cell(&answer["allowed"])),
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
    println!("{} ({}) asks for:", cell(&request["name"]).bold(), cell(&request["agent"]));
    let row = |scope: &Value| {
        let state = match (&scope["granted"], &scope["suspended"]) {
            (_, Value::Bool(true)) => "suspended",
            (Value::Bool(true), _) => "allowed",
            _ => "-",
        };
        let label = clean(scope["label"]["en"].as_str().unwrap_or_default()).into_owned();
        vec![cell(&scope["id"]), cell(&scope["sensitivity"]), state.to_owned(), label]
    };
    table(&["SCOPE", "STAKE", "STATE", "WHAT IT MEANS"], items(&request["scopes"]).iter().map(row));
    eprintln!("{}", "Nothing was allowed. Name the scopes to allow, or use --all-low.".dimmed());
}

pub(super) async fn revoke(home: &DeviceHomeOptions, agent: &str, json: bool) -> anyhow::Result<()> {
    let agent = parsed(AgentId::parse(agent))?;
    let command = DeviceCommand::Revoke { agent: agent.clone() };
    run_command(home, command, json, |_| println!("{} may do nothing here now.", agent.bold())).await
}

pub(super) async fn verify(home: &DeviceHomeOptions, agent: &str, json: bool) -> anyhow::Result<()> {
    run_command(home, DeviceCommand::Verify { agent: parsed(AgentId::parse(agent))? }, json, |answer| {
        println!("{}", cell(&answer["safety_number"]));
        eprintln!("{}", "The agent's owner sees the same number unless someone intercepts your messages.".dimmed());
    })
    .await
}

pub(super) async fn accept(home: &DeviceHomeOptions, agent: &str, yes: bool, json: bool) -> anyhow::Result<()> {
    let agent = parsed(AgentId::parse(agent))?;
    let changed = carry_out(home, DeviceCommand::Changed { agent: agent.clone() }).await?;
    if !json {
        eprintln!("The keys of {} have changed:", agent.bold());
        eprintln!("{}.", cell(&changed["why"]));
        for (label, number) in [("before", &changed["was"]), ("now", &changed["is"])] {
            eprintln!("{:<8}{}", label.dimmed(), cell(number));
        }
        eprintln!("{}", "Ask the agent's owner through another channel whether they see the current number.".dimmed());
        let command = format!("nuncio agent safety-number {agent} {}", cell(&changed["person"]));
        eprintln!("{} {command}", "They see it with:".dimmed());
    }
    match if yes { Some(true) } else { confirm("Do they?", json).await? } {
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
    show(json, &answer, |_| println!("The new keys of {} are accepted.", agent.bold()));
    Ok(())
}

/// Parses a duration: a whole number of minutes, hours or days, at most 366 days.
fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    let seconds = span_seconds(text).filter(|seconds| (1..=366 * 86_400).contains(seconds));
    let invalid = || format!("{text:?} is no span of time: write 30m, 12h or 3d");
    seconds.map(std::time::Duration::from_secs).ok_or_else(invalid)
}

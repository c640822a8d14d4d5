//! Agents: who there are, what they ask, what they may, and whose keys are theirs.

use anstream::{eprintln, println};
use nuncio_core::digest::Digest;
use nuncio_core::grant::GrantTerm;
use nuncio_core::ids::{AgentId, DeviceId, ScopeId};
use nuncio_engine::ports::Clock as _;
use nuncio_server::SystemClock;
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::commands::{DeviceCommand, carry_out};
use super::passphrase::confirmed;
use crate::cli::DeviceHome;
use crate::commands::chat::clean::clean;
use crate::commands::operator::{list as print_list, parsed, show, span_seconds};
use crate::output::{WrongUsage, cell, items, table};

/// `nuncio device agents`
pub(super) async fn list(home: &DeviceHome, json: bool) -> anyhow::Result<()> {
    let answer = carry_out(home, DeviceCommand::Agents).await?;
    show(json, &answer, |answer| {
        let none = "There are no agents yet; `nuncio device allow AGENT` shows what an agent requests.";
        print_list(items(&answer["agents"]), &["AGENT", "NAME", "ALLOWED"], none, |agent| {
            ["agent", "name", "allowed"].map(|key| cell(&agent[key])).to_vec()
        });
    });
    Ok(())
}

/// The options of `nuncio device allow`, as typed.
pub(super) struct AllowRequest {
    pub(super) scopes: Vec<String>,
    pub(super) all_low: bool,
    pub(super) once: bool,
    pub(super) time: Option<String>,
}

/// `nuncio device allow`
pub(super) async fn allow(home: &DeviceHome, agent: &str, wish: AllowRequest, json: bool) -> anyhow::Result<()> {
    let term = match wish.time {
        Some(text) => GrantTerm::Until(SystemClock.now().after(parsed(span(&text))?)),
        None if wish.once => GrantTerm::Once,
        None => GrantTerm::UntilRevoked,
    };
    let scopes = wish.scopes.iter().map(|text| parsed(ScopeId::parse(text))).collect::<anyhow::Result<Vec<_>>>()?;
    let order = DeviceCommand::Allow { agent: parsed(AgentId::parse(agent))?, scopes, all_low: wish.all_low, term };
    let mut answer = carry_out(home, order).await?;
    let name = answer.as_object_mut().and_then(|answer| answer.remove("name")).unwrap_or_default();
    show(json, &answer, |answer| match &answer["ask"] {
        Value::Null => println!("{} may now, and nothing else: {}", cell(&name).bold(), cell(&answer["allowed"])),
        ask => print_ask(ask),
    });
    Ok(())
}

fn print_ask(ask: &Value) {
    println!("{} ({}) asks for:", cell(&ask["name"]).bold(), cell(&ask["agent"]));
    let row = |scope: &Value| {
        let state = match (&scope["granted"], &scope["suspended"]) {
            (_, Value::Bool(true)) => "suspended",
            (Value::Bool(true), _) => "allowed",
            _ => "-",
        };
        let label = clean(scope["label"]["en"].as_str().unwrap_or_default()).into_owned();
        vec![cell(&scope["id"]), cell(&scope["sensitivity"]), state.to_owned(), label]
    };
    let rows: Vec<_> = items(&ask["scopes"]).iter().map(row).collect();
    table(&["SCOPE", "STAKE", "STATE", "WHAT IT MEANS"], &rows);
    eprintln!("{}", "Nothing was allowed. Name the scopes to allow, or use --all-low.".dimmed());
}

/// `nuncio device revoke`
pub(super) async fn revoke(home: &DeviceHome, agent: &str, json: bool) -> anyhow::Result<()> {
    let agent = parsed(AgentId::parse(agent))?;
    let answer = carry_out(home, DeviceCommand::Revoke { agent: agent.clone() }).await?;
    show(json, &answer, |_| println!("{} may do nothing here now.", agent.bold()));
    Ok(())
}

/// `nuncio device verify`
pub(super) async fn verify(home: &DeviceHome, agent: &str, json: bool) -> anyhow::Result<()> {
    let answer = carry_out(home, DeviceCommand::Verify { agent: parsed(AgentId::parse(agent))? }).await?;
    show(json, &answer, |answer| {
        println!("{}", cell(&answer["safety_number"]));
        eprintln!("{}", "The agent's owner sees the same number unless someone intercepts your messages.".dimmed());
    });
    Ok(())
}

/// `nuncio device accept`
pub(super) async fn accept(home: &DeviceHome, agent: &str, yes: bool, json: bool) -> anyhow::Result<()> {
    let agent = parsed(AgentId::parse(agent))?;
    let changed = carry_out(home, DeviceCommand::Changed { agent: agent.clone() }).await?;
    if !json {
        eprintln!("The keys of {} have changed:", agent.bold());
        eprintln!("{}.", cell(&changed["why"]));
        for (word, number) in [("before", &changed["was"]), ("now", &changed["is"])] {
            eprintln!("{:<8}{}", word.dimmed(), cell(number));
        }
        eprintln!("{}", "Ask the agent's owner through another channel whether they see the current number.".dimmed());
    }
    match if yes { Some(true) } else { confirmed("Do they?", json).await? } {
        Some(true) => {}
        Some(false) => return Err(WrongUsage("nothing was accepted".to_owned()).into()),
        None => return Err(WrongUsage("compare the numbers, then use --yes".to_owned()).into()),
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

/// A span of time: a whole number of minutes, hours or days.
fn span(text: &str) -> Result<std::time::Duration, String> {
    let seconds = span_seconds(text).filter(|seconds| (1..=366 * 86_400).contains(seconds));
    let wrong = || format!("{text:?} is no span of time: write 30m, 12h or 3d");
    seconds.map(std::time::Duration::from_secs).ok_or_else(wrong)
}

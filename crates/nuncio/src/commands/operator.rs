//! The operator's commands: asked of the server that runs, done here when none does.

use std::path::Path;
use std::sync::Arc;

use anstream::{eprintln, println};
use nuncio_core::Code;
use nuncio_core::ids::{AgentName, ApprovalId, GrantId, PersonName, ScopeId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Clock as _;
use nuncio_engine::ports::store::KeyTerm;
use nuncio_server::admin::{self, AdminCommand};
use nuncio_server::{SystemClock, open_engine};
use owo_colors::OwoColorize as _;
use serde_json::Value;

use crate::cli::{Approve, Audit, Grant, Key};
use crate::output::{WrongUsage, cell, fault, items, table};

/// Runs a command: in the running server, or in this process.
pub(super) async fn carry_out(data: &Path, order: AdminCommand) -> anyhow::Result<Value> {
    if let Some(answer) = admin::ask(data, &order).await? {
        return Ok(answer);
    }
    let begins = matches!(
        order,
        AdminCommand::KeyCreate { .. }
            | AdminCommand::UserInvite { .. }
            | AdminCommand::GrantCreate { .. }
            | AdminCommand::RegistryFollow { .. }
            | AdminCommand::RegistryAdd { .. }
    );
    if !data.exists() && !begins {
        let message = format!("there is no data directory {}; name one with --data", data.display());
        return Err(fault(Code::DataDirUnusable, message));
    }
    Ok(open_engine(data, Arc::new(SystemClock)).await?.carry_out(order, &admin::this_account()).await?)
}

/// A value read from the command line; a wrong one is wrong usage.
pub(super) fn parsed<T, E: std::fmt::Display>(result: Result<T, E>) -> anyhow::Result<T> {
    result.map_err(|error| WrongUsage(error.to_string()).into())
}

/// A span of time in seconds: a whole number of minutes, hours or days, such as `30m`, `12h` or `3d`.
pub(super) fn span_seconds(text: &str) -> Option<u64> {
    let (number, unit) = [('m', 60), ('h', 3600), ('d', 86_400)]
        .into_iter()
        .find_map(|(letter, unit)| text.strip_suffix(letter).map(|number| (number, unit)))?;
    let is_whole = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
    number.parse::<u64>().ok().filter(|_| is_whole)?.checked_mul(unit)
}

/// The moment of a day (`2026-01-31`, at its beginning in UTC) or a time (`2026-01-31T12:00:00Z`).
fn moment(text: &str) -> Result<Timestamp, String> {
    Timestamp::try_from(if text.contains('T') { text.to_owned() } else { format!("{text}T00:00:00Z") })
}

/// Parses a key expiry: a duration or a time.
fn key_term(text: &str) -> Result<KeyTerm, String> {
    match span_seconds(text) {
        Some(seconds) => Ok(KeyTerm::Seconds(seconds)),
        None => moment(text).map(KeyTerm::Until).map_err(|_| {
            format!("--expires {text:?}: write a span such as 90m, 12h or 30d, or a time such as 2027-01-01T00:00:00Z")
        }),
    }
}

fn overlap_seconds(text: &str) -> Result<u64, String> {
    span_seconds(text).ok_or_else(|| format!("--overlap {text:?}: write a span of time such as 30m, 12h or 3d"))
}

fn scopes(texts: &[String]) -> anyhow::Result<Vec<ScopeId>> {
    texts.iter().map(|text| parsed(ScopeId::parse(text))).collect()
}

/// Prints an answer: as it is for programs, through `people` otherwise.
pub(super) fn show(json: bool, answer: &Value, people: impl FnOnce(&Value)) {
    if json { println!("{answer}") } else { people(answer) }
}

/// Prints a list as a table, or `none` if it is empty.
pub(super) fn list(items: &[Value], headings: &[&str], none: &str, row: impl Fn(&Value) -> Vec<String>) {
    if items.is_empty() {
        println!("{none}");
        return;
    }
    table(headings, &items.iter().map(row).collect::<Vec<_>>());
}

pub(crate) async fn key(command: Key, json: bool) -> anyhow::Result<()> {
    match command {
        Key::Create { name, person, scopes: wanted, signing, operator, expires, data } => {
            let person = person.map(|name| parsed(PersonName::parse(&name))).transpose()?;
            let term = expires.map(|text| parsed(key_term(&text))).transpose()?;
            let order = AdminCommand::KeyCreate { name, person, scopes: scopes(&wanted)?, signing, operator, term };
            let answer = carry_out(&data.path, order).await?;
            show(json, &answer, |answer| {
                // The key alone on standard output, so that it can be piped.
                println!("{}", cell(&answer["key"]));
                let note = "Keep it: it is not shown again. From now on every request needs a key, unless nuncio.toml says otherwise.";
                eprintln!("{}", note.dimmed());
                tell_expiry(answer);
            });
        }
        Key::List { data } => {
            let answer = carry_out(&data.path, AdminCommand::KeyList).await?;
            let headings = ["ID", "NAME", "KIND", "ROLE", "STATE", "SCOPES", "PERSON", "CREATED", "EXPIRES"];
            let none = "There are no keys: a loopback server is open to this machine.";
            show(json, &answer, |answer| {
                list(items(&answer["keys"]), &headings, none, |key| {
                    let scopes = match &key["scopes"]["only"] {
                        Value::Null => "all".to_owned(),
                        only => cell(only),
                    };
                    let expires_at = key["expires_at"].as_str();
                    let end = expires_at.and_then(|end| Timestamp::try_from(end.to_owned()).ok());
                    let state = match end {
                        _ if !key["revoked_at"].is_null() => "revoked",
                        Some(end) if end <= SystemClock.now() => "expired",
                        _ => "valid",
                    };
                    vec![
                        cell(&key["id"]),
                        cell(&key["name"]),
                        cell(&key["kind"]),
                        if key["role"] == "operator" { "operator".to_owned() } else { "app".to_owned() },
                        state.to_owned(),
                        scopes,
                        cell(&key["person"]),
                        cell(&key["created_at"]),
                        expires_at.unwrap_or("never").to_owned(),
                    ]
                });
            });
        }
        Key::Revoke { key, data } => {
            let answer = carry_out(&data.path, AdminCommand::KeyRevoke { which: key }).await?;
            show(json, &answer, |answer| {
                println!("Revoked {}. Requests still need a key.", cell(&answer["revoked"]["id"]));
            });
        }
        Key::Rotate { key, expires, overlap, data } => {
            let term = expires.map(|text| parsed(key_term(&text))).transpose()?;
            let overlap_seconds = overlap.map(|text| parsed(overlap_seconds(&text))).transpose()?.unwrap_or(0);
            let order = AdminCommand::KeyRotate { which: key, term, overlap_seconds };
            let answer = carry_out(&data.path, order).await?;
            show(json, &answer, |answer| {
                println!("{}", cell(&answer["key"]));
                let old = match answer["previous"]["until"].as_str() {
                    Some(until) => format!("The old secret is valid until {until}."),
                    None => "The old secret no longer works.".to_owned(),
                };
                let note = format!("{} has a new secret. Keep it: it is not shown again. {old}", cell(&answer["id"]));
                eprintln!("{}", note.dimmed());
                tell_expiry(answer);
            });
        }
    }
    Ok(())
}

fn tell_expiry(key: &Value) {
    if let Some(end) = key["expires_at"].as_str() {
        eprintln!("{}", format!("It expires at {end}.").dimmed());
    }
}

pub(crate) async fn grant(command: Grant, json: bool) -> anyhow::Result<()> {
    match command {
        Grant::Create { principal, agent, scopes: wanted, until, once, data } => {
            let order = AdminCommand::GrantCreate {
                principal: parsed(Principal::try_from(principal))?,
                agent: parsed(AgentName::parse(&agent))?,
                scopes: scopes(&wanted)?,
                until: until.map(|text| parsed(Timestamp::try_from(text))).transpose()?,
                once,
            };
            let answer = carry_out(&data.path, order).await?;
            show(json, &answer, |answer| println!("Granted: {}.", cell(&answer["grant"]["id"])));
        }
        Grant::List { data } => {
            let answer = carry_out(&data.path, AdminCommand::GrantList).await?;
            let headings = ["ID", "TO", "AGENT", "SCOPES", "TERM"];
            show(json, &answer, |answer| {
                list(items(&answer["grants"]), &headings, "Nothing has been granted.", |grant| {
                    let term = match &grant["term"] {
                        Value::Object(until) => format!("until {}", cell(&until["until"])),
                        word => cell(word).replace('_', " "),
                    };
                    vec![
                        cell(&grant["id"]),
                        cell(&grant["principal"]),
                        cell(&grant["agent"]),
                        cell(&grant["scopes"]),
                        term,
                    ]
                });
            });
        }
        Grant::Revoke { id, data } => {
            let id = parsed(GrantId::parse(&id))?;
            let answer = carry_out(&data.path, AdminCommand::GrantRevoke { id }).await?;
            show(json, &answer, |answer| println!("Revoked {}.", cell(&answer["revoked"])));
        }
    }
    Ok(())
}

pub(crate) async fn approve(command: Approve, json: bool) -> anyhow::Result<()> {
    let order = match &command {
        Approve::List { .. } => AdminCommand::ApproveList,
        Approve::Allow { id, .. } => AdminCommand::ApproveAllow { id: parsed(ApprovalId::parse(id))? },
        Approve::Deny { id, reason, .. } => {
            AdminCommand::ApproveDeny { id: parsed(ApprovalId::parse(id))?, reason: reason.clone() }
        }
    };
    let (Approve::List { data } | Approve::Allow { data, .. } | Approve::Deny { data, .. }) = &command;
    let answer = carry_out(&data.path, order).await?;
    show(json, &answer, |answer| match command {
        Approve::List { .. } => list_approvals(answer),
        Approve::Allow { .. } => println!("Allowed, once, with these arguments."),
        Approve::Deny { .. } => println!("Denied."),
    });
    Ok(())
}

fn list_approvals(answer: &Value) {
    let waiting = items(&answer["approvals"]);
    if waiting.is_empty() {
        println!("There are no pending approvals.");
    }
    for approval in waiting {
        let question = &approval["question"];
        println!("{}", cell(&approval["id"]).bold());
        println!(
            "  {} wants {} of {}",
            cell(&question["caller"]),
            cell(&question["tool"]).bold(),
            cell(&question["agent"])
        );
        println!("  with     {}", cell(&question["arguments"]));
        println!("  scope    {}", cell(&question["scope"]));
        println!("  expires  {}", cell(&approval["expires_at"]));
    }
}

pub(crate) async fn audit(command: Audit, json: bool) -> anyhow::Result<()> {
    match command {
        Audit::List { after, limit, data } => {
            let answer = carry_out(&data.path, AdminCommand::AuditList { after, limit }).await?;
            let headings = ["#", "WHEN", "CALLER", "AGENT", "TOOL OR PERSON", "OUTCOME"];
            show(json, &answer, |answer| {
                list(items(&answer["records"]), &headings, "No tool has been called.", |link| {
                    let record = &link["record"];
                    // What is allowed changed: no tool was called.
                    if let Some(happened) = record["happened"].as_str() {
                        let what = [&record["subject"], &record["person"]].into_iter().find(|what| !what.is_null());
                        let (at, agent) = (cell(&record["at"]), cell(&record["agent"]));
                        let by = [&record["by"], &record["account"]].into_iter().filter(|by| !by.is_null());
                        let by = by.map(cell).collect::<Vec<_>>().join(" ");
                        let action = record["action"].as_str().map(|action| format!("{action}: ")).unwrap_or_default();
                        let outcome = format!("{action}{happened}").replace('_', " ");
                        return vec![cell(&link["seq"]), at, by, agent, what.map(cell).unwrap_or_default(), outcome];
                    }
                    let outcome = match (&record["decision"]["code"], &record["outcome"]["code"]) {
                        (Value::Null, Value::Null) => cell(&record["outcome"]["result"]),
                        (Value::Null, code) => format!("failed: {}", cell(code)),
                        (code, _) => format!("refused: {}", cell(code)),
                    };
                    vec![
                        cell(&link["seq"]),
                        cell(&record["ended_at"]),
                        cell(&record["caller"]),
                        cell(&record["agent"]),
                        cell(&record["tool"]),
                        outcome,
                    ]
                });
            });
        }
        Audit::Explain { call, with, data } => {
            super::audit_explain::explain(&data.path, &call, with.as_deref(), json).await?;
        }
        Audit::Prune { before, data } => {
            let before = parsed(moment(&before))?;
            let answer = carry_out(&data.path, AdminCommand::AuditPrune { before }).await?;
            show(json, &answer, |answer| println!("Deleted {} records; the others stay verifiable.", answer["pruned"]));
        }
        Audit::Verify { data } => {
            let answer = carry_out(&data.path, AdminCommand::AuditVerify).await?;
            show(json, &answer, |answer| {
                println!(
                    "{} {} records, each following from the one before; {} signed checkpoints agree.",
                    "intact:".green().bold(),
                    answer["records"],
                    answer["checkpoints"]
                );
                if let Some(pruned) = answer["pruned"].as_u64() {
                    println!("{pruned} older records were pruned.");
                }
                if let Some(warning) = answer["warning"].as_str() {
                    eprintln!("{} {warning}", "warning:".yellow().bold());
                }
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_expiry_is_a_duration_or_a_time() {
        for (text, seconds) in [("90m", 5400), ("12h", 43_200), ("30d", 2_592_000), ("0d", 0)] {
            assert_eq!(key_term(text), Ok(KeyTerm::Seconds(seconds)), "{text}");
        }
        let new_year = Timestamp::from_millis(1_798_761_600_000);
        for text in ["2027-01-01T00:00:00Z", "2027-01-01T01:00:00+01:00", "2027-01-01"] {
            assert_eq!(key_term(text), Ok(KeyTerm::Until(new_year)), "{text}");
        }
        for wrong in ["", "d", "30", "-1d", "+1d", "1.5h", "30 d", "30w", "soon", "99999999999999999999d", "2027-13-01"]
        {
            let refused = key_term(wrong).unwrap_err();
            assert!(refused.contains(&format!("{wrong:?}")) && refused.contains("30d"), "{refused}");
        }
    }
}

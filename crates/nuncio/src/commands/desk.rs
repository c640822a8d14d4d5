//! The operator's commands: asked of the server that runs, done here when none does.

use std::path::Path;
use std::sync::Arc;

use anstream::{eprintln, println};
use nuncio_core::Code;
use nuncio_core::ids::{AgentName, ApprovalId, GrantId, PersonName, ScopeId};
use nuncio_core::principal::Principal;
use nuncio_core::time::Timestamp;
use nuncio_server::admin::{self, Order};
use nuncio_server::{SystemClock, open_engine};
use owo_colors::OwoColorize as _;
use serde_json::Value;

use crate::cli::{Approve, Audit, Grant, Key};
use crate::output::{WrongUsage, cell, fault, table};

/// Has an order carried out: by the server that runs, or here.
pub(super) async fn carry_out(data: &Path, order: Order) -> anyhow::Result<Value> {
    if let Some(answer) = admin::ask(data, &order).await? {
        return Ok(answer);
    }
    let begins = matches!(
        order,
        Order::KeyCreate { .. }
            | Order::UserInvite { .. }
            | Order::GrantCreate { .. }
            | Order::RegistryFollow { .. }
            | Order::RegistryAdd { .. }
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

fn scopes(texts: &[String]) -> anyhow::Result<Vec<ScopeId>> {
    texts.iter().map(|text| parsed(ScopeId::parse(text))).collect()
}

/// Prints an answer: as it is for programs, through `people` otherwise.
pub(super) fn show(json: bool, answer: &Value, people: impl FnOnce(&Value)) {
    if json { println!("{answer}") } else { people(answer) }
}

fn rows(answer: &Value, list: &str, row: impl Fn(&Value) -> Vec<String>) -> Vec<Vec<String>> {
    answer[list].as_array().map(|items| items.iter().map(row).collect()).unwrap_or_default()
}

pub(crate) async fn key(command: Key, json: bool) -> anyhow::Result<()> {
    match command {
        Key::Create { name, person, scopes: wanted, signing, operator, data } => {
            let person = person.map(|name| parsed(PersonName::parse(&name))).transpose()?;
            let order = Order::KeyCreate { name, person, scopes: scopes(&wanted)?, signing, operator };
            let answer = carry_out(&data.path, order).await?;
            show(json, &answer, |answer| {
                // The key alone on standard output, so that it can be piped.
                println!("{}", cell(&answer["key"]));
                eprintln!("{}", "Keep it: it is not shown again. From now on every request needs a key.".dimmed());
            });
        }
        Key::List { data } => {
            let answer = carry_out(&data.path, Order::KeyList).await?;
            show(json, &answer, |answer| {
                let rows = rows(answer, "keys", |key| {
                    let scopes = match &key["scopes"]["only"] {
                        Value::Null => "all".to_owned(),
                        only => cell(only),
                    };
                    let state = if key["revoked_at"].is_null() { "valid".to_owned() } else { "revoked".to_owned() };
                    vec![
                        cell(&key["id"]),
                        cell(&key["name"]),
                        cell(&key["kind"]),
                        if key["role"] == "operator" { "operator".to_owned() } else { "app".to_owned() },
                        state,
                        scopes,
                        cell(&key["person"]),
                        cell(&key["created_at"]),
                    ]
                });
                if rows.is_empty() {
                    println!("There are no keys: a server on this machine is open to this machine.");
                    return;
                }
                table(&["ID", "NAME", "KIND", "ROLE", "STATE", "SCOPES", "PERSON", "CREATED"], &rows);
            });
        }
        Key::Revoke { key, data } => {
            let answer = carry_out(&data.path, Order::KeyRevoke { which: key }).await?;
            show(json, &answer, |answer| {
                println!("Revoked {}. Requests go on needing a key.", cell(&answer["revoked"]["id"]));
            });
        }
    }
    Ok(())
}

pub(crate) async fn grant(command: Grant, json: bool) -> anyhow::Result<()> {
    match command {
        Grant::Create { principal, agent, scopes: wanted, until, once, data } => {
            let order = Order::GrantCreate {
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
            let answer = carry_out(&data.path, Order::GrantList).await?;
            show(json, &answer, |answer| {
                let rows = rows(answer, "grants", |grant| {
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
                if rows.is_empty() {
                    println!("Nothing has been granted.");
                    return;
                }
                table(&["ID", "TO", "AGENT", "SCOPES", "TERM"], &rows);
            });
        }
        Grant::Revoke { id, data } => {
            let id = parsed(GrantId::parse(&id))?;
            let answer = carry_out(&data.path, Order::GrantRevoke { id }).await?;
            show(json, &answer, |answer| println!("Revoked {}.", cell(&answer["revoked"])));
        }
    }
    Ok(())
}

pub(crate) async fn approve(command: Approve, json: bool) -> anyhow::Result<()> {
    let order = match &command {
        Approve::List { .. } => Order::ApproveList,
        Approve::Allow { id, .. } => Order::ApproveAllow { id: parsed(ApprovalId::parse(id))? },
        Approve::Deny { id, reason, .. } => {
            Order::ApproveDeny { id: parsed(ApprovalId::parse(id))?, reason: reason.clone() }
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
    let waiting = answer["approvals"].as_array().map_or(&[][..], Vec::as_slice);
    if waiting.is_empty() {
        println!("Nothing waits for an approval.");
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
            let answer = carry_out(&data.path, Order::AuditList { after, limit }).await?;
            show(json, &answer, |answer| {
                let rows = rows(answer, "records", |link| {
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
                if rows.is_empty() {
                    println!("No tool has been called.");
                    return;
                }
                table(&["#", "WHEN", "CALLER", "AGENT", "TOOL OR PERSON", "OUTCOME"], &rows);
            });
        }
        Audit::Explain { call, with, data } => {
            super::audit_explain::explain(&data.path, &call, with.as_deref(), json).await?;
        }
        Audit::Prune { before, data } => {
            let moment = if before.contains('T') { before } else { format!("{before}T00:00:00Z") };
            let before = parsed(Timestamp::try_from(moment))?;
            let answer = carry_out(&data.path, Order::AuditPrune { before }).await?;
            show(json, &answer, |answer| println!("Deleted {} records; the others can be proved.", answer["pruned"]));
        }
        Audit::Verify { data } => {
            let answer = carry_out(&data.path, Order::AuditVerify).await?;
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

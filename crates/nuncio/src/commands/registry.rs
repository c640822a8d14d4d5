//! `nuncio registry`: followed domains and agents of other hosts that this server lists.

use anstream::println;
use nuncio_server::admin::{AdminCommand, Domain};
use owo_colors::OwoColorize as _;
use serde_json::Value;

use super::operator::{carry_out, parsed, show};
use crate::cli::Registry;
use crate::commands::chat::clean::clean;
use crate::output::{cell, items, table};

pub(crate) async fn run(command: Registry, json: bool) -> anyhow::Result<()> {
    match command {
        Registry::Follow { domain, data } => {
            let order = AdminCommand::RegistryFollow { domain: parsed(Domain::parse(&domain))? };
            let answer = carry_out(&data.path, order).await?;
            show(json, &answer, followed);
        }
        Registry::Unfollow { domain, data } => {
            let order = AdminCommand::RegistryUnfollow { domain: parsed(Domain::parse(&domain))? };
            let answer = carry_out(&data.path, order).await?;
            show(json, &answer, |answer| println!("{} is not followed any more.", cell(&answer["unfollowed"])));
        }
        Registry::List { data } => {
            let answer = carry_out(&data.path, AdminCommand::RegistryList).await?;
            show(json, &answer, list);
        }
        Registry::Add { target, data } => {
            let answer = carry_out(&data.path, AdminCommand::RegistryAdd { target }).await?;
            show(json, &answer, added);
        }
        Registry::Remove { which, data } => {
            let answer = carry_out(&data.path, AdminCommand::RegistryRemove { which }).await?;
            show(json, &answer, |answer| println!("{} is not listed any more.", cell(&answer["url"])));
        }
        Registry::Agents { data } => {
            let answer = carry_out(&data.path, AdminCommand::RegistryAgents).await?;
            show(json, &answer, agents);
        }
    }
    Ok(())
}

fn followed(answer: &Value) {
    let followed = &answer["followed"];
    let (domain, listed) = (cell(&followed["domain"]), followed["listed"].as_u64().unwrap_or_default());
    match (answer["visited"].as_bool(), followed["failures"].as_u64()) {
        (Some(true), Some(0)) => println!("Following {}: {} listed.", domain.bold(), skills(listed)),
        (Some(true), _) => println!("Following {}, but it could not be read yet.", domain.bold()),
        _ => println!("Following {}. It is read while a server runs.", domain.bold()),
    }
    if let Some(problem) = followed["problem"].as_str() {
        println!("{} {}", "note:".yellow().bold(), clean(problem));
    }
    if followed["failures"].as_u64() > Some(0) {
        println!("{}", format!("The next attempt is at {}.", cell(&followed["next_visit"])).dimmed());
    }
}

fn list(answer: &Value) {
    let rows: Vec<Vec<String>> = items(&answer["followed"]).iter().map(row).collect();
    if rows.is_empty() {
        println!("No domain is followed; `nuncio registry follow DOMAIN` follows one.");
        return;
    }
    table(&["DOMAIN", "SKILLS", "LAST SEEN", "NEXT VISIT", "BY", "PROBLEM"], &rows);
}

fn row(followed: &Value) -> Vec<String> {
    ["domain", "listed", "last_seen", "next_visit", "by", "problem"].iter().map(|key| cell(&followed[key])).collect()
}

fn skills(count: u64) -> String {
    if count == 1 { "1 skill".to_owned() } else { format!("{count} skills") }
}

fn added(answer: &Value) {
    let agent = &answer["agent"];
    let what = if answer["new"] == true { "Listed" } else { "Still listed, and verified again:" };
    println!("{what} {} as {}.", cell(&agent["name"]).bold(), cell(&agent["id"]));
    let checks: Vec<String> = items(&agent["checks"]).iter().map(cell).collect();
    println!("{}", format!("{}; verified: {}", cell(&agent["did"]), checks.join(", ")).dimmed());
}

fn agents(answer: &Value) {
    let rows = |key: &str, columns: &[&str]| -> Vec<Vec<String>> {
        items(&answer[key]).iter().map(|row| columns.iter().map(|column| cell(&row[column])).collect()).collect()
    };
    let here = rows("agents", &["id", "name", "url", "standing", "verified", "by", "problem"]);
    if here.is_empty() {
        println!("No agent of another host is listed; `nuncio registry add URL` adds one.");
    } else {
        table(&["ID", "NAME", "DESCRIPTION", "STANDING", "VERIFIED", "BY", "PROBLEM"], &here);
    }
    let elsewhere = rows("elsewhere", &["agent", "directory", "registered", "next", "problem"]);
    if !elsewhere.is_empty() {
        println!("\nOur agents in other directories:");
        table(&["AGENT", "DIRECTORY", "REGISTERED", "NEXT", "PROBLEM"], &elsewhere);
    }
}

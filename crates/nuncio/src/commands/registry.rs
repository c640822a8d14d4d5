//! `nuncio registry`: the domains whose skills are listed beside our own.

use anstream::println;
use nuncio_server::admin::{Domain, Order};
use owo_colors::OwoColorize as _;
use serde_json::Value;

use super::desk::{carry_out, parsed, show};
use crate::cli::Registry;
use crate::output::{cell, table};

/// Runs the command.
pub(crate) async fn run(command: Registry, json: bool) -> anyhow::Result<()> {
    match command {
        Registry::Follow { domain, data } => {
            let order = Order::RegistryFollow { domain: parsed(Domain::parse(&domain))? };
            let answer = carry_out(&data.path, order).await?;
            show(json, &answer, followed);
        }
        Registry::Unfollow { domain, data } => {
            let order = Order::RegistryUnfollow { domain: parsed(Domain::parse(&domain))? };
            let answer = carry_out(&data.path, order).await?;
            show(json, &answer, |answer| println!("{} is not followed any more.", cell(&answer["unfollowed"])));
        }
        Registry::List { data } => {
            let answer = carry_out(&data.path, Order::RegistryList).await?;
            show(json, &answer, list);
        }
    }
    Ok(())
}

fn followed(answer: &Value) {
    let followed = &answer["followed"];
    let (domain, listed) = (cell(&followed["domain"]), followed["listed"].as_u64().unwrap_or_default());
    match (answer["visited"].as_bool(), followed["failures"].as_u64()) {
        (Some(true), Some(0)) => println!("Following {}: {} listed.", domain.bold(), skills(listed)),
        (Some(true), _) => println!("Following {}, but nothing could be read there yet.", domain.bold()),
        _ => println!("Following {}. It is read while a server runs.", domain.bold()),
    }
    if let Some(problem) = followed["problem"].as_str() {
        println!("{} {problem}", "note:".yellow().bold());
    }
    if followed["failures"].as_u64() > Some(0) {
        println!("{}", format!("It is tried again at {}.", cell(&followed["next_visit"])).dimmed());
    }
}

fn list(answer: &Value) {
    let rows: Vec<Vec<String>> = answer["followed"].as_array().map_or(&[][..], Vec::as_slice).iter().map(row).collect();
    if rows.is_empty() {
        println!("No domain is followed; `nuncio registry follow DOMAIN` begins.");
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

//! `nuncio did`: who this server and its agents are to others.

use anstream::println;
use nuncio_core::ids::{AgentName, PersonName};
use nuncio_server::admin::AdminCommand;
use nuncio_server::dids::DidSubject;
use owo_colors::OwoColorize as _;
use serde_json::Value;

use super::operator::{carry_out, parsed, show};
use crate::cli::Did;
use crate::output::{cell, items, table};

pub(crate) async fn run(command: Did, json: bool) -> anyhow::Result<()> {
    match command {
        Did::Show { agent, data } => {
            let agent = agent.map(|name| parsed(AgentName::parse(&name))).transpose()?;
            let answer = carry_out(&data.path, AdminCommand::DidShow { agent }).await?;
            show(json, &answer, list);
        }
        Did::Link { did, person, data } => {
            let order = AdminCommand::DidLink { did, person: parsed(PersonName::parse(&person))? };
            let answer = carry_out(&data.path, order).await?;
            show(json, &answer, |answer| {
                let link = &answer["link"];
                println!("{} belongs to {}.", cell(&link["principal"]), cell(&link["person"]).bold());
            });
        }
        Did::Unlink { did, data } => {
            let answer = carry_out(&data.path, AdminCommand::DidUnlink { did }).await?;
            show(json, &answer, |answer| println!("{} is no longer linked to a person.", cell(&answer["unlinked"])));
        }
        Did::Links { data } => {
            let answer = carry_out(&data.path, AdminCommand::DidLinks).await?;
            show(json, &answer, |answer| {
                let row = |link: &Value| ["principal", "person", "since"].map(|name| cell(&link[name])).to_vec();
                let rows: Vec<_> = items(&answer["links"]).iter().map(row).collect();
                table(&["DID", "PERSON", "SINCE"], &rows);
            });
        }
        Did::Rotate { agent, service: _, to, data } => {
            let order = match (to, agent) {
                (Some(to), _) => AdminCommand::DidMove { to: to.to_string() },
                (None, Some(name)) => {
                    AdminCommand::DidRotate { subject: DidSubject::Agent(parsed(AgentName::parse(&name))?) }
                }
                (None, None) => AdminCommand::DidRotate { subject: DidSubject::Service },
            };
            let answer = carry_out(&data.path, order).await?;
            show(json, &answer, rotated);
        }
    }
    Ok(())
}

fn list(answer: &Value) {
    if let Some(why) = answer["none_because"].as_str() {
        println!("There are no DIDs: {why}.");
    }
    for did in items(&answer["dids"]) {
        print_did(did);
        for old in items(&did["retired"]) {
            println!("  {}  {}", "before".dimmed(), cell(old).dimmed());
        }
    }
}

fn rotated(answer: &Value) {
    for did in items(&answer["rotated"]) {
        print_did(did);
        match items(&did["retired"]).last() {
            Some(old) => println!("  {}  {}", "instead of".dimmed(), cell(old)),
            None => println!(
                "  {}",
                "The DID is the same; its key is new, and the tokens given so far are worthless.".dimmed()
            ),
        }
    }
    if let Some(url) = answer["public_url"].as_str() {
        println!("\nStart the server with --public-url {url} from now on.");
    }
}

fn print_did(did: &Value) {
    let whose = did["agent"].as_str().unwrap_or("this server");
    println!("{}", whose.bold());
    println!("  {}  {}", "DID".dimmed(), cell(&did["did"]));
    println!("  {}  {}", "document".dimmed(), cell(&did["document"]).cyan());
    println!("  {}  {}", "since".dimmed(), cell(&did["since"]));
}

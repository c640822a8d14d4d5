//! `nuncio did`: the DIDs of this server and its agents, and the people that other DIDs belong to.

use anstream::println;
use nuncio_core::ids::{AgentName, PersonName};
use nuncio_server::admin::AdminCommand;
use nuncio_server::admin::replies::{DidInfo, DidLinkList, DidList, LinkedDid, RotatedDids, UnlinkedDid};
use nuncio_server::dids::DidSubject;
use owo_colors::OwoColorize as _;

use super::confirm::require_yes;
use super::operator::{parsed, run_command};
use crate::cli::{DataDirCommand, DidSubcommand};
use crate::output::{table, text};

pub(crate) async fn run(
    DataDirCommand { command, data }: DataDirCommand<DidSubcommand>,
    json: bool,
) -> anyhow::Result<()> {
    match command {
        DidSubcommand::Show { agent } => {
            let agent = agent.map(|name| parsed(AgentName::parse(&name))).transpose()?;
            run_command(&data, AdminCommand::DidShow { agent }, json, print_list).await
        }
        DidSubcommand::Link { did, person } => {
            let command = AdminCommand::DidLink { did, person: parsed(PersonName::parse(&person))? };
            run_command(&data, command, json, |LinkedDid { link }| {
                println!("{} belongs to {}.", text(link.principal), link.person.bold());
            })
            .await
        }
        DidSubcommand::Unlink { did } => {
            run_command(&data, AdminCommand::DidUnlink { did }, json, |reply: UnlinkedDid| {
                println!("{} is no longer linked to a person.", text(reply.unlinked));
            })
            .await
        }
        DidSubcommand::Links => {
            run_command(&data, AdminCommand::DidLinks, json, |list: DidLinkList| {
                let rows =
                    list.links.iter().map(|link| vec![text(&link.principal), text(&link.person), text(link.since)]);
                table(&["DID", "PERSON", "SINCE"], rows);
            })
            .await
        }
        DidSubcommand::Rotate { agent, service: _, to, yes } => {
            let (command, effect) = match (to, agent) {
                (Some(to), _) => {
                    let effect = format!("The server and all its agents get new DIDs under {to}.");
                    (AdminCommand::DidMove { to: to.to_string() }, effect)
                }
                (None, Some(name)) => {
                    let subject = DidSubject::Agent(parsed(AgentName::parse(&name))?);
                    let effect =
                        format!("Agent {name} gets a new DID; its old one stops working and names the new one.");
                    (AdminCommand::DidRotate { subject }, effect)
                }
                (None, None) => {
                    let effect = "The server gets a new key; all tokens it has issued stop working.".to_owned();
                    (AdminCommand::DidRotate { subject: DidSubject::Service }, effect)
                }
            };
            require_yes(&effect, yes, json).await?;
            run_command(&data, command, json, print_rotated).await
        }
    }
}

fn print_list(list: DidList) {
    if let Some(why) = list.none_because {
        println!("There are no DIDs: {why}.");
    }
    for did in &list.dids {
        print_did(did);
        for old in &did.retired {
            println!("  {}  {}", "before".dimmed(), text(old).dimmed());
        }
    }
}

fn print_rotated(reply: RotatedDids) {
    for did in &reply.rotated {
        print_did(did);
        match did.retired.last() {
            Some(old) => println!("  {}  {}", "instead of".dimmed(), text(old)),
            None => println!(
                "  {}",
                "The DID is the same; its key is new, and the tokens issued so far stop working.".dimmed()
            ),
        }
    }
    if let Some(url) = reply.public_url {
        println!("\nStart the server with --public-url {url} from now on.");
    }
}

fn print_did(did: &DidInfo) {
    println!("{}", did.agent.as_ref().map_or("this server", AgentName::as_str).bold());
    println!("  {}  {}", "DID".dimmed(), text(&did.did));
    println!("  {}  {}", "document".dimmed(), text(&did.document).cyan());
    println!("  {}  {}", "since".dimmed(), did.since);
}

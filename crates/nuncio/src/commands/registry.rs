//! `nuncio registry`: followed domains and agents of other hosts that this server lists.

use anstream::println;
use nuncio_anp::directory::RemoteRegistrationStatus;
use nuncio_server::admin::replies::{
    AddedAgent, AgentDirectory, FollowResult, FollowedDomainList, RemovedAgent, UnfollowedDomain,
};
use nuncio_server::admin::{AdminCommand, ServerOrigin};
use owo_colors::OwoColorize as _;

use super::operator::{parsed, run_command};
use crate::cli::{DataDirCommand, RegistrySubcommand};
use crate::commands::chat::clean::clean;
use crate::output::{counted, print_list, table, text, text_or_dash};

pub(crate) async fn run(
    DataDirCommand { command, data }: DataDirCommand<RegistrySubcommand>,
    json: bool,
) -> anyhow::Result<()> {
    match command {
        RegistrySubcommand::Follow { domain } => {
            let command = AdminCommand::RegistryFollow { domain: parsed(ServerOrigin::parse(&domain))? };
            run_command(&data, command, json, print_followed).await
        }
        RegistrySubcommand::Unfollow { domain } => {
            let command = AdminCommand::RegistryUnfollow { domain: parsed(ServerOrigin::parse(&domain))? };
            run_command(&data, command, json, |reply: UnfollowedDomain| {
                println!("{} is not followed any more.", reply.unfollowed);
            })
            .await
        }
        RegistrySubcommand::List => run_command(&data, AdminCommand::RegistryList, json, print_domains).await,
        RegistrySubcommand::Add { target } => {
            run_command(&data, AdminCommand::RegistryAdd { target }, json, print_added).await
        }
        RegistrySubcommand::Remove { which } => {
            let print = |reply: RemovedAgent| println!("{} is not listed any more.", text(reply.url));
            run_command(&data, AdminCommand::RegistryRemove { which }, json, print).await
        }
        RegistrySubcommand::Agents => run_command(&data, AdminCommand::RegistryAgents, json, print_agents).await,
    }
}

fn print_followed(FollowResult { followed, visited }: FollowResult) {
    let domain = followed.state;
    let name = domain.domain.bold();
    match (visited, domain.failures) {
        (true, 0) => println!("Following {name}: {} listed.", counted(domain.listed, "skill")),
        (true, _) => println!("Following {name}, but it could not be read yet."),
        (false, _) => println!("Following {name}. It is read while a server runs."),
    }
    if let Some(problem) = &domain.problem {
        println!("{} {}", "note:".yellow().bold(), clean(problem));
    }
    if domain.failures > 0 {
        println!("{}", format!("The next attempt is at {}.", domain.next_visit).dimmed());
    }
}

fn print_domains(FollowedDomainList { followed }: FollowedDomainList) {
    let none = "No domain is followed; `nuncio registry follow DOMAIN` follows one.";
    let headings = ["DOMAIN", "SKILLS", "LAST SEEN", "NEXT VISIT", "BY", "PROBLEM"];
    print_list(&followed, &headings, none, |followed| {
        let domain = &followed.state;
        vec![
            text(&domain.domain),
            text(domain.listed),
            text_or_dash(domain.last_seen),
            text(domain.next_visit),
            text(domain.by.as_str()),
            text_or_dash(domain.problem.as_ref()),
        ]
    });
}

fn print_added(AddedAgent { agent, new }: AddedAgent) {
    let what = if new { "Listed" } else { "Still listed, and verified again:" };
    println!("{what} {} as {}.", text(&agent.name).bold(), agent.id);
    println!("{}", format!("{}; verified: {}", text(&agent.did), text(agent.checks.join(", "))).dimmed());
}

fn print_agents(AgentDirectory { agents, elsewhere }: AgentDirectory) {
    let none = "No agent of another host is listed; `nuncio registry add URL` adds one.";
    let headings = ["ID", "NAME", "DESCRIPTION", "STANDING", "VERIFIED", "BY", "PROBLEM"];
    print_list(&agents, &headings, none, |agent| {
        vec![
            text(&agent.id),
            text(&agent.name),
            text(&agent.url),
            text(agent.standing),
            text(agent.verified),
            text_or_dash(agent.by.as_ref()),
            text_or_dash(agent.problem.as_ref()),
        ]
    });
    let row = |status: &RemoteRegistrationStatus| {
        vec![
            text(&status.agent),
            text(&status.directory),
            text_or_dash(status.registered),
            text(status.next),
            text_or_dash(status.problem.as_ref()),
        ]
    };
    if !elsewhere.is_empty() {
        println!("\nOur agents in other directories:");
        table(&["AGENT", "DIRECTORY", "REGISTERED", "NEXT", "PROBLEM"], elsewhere.iter().map(row));
    }
}

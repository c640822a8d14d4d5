//! `nuncio agent`: the agents of this server, for their owners.

use anstream::{eprintln, println};
use nuncio_core::ids::{AgentName, PersonName};
use nuncio_server::admin::AdminCommand;
use nuncio_server::admin::replies::AgentSafetyNumber;
use owo_colors::OwoColorize as _;

use super::operator::{parsed, run_command};
use crate::cli::{AgentSubcommand, DataDirCommand};

pub(crate) async fn run(
    DataDirCommand { command, data }: DataDirCommand<AgentSubcommand>,
    json: bool,
) -> anyhow::Result<()> {
    let AgentSubcommand::SafetyNumber { name, person } = command;
    let command = AdminCommand::AgentSafetyNumber {
        agent: parsed(AgentName::parse(&name))?,
        person: parsed(PersonName::parse(&person))?,
    };
    run_command(&data, command, json, print_safety_number).await
}

/// Prints the number alone on standard output; the rest on standard error.
fn print_safety_number(AgentSafetyNumber { agent, person, safety_number }: AgentSafetyNumber) {
    println!("{safety_number}");
    let advice = format!(
        "{person} sees the same number on the page of {agent}, or with `nuncio device verify`. Compare it by telephone \
         or in person."
    );
    eprintln!("{}", advice.dimmed());
}

//! `nuncio invoke --say`: the local server sends a message for one of its agents and receives the answer.

use std::time::{Duration, Instant};

use anstream::{eprintln, println};
use nuncio_core::ids::AgentName;
use nuncio_server::admin::AdminCommand;
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::{interrupted, people};
use crate::cli::Invoke;
use crate::commands::chat::clean::clean;
use crate::commands::operator::{carry_out, parsed};
use crate::output::cell;

/// Default time to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often the server is asked whether the answer has arrived.
const PAUSE: Duration = Duration::from_millis(250);

/// Sends a message and prints the answer.
pub(super) async fn run(options: &Invoke, text: &str, json: bool) -> anyhow::Result<()> {
    let agent = parsed(AgentName::parse(options.who.agent.as_deref().unwrap_or_default()))?;
    let data = &options.who.data.path;
    let order = AdminCommand::MessageSend { agent: agent.clone(), to: options.target.clone(), text: text.to_owned() };
    let sent = carry_out(data, order).await?["letter"].clone();
    let id = cell(&sent["id"]);
    match json {
        true => println!("{}", json!({"event": "sent", "letter": sent})),
        false => eprintln!("{} {} as {id}", "sent:".dimmed(), clean(&cell(&sent["to"]))),
    }
    if options.no_wait {
        return Ok(());
    }
    wait(options, &id, json).await
}

/// Waits for the answer to a message and prints it.
pub(super) async fn wait(options: &Invoke, id: &str, json: bool) -> anyhow::Result<()> {
    let agent = parsed(AgentName::parse(options.who.agent.as_deref().unwrap_or_default()))?;
    let data = &options.who.data.path;
    let until = Instant::now() + options.timeout_ms.map_or(PATIENCE, Duration::from_millis);
    let answer = tokio::select! {
        answer = answer(data, &agent, id, until) => answer?,
        () = interrupted() => anyhow::bail!("interrupted; the message was sent"),
    };
    match answer {
        Some(answer) if json => println!("{}", json!({"event": "result", "output": answer})),
        Some(answer) => people(&answer),
        None => anyhow::bail!("no answer arrived in time; ask again with --answer-to {id}"),
    }
    Ok(())
}

async fn answer(data: &std::path::Path, agent: &AgentName, id: &str, until: Instant) -> anyhow::Result<Option<Value>> {
    loop {
        let order = AdminCommand::MessageShow { agent: agent.clone(), id: id.to_owned() };
        let letter = carry_out(data, order).await?["letter"].clone();
        if let Some(text) = letter["answer"]["text"].as_str() {
            return Ok(Some(text.into()));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

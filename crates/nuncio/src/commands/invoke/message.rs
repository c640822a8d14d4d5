//! `nuncio invoke --say`: the local server sends a message for one of its agents and receives the answer.

use std::time::{Duration, Instant};

use anstream::{eprintln, println};
use nuncio_core::ids::AgentName;
use nuncio_server::admin::AdminCommand;
use nuncio_server::admin::replies::SentMessage;
use owo_colors::OwoColorize as _;
use serde_json::json;

use super::{interrupted, print_output};
use crate::cli::{DataDirOption, InvokeArguments};
use crate::commands::operator::{carry_out, parsed};
use crate::output;

/// Default time to wait for the answer to a message.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// Interval at which the server is asked whether the answer has arrived.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Sends a message, and prints the answer unless `--no-wait` is given.
pub(super) async fn run(options: &InvokeArguments, text: &str, json: bool) -> anyhow::Result<()> {
    let agent = parsed(AgentName::parse(options.signer.agent.as_deref().unwrap_or_default()))?;
    let data = &options.signer.data;
    let command = AdminCommand::MessageSend { agent, to: options.target.clone(), text: text.to_owned() };
    let SentMessage { letter: sent } = serde_json::from_value(carry_out(data, command).await?)?;
    let id = &sent.id;
    match json {
        true => println!("{}", json!({"event": "sent", "letter": sent})),
        false => eprintln!("{} {} as {id}", "sent:".dimmed(), output::text(&sent.to)),
    }
    if options.no_wait {
        return Ok(());
    }
    wait(options, id, json).await
}

/// Waits for the answer to a message and prints it.
pub(super) async fn wait(options: &InvokeArguments, id: &str, json: bool) -> anyhow::Result<()> {
    let agent = parsed(AgentName::parse(options.signer.agent.as_deref().unwrap_or_default()))?;
    let data = &options.signer.data;
    let until = Instant::now() + options.timeout_ms.map_or(ANSWER_TIMEOUT, Duration::from_millis);
    let answer = tokio::select! {
        answer = answer(data, &agent, id, until) => answer?,
        () = interrupted() => anyhow::bail!("interrupted; the message was sent"),
    };
    match answer {
        Some(answer) if json => println!("{}", json!({"event": "result", "output": answer})),
        Some(answer) => print_output(&answer.into())?,
        None => anyhow::bail!("no answer arrived in time; ask again with --answer-to {id}"),
    }
    Ok(())
}

async fn answer(data: &DataDirOption, agent: &AgentName, id: &str, until: Instant) -> anyhow::Result<Option<String>> {
    loop {
        let command = AdminCommand::MessageShow { agent: agent.clone(), id: id.to_owned() };
        let SentMessage { letter: sent } = serde_json::from_value(carry_out(data, command).await?)?;
        if let Some(answer) = sent.answer {
            return Ok(Some(answer.text));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

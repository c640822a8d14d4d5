//! `nuncio task`: tasks that agents give to people, done in a terminal.

use anstream::println;
use nuncio_core::ids::TaskId;
use nuncio_core::task::{self, TaskState};
use nuncio_server::OperatorError;
use nuncio_server::admin::AdminCommand;
use nuncio_server::admin::replies::{ChangedTask, TaskDetails, TaskList};
use owo_colors::OwoColorize as _;
use serde_json::Value;

use super::operator::{carry_out, parsed, print_reply, run_command};
use crate::cli::{DataDirCommand, DataDirOption, TaskActor, TaskSubcommand};
use crate::output::{fault, text, wrong_usage};

mod display;
mod result;

pub(crate) async fn run(
    DataDirCommand { command, data }: DataDirCommand<TaskSubcommand>,
    json: bool,
) -> anyhow::Result<()> {
    match command {
        TaskSubcommand::List => {
            run_command(&data, AdminCommand::TaskList, json, |list: TaskList| display::list(&list.tasks, list.now))
                .await
        }
        TaskSubcommand::Show { id } => {
            let print = |shown: TaskDetails| display::print_task(&shown.task, shown.now);
            run_command(&data, AdminCommand::TaskShow { id: parse_id(&id)? }, json, print).await
        }
        TaskSubcommand::Take { id, over, actor } => {
            let command = AdminCommand::TaskTake { id: parse_id(&id)?, by: name(&actor)?, over };
            change_task(&data, command, &id, json, |task| {
                if let TaskState::Taken { by, .. } = task.state {
                    println!("Taken, as {}.", text(by).bold());
                }
                println!("{}", format!("next: nuncio task finish {id} …").dimmed());
            })
            .await
        }
        TaskSubcommand::GiveBack { id, actor } => {
            let command = AdminCommand::TaskGiveBack { id: parse_id(&id)?, by: name(&actor)? };
            change_task(&data, command, &id, json, |_| println!("Returned: the task is open again.")).await
        }
        TaskSubcommand::Finish { id, fields, output, actor } => {
            let (task, by) = (parse_id(&id)?, name(&actor)?);
            let output = match output {
                Some(text) => from_json(&text)?,
                None => {
                    let shown = carry_out(&data, AdminCommand::TaskShow { id: task.clone() }).await?;
                    let TaskDetails { task, .. } = serde_json::from_value(shown)?;
                    parsed(result::parse(task.form.as_ref(), &fields))?
                }
            };
            let command = AdminCommand::TaskFinish { id: task, by, output };
            change_task(&data, command, &id, json, |_| println!("Finished. The caller has the result.")).await
        }
        TaskSubcommand::Refuse { id, reason, actor } => {
            let reason = reason.unwrap_or_default();
            let command = AdminCommand::TaskRefuse { id: parse_id(&id)?, by: name(&actor)?, reason };
            change_task(&data, command, &id, json, |_| println!("Refused. The caller is notified.")).await
        }
    }
}

/// Runs a command that changes a task. If another person has the task, the error names the flag to take it over.
async fn change_task(
    data: &DataDirOption,
    command: AdminCommand,
    id: &str,
    json: bool,
    print: impl FnOnce(task::HumanTask),
) -> anyhow::Result<()> {
    let with_advice = |error: anyhow::Error| match error.downcast::<OperatorError>() {
        Ok(error) if error.message.ends_with("you can take it over") => {
            fault(error.code, format!("{}: nuncio task take {id} --over", error.message))
        }
        Ok(error) => error.into(),
        Err(error) => error,
    };
    let reply = carry_out(data, command).await.map_err(with_advice)?;
    print_reply(json, reply, |ChangedTask { task }| print(task))
}

fn parse_id(text: &str) -> anyhow::Result<TaskId> {
    parsed(TaskId::parse(text))
}

/// Reads the result as JSON from the argument or from standard input.
fn from_json(text: &str) -> anyhow::Result<Value> {
    let text = if text == "-" { std::io::read_to_string(std::io::stdin())? } else { text.to_owned() };
    parsed(serde_json::from_str(&text).map_err(|error| format!("--output is not JSON: {error}")))
}

/// The name shown to others: `--as`, else the login name, else `operator`.
fn name(actor: &TaskActor) -> anyhow::Result<String> {
    let login = || ["USER", "LOGNAME"].iter().find_map(|variable| std::env::var(variable).ok());
    let name = actor.name.clone().or_else(login).unwrap_or_else(|| "operator".to_owned()).trim().to_owned();
    if name.is_empty() || name.chars().count() > 128 || name.chars().any(char::is_control) {
        return Err(wrong_usage("give your name with --as NAME (1 to 128 characters)"));
    }
    Ok(name)
}

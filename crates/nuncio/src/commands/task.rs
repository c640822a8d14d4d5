//! `nuncio task`: tasks of agents for people, done from a terminal.

use std::io::Read as _;

use anstream::println;
use nuncio_core::ids::TaskId;
use nuncio_core::task::{Task as Work, TaskState};
use nuncio_core::time::Timestamp;
use nuncio_server::StartError;
use nuncio_server::admin::AdminCommand;
use owo_colors::OwoColorize as _;
use serde_json::Value;

use super::operator::{carry_out, parsed, show};
use crate::cli::{Task, TaskActor};
use crate::output::{WrongUsage, fault};

mod display;
mod result;

pub(crate) async fn run(command: Task, json: bool) -> anyhow::Result<()> {
    match command {
        Task::List { data } => {
            let answer = carry_out(&data.path, AdminCommand::TaskList).await?;
            show(json, &answer, |answer| display::list(&works(&answer["tasks"]), now(answer)));
        }
        Task::Show { id, data } => {
            let answer = carry_out(&data.path, AdminCommand::TaskShow { id: read_id(&id)? }).await?;
            show(json, &answer, |answer| {
                works(&answer["task"]).iter().for_each(|work| display::print_task(work, now(answer)));
            });
        }
        Task::Take { id, over, actor } => {
            let order = AdminCommand::TaskTake { id: read_id(&id)?, by: name(&actor)?, over };
            let answer = run_task_command(&actor, order, &id).await?;
            show(json, &answer, |answer| {
                println!("Taken, as {}.", holder(answer).bold());
                println!("{}", format!("next: nuncio task finish {id} …").dimmed());
            });
        }
        Task::GiveBack { id, actor } => {
            let order = AdminCommand::TaskGiveBack { id: read_id(&id)?, by: name(&actor)? };
            let answer = run_task_command(&actor, order, &id).await?;
            show(json, &answer, |_| println!("Returned: the task is open again."));
        }
        Task::Finish { id, fields, output, actor } => {
            let (task, by) = (read_id(&id)?, name(&actor)?);
            let output = match output {
                Some(text) => from_json(&text)?,
                None => {
                    let shown = carry_out(&actor.data.path, AdminCommand::TaskShow { id: task.clone() }).await?;
                    let form = Some(&shown["task"]["form"]).filter(|form| !form.is_null());
                    parsed(result::parse(form, &fields))?
                }
            };
            let answer = run_task_command(&actor, AdminCommand::TaskFinish { id: task, by, output }, &id).await?;
            show(json, &answer, |_| println!("Finished. The caller has the result."));
        }
        Task::Refuse { id, reason, actor } => {
            let order =
                AdminCommand::TaskRefuse { id: read_id(&id)?, by: name(&actor)?, reason: reason.unwrap_or_default() };
            let answer = run_task_command(&actor, order, &id).await?;
            show(json, &answer, |_| println!("Refused. The caller is notified."));
        }
    }
    Ok(())
}

/// Runs a task command. If another person holds the task, the error names the flag to take it over.
async fn run_task_command(actor: &TaskActor, order: AdminCommand, id: &str) -> anyhow::Result<Value> {
    let refused = |error: anyhow::Error| match error.downcast::<StartError>() {
        Ok(error) if error.message.ends_with("you can take it over") => {
            fault(error.code, format!("{}: nuncio task take {id} --over", error.message))
        }
        Ok(error) => error.into(),
        Err(error) => error,
    };
    carry_out(&actor.data.path, order).await.map_err(refused)
}

fn read_id(text: &str) -> anyhow::Result<TaskId> {
    parsed(TaskId::parse(text))
}

/// Reads the result as JSON from the argument or from standard input.
fn from_json(text: &str) -> anyhow::Result<Value> {
    let mut input = String::new();
    let text = if text == "-" {
        std::io::stdin().read_to_string(&mut input)?;
        &input
    } else {
        text
    };
    parsed(serde_json::from_str(text).map_err(|error| format!("--output is not JSON: {error}")))
}

/// The name shown to others: `--as`, else the login name, else `operator`.
fn name(actor: &TaskActor) -> anyhow::Result<String> {
    let login = || ["USER", "LOGNAME"].iter().find_map(|variable| std::env::var(variable).ok());
    let name = actor.name.clone().or_else(login).unwrap_or_else(|| "operator".to_owned()).trim().to_owned();
    if name.is_empty() || name.chars().count() > 128 || name.chars().any(char::is_control) {
        return Err(WrongUsage("give your name with --as NAME (1 to 128 characters)".to_owned()).into());
    }
    Ok(name)
}

/// The server's time when it answered.
fn now(answer: &Value) -> Timestamp {
    answer["now"].as_str().and_then(|text| Timestamp::try_from(text.to_owned()).ok()).unwrap_or(Timestamp::LAST)
}

/// The tasks in a server's answer; a single task becomes a list of one.
fn works(value: &Value) -> Vec<Work> {
    let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    items.iter().filter_map(|item| serde_json::from_value(item.clone()).ok()).collect()
}

fn holder(answer: &Value) -> String {
    works(&answer["task"]).into_iter().next().map_or_else(String::new, |work| match work.state {
        TaskState::Taken { by, .. } => by,
        _ => String::new(),
    })
}

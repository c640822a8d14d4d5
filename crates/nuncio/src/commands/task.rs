//! `nuncio task`: the work that agents hand to people, done from a terminal.

use std::io::Read as _;

use anstream::println;
use nuncio_core::ids::TaskId;
use nuncio_core::task::{Task as Work, TaskState};
use nuncio_core::time::Timestamp;
use nuncio_server::StartError;
use nuncio_server::admin::Order;
use owo_colors::OwoColorize as _;
use serde_json::Value;

use super::desk::{carry_out, parsed, show};
use crate::cli::{Doer, Task};
use crate::output::{WrongUsage, fault};

mod result;
mod tell;

/// Runs the command.
pub(crate) async fn run(command: Task, json: bool) -> anyhow::Result<()> {
    match command {
        Task::List { data } => {
            let answer = carry_out(&data.path, Order::TaskList).await?;
            show(json, &answer, |answer| tell::list(&works(&answer["tasks"]), now(answer)));
        }
        Task::Show { id, data } => {
            let answer = carry_out(&data.path, Order::TaskShow { id: read_id(&id)? }).await?;
            show(json, &answer, |answer| {
                works(&answer["task"]).iter().for_each(|work| tell::whole(work, now(answer)));
            });
        }
        Task::Take { id, over, doer } => {
            let order = Order::TaskTake { id: read_id(&id)?, by: name(&doer)?, over };
            let answer = asked(&doer, order, &id).await?;
            show(json, &answer, |answer| {
                println!("Taken, as {}.", holder(answer).bold());
                println!("{}", format!("next: nuncio task finish {id} …").dimmed());
            });
        }
        Task::GiveBack { id, doer } => {
            let order = Order::TaskGiveBack { id: read_id(&id)?, by: name(&doer)? };
            let answer = asked(&doer, order, &id).await?;
            show(json, &answer, |_| println!("Given back: it waits for somebody again."));
        }
        Task::Finish { id, fields, output, doer } => {
            let (task, by) = (read_id(&id)?, name(&doer)?);
            let output = match output {
                Some(text) => from_json(&text)?,
                None => {
                    let shown = carry_out(&doer.data.path, Order::TaskShow { id: task.clone() }).await?;
                    let form = Some(&shown["task"]["form"]).filter(|form| !form.is_null());
                    parsed(result::typed(form, &fields))?
                }
            };
            let answer = asked(&doer, Order::TaskFinish { id: task, by, output }, &id).await?;
            show(json, &answer, |_| println!("Finished. Whoever asked for it has the result."));
        }
        Task::Refuse { id, reason, doer } => {
            let order = Order::TaskRefuse { id: read_id(&id)?, by: name(&doer)?, reason: reason.unwrap_or_default() };
            let answer = asked(&doer, order, &id).await?;
            show(json, &answer, |_| println!("Refused. Whoever asked for it is told."));
        }
    }
    Ok(())
}

/// Has something done with a task. Who may take it over is told how.
async fn asked(doer: &Doer, order: Order, id: &str) -> anyhow::Result<Value> {
    let refused = |error: anyhow::Error| match error.downcast::<StartError>() {
        Ok(error) if error.message.ends_with("you can take it over") => {
            fault(error.code, format!("{}: nuncio task take {id} --over", error.message))
        }
        Ok(error) => error.into(),
        Err(error) => error,
    };
    carry_out(&doer.data.path, order).await.map_err(refused)
}

fn read_id(text: &str) -> anyhow::Result<TaskId> {
    parsed(TaskId::parse(text))
}

/// The result as JSON, or from standard input.
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

/// Who others see: as the command says, or the login name; the operator, where nobody is logged in.
fn name(doer: &Doer) -> anyhow::Result<String> {
    let login = || ["USER", "LOGNAME"].iter().find_map(|variable| std::env::var(variable).ok());
    let name = doer.name.clone().or_else(login).unwrap_or_else(|| "operator".to_owned()).trim().to_owned();
    if name.is_empty() || name.chars().count() > 128 || name.chars().any(char::is_control) {
        return Err(WrongUsage("say who you are with --as NAME (1 to 128 characters)".to_owned()).into());
    }
    Ok(name)
}

/// What the clock showed when the answer was given.
fn now(answer: &Value) -> Timestamp {
    answer["now"].as_str().and_then(|text| Timestamp::try_from(text.to_owned()).ok()).unwrap_or(Timestamp::LAST)
}

/// The tasks in an answer; one alone counts as a list of one.
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

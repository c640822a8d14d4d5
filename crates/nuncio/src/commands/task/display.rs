//! Prints tasks as text in eighty columns.

use anstream::println;
use nuncio_core::task::{HumanTask, TaskState};
use nuncio_core::time::Timestamp;
use owo_colors::OwoColorize as _;
use serde_json::Value;

use crate::commands::chat::clean;
use crate::commands::chat::wrap::WordWrapper;

const WIDTH: usize = 80;
const INDENT: usize = 12;

pub(super) fn list(tasks: &[HumanTask], now: Timestamp) {
    if tasks.is_empty() {
        println!("There are no open tasks.");
        return;
    }
    for task in tasks {
        println!("{}", task.id.bold());
        row("what", &format!("{} ({})", task.title, task.agent));
        beginning(&task.instructions).iter().for_each(|line| row("to do", line));
        row("due", &due(task.due, now));
        row("with", &holder(&task.state));
    }
    println!("{}", "more: nuncio task show ID".dimmed());
}

/// The first non-empty line of a text, with an ellipsis where more follows.
fn beginning(text: &str) -> Option<String> {
    let lines = |indent| wrapped(text, indent).into_iter().filter(|line| !line.is_empty());
    if lines(INDENT).count() < 2 {
        return lines(INDENT).next();
    }
    lines(INDENT + 2).next().map(|line| format!("{line} …"))
}

pub(super) fn print_task(task: &HumanTask, now: Timestamp) {
    println!("{}", cleaned(&task.title).bold());
    row("task", task.id.as_str());
    row("agent", &format!("{}, its tool {}", task.agent, task.tool));
    row("asked by", &task.asked_by.to_string());
    row("since", &moment(task.created_at));
    match &task.state {
        TaskState::Open | TaskState::Taken { .. } => {
            row("due", &due(task.due, now));
            row("with", &holder(&task.state));
        }
        TaskState::Done { by, at, output } => {
            row("done", &format!("by {by}, {}", moment(*at)));
            row("result", &plain(output));
        }
        TaskState::Refused { by, at, reason } => {
            row("refused", &format!("by {by}, {}", moment(*at)));
            row("because", if reason.is_empty() { "-" } else { reason });
        }
        TaskState::Withdrawn { at } => row("withdrawn", &moment(*at)),
    }
    section("What to do", wrapped(&task.instructions, 2));
    if !task.inputs.is_empty() {
        section("With what", Vec::new());
        for (name, value) in &task.inputs {
            row(name, &plain(value));
        }
    }
    if task.state.is_over() {
        return;
    }
    match &task.form {
        None => section("The result", vec!["one text".to_owned()]),
        Some(form) => {
            section("The result", Vec::new());
            fields(form);
        }
    }
}

fn fields(form: &Value) {
    let Some(properties) = form["properties"].as_object().filter(|properties| !properties.is_empty()) else {
        return row("JSON", &form.to_string());
    };
    let required = |name: &str| form["required"].as_array().is_some_and(|names| names.iter().any(|it| it == name));
    let (first, rest): (Vec<_>, Vec<_>) = properties.iter().partition(|(name, _)| required(name));
    for (name, schema) in first.into_iter().chain(rest) {
        let kind = match (schema["enum"].as_array(), schema["type"].as_str(), schema["format"].as_str()) {
            (Some(values), ..) => values.iter().map(plain).collect::<Vec<_>>().join(" | "),
            (None, Some("string"), Some(format)) => format.to_owned(),
            (None, Some(kind), _) => kind.to_owned(),
            (None, None, _) => "anything".to_owned(),
        };
        let need = if required(name) { ", required" } else { "" };
        let about = schema["description"].as_str().map(|text| format!(": {text}")).unwrap_or_default();
        row(name, &format!("{kind}{need}{about}"));
    }
}

fn section(heading: &str, lines: Vec<String>) {
    println!("\n{}", heading.bold());
    for line in lines {
        println!("  {line}");
    }
}

/// Prints a label and its text, wrapped to [`WIDTH`] columns.
fn row(name: &str, text: &str) {
    let name = cleaned(name);
    let mut lines = wrapped(text, INDENT).into_iter();
    let first = lines.next().unwrap_or_default();
    if name.chars().count() > INDENT - 3 {
        println!("  {}", name.dimmed());
        println!("{:INDENT$}{first}", "");
    } else {
        println!("  {}{first}", format!("{name:<width$}", width = INDENT - 2).dimmed());
    }
    for line in lines {
        println!("{:INDENT$}{line}", "");
    }
}

fn holder(state: &TaskState) -> String {
    match state {
        TaskState::Taken { by, at } => format!("{by}, since {}", moment(*at)),
        _ => "nobody".to_owned(),
    }
}

fn due(due: Timestamp, now: Timestamp) -> String {
    if due <= now {
        return format!("it was due at {}", moment(due));
    }
    format!("in {} ({})", span(now.until(due).as_secs()), moment(due))
}

fn span(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

/// A time as `2026-11-15 11:00 UTC`.
fn moment(at: Timestamp) -> String {
    let text = at.to_string().replacen('T', " ", 1);
    format!("{} UTC", text.get(..16).unwrap_or(&text))
}

pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Escapes terminal control characters in untrusted text.
fn cleaned(text: &str) -> String {
    clean::clean(text).replace('\t', " ")
}

/// Wraps a text into lines that fit into [`WIDTH`] columns with this indent.
fn wrapped(text: &str, indent: usize) -> Vec<String> {
    let mut wrap = WordWrapper::new(Some(WIDTH - indent));
    let wrapped = wrap.push(&cleaned(text)) + &wrap.end();
    wrapped.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(text: &str) -> usize {
        text.chars().map(clean::columns).sum()
    }

    #[test]
    fn task_text_is_wrapped_to_the_line_width_without_loss() {
        let long = format!("{} {} end", "word ".repeat(40), "x".repeat(200));
        for text in [long.as_str(), &"取件".repeat(100)] {
            let lines = wrapped(text, INDENT);
            assert!(lines.len() > 2 && lines.iter().all(|line| columns(line) <= WIDTH - INDENT), "{lines:?}");
            let squeezed = |text: &str| text.replace([' ', '\n'], "");
            assert_eq!(squeezed(&lines.join(" ")), squeezed(text), "nothing is lost");
        }
        assert_eq!(wrapped("a\n\nb", 2), ["a", "", "b"]);
    }

    #[test]
    fn task_summary_is_the_first_line_with_an_ellipsis_for_the_rest() {
        assert_eq!(beginning("").as_deref(), None);
        assert_eq!(beginning("\nWeigh it.\n").as_deref(), Some("Weigh it."));
        assert_eq!(beginning("Weigh it.\nPut it away.").as_deref(), Some("Weigh it. …"));
        let whole = "x".repeat(WIDTH - INDENT);
        assert_eq!(beginning(&whole).as_deref(), Some(whole.as_str()));
        let long = beginning(&"word ".repeat(40)).unwrap();
        assert!(long.ends_with("word …") && columns(&long) <= WIDTH - INDENT, "{long}");
    }

    #[test]
    fn terminal_control_characters_in_task_text_are_escaped() {
        assert_eq!(wrapped("a\u{1b}[2Jb", 2), ["a\\u{1b}[2Jb"]);
    }

    #[test]
    fn due_time_is_shown_as_remaining_time_and_date() {
        let now = Timestamp::from_millis(1_794_740_400_000);
        let in_some = |seconds: u64| due(now.after(std::time::Duration::from_secs(seconds)), now);
        assert_eq!(in_some(1500), "in 25 min (2026-11-15 11:25 UTC)");
        assert_eq!(in_some(90_000), "in 1 d 1 h (2026-11-16 12:00 UTC)");
        assert_eq!(in_some(0), "it was due at 2026-11-15 11:00 UTC");
    }
}

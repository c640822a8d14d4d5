//! Output of commands for people and programs.

use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use anstream::{eprintln, println};
use nuncio_aap::client::ClientError as ChatError;
use nuncio_anp::client::{ClientError, ClientErrorReason};
use nuncio_core::ErrorCode;
use nuncio_server::OperatorError;
use nuncio_skill::client::{ConsumerErrorReason, SkillConsumerError};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use crate::commands::chat::clean::{clean, columns};

mod fitted_table;
mod handshake;
mod qr;

pub(crate) use fitted_table::{fitted_list, fitted_table};
pub(crate) use handshake::readable_error;
pub(crate) use qr::qr_code;

/// Wrong arguments, found after clap parsed them; the exit status is 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WrongUsageError(pub(crate) String);

pub(crate) fn wrong_usage(message: impl Into<String>) -> anyhow::Error {
    WrongUsageError(message.into()).into()
}

/// Error that was already printed; only the exit status 1 remains.
#[derive(Debug, thiserror::Error)]
#[error("see above")]
pub(crate) struct AlreadyReportedError;

/// Errors that were already printed and include an unreadable input; the exit status is 2.
#[derive(Debug, thiserror::Error)]
#[error("see above")]
pub(crate) struct UnreadableInputReportedError;

/// Prints the error, unless it was already printed. The exit status is 2 for wrong usage and for unreadable inputs, 1
/// for everything else.
pub(crate) fn failed(json: bool, error: &anyhow::Error) -> ExitCode {
    let chat = error.downcast_ref::<ChatError>();
    let code = error.downcast_ref::<OperatorError>().map(|error| error.code).or(chat.map(chat_code));
    if error.is::<AlreadyReportedError>() {
        return ExitCode::FAILURE;
    }
    if error.is::<UnreadableInputReportedError>() {
        return ExitCode::from(2);
    }
    if let Some(failure) = error.downcast_ref::<SkillConsumerError>() {
        return skill_failed(json, failure);
    }
    if let Some(failure) = error.downcast_ref::<ClientError>() {
        return agent_failed(json, failure);
    }
    if json {
        println!("{}", json!({"error": with_causes(error), "code": code}));
    } else {
        let advice = chat.and_then(chat_advice).map(|advice| ("try:", advice));
        print_error(&with_causes(error), advice, code.map(ErrorCode::as_str));
    }
    ExitCode::from(if error.is::<WrongUsageError>() { 2 } else { 1 })
}

/// Text of an error with its causes, without a cause that an outer message already contains.
fn with_causes(error: &anyhow::Error) -> String {
    let message = error.chain().map(ToString::to_string).fold(String::new(), |message, cause| match () {
        () if message.is_empty() => cause,
        () if message.contains(&cause) => message,
        () => format!("{message}: {cause}"),
    });
    readable_error(&message)
}

fn chat_code(error: &ChatError) -> ErrorCode {
    match error {
        ChatError::Unreachable(_) | ChatError::Broken(_) => ErrorCode::EndpointUnreachable,
        ChatError::Refused { status, code, .. } => match (code.as_deref().and_then(ErrorCode::parse), status) {
            (Some(code), _) => code,
            (None, 401) => ErrorCode::Unauthorized,
            (None, 403) => ErrorCode::PermissionDenied,
            (None, 404 | 405) => ErrorCode::NotFound,
            (None, 400..500) => ErrorCode::BadRequest,
            (None, _) => ErrorCode::EndpointUnreachable,
        },
        ChatError::NotAap(_) | ChatError::TooLarge(_) => ErrorCode::ValidationError,
    }
}

/// Advice for chat errors whose message contains none.
fn chat_advice(error: &ChatError) -> Option<&'static str> {
    match error {
        ChatError::Unreachable(why) if readable_error(why) != *why => None,
        ChatError::Unreachable(_) => Some("see whether a server runs there; `nuncio serve` starts one here"),
        ChatError::Refused { status: 401, .. } => Some("send a key with --key or NUNCIO_KEY"),
        ChatError::NotAap(_) => Some("name the base address of AAP on that server, such as https://example.com/aap"),
        _ => None,
    }
}

/// Prints the error of a remote skill with its protocol code.
fn skill_failed(json: bool, failure: &SkillConsumerError) -> ExitCode {
    if json {
        let error = json!({
            "error": readable_error(&failure.to_string()),
            "code": failure.code.as_str(),
            "reason": failure.reason.as_str(),
            "details": failure.details,
            "retry": failure.retry,
            "execution_id": failure.execution,
        });
        println!("{error}");
    } else {
        let execution = failure.execution.as_deref().map(|id| ("execution:", id));
        let hints = failure.advice.as_deref().map(|advice| ("try:", advice)).into_iter().chain(execution);
        print_error(&readable_error(&failure.message), hints, Some(&failure.code.as_str().to_lowercase()));
    }
    ExitCode::from(if failure.reason == ConsumerErrorReason::BadTarget { 2 } else { 1 })
}

/// Prints the error of a request to a remote agent.
fn agent_failed(json: bool, failure: &ClientError) -> ExitCode {
    let code = failure.reason.code();
    if json {
        let error = json!({
            "error": readable_error(&failure.to_string()),
            "code": code,
            "reason": failure.reason.as_str(),
            "details": failure.details,
            "said": failure.rpc_error,
        });
        println!("{error}");
    } else {
        let advice = failure.advice.as_deref().map(|advice| ("try:", advice));
        print_error(&readable_error(&failure.message), advice, Some(code.as_str()));
    }
    ExitCode::from(if failure.reason == ClientErrorReason::BadTarget { 2 } else { 1 })
}

/// Prints an error for people, with labelled hints and the `nuncio explain` command of its code.
fn print_error<'a>(message: &str, hints: impl IntoIterator<Item = (&'static str, &'a str)>, code: Option<&str>) {
    eprintln!("{} {}", "error:".red().bold(), clean(message));
    for (label, hint) in hints {
        eprintln!("{} {}", label.dimmed(), clean(hint));
    }
    if let Some(code) = code {
        eprintln!("{} nuncio explain {code}", "more:".dimmed());
    }
}

pub(crate) fn fault(code: ErrorCode, message: impl Into<String>) -> anyhow::Error {
    OperatorError::new(code, message).into()
}

/// A number with its noun, such as `1 skill` or `2 skills`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

pub(crate) fn shell_quote(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Number of terminal columns of a text; a Chinese character takes two.
fn text_columns(text: &str) -> usize {
    text.chars().map(columns).sum()
}

/// A text with spaces up to this number of terminal columns.
pub(crate) fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text_columns(text))))
}

/// Prints rows under headings, each column as wide as its widest cell.
pub(crate) fn table(headings: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let rows: Vec<_> = rows.collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| text_columns(cell));
        cells.chain([text_columns(headings[column])]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| padded(cell, *width));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let headings: Vec<String> = headings.iter().map(|heading| (*heading).to_owned()).collect();
    println!("{}", line(&headings).bold());
    for row in &rows {
        println!("{}", line(row));
    }
}

/// Prints a result: as JSON for programs, through `print` for people.
pub(crate) fn show(json: bool, answer: &Value, print: impl FnOnce(&Value)) {
    if json { println!("{answer}") } else { print(answer) }
}

/// Prints a list as a table, or `none` if it is empty.
pub(crate) fn print_list<T>(items: &[T], headings: &[&str], none: &str, row: impl Fn(&T) -> Vec<String>) {
    if items.is_empty() { println!("{none}") } else { table(headings, items.iter().map(row)) }
}

/// Prints text for a program without removing escape sequences. A reader that closes the pipe early, such as `head`, is
/// not an error.
pub(crate) fn print_unchanged(text: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// A value as one line of text for a terminal.
pub(crate) fn text(value: impl std::fmt::Display) -> String {
    clean(&value.to_string()).replace(['\n', '\t'], " ")
}

/// Values as one line of text, separated by spaces.
pub(crate) fn text_of_all<T: std::fmt::Display>(values: impl IntoIterator<Item = T>) -> String {
    values.into_iter().map(text).collect::<Vec<_>>().join(" ")
}

/// A value as one line of text for a terminal; a dash when there is none.
pub(crate) fn text_or_dash(value: Option<impl std::fmt::Display>) -> String {
    value.map_or_else(|| "-".to_owned(), text)
}

/// The items of a JSON list; none if the value is no list.
pub(crate) fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

/// A JSON value as one line of text for a terminal; a dash for null.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => clean(text).replace(['\n', '\t'], " "),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(" "),
        other => clean(&other.to_string()).into_owned(),
    }
}

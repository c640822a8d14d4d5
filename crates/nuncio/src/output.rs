//! Output of commands for people and programs.

use std::process::ExitCode;

use anstream::{eprintln, println};
use nuncio_aap::client::ClientError as TalkError;
use nuncio_anp::client::{ClientError, Reason as PeerReason};
use nuncio_core::Code;
use nuncio_server::StartError;
use nuncio_skill::client::{ConsumerError, Reason};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use crate::commands::chat::clean::clean;

mod handshake;

pub(crate) use handshake::readable_error;

/// A mistake in how the command was called, found after its flags were read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WrongUsage(pub(crate) String);

/// The error was already printed; only the exit status 1 remains.
#[derive(Debug, thiserror::Error)]
#[error("see above")]
pub(crate) struct AlreadyReported;

/// The errors were already printed and include an unreadable input: exit status 2.
#[derive(Debug, thiserror::Error)]
#[error("see above")]
pub(crate) struct ReportedUnreadable;

/// Prints the error. The exit status is 2 for wrong usage, 1 for everything else.
pub(crate) fn failed(json: bool, error: &anyhow::Error) -> ExitCode {
    let talk = error.downcast_ref::<TalkError>();
    let code = error.downcast_ref::<StartError>().map(|error| error.code).or(talk.map(talk_code));
    if error.is::<AlreadyReported>() {
        return ExitCode::FAILURE;
    }
    if error.is::<ReportedUnreadable>() {
        return ExitCode::from(2);
    }
    if let Some(failure) = error.downcast_ref::<ConsumerError>() {
        return skill_failed(json, failure);
    }
    if let Some(failure) = error.downcast_ref::<ClientError>() {
        return agent_failed(json, failure);
    }
    if json {
        println!("{}", json!({"error": with_causes(error), "code": code}));
    } else {
        eprintln!("{} {}", "error:".red().bold(), clean(&with_causes(error)));
        if let Some(advice) = talk.and_then(talk_advice) {
            eprintln!("{} {advice}", "try:".dimmed());
        }
        if let Some(code) = code {
            eprintln!("{} nuncio explain {code}", "more:".dimmed());
        }
    }
    ExitCode::from(if error.is::<WrongUsage>() { 2 } else { 1 })
}

/// An error with its causes, without repeating a cause that a message already contains.
fn with_causes(error: &anyhow::Error) -> String {
    let said = error.chain().map(ToString::to_string).fold(String::new(), |said, cause| match () {
        () if said.is_empty() => cause,
        () if said.contains(&cause) => said,
        () => format!("{said}: {cause}"),
    });
    readable_error(&said)
}

/// The error code of a failed chat request.
fn talk_code(error: &TalkError) -> Code {
    match error {
        TalkError::Unreachable(_) | TalkError::Broken(_) => Code::EndpointUnreachable,
        TalkError::Refused { status, code, .. } => match (code.as_deref().and_then(Code::parse), status) {
            (Some(code), _) => code,
            (None, 401) => Code::Unauthorized,
            (None, 403) => Code::PermissionDenied,
            (None, 404 | 405) => Code::NotFound,
            (None, 400..500) => Code::BadRequest,
            (None, _) => Code::EndpointUnreachable,
        },
        TalkError::NotAap(_) | TalkError::TooLarge(_) => Code::ValidationError,
    }
}

/// Advice for codes whose message contains none.
fn talk_advice(error: &TalkError) -> Option<&'static str> {
    match error {
        TalkError::Unreachable(why) if readable_error(why) != *why => None,
        TalkError::Unreachable(_) => Some("see whether a server runs there; `nuncio serve` starts one here"),
        TalkError::Refused { status: 401, .. } => Some("show a key with --key, or in NUNCIO_KEY"),
        TalkError::NotAap(_) => Some("name the address below which it speaks AAP, such as https://example.com/aap"),
        _ => None,
    }
}

/// Prints the error of a remote skill with its protocol code.
fn skill_failed(json: bool, failure: &ConsumerError) -> ExitCode {
    if json {
        let told = json!({
            "error": readable_error(&failure.to_string()),
            "code": failure.code.as_str(),
            "reason": failure.reason.as_str(),
            "details": failure.details,
            "retry": failure.retry,
            "execution_id": failure.execution,
        });
        println!("{told}");
    } else {
        eprintln!("{} {}", "error:".red().bold(), clean(&readable_error(&failure.message)));
        if let Some(advice) = &failure.advice {
            eprintln!("{} {}", "try:".dimmed(), clean(advice));
        }
        if let Some(id) = &failure.execution {
            eprintln!("{} {}", "execution:".dimmed(), clean(id));
        }
        eprintln!("{} nuncio explain {}", "more:".dimmed(), failure.code.as_str().to_lowercase());
    }
    ExitCode::from(if failure.reason == Reason::BadTarget { 2 } else { 1 })
}

/// Prints the error of a request to a remote agent.
fn agent_failed(json: bool, failure: &ClientError) -> ExitCode {
    let code = failure.reason.code();
    if json {
        let told = json!({
            "error": readable_error(&failure.to_string()),
            "code": code,
            "reason": failure.reason.as_str(),
            "details": failure.details,
            "said": failure.said,
        });
        println!("{told}");
    } else {
        eprintln!("{} {}", "error:".red().bold(), clean(&readable_error(&failure.message)));
        if let Some(advice) = &failure.advice {
            eprintln!("{} {}", "try:".dimmed(), clean(advice));
        }
        eprintln!("{} nuncio explain {code}", "more:".dimmed());
    }
    ExitCode::from(if failure.reason == PeerReason::BadTarget { 2 } else { 1 })
}

pub(crate) fn fault(code: Code, message: impl Into<String>) -> anyhow::Error {
    StartError::new(code, message).into()
}

pub(crate) fn shell_quote(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Rows in columns as wide as they need to be.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([headings[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let headings: Vec<String> = headings.iter().map(|heading| (*heading).to_owned()).collect();
    println!("{}", line(&headings).bold());
    for row in rows {
        println!("{}", line(row));
    }
}

/// The items of a list in an answer; none if it is no list.
pub(crate) fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

/// A value of an answer as one line of text for a terminal; a dash when there is none.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => clean(text).replace(['\n', '\t'], " "),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(" "),
        other => clean(&other.to_string()).into_owned(),
    }
}

//! `nuncio explain`: the pages of the error codes, and the reference of the agent file.

mod agent_file;

use std::cmp::Reverse;

use anstream::{eprintln, println};
use nuncio_agent_file::reference;
use nuncio_core::ErrorCode;
use owo_colors::OwoColorize as _;
use serde_json::json;

use super::chat::clean::clean;
use super::consumer::wrapped;
use crate::output::AlreadyReportedError;

/// Number of similar codes that are suggested for an unknown one.
const MAX_SUGGESTIONS: usize = 3;
/// Column where the summaries begin in the list of codes.
const SUMMARY_COLUMN: usize = 24;

/// Prints the JSON Schema of agent files.
pub(crate) fn print_schema() {
    println!("{:#}", reference::schema());
}

/// Prints the page of a code or the entry of a key of the agent file, or the list of codes.
pub(crate) fn run(code: Option<&str>, json: bool) -> anyhow::Result<()> {
    let Some(name) = code else {
        let codes = sorted_codes();
        match json {
            true => println!("{}", json!({"codes": codes})),
            false => {
                codes.into_iter().for_each(print_summary);
                println!("\nKeys of the agent file: nuncio explain agent");
            }
        }
        return Ok(());
    };
    if agent_file::is_path(name) {
        return agent_file::explain(name, json).map_err(|message| report(&message, json));
    }
    let Some(code) = ErrorCode::parse(&name.to_lowercase()) else {
        let hint = match suggestions(name).as_slice() {
            [] => "`nuncio explain` lists them all".to_owned(),
            near => format!("perhaps: {}. `nuncio explain` lists them all", near.join(", ")),
        };
        return Err(report(&format!("there is no code {name:?}; {hint}"), json));
    };
    if json {
        println!("{}", json!({"code": code, "page": code.page()}));
        return Ok(());
    }
    for line in code.page().trim_end().lines() {
        match line.trim_start_matches('#') {
            heading if heading.len() < line.len() => println!("{}", heading.trim().bold()),
            text => println!("{text}"),
        }
    }
    Ok(())
}

fn report(message: &str, json: bool) -> anyhow::Error {
    match json {
        true => println!("{}", json!({"error": message, "code": ErrorCode::NotFound})),
        false => eprintln!("{} {}", "error:".red().bold(), clean(message)),
    }
    AlreadyReportedError.into()
}

fn sorted_codes() -> Vec<ErrorCode> {
    let mut codes = ErrorCode::ALL.to_vec();
    codes.sort_unstable_by_key(|code| code.as_str());
    codes
}

/// Prints a code beside its summary, or above it if the code is long.
fn print_summary(code: ErrorCode) {
    let summary = wrapped(&summary(code), &" ".repeat(SUMMARY_COLUMN));
    match code.as_str() {
        name if name.len() + 2 > SUMMARY_COLUMN => println!("{name}\n{summary}"),
        name => println!("{name:<SUMMARY_COLUMN$}{}", summary.trim_start()),
    }
}

/// The first sentence of a code's page.
fn summary(code: ErrorCode) -> String {
    let paragraph = code.page().lines().skip(1).skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty());
    let text = paragraph.collect::<Vec<_>>().join(" ");
    text.split_once(". ").map_or(text.as_str(), |(first, _)| first).trim_end_matches(['.', ':']).to_owned()
}

/// The codes most like `name`, best first: those that share most words with it, then those spelt most alike.
fn suggestions(name: &str) -> Vec<&'static str> {
    let name = name.to_lowercase();
    let words: Vec<_> = name.split(['_', '-', ' ']).filter(|word| word.len() > 2).collect();
    // A third of the letters may differ, at most three.
    let most_edits = name.chars().count().div_ceil(3).min(3);
    let rate = |code: ErrorCode| {
        let shared = words.iter().filter(|word| code.as_str().contains(**word)).count();
        let edits = strsim::osa_distance(&name, code.as_str());
        (shared > 0 || edits <= most_edits).then_some((edits > most_edits, Reverse(shared), edits, code.as_str()))
    };
    let mut rated: Vec<_> = ErrorCode::ALL.iter().copied().filter_map(rate).collect();
    rated.sort_unstable();
    rated.into_iter().map(|(_, _, _, code)| code).take(MAX_SUGGESTIONS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_code_gets_at_most_three_suggestions_with_the_closest_first() {
        assert_eq!(suggestions("turn_runing").first(), Some(&"turn_running"));
        assert_eq!(suggestions("grant not found").first(), Some(&"grant_not_found"));
        assert_eq!(suggestions("not_found").first(), Some(&"not_found"));
        for name in ["not", "not_found_at_all", "scope", "agent", "data_directory"] {
            assert!((1..=3).contains(&suggestions(name).len()), "{name}: {:?}", suggestions(name));
        }
        for name in ["", "zzz", "权限", &"a".repeat(10_000)] {
            assert_eq!(suggestions(name), [""; 0], "{name}");
        }
    }

    #[test]
    fn summary_is_the_whole_first_sentence() {
        for code in ErrorCode::ALL {
            let summary = summary(*code);
            assert!(!summary.is_empty() && !summary.contains('…'), "{code}: {summary}");
        }
    }
}

//! `nuncio explain`: the pages of the error codes.

use anstream::{eprintln, println};
use nuncio_core::Code;
use owo_colors::OwoColorize as _;
use serde_json::json;

use crate::output::AlreadyReported;

/// Prints the page of a code, or the list of codes.
pub(crate) fn run(code: Option<&str>, json: bool) -> anyhow::Result<()> {
    let Some(name) = code else {
        if json {
            println!("{}", json!({"codes": Code::ALL}));
            return Ok(());
        }
        for code in Code::ALL {
            // A long code moves its summary to the right.
            let width = (code.as_str().len() + 2).max(24);
            println!("{:<width$}{}", code.as_str(), summary(*code, 76 - width));
        }
        return Ok(());
    };
    let Some(code) = Code::parse(&name.to_lowercase()) else {
        let near: Vec<_> =
            Code::ALL.iter().map(|code| code.as_str()).filter(|code| shares_a_word(code, name)).collect();
        let hint = match near.as_slice() {
            [] => "`nuncio explain` lists them all".to_owned(),
            near => format!("perhaps: {}. `nuncio explain` lists them all", near.join(", ")),
        };
        let message = format!("there is no code {name:?}; {hint}");
        match json {
            true => println!("{}", json!({"error": message, "code": Code::NotFound})),
            false => eprintln!("{} {message}", "error:".red().bold()),
        }
        return Err(AlreadyReported.into());
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

/// The first sentence of a code's page, cut to `room` characters.
fn summary(code: Code, room: usize) -> String {
    let paragraph = code.page().lines().skip(1).skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty());
    let text = paragraph.collect::<Vec<_>>().join(" ");
    let sentence = text.split_once(". ").map_or(text.as_str(), |(first, _)| first).trim_end_matches('.');
    match sentence.char_indices().nth(room) {
        Some((end, _)) => format!("{}…", &sentence[..end]),
        None => sentence.to_owned(),
    }
}

fn shares_a_word(code: &str, name: &str) -> bool {
    let mut words = name.split(['_', '-', ' ']).filter(|word| word.len() > 2);
    words.any(|word| code.contains(&word.to_lowercase()))
}

//! The part of the language rules (CONTRIBUTING.md) that a program can check: type names with several meanings,
//! comments that repeat the name beside them, and banned words in test names.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Type names that every crate may define.
const CONVENTIONS: &[&str] = &["Error", "Client", "Server", "Request", "Response"];

/// Maximum number of visible types in the workspace with the same name.
const MAX_DEFINITIONS: usize = 2;

/// Words that a test name must not contain, because they name neither a condition nor a result.
const BANNED_IN_TEST_NAMES: &[&str] = &[
    "whoever",
    "whatever",
    "what_is",
    "what_was",
    "what_would",
    "nobody",
    "somebody",
    "told",
    "tells",
    "heard",
    "says_so",
    "of_ours",
    "anew",
    "at_stake",
    "voice",
    "letters",
    "said",
    "yours",
    "ours",
    "vouches",
    "worthless",
    "goes_on",
    "went_on",
    "gives_way",
];

/// Words that are ignored when a comment is compared with the name below it.
const FILLERS: &[&str] = &[
    "a", "an", "and", "are", "as", "be", "by", "for", "has", "have", "how", "in", "is", "it", "its", "many", "much",
    "of", "on", "one", "that", "the", "their", "there", "they", "this", "to", "was", "what", "when", "where", "which",
    "who", "whose", "with",
];

/// Finds every violation in the Rust sources of the workspace.
pub(crate) fn check(root: &Path, faults: &mut Vec<String>) -> anyhow::Result<()> {
    let mut files = Vec::new();
    for folder in ["crates", "attacks", "benches", "conformance", "fuzz", "simulator", "xtask"] {
        rust_files(&root.join(folder), &mut files)?;
    }
    files.sort();
    let mut types = BTreeMap::<String, Vec<String>>::new();
    for file in &files {
        let text = fs::read_to_string(file)?;
        let path = file.strip_prefix(root).unwrap_or(file).display().to_string();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        check_test_names(&path, &lines, faults);
        if path.contains("/wire") {
            continue;
        }
        for (number, name) in visible_types(&lines) {
            types.entry(name.to_owned()).or_default().push(format!("{path}:{number}"));
        }
        // Doc comments on command-line arguments are help texts; those on wire types, above, go into published schemas.
        if !is_test_code(&path) && !text.contains("use clap::") {
            check_comments(&path, &lines, faults);
        }
    }
    for (name, places) in types {
        if places.len() > MAX_DEFINITIONS && !CONVENTIONS.contains(&name.as_str()) {
            faults.push(format!("the type name {name} is defined {} times: {}", places.len(), places.join(", ")));
        }
    }
    Ok(())
}

pub(crate) fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            rust_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

pub(crate) fn is_test_code(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// The types that other modules can name, with their line numbers.
fn visible_types<'a>(lines: &[&'a str]) -> Vec<(usize, &'a str)> {
    let numbered = lines.iter().enumerate();
    let visible = numbered.filter(|(_, line)| line.starts_with("pub"));
    visible.filter_map(|(index, line)| Some((index + 1, defined_type(line)?))).collect()
}

/// The name that `pub(crate) struct Name<T> {` and its like define.
fn defined_type(line: &str) -> Option<&str> {
    let keyword = line.split_whitespace().nth(1)?;
    if !matches!(keyword, "struct" | "enum" | "trait" | "type" | "union") {
        return None;
    }
    let name = line.split_whitespace().nth(2)?;
    // A macro's `$name` is empty.
    name.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| !name.is_empty())
}

fn check_test_names(path: &str, lines: &[&str], faults: &mut Vec<String>) {
    let mut is_test = false;
    for (index, line) in lines.iter().enumerate() {
        if line.starts_with("#[") {
            is_test |= line.contains("test]") || line.contains("test(");
        } else if let Some(name) = function_name(line) {
            let padded = format!("_{name}_");
            let banned = BANNED_IN_TEST_NAMES.iter().find(|word| padded.contains(&format!("_{word}_")));
            if let Some(word) = banned.filter(|_| is_test) {
                faults.push(format!(
                    "{path}:{}: the test name {name} contains {word:?}: name condition and result",
                    index + 1
                ));
            }
            is_test = false;
        } else if !line.is_empty() && !line.starts_with("//") {
            is_test = false;
        }
    }
}

fn function_name(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    line.strip_prefix("fn ")?.split(['(', '<']).next()
}

/// Reports comments of one line whose words all occur in the item below them.
fn check_comments(path: &str, lines: &[&str], faults: &mut Vec<String>) {
    for (index, line) in lines.iter().enumerate() {
        let Some(comment) = line.strip_prefix("///") else { continue };
        let is_single = !is_doc(lines, index.wrapping_sub(1)) && !is_doc(lines, index + 1);
        let item = lines[index + 1..].iter().find(|line| !line.starts_with("#["));
        if let Some(item) = item.filter(|_| is_single)
            && repeats(comment, item)
        {
            faults.push(format!("{path}:{}: the comment only repeats the name beside it:{comment}", index + 1));
        }
    }
}

fn is_doc(lines: &[&str], index: usize) -> bool {
    lines.get(index).is_some_and(|line| line.starts_with("///"))
}

/// Whether a comment only repeats the words of its item. A comment with backticks quotes a term, so it never does.
fn repeats(comment: &str, item: &str) -> bool {
    if comment.contains('`') {
        return false;
    }
    let item_words = words(item);
    words(comment).iter().all(|word| FILLERS.contains(&word.as_str()) || item_words.contains(word))
}

/// The words of a text or of the names in it, in lower case and without a plural's s.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut previous = ' ';
    for c in text.chars() {
        let begins = !c.is_alphanumeric() || c.is_uppercase() && previous.is_lowercase();
        if begins {
            words.push(String::new());
        }
        if c.is_alphanumeric() {
            words.last_mut().expect("there is always a last word").extend(c.to_lowercase());
        }
        previous = c;
    }
    let singular = |word: String| match FILLERS.contains(&word.as_str()) {
        true => word,
        false => word.strip_suffix('s').map_or(word.clone(), str::to_owned),
    };
    words.into_iter().filter(|word| !word.is_empty()).map(singular).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comment_that_repeats_the_name_or_type_is_reported() {
        for (comment, item) in [
            ("The agent.", "pub agent: AgentName,"),
            ("Which.", "Kind(String),"),
            ("The id of the session.", "session_id: SessionId,"),
            ("How many calls there are.", "calls: usize,"),
        ] {
            assert!(repeats(comment, item), "{comment}");
        }
        for (comment, item) in [
            ("In seconds.", "timeout: u64,"),
            ("None until the first checkpoint.", "head: Option<Head>,"),
            ("The right-most untrusted address.", "address: IpAddr,"),
        ] {
            assert!(!repeats(comment, item), "{comment}");
        }
    }

    #[test]
    fn only_type_definitions_visible_to_other_modules_are_found() {
        let lines = [
            "pub(crate) struct Place<'a> {",
            "struct Hidden;",
            "pub use a::Type;",
            "pub enum Kind {",
            "pub fn struct_of()",
        ];
        assert_eq!(visible_types(&lines), [(1, "Place"), (4, "Kind")]);
    }

    #[test]
    fn banned_words_are_reported_in_names_of_test_functions_only() {
        let mut faults = Vec::new();
        let lines = [
            "#[test]",
            "fn what_is_told_twice_is_kept() {",
            "}",
            "fn tells() {",
            "#[tokio::test]",
            "async fn fooled_again() {",
        ];
        check_test_names("a.rs", &lines, &mut faults);
        assert_eq!(faults.len(), 1, "{faults:?}");
    }
}

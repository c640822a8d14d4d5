//! Words that messages of the product and Chinese texts must not contain (CONTRIBUTING.md, "Language").

use std::fs;
use std::path::Path;

use crate::language::{is_test_code, rust_files};

/// Words of messages that a reader without knowledge of the code misunderstands.
const BANNED_IN_MESSAGES: &[&str] = &[
    "whoever",
    "nobody",
    "somebody",
    "told",
    "heard",
    "vouch",
    "vouches",
    "worthless",
    "speaks",
    "anew",
    "wherever",
    "goes on",
    "went on",
    "broke off",
    "who asks",
    "at stake",
    "it says it",
];

/// Chinese words that the glossary replaces.
const BANNED_IN_CHINESE: &[&str] =
    &["您", "调用者", "权限范围", "运营者", "颁发者", "敏感级别", "敏感程度", "聊天页面"];

/// Chinese texts outside of Rust files, relative to the workspace.
const CHINESE_FILES: &[&str] = &["crates/nuncio-console/locales/zh-CN.toml", "crates/nuncio-device/locales/zh-CN.toml"];

/// Reports banned words in the string literals of the product's crates and in Chinese texts.
pub(crate) fn check(root: &Path, faults: &mut Vec<String>) -> anyhow::Result<()> {
    let mut files = Vec::new();
    rust_files(&root.join("crates"), &mut files)?;
    files.sort();
    for file in files {
        let path = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        if is_test_code(&path) || path.contains("nuncio-testkit") {
            continue;
        }
        let text = fs::read_to_string(&file)?;
        let product = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for literal in literals(product) {
            report(&path, &literal, banned_in_message(&literal), faults);
        }
    }
    let mut chinese: Vec<_> = CHINESE_FILES.iter().map(|file| root.join(file)).collect();
    for entry in fs::read_dir(root.join("docs/zh-CN"))? {
        chinese.push(entry?.path());
    }
    for file in chinese {
        let path = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        for line in fs::read_to_string(&file)?.lines() {
            report(&path, line, BANNED_IN_CHINESE.iter().find(|word| line.contains(**word)).copied(), faults);
        }
    }
    Ok(())
}

fn report(path: &str, text: &str, banned: Option<&str>, faults: &mut Vec<String>) {
    if let Some(word) = banned {
        faults.push(format!("{path}: replace {word:?} in {text:?} (CONTRIBUTING.md, Language)"));
    }
}

/// The first banned word of a literal. A literal without a space is a name or a setting, not a message.
fn banned_in_message(literal: &str) -> Option<&'static str> {
    if !literal.trim().contains(' ') {
        return None;
    }
    let words: Vec<_> = literal.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let padded = format!(" {} ", words.join(" ").to_lowercase());
    BANNED_IN_MESSAGES.iter().find(|word| padded.contains(&format!(" {word} "))).copied()
}

/// The quoted strings of Rust source, with escapes as written and without line continuations. Comments are skipped.
fn literals(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut chars = source.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '/' if chars.peek() == Some(&'/') => {
                chars.by_ref().find(|c| *c == '\n');
            }
            // The quotation mark as a character, '"' or '\"'.
            '\'' if chars.peek() == Some(&'"') => {
                chars.next();
            }
            '\\' => {
                chars.next();
            }
            '"' => {
                let mut literal = String::new();
                while let Some(c) = chars.next().filter(|c| *c != '"') {
                    literal.push(c);
                    literal.extend(chars.next_if(|_| c == '\\'));
                }
                let lines = literal.split("\\\n").map(str::trim_start);
                found.push(lines.collect());
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_found_without_comments_and_line_continuations() {
        let source = "let a = \"one \\\n    two\"; // \"three\"\nlet b = ('\"', \"say \\\"four\\\"\");";
        assert_eq!(literals(source), ["one two", "say \\\"four\\\""]);
    }

    #[test]
    fn banned_words_are_found_in_messages_and_not_in_names_or_parts_of_words() {
        assert_eq!(banned_in_message("the stream broke  off"), Some("broke off"));
        assert_eq!(banned_in_message("Nobody answered in time"), Some("nobody"));
        assert_eq!(banned_in_message("nobody"), None);
        assert_eq!(banned_in_message("the overheard text"), None);
    }
}

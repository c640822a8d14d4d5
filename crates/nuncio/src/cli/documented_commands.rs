//! Every command that a document names in a line of text exists, with its flags.

use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap::error::ErrorKind;

use super::Cli;

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The documents, and the pages of the error codes.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(REPOSITORY);
    let mut documents = vec![root.join("README.md"), root.join("README.zh-CN.md")];
    for folder in ["docs", "docs/zh-CN", "docs/decisions", "crates/nuncio-core/src/codes"] {
        let files = fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        documents.extend(files.filter(|file| file.extension().is_some_and(|extension| extension == "md")));
    }
    documents
}

/// The `nuncio …` spans of a document outside its blocks, each as its words.
fn spans(markdown: &str) -> Vec<Vec<String>> {
    let unfenced: Vec<_> = markdown.split("\n```").step_by(2).collect();
    let unfenced = unfenced.join("\n");
    let spans = unfenced.split('`').skip(1).step_by(2).filter(|span| span.starts_with("nuncio "));
    // An ellipsis stands for anything.
    let words = |span: &str| span.split_whitespace().filter(|word| *word != "…").map(str::to_owned).collect();
    spans.map(words).collect()
}

/// The commands that a span stands for: `invoke|show` means two.
fn alternatives(words: &[String]) -> Vec<Vec<String>> {
    let Some(at) = words.iter().position(|word| word.contains('|')) else { return vec![words.to_vec()] };
    let with = |word: &str| {
        let mut words = words.to_vec();
        word.clone_into(&mut words[at]);
        words
    };
    words[at].split('|').map(with).collect()
}

#[test]
fn commands_and_flags_named_in_the_text_of_documents_exist() {
    let mut count = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for words in spans(&text).iter().flat_map(|words| alternatives(words)) {
            count += 1;
            let Err(error) = Cli::command().try_get_matches_from(&words) else { continue };
            // Values may be missing or placeholders.
            let is_wrong = matches!(
                error.kind(),
                ErrorKind::InvalidSubcommand
                    | ErrorKind::UnknownArgument
                    | ErrorKind::TooManyValues
                    | ErrorKind::ArgumentConflict
            );
            assert!(!is_wrong, "{}: `{}`: {error}", document.display(), words.join(" "));
        }
    }
    assert!(count > 200, "the documents name {count} commands");
}

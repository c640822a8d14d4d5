//! Checks that ARCHITECTURE.md and the decision pages name files, types and crates that exist, and that the crate table
//! of ARCHITECTURE.md has every crate with its dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::language::rust_files;

const ARCHITECTURE: &str = "ARCHITECTURE.md";
const DECISIONS: &str = "docs/decisions";

/// Folders whose files the documents name.
const FOLDERS: &[&str] = &[
    "attacks",
    "benches",
    "conformance",
    "crates",
    "docs",
    "examples",
    "fuzz",
    "packaging",
    "schema",
    "simulator",
    "xtask",
];

/// Names of other projects.
const FOREIGN: &[&str] = &["webc/web_stream.rs"];

/// The folder name of each crate of the workspace, with the workspace crates that it depends on.
pub(crate) type CrateDependencies = BTreeMap<String, BTreeSet<String>>;

pub(crate) fn check(root: &Path, crates: &CrateDependencies, faults: &mut Vec<String>) -> anyhow::Result<()> {
    let known = ExistingNames::read(root)?;
    let architecture = fs::read_to_string(root.join(ARCHITECTURE)).context(ARCHITECTURE)?;
    known.check(ARCHITECTURE, &architecture, faults);
    check_crate_table(&architecture, crates, faults);
    for entry in fs::read_dir(root.join(DECISIONS))? {
        let entry = entry?;
        let path = format!("{DECISIONS}/{}", entry.file_name().display());
        known.check(&path, &fs::read_to_string(entry.path())?, faults);
    }
    Ok(())
}

struct ExistingNames {
    /// Paths of all files and folders, from the root, each after a slash.
    paths: Vec<String>,
    /// The identifiers of each Rust source outside comments, with those in its path and its crate's name.
    sources: Vec<BTreeSet<String>>,
}

impl ExistingNames {
    fn read(root: &Path) -> anyhow::Result<Self> {
        let (mut paths, mut files) = (Vec::new(), Vec::new());
        for folder in FOLDERS {
            collect_paths(root, &root.join(folder), &mut paths)?;
            rust_files(&root.join(folder), &mut files)?;
        }
        let source = |file: PathBuf| {
            let text = fs::read_to_string(&file)?;
            let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
            let path = file.strip_prefix(root).unwrap_or(&file).display().to_string().replace('-', "_");
            Ok(code.flat_map(identifiers).chain(identifiers(&path)).map(str::to_owned).collect())
        };
        Ok(Self { paths, sources: files.into_iter().map(source).collect::<anyhow::Result<_>>()? })
    }

    fn check(&self, document: &str, text: &str, faults: &mut Vec<String>) {
        for name in quoted(text).filter(|name| !FOREIGN.contains(name)) {
            let exists = match kind(name) {
                Some(DocumentedNameKind::Path) => self.has_path(name),
                Some(DocumentedNameKind::Code) => self.has_code(name.split('(').next().unwrap_or_default()),
                None => true,
            };
            if !exists {
                faults.push(format!("{document}: {name} does not exist"));
            }
        }
    }

    /// Whether one source has all identifiers of this name.
    fn has_code(&self, name: &str) -> bool {
        self.sources.iter().any(|source| identifiers(name).all(|word| source.contains(word)))
    }

    /// Whether a file or folder has this path, or a path that ends in it; the ending of a module's file may be missing.
    fn has_path(&self, name: &str) -> bool {
        let end = format!("/{}", name.trim_end_matches('/'));
        self.paths
            .iter()
            .any(|path| path.ends_with(&end) || path.strip_suffix(".rs").is_some_and(|it| it.ends_with(&end)))
    }
}

fn collect_paths(root: &Path, folder: &Path, paths: &mut Vec<String>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        paths.push(format!("/{}", path.strip_prefix(root).unwrap_or(&path).display()));
        if path.is_dir() && !path.ends_with("node_modules") {
            collect_paths(root, &path, paths)?;
        }
    }
    Ok(())
}

/// Texts in backticks, outside code blocks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split("```").step_by(2).flat_map(|prose| prose.split('`').skip(1).step_by(2))
}

fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

#[derive(Debug, PartialEq, Eq)]
enum DocumentedNameKind {
    /// A file or folder, such as `converse/turn.rs`.
    Path,
    /// A type or a path of modules, such as `Store::commit`.
    Code,
}

/// What a text in backticks names; `None` if it is neither a path nor a name in the code.
fn kind(name: &str) -> Option<DocumentedNameKind> {
    let is_path_text = name.chars().all(|c| c.is_alphanumeric() || "_-./".contains(c));
    let has_ending = [".rs", ".js", ".css", ".md"].iter().any(|ending| name.ends_with(ending));
    if is_path_text && !name.starts_with(['/', '.']) && (name.contains('/') || has_ending) {
        return Some(DocumentedNameKind::Path);
    }
    let callee = name.split('(').next().unwrap_or_default();
    let is_code = !callee.is_empty() && callee.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ':');
    let is_type = callee.starts_with(char::is_uppercase) && callee.contains(char::is_lowercase);
    (is_code && (is_type || callee.contains("::"))).then_some(DocumentedNameKind::Code)
}

/// Compares the rows of the crate table, `| crate | contents | dependencies |`, with the manifests.
fn check_crate_table(architecture: &str, crates: &CrateDependencies, faults: &mut Vec<String>) {
    let section = architecture.split("\n## ").find(|section| section.starts_with("Crates\n")).unwrap_or_default();
    let rows: Vec<_> = section.lines().filter_map(crate_row).collect();
    for (index, (name, written)) in rows.iter().enumerate() {
        let Some(actual) = crates.get(*name) else {
            faults.push(format!("{ARCHITECTURE}: {name} of the table of crates does not exist"));
            continue;
        };
        let above = || rows[..index].iter().map(|(name, _)| short(name));
        let listed: BTreeSet<_> = match written.strip_prefix("all above except ") {
            Some(except) => above().filter(|name| *name != except).collect(),
            None if *written == "none of these crates" => BTreeSet::new(),
            None => written.split(", ").collect(),
        };
        let actual: BTreeSet<_> = actual.iter().map(|name| short(name)).collect();
        if listed != actual {
            let actual: Vec<_> = actual.into_iter().collect();
            faults.push(format!(
                "{ARCHITECTURE}: {name} depends on {}; the table of crates says {written}",
                actual.join(", ")
            ));
        }
    }
    for name in crates.keys().filter(|name| !rows.iter().any(|(listed, _)| listed == name)) {
        faults.push(format!("{ARCHITECTURE}: the table of crates lacks {name}"));
    }
}

/// The folder and the dependencies in a row of the crate table.
fn crate_row(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.strip_prefix("| `")?.split_once("` |")?;
    Some((name, rest.trim_end_matches('|').rsplit('|').next()?.trim()))
}

fn short(name: &str) -> &str {
    name.strip_prefix("nuncio-").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(document: &str) -> Vec<String> {
        let known = ExistingNames {
            paths: ["/crates/nuncio-engine/src", "/crates/nuncio-engine/src/converse/turn.rs"]
                .map(str::to_owned)
                .into(),
            sources: [["crates", "nuncio_core"], ["Store", "commit"], ["Shop", "write"]]
                .map(|words| words.map(str::to_owned).into())
                .into(),
        };
        let mut faults = Vec::new();
        known.check("a.md", document, &mut faults);
        faults
    }

    #[test]
    fn missing_paths_and_names_in_backticks_are_reported_and_code_blocks_are_not_checked() {
        let existing = "`converse/turn.rs` `nuncio-engine/src/` `converse/turn` `Store::commit(Vec)` `nuncio_core` `/metrics` `high`";
        assert_eq!(faults_of(existing), [""; 0]);
        for missing in ["converse/begin.rs", "nuncio-relay/src/", "Stall", "Store::write", "shop::Store"] {
            assert_eq!(faults_of(&format!("The `{missing}`.")), [format!("a.md: {missing} does not exist")]);
        }
        assert_eq!(faults_of("```\nlet `Stall` = 1;\n```\n"), [""; 0]);
    }

    #[test]
    fn crate_table_must_list_every_crate_with_its_dependencies() {
        let crates = [("nuncio-core", vec![]), ("nuncio-engine", vec!["nuncio-core"]), ("xtask", vec!["nuncio-core"])];
        let crates = crates.map(|(name, uses)| (name.to_owned(), uses.into_iter().map(str::to_owned).collect()));
        let check = |rows: &str| {
            let mut faults = Vec::new();
            check_crate_table(&format!("# A\n\n## Crates\n\n{rows}\n## B\n"), &crates.clone().into(), &mut faults);
            faults
        };
        let core = "| `nuncio-core` | a | b | none of these crates |\n";
        let engine = "| `nuncio-engine` | e | core |\n";
        assert_eq!(check(&format!("{core}{engine}| `xtask` | x | all above except engine |\n")), [""; 0]);
        assert_eq!(check(&format!("{core}{engine}")), ["ARCHITECTURE.md: the table of crates lacks xtask"]);
        assert_eq!(
            check(&format!("{core}{engine}| `xtask` | x | core, engine |\n| `other` | o | core |\n")),
            [
                "ARCHITECTURE.md: xtask depends on core; the table of crates says core, engine",
                "ARCHITECTURE.md: other of the table of crates does not exist"
            ]
        );
    }
}

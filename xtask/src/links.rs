//! Checks that the relative links of the documents lead to existing files.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders without documents of this project.
const SKIPPED: &[&str] = &["target", "node_modules", "fixtures", ".git"];

pub(crate) fn check(root: &Path, faults: &mut Vec<String>) -> anyhow::Result<()> {
    let mut documents = Vec::new();
    find_documents(root, &mut documents)?;
    documents.sort();
    for document in documents {
        let text = fs::read_to_string(&document)?;
        let folder = document.parent().unwrap_or(root);
        for link in relative_links(&text).filter(|link| !folder.join(link).exists()) {
            let path = document.strip_prefix(root).unwrap_or(&document);
            faults.push(format!("{}: the link to {link} leads nowhere", path.display()));
        }
    }
    Ok(())
}

fn find_documents(folder: &Path, documents: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !SKIPPED.contains(&name) {
            find_documents(&path, documents)?;
        } else if path.extension().is_some_and(|extension| extension == "md") && path.is_file() {
            documents.push(path);
        }
    }
    Ok(())
}

/// Paths of the links to other files, without their fragments. Code blocks have no links.
fn relative_links(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split("```").step_by(2);
    let links = prose.flat_map(|part| part.split("](").skip(1)).filter_map(|rest| rest.split_once(')'));
    let paths = links.map(|(link, _)| link.split('#').next().unwrap_or_default());
    paths.filter(|path| !path.is_empty() && !path.contains(':') && !path.contains(char::is_whitespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_to_other_files_outside_code_blocks_are_checked() {
        let text = "[a](a.md) [b](b.md#part) [c](#part) [d](https://example.com)\n```\n[e](e.md)\n```\n[f](../f.md)";
        assert_eq!(relative_links(text).collect::<Vec<_>>(), ["a.md", "b.md", "../f.md"]);
    }

    #[test]
    fn link_to_a_missing_file_is_a_fault() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("a.md"), "[a](a.md) [b](missing.md)")?;
        let mut faults = Vec::new();
        check(folder.path(), &mut faults)?;
        assert_eq!(faults, ["a.md: the link to missing.md leads nowhere"]);
        Ok(())
    }
}

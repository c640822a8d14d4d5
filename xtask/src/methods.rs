//! Checks that no type has more methods than one subject needs (CONTRIBUTING.md, "Types").

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::language::{is_test_code, rust_files};

/// Maximum number of methods of a type in a crate, over all its `impl` blocks except those of traits.
const MAX_METHODS: usize = 40;

/// Reports types of the product's crates with too many methods.
pub(crate) fn check(root: &Path, faults: &mut Vec<String>) -> anyhow::Result<()> {
    let mut files = Vec::new();
    rust_files(&root.join("crates"), &mut files)?;
    let mut counts = BTreeMap::<(String, String), usize>::new();
    for file in files {
        let path = file.strip_prefix(root.join("crates")).unwrap_or(&file).display().to_string();
        if let Some((crate_name, _)) = path.split_once('/').filter(|_| !is_test_code(&path)) {
            for name in method_owners(&fs::read_to_string(&file)?) {
                *counts.entry((crate_name.to_owned(), name.to_owned())).or_default() += 1;
            }
        }
    }
    for ((crate_name, name), count) in counts.into_iter().filter(|(_, count)| *count > MAX_METHODS) {
        faults.push(format!(
            "{crate_name}: {name} has {count} methods, more than {MAX_METHODS}: give a subject of it a type of its own"
        ));
    }
    Ok(())
}

/// The type of each method in the `impl` blocks of a file, once per method. Relies on the formatting by rustfmt.
fn method_owners(text: &str) -> Vec<&str> {
    let (mut owner, mut owners) = (None, Vec::new());
    for line in text.lines() {
        if line.starts_with("impl") {
            owner = implemented_type(line);
        } else if line.starts_with('}') {
            owner = None;
        } else if let Some(name) = owner.filter(|_| is_method(line)) {
            owners.push(name);
        }
    }
    owners
}

/// The type of `impl<T> Name<T> {`; `None` if the block implements a trait.
fn implemented_type(line: &str) -> Option<&str> {
    let mut rest = line.strip_prefix("impl")?;
    if rest.starts_with('<') {
        let mut depth = 0;
        let end = rest.find(|c| {
            depth += i32::from(c == '<') - i32::from(c == '>');
            depth == 0
        })?;
        rest = &rest[end + 1..];
    }
    let is_trait = rest.contains(" for ") && !rest.contains("for<");
    rest.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|_| !is_trait)
}

fn is_method(line: &str) -> bool {
    let Some(item) = line.strip_prefix("    ").filter(|item| !item.starts_with(' ')) else { return false };
    let words = item.split_whitespace();
    let mut words = words.skip_while(|word| word.starts_with("pub") || matches!(*word, "const" | "async" | "in"));
    words.next() == Some("fn")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_of_inherent_impl_blocks_are_counted_and_trait_methods_are_not() {
        let text = "\
impl<'a, T: Into<Vec<u8>>> Peer<'a, T> {
    pub(crate) const fn new() -> Self {
        fn inner() {}
    }

    pub async fn run(&self) {}
    const MAX: usize = 1;
}

impl Drop for Peer<'_> {
    fn drop(&mut self) {}
}

fn free() {}

impl Peer {
    fn stop(&self) {}
}
";
        assert_eq!(method_owners(text), ["Peer"; 3]);
    }
}

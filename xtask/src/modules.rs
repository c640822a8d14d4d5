//! Checks that the modules of the engine do not depend on each other in a circle (ARCHITECTURE.md, "Services").

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::language::{is_test_code, rust_files};

/// Modules at the top of a crate, each with the modules that it names.
type ModuleDependencies = BTreeMap<String, BTreeSet<String>>;

/// Reports circles of the engine's modules.
pub(crate) fn check(root: &Path, faults: &mut Vec<String>) -> anyhow::Result<()> {
    let source = root.join("crates/nuncio-engine/src");
    let mut files = Vec::new();
    rust_files(&source, &mut files)?;
    let mut modules = ModuleDependencies::new();
    for file in files {
        let path = file.strip_prefix(&source).unwrap_or(&file).display().to_string();
        let module = path.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
        if module != "lib" && !is_test_code(&path) {
            modules.entry(module).or_default().extend(named_modules(&fs::read_to_string(&file)?));
        }
    }
    let circle = circle(&modules);
    if !circle.is_empty() {
        faults.push(format!("nuncio-engine: these modules depend on each other in a circle: {}", circle.join(", ")));
    }
    Ok(())
}

/// Modules in the paths `crate::module` of a file, without those of its unit tests and comments.
fn named_modules(text: &str) -> BTreeSet<String> {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let paths = code.flat_map(|line| line.split("crate::").skip(1));
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    paths.map(|path| path.split(|c| !is_part(c)).next().unwrap_or_default().to_owned()).collect()
}

/// The modules that are left when those that name no other, or that no other names, are removed again and again.
fn circle(modules: &ModuleDependencies) -> Vec<&str> {
    let mut left: BTreeMap<&str, BTreeSet<&str>> = modules
        .iter()
        .map(|(module, named)| {
            let others = named.iter().filter(|other| *other != module && modules.contains_key(*other));
            (module.as_str(), others.map(String::as_str).collect())
        })
        .collect();
    loop {
        let all_named: BTreeSet<_> = left.values().flatten().copied().collect();
        let is_free = |module: &str, named: &BTreeSet<&str>| named.is_empty() || !all_named.contains(module);
        let free: Vec<_> =
            left.iter().filter(|(module, named)| is_free(module, named)).map(|(module, _)| *module).collect();
        if free.is_empty() {
            return left.into_keys().collect();
        }
        left.retain(|module, _| !free.contains(module));
        left.values_mut().for_each(|named| named.retain(|other| !free.contains(other)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_that_depend_on_each_other_are_found_and_others_are_not() {
        let files = [
            ("calls", "use crate::store::Store;\n// crate::jobs is not needed"),
            (
                "jobs",
                "fn run(calls: &crate::calls::CallService) {}\n#[cfg(test)]\nmod tests { use crate::nodes::Node; }",
            ),
            ("engine", "use crate::nodes::NodeService;"),
            ("nodes", "use crate::jobs::JobService;"),
            ("store", "use crate::store::Row;"),
        ];
        let mut modules: ModuleDependencies =
            files.iter().map(|(module, text)| ((*module).to_owned(), named_modules(text))).collect();
        assert_eq!(circle(&modules), [""; 0]);
        modules.entry("calls".to_owned()).or_default().insert("nodes".to_owned());
        assert_eq!(circle(&modules), ["calls", "jobs", "nodes"]);
    }
}

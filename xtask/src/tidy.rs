//! `cargo xtask tidy`: which crates may depend on each other, and which crates may use which library.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use toml::Table;

use crate::names::{self, CrateDependencies};
use crate::{language, links, methods, modules, wording};

/// Each crate of the workspace, and the workspace crates it may depend on.
const MAY_USE: &[(&str, &[&str])] = &[
    ("nuncio-core", &[]),
    ("nuncio-agent-file", &["nuncio-core"]),
    ("nuncio-judge", &["nuncio-core"]),
    ("nuncio-engine", &["nuncio-core", "nuncio-judge"]),
    ("nuncio-http", &["nuncio-core", "nuncio-engine"]),
    ("nuncio-console", &["nuncio-core", "nuncio-engine", "nuncio-http"]),
    ("nuncio-auth", &["nuncio-core", "nuncio-engine", "nuncio-http", "nuncio-identity"]),
    (
        "nuncio-backend",
        &[
            "nuncio-core",
            "nuncio-engine",
            "nuncio-http",
            "nuncio-aap",
            "nuncio-skill",
            "nuncio-anp",
            "nuncio-a2h",
            "nuncio-confine",
        ],
    ),
    ("nuncio-store", &["nuncio-core", "nuncio-engine", "nuncio-identity", "nuncio-judge"]),
    ("nuncio-bus", &["nuncio-engine"]),
    ("nuncio-confine", &[]),
    ("nuncio-identity", &["nuncio-core"]),
    ("nuncio-demo", &[]),
    (
        "nuncio-device",
        &[
            "nuncio-a2h",
            "nuncio-confine",
            "nuncio-core",
            "nuncio-engine",
            "nuncio-http",
            "nuncio-identity",
            "nuncio-judge",
        ],
    ),
    (
        "nuncio-server",
        &[
            "nuncio-agent-file",
            "nuncio-core",
            "nuncio-identity",
            "nuncio-judge",
            "nuncio-engine",
            "nuncio-http",
            "nuncio-auth",
            "nuncio-backend",
            "nuncio-console",
            "nuncio-confine",
            "nuncio-store",
            "nuncio-bus",
        ],
    ),
    ("nuncio-testkit", &["nuncio-a2h", "nuncio-core", "nuncio-engine", "nuncio-identity", "nuncio-server"]),
    ("nuncio-test-postgres", &[]),
    ("nuncio-conformance", &[]),
    (
        "nuncio",
        &[
            "nuncio-agent-file",
            "nuncio-core",
            "nuncio-engine",
            "nuncio-server",
            "nuncio-identity",
            "nuncio-judge",
            "nuncio-http",
            "nuncio-backend",
            "nuncio-confine",
            "nuncio-device",
            "nuncio-store",
            "nuncio-demo",
        ],
    ),
    ("nuncio-attacks", &["nuncio-core", "nuncio-identity"]),
    ("nuncio-simulator", &["nuncio-agent-file", "nuncio-core", "nuncio-engine", "nuncio-judge", "nuncio-store"]),
    ("nuncio-bench", &["nuncio-core", "nuncio-judge", "nuncio-identity", "nuncio-anp", "nuncio-test-postgres"]),
    (
        "nuncio-fuzz",
        &[
            "nuncio-agent-file",
            "nuncio-core",
            "nuncio-engine",
            "nuncio-judge",
            "nuncio-identity",
            "nuncio-http",
            "nuncio-aap",
            "nuncio-anp",
            "nuncio-skill",
        ],
    ),
    ("xtask", &["nuncio-agent-file", "nuncio-core", "nuncio-skill", "nuncio-test-postgres"]),
];

/// Workspace crates that a protocol front may depend on. A crate with `src/server/front.rs` is a front.
const FRONT_MAY_USE: &[&str] = &["nuncio-core", "nuncio-engine", "nuncio-http", "nuncio-identity"];
/// Crates that may depend on every protocol front.
const MAY_USE_FRONTS: &[&str] = &["nuncio-server", "nuncio"];

/// Libraries that only some crates may use; every front may also use axum.
const RESERVED: &[(&str, &[&str])] = &[
    ("axum", &["nuncio-auth", "nuncio-console", "nuncio-server", "nuncio-device", "nuncio-http", "nuncio-bench"]),
    ("rusqlite", &["nuncio-attacks", "nuncio-store", "nuncio-demo", "nuncio-bench"]),
    ("async-nats", &["nuncio-bus"]),
    ("tokio-postgres", &["nuncio-store"]),
    ("reqwest", &["nuncio-aap", "nuncio-attacks", "nuncio-backend", "nuncio-testkit", "nuncio-conformance"]),
    ("rmcp", &["nuncio-backend", "nuncio-demo"]),
    ("landlock", &["nuncio-confine"]),
    ("seccompiler", &["nuncio-attacks", "nuncio-confine"]),
    ("zbus", &["nuncio-device"]),
    ("anyhow", &["nuncio", "nuncio-attacks", "nuncio-demo", "nuncio-bench", "nuncio-simulator", "xtask"]),
];

/// Modules of a protocol front, and the library that only they may use.
const HTTP_MODULES: &[(&str, &str)] = &[("server", "axum"), ("client", "reqwest")];
/// Libraries that only Linux has. They are dependencies below [`LINUX`] alone, so that the product compiles elsewhere.
const LINUX_ONLY: &[&str] = &["landlock", "libc", "seccompiler", "zbus"];
const LINUX: &str = "cfg(all(target_os = \"linux\", not(nuncio_portable)))";

pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let mut faults = Vec::new();
    let manifests = manifests(root)?;
    let is_front = |folder: &Path| folder.join("src/server/front.rs").is_file();
    let fronts: Vec<_> = manifests.iter().filter(|(folder, _)| is_front(folder)).map(|(_, it)| name(it)).collect();
    for (folder, manifest) in &manifests {
        check_dependencies(manifest, &fronts, &mut faults);
        if fronts.contains(&name(manifest)) {
            for (module, library) in HTTP_MODULES {
                check_library_stays_in(module, library, &folder.join("src"), &mut faults)?;
            }
        }
    }
    if fs::read_to_string(root.join("Cargo.lock"))?.contains("name = \"aws-lc-sys\"") {
        faults
            .push("Cargo.lock holds aws-lc-sys: some crate brought default TLS features; we build on ring".to_owned());
    }
    language::check(root, &mut faults)?;
    methods::check(root, &mut faults)?;
    modules::check(root, &mut faults)?;
    wording::check(root, &mut faults)?;
    links::check(root, &mut faults)?;
    names::check(root, &crate_dependencies(&manifests), &mut faults)?;
    if faults.is_empty() {
        return Ok(());
    }
    bail!("{}", faults.join("\n"))
}

fn manifests(root: &Path) -> anyhow::Result<Vec<(PathBuf, Table)>> {
    let outside = ["xtask", "conformance", "benches", "attacks", "fuzz", "simulator"];
    let mut folders: Vec<_> = outside.iter().map(|folder| root.join(folder)).collect();
    for entry in fs::read_dir(root.join("crates"))? {
        folders.push(entry?.path());
    }
    folders.sort();
    let read = |folder: PathBuf| {
        let file = folder.join("Cargo.toml");
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        Ok((folder, text.parse::<Table>().with_context(|| file.display().to_string())?))
    };
    folders.into_iter().map(read).collect()
}

fn crate_dependencies(manifests: &[(PathBuf, Table)]) -> CrateDependencies {
    let names: Vec<_> = manifests.iter().map(|(_, manifest)| name(manifest)).collect();
    let entry = |(folder, manifest): &(PathBuf, Table)| {
        let uses = dependencies(manifest, &["dependencies"]).chain(target_dependencies(manifest, |_| true));
        let uses = uses.filter(|dependency| names.contains(dependency)).map(str::to_owned).collect();
        (folder.file_name().unwrap_or_default().to_string_lossy().into_owned(), uses)
    };
    manifests.iter().map(entry).collect()
}

fn name(manifest: &Table) -> &str {
    manifest["package"]["name"].as_str().unwrap_or_default()
}

fn check_dependencies(manifest: &Table, fronts: &[&str], faults: &mut Vec<String>) {
    let name = name(manifest);
    let is_front = fronts.contains(&name);
    let may_use: BTreeMap<_, _> = MAY_USE.iter().copied().collect();
    let Some(allowed) = may_use.get(name).or(is_front.then_some(&FRONT_MAY_USE)) else {
        faults.push(format!("{name}: say in xtask/src/tidy.rs what it may depend on"));
        return;
    };
    for dependency in dependencies(manifest, &["dependencies"]).chain(target_dependencies(manifest, |_| true)) {
        let is_other_front = fronts.contains(&dependency);
        let is_allowed = allowed.contains(&dependency) || is_other_front && MAY_USE_FRONTS.contains(&name);
        if (may_use.contains_key(dependency) || is_other_front) && !is_allowed {
            faults.push(format!("{name} depends on {dependency}; it may use: {}", allowed.join(", ")));
        }
        let reserved = RESERVED.iter().find(|(library, _)| *library == dependency);
        let may_name = |owners: &[&str]| owners.contains(&name) || is_front && dependency == "axum";
        if let Some((_, owners)) = reserved.filter(|(_, owners)| !may_name(owners)) {
            faults.push(format!("{name} depends on {dependency}, which only {} may", owners.join(", ")));
        }
    }
    let elsewhere = dependencies(manifest, SECTIONS).chain(target_dependencies(manifest, |target| target != LINUX));
    for dependency in elsewhere.filter(|dependency| LINUX_ONLY.contains(dependency)) {
        faults.push(format!("{name} depends on {dependency}, which only Linux has: move it below [target.'{LINUX}']"));
    }
}

const SECTIONS: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];

/// Names of the dependencies in these sections of a manifest.
fn dependencies<'a>(table: &'a Table, sections: &'a [&str]) -> impl Iterator<Item = &'a str> {
    let tables = sections.iter().filter_map(|section| table.get(*section)?.as_table());
    tables.flat_map(|table| table.keys().map(String::as_str))
}

/// Names of the dependencies in the sections of the targets that `is_meant` selects.
fn target_dependencies(manifest: &Table, is_meant: impl Fn(&str) -> bool) -> impl Iterator<Item = &str> {
    let targets = manifest.get("target").and_then(|targets| targets.as_table()).into_iter().flatten();
    let meant = targets.filter(move |(target, _)| is_meant(target)).filter_map(|(_, sections)| sections.as_table());
    meant.flat_map(|sections| dependencies(sections, SECTIONS))
}

fn check_library_stays_in(module: &str, library: &str, folder: &Path, faults: &mut Vec<String>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.file_stem().is_some_and(|stem| stem == module) {
            continue;
        }
        if path.is_dir() {
            check_library_stays_in(module, library, &path, faults)?;
        } else if fs::read_to_string(&path)?.contains(library) {
            faults.push(format!("{}: only {module}.rs and what is below it may name {library}", path.display()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_only_dependency_outside_the_linux_target_section_is_refused() {
        let faults = |section: &str, dependency: &str| {
            let manifest = format!("[package]\nname = \"nuncio-confine\"\n{section}\n{dependency} = \"1\"\n");
            let mut faults = Vec::new();
            check_dependencies(&manifest.parse().expect("valid TOML"), &[], &mut faults);
            faults
        };
        let linux = format!("[target.'{LINUX}'.dependencies]");
        for section in [
            "[dependencies]",
            "[dev-dependencies]",
            "[build-dependencies]",
            "[target.'cfg(unix)'.dependencies]",
            "[target.'cfg(target_os = \"linux\")'.dependencies]",
        ] {
            let found = faults(section, "landlock");
            assert!(found.len() == 1 && found[0].contains("only Linux has"), "{section}: {found:?}");
            assert_eq!(faults(section, "serde"), [""; 0], "{section}");
        }
        assert_eq!(faults(&linux, "landlock"), [""; 0]);
        let found = faults(&linux, "zbus");
        assert!(found.len() == 1 && found[0].contains("only nuncio-device may"), "{found:?}");
    }
}

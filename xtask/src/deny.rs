//! `cargo xtask deny`: licences, banned crates and sources of dependencies, by `deny.toml`.
//!
//! `cargo deny` takes minutes to compile, so a test run does not install it. What `deny.toml` says about licences, bans
//! and sources is checked here; where `cargo deny` is installed, it checks the same file again, and the advisories if
//! their database can be reached.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use serde::Deserialize;

#[derive(Deserialize)]
struct DenyFile {
    licenses: LicenceRules,
    bans: BanRules,
    sources: SourceRules,
}

#[derive(Deserialize)]
struct LicenceRules {
    allow: BTreeSet<String>,
    exceptions: Vec<LicenceException>,
}

#[derive(Deserialize)]
struct LicenceException {
    #[serde(rename = "crate")]
    name: String,
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct BanRules {
    deny: Vec<BannedCrate>,
}

#[derive(Deserialize)]
struct BannedCrate {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct SourceRules {
    allow_registry: Vec<String>,
}

#[derive(Deserialize)]
struct CargoMetadata {
    packages: Vec<LockedPackage>,
}

#[derive(Deserialize)]
struct LockedPackage {
    name: String,
    version: String,
    license: Option<String>,
    /// Registry or repository of the package; `None` for the crates of this workspace.
    source: Option<String>,
    dependencies: Vec<DeclaredDependency>,
}

#[derive(Deserialize)]
struct DeclaredDependency {
    name: String,
    req: String,
    path: Option<String>,
}

pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let rules: DenyFile = toml::from_str(&fs::read_to_string(root.join("deny.toml"))?).context("deny.toml")?;
    let output = Command::new("cargo")
        .current_dir(root)
        .args(["metadata", "--format-version", "1", "--locked", "--all-features"])
        .stderr(Stdio::inherit())
        .output()?;
    let metadata: CargoMetadata = serde_json::from_slice(&output.stdout).context("`cargo metadata` failed")?;
    let faults = find_faults(&rules, &metadata);
    if !faults.is_empty() {
        bail!("deny.toml does not allow:\n  {}", faults.join("\n  "));
    }
    run_cargo_deny(root)
}

fn find_faults(rules: &DenyFile, metadata: &CargoMetadata) -> Vec<String> {
    let exceptions: BTreeMap<_, _> = rules.licenses.exceptions.iter().map(|it| (it.name.as_str(), &it.allow)).collect();
    let mut faults = Vec::new();
    for package in &metadata.packages {
        let LockedPackage { name, version, license, source, dependencies } = package;
        let Some(source) = source else {
            let loose = dependencies.iter().filter(|dependency| dependency.path.is_none() && dependency.req == "*");
            faults.extend(loose.map(|dependency| format!("{name}: any version of {}", dependency.name)));
            continue;
        };
        let is_allowed = |licence: &str| {
            rules.licenses.allow.contains(licence)
                || exceptions.get(name.as_str()).is_some_and(|more| more.contains(licence))
        };
        match license {
            Some(license) if LicenceExpression::new(license).evaluate(&is_allowed) => {}
            Some(license) => faults.push(format!("{name} {version}: licence {license}")),
            None => faults.push(format!("{name} {version}: no licence in its manifest")),
        }
        if let Some(banned) = rules.bans.deny.iter().find(|banned| banned.name == *name) {
            faults.push(format!("{name} {version}: {}", banned.reason));
        }
        let registry = source.strip_prefix("registry+").unwrap_or(source);
        if !rules.sources.allow_registry.iter().any(|allowed| allowed == registry) {
            faults.push(format!("{name} {version}: source {source}"));
        }
    }
    faults
}

/// An SPDX expression. `/`, which older manifests use, means `OR`; an exception after `WITH` only permits more.
struct LicenceExpression<'a> {
    words: Vec<&'a str>,
    at: usize,
}

impl<'a> LicenceExpression<'a> {
    fn new(text: &'a str) -> Self {
        let mut words = Vec::new();
        let is_mark = |mark: char| matches!(mark, '(' | ')' | '/');
        for part in text.split_whitespace() {
            let mut from = 0;
            for (at, mark) in part.match_indices(is_mark) {
                words.extend([&part[from..at], mark]);
                from = at + mark.len();
            }
            words.push(&part[from..]);
        }
        words.retain(|word| !word.is_empty());
        Self { words, at: 0 }
    }

    fn evaluate(mut self, is_allowed: &impl Fn(&str) -> bool) -> bool {
        self.any(is_allowed) && self.at == self.words.len()
    }

    fn take(&mut self, among: &[&str]) -> bool {
        let taken = self.words.get(self.at).is_some_and(|word| among.contains(word));
        self.at += usize::from(taken);
        taken
    }

    fn any(&mut self, is_allowed: &impl Fn(&str) -> bool) -> bool {
        let mut satisfied = self.all(is_allowed);
        while self.take(&["OR", "/"]) {
            satisfied |= self.all(is_allowed);
        }
        satisfied
    }

    fn all(&mut self, is_allowed: &impl Fn(&str) -> bool) -> bool {
        let mut satisfied = self.one(is_allowed);
        while self.take(&["AND"]) {
            satisfied &= self.one(is_allowed);
        }
        satisfied
    }

    fn one(&mut self, is_allowed: &impl Fn(&str) -> bool) -> bool {
        if self.take(&["("]) {
            let satisfied = self.any(is_allowed);
            return self.take(&[")"]) && satisfied;
        }
        // Past the last word the position becomes invalid, so that the whole expression is refused.
        let licence = self.words.get(self.at).copied();
        self.at += 1;
        if self.take(&["WITH"]) {
            self.at += 1;
        }
        licence.is_some_and(is_allowed)
    }
}

fn run_cargo_deny(root: &Path) -> anyhow::Result<()> {
    let deny = |arguments: &[&str]| {
        let mut command = Command::new("cargo");
        command.current_dir(root).arg("deny").args(arguments);
        command
    };
    if !deny(&["--version"]).output().is_ok_and(|output| output.status.success()) {
        println!("advisories are not checked: `cargo deny` is not installed (cargo install --locked cargo-deny)");
        return Ok(());
    }
    if !deny(&["check", "licenses", "bans", "sources"]).status()?.success() {
        bail!("`cargo deny` found a violation");
    }
    if !deny(&["fetch", "db"]).output()?.status.success() {
        println!("advisories are not checked: their database cannot be reached");
        return Ok(());
    }
    if !deny(&["check", "--disable-fetch", "advisories"]).status()?.success() {
        bail!("`cargo deny` found an advisory");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_satisfied(expression: &str) -> bool {
        LicenceExpression::new(expression).evaluate(&|licence| ["MIT", "ISC"].contains(&licence))
    }

    #[test]
    fn licence_expression_needs_one_side_of_or_and_both_sides_of_and() {
        for allowed in ["MIT", "GPL-3.0 OR MIT", "GPL-3.0/MIT", "MIT AND ISC", "(GPL-3.0 OR ISC) AND MIT", "MIT WITH x"]
        {
            assert!(is_satisfied(allowed), "{allowed}");
        }
        for refused in ["", "GPL-3.0", "MIT AND GPL-3.0", "MIT OR", "(MIT", "MIT ISC", "(MIT OR GPL-3.0) AND GPL-3.0"] {
            assert!(!is_satisfied(refused), "{refused}");
        }
    }

    #[test]
    fn foreign_source_banned_crate_unlicensed_crate_and_loose_version_are_refused() {
        let rules: DenyFile = toml::from_str(include_str!("../../deny.toml")).expect("deny.toml is valid");
        let registry = "registry+https://github.com/rust-lang/crates.io-index";
        let package = |name: &str, license: Option<&str>, source: Option<&str>| LockedPackage {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            license: license.map(str::to_owned),
            source: source.map(str::to_owned),
            dependencies: vec![DeclaredDependency { name: "any".to_owned(), req: "*".to_owned(), path: None }],
        };
        let faults = |package: LockedPackage| find_faults(&rules, &CargoMetadata { packages: vec![package] });
        assert_eq!(faults(package("serde", Some("MIT OR Apache-2.0"), Some(registry))), Vec::<String>::new());
        for (refused, why) in [
            (package("serde", Some("GPL-3.0"), Some(registry)), "serde 1.0.0: licence GPL-3.0"),
            (package("serde", None, Some(registry)), "serde 1.0.0: no licence in its manifest"),
            (
                package("native-tls", Some("MIT"), Some(registry)),
                "native-tls 1.0.0: rustls is the one implementation of TLS",
            ),
            (package("serde", Some("MIT"), Some("git+https://x/y")), "serde 1.0.0: source git+https://x/y"),
            (package("nuncio", None, None), "nuncio: any version of any"),
        ] {
            assert_eq!(faults(refused), [why]);
        }
    }
}

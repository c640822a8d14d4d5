//! `cargo xtask portable`: checks and tests, on Linux, the build for other systems.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

/// Crates with fallback code for systems other than Linux.
const WITH_FALLBACK: [&str; 5] = ["nuncio-backend", "nuncio-confine", "nuncio-device", "nuncio-server", "nuncio"];

/// Runs a cargo command on the build for other systems; without a command, checks everything and runs the unit tests of
/// the crates with a fallback.
pub(crate) fn run(root: &Path, command: &[String]) -> anyhow::Result<()> {
    if !command.is_empty() {
        return cargo(root, &command.iter().map(String::as_str).collect::<Vec<_>>());
    }
    cargo(root, &["check", "--workspace", "--all-targets"])?;
    let packages = WITH_FALLBACK.into_iter().flat_map(|name| ["-p", name]);
    cargo(root, &["test", "--lib", "--bins"].into_iter().chain(packages).collect::<Vec<_>>())
}

fn cargo(root: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root).args(arguments).env("RUSTC_WORKSPACE_WRAPPER", root.join("xtask/portable-rustc.sh"));
    if !cargo.status().context("cargo does not start")?.success() {
        bail!("`cargo {}` failed in the portable build", arguments.join(" "));
    }
    Ok(())
}

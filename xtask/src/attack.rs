//! `cargo xtask attack`: builds the release binary, then attacks it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

pub(crate) fn run(root: &Path, names: &[String]) -> anyhow::Result<()> {
    let built = Command::new("cargo")
        .current_dir(root)
        .args(["build", "--release", "--quiet", "--package", "nuncio", "--package", "nuncio-attacks"])
        .status()
        .context("cargo does not start")?;
    if !built.success() {
        bail!("the release build failed");
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join("release");
    let mut attacks = Command::new(target.join("nuncio-attacks"));
    attacks.arg("--binary").arg(target.join("nuncio")).args(names);
    if !attacks.status()?.success() {
        bail!("an attack succeeded, or could not be tried");
    }
    Ok(())
}

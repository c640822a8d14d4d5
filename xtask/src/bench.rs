//! `cargo xtask bench NAME`: builds the release binary, then measures it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

pub(crate) fn run(root: &Path, name: &str, peer: Option<&Path>, quick: bool, options: &[String]) -> anyhow::Result<()> {
    if !["aap", "skill", "anp", "a2h", "a2h-judge", "store"].contains(&name) {
        bail!("there is no benchmark {name:?}; there are: aap, skill, anp, a2h, a2h-judge, store");
    }
    if peer.is_some() && name != "aap" {
        bail!("only the benchmark aap has a --peer");
    }
    // The benchmark of the change judge calls a library function, so it needs no server.
    let is_program = name != "a2h-judge";
    let packages: &[&str] = if is_program { &["nuncio", "nuncio-bench"] } else { &["nuncio-bench"] };
    let built = Command::new("cargo")
        .current_dir(root)
        .args(["build", "--release", "--quiet"])
        .args(packages.iter().flat_map(|package| ["--package", package]))
        .status()
        .context("cargo does not start")?;
    if !built.success() {
        bail!("the release build failed");
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join("release");
    let mut bench = Command::new(target.join("nuncio-bench"));
    bench.arg(name);
    if is_program {
        bench.arg("--nuncio").arg(target.join("nuncio")).arg("--examples").arg(root.join("examples"));
    }
    if name == "anp" {
        bench.arg("--verifier").arg(anp_crate(root)?);
    }
    if let Some(peer) = peer {
        bench.arg("--peer").arg(peer);
    }
    if quick {
        bench.arg("--quick");
    }
    if !bench.args(options).status()?.success() {
        bail!("the benchmark did not finish");
    }
    Ok(())
}

/// Builds the program that verifies with the `anp` crate. It is not a member of the workspace and has its own target
/// directory.
fn anp_crate(root: &Path) -> anyhow::Result<PathBuf> {
    let (folder, target) = (root.join("benches/anp-crate"), root.join("target/anp-crate"));
    let built = Command::new("cargo")
        .current_dir(&folder)
        .args(["build", "--release", "--quiet", "--locked", "--target-dir"])
        .arg(&target)
        .status()
        .context("cargo does not start")?;
    if !built.success() {
        bail!("the release build of {} failed", folder.display());
    }
    Ok(target.join("release/nuncio-bench-anp-crate"))
}

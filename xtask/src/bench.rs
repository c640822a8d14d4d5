//! `cargo xtask bench NAME`: builds what is measured, then measures it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

pub(crate) fn run(root: &Path, name: &str, quick: bool) -> anyhow::Result<()> {
    if !["aap", "skill"].contains(&name) {
        bail!("there is no benchmark {name:?}; there are: aap, skill");
    }
    let built = Command::new("cargo")
        .current_dir(root)
        .args(["build", "--release", "--quiet", "--package", "nuncio", "--package", "nuncio-bench"])
        .status()
        .context("cargo does not start")?;
    if !built.success() {
        bail!("the release build failed");
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join("release");
    let mut bench = Command::new(target.join("nuncio-bench"));
    bench.arg(name).arg("--nuncio").arg(target.join("nuncio")).arg("--examples").arg(root.join("examples"));
    if quick {
        bench.arg("--quick");
    }
    if !bench.status()?.success() {
        bail!("the benchmark did not finish");
    }
    Ok(())
}

//! `cargo xtask simulate`: runs the simulator of several nodes.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

pub(crate) fn run(root: &Path, options: &[String]) -> anyhow::Result<()> {
    let mut simulator = Command::new("cargo");
    simulator.current_dir(root).args(["run", "--quiet", "--package", "nuncio-simulator", "--"]).args(options);
    if !simulator.status().context("cargo does not start")?.success() {
        bail!("a promise was broken");
    }
    Ok(())
}

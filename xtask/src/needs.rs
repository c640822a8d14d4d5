//! What the tests need beside Rust: installed where it may be, else named.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// The MCP project's own reference server, which the MCP runner is tried on.
const EVERYTHING: (&str, &str) = ("@modelcontextprotocol/server-everything", "2026.8.31");

/// The program of an npm package below `tools`, installed when it is not there.
pub(crate) fn mcp_everything(tools: &Path) -> anyhow::Result<PathBuf> {
    let (package, version) = EVERYTHING;
    let folder = tools.join(format!("npm-everything-{version}"));
    let program = folder.join("node_modules").join(package).join("dist/index.js");
    if !program.exists() {
        node()?;
        std::fs::create_dir_all(&folder)?;
        println!("installing {package} {version}");
        let installed = Command::new("npm")
            .args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"])
            .arg(&folder)
            .arg(format!("{package}@{version}"))
            .status()
            .context("npm does not start")?;
        if !installed.success() || !program.exists() {
            bail!("npm could not install {package}@{version}: the tests of the MCP runner need it");
        }
    }
    Ok(program)
}

/// Node.js and npm, by apt where we may.
fn node() -> anyhow::Result<()> {
    if answers("node", "--version") && answers("npm", "--version") {
        return Ok(());
    }
    apt_install(&["nodejs", "npm"])
}

fn answers(program: &str, flag: &str) -> bool {
    let quiet = Command::new(program).arg(flag).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}

fn apt_install(packages: &[&str]) -> anyhow::Result<()> {
    let missing = format!("the tests need {}: install them and try again", packages.join(" and "));
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.starts_with(b"0"));
    if !is_root || !answers("apt-get", "--version") {
        bail!(missing);
    }
    println!("installing {}", packages.join(", "));
    let apt = |arguments: &[&str]| {
        Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null()).status()
    };
    apt(&["update", "-q"])?;
    let installed = apt(&[&["install", "-y", "-q", "--no-install-recommends"], packages].concat())?;
    if !installed.success() {
        bail!(missing);
    }
    Ok(())
}

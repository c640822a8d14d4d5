//! `cargo xtask test`: everything that must hold.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::{needs, schema, tidy};

pub(crate) fn run(root: &Path, rest: &[String]) -> anyhow::Result<()> {
    let tools = root.join("target/tools");
    let everything = needs::mcp_everything(&tools)?;
    let (npx_cache, uvx, uv_cache) = (needs::npx_cache(&tools)?, needs::uvx(&tools)?, needs::uv_cache(&tools)?);
    let oidc = needs::oidc_provider(&tools)?;
    let anp = needs::anp_python(&tools)?;
    let dbus = needs::dbus_python(&tools)?;
    needs::desktop()?;
    let webhooks = needs::standard_webhooks(&tools)?;
    let (browser, axe) = (needs::browser()?, needs::axe(&tools)?);
    let (ajv, typescript) = (needs::ajv(&tools)?, needs::typescript(&tools)?);
    let sealing = needs::sealing(&tools)?;
    step("the rules of the house", || tidy::run(root))?;
    step("the schemas", || schema::run(root, true))?;
    step("formatting", || cargo(root, &["fmt", "--all", "--check"], &[]))?;
    step("lints", || cargo(root, &["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"], &[]))?;
    // The same cases every time, so that a change is judged by what it changes. Without this, by `cargo nextest run`,
    // laws are held against new cases each time.
    let seed = std::env::var_os("PROPTEST_RNG_SEED").unwrap_or_else(|| "7400".into());
    let tools = [
        ("NUNCIO_TEST_MCP_EVERYTHING", everything.as_path()),
        ("NUNCIO_TEST_NPX_CACHE", npx_cache.as_path()),
        ("NUNCIO_TEST_UVX", uvx.as_path()),
        ("NUNCIO_TEST_UV_CACHE", uv_cache.as_path()),
        ("NUNCIO_TEST_OIDC_PROVIDER", oidc.as_path()),
        ("NUNCIO_TEST_ANP_PYTHON", anp.as_path()),
        ("NUNCIO_TEST_DBUS_PYTHON", dbus.as_path()),
        ("NUNCIO_TEST_STANDARDWEBHOOKS", webhooks.as_path()),
        ("NUNCIO_TEST_CHROMIUM", browser.chromium.as_path()),
        ("NUNCIO_TEST_CHROMEDRIVER", browser.driver.as_path()),
        ("NUNCIO_TEST_AXE", axe.as_path()),
        ("NUNCIO_TEST_AJV", ajv.as_path()),
        ("NUNCIO_TEST_TYPESCRIPT", typescript.as_path()),
        ("NUNCIO_TEST_SEALING", sealing.as_path()),
    ];
    let mut environment = vec![("PROPTEST_RNG_SEED", seed.as_os_str())];
    environment.extend(tools.map(|(name, path)| (name, path.as_os_str())));
    let has_nextest =
        Command::new("cargo").args(["nextest", "--version"]).output().is_ok_and(|output| output.status.success());
    let mut tests = if has_nextest { vec!["nextest", "run", "--no-fail-fast"] } else { vec!["test", "--no-fail-fast"] };
    tests.push("--workspace");
    tests.extend(rest.iter().map(String::as_str));
    step("tests", || cargo(root, &tests, &environment))?;
    let traces = ["test", "-p", "nuncio-server", "--features", "otel", "--lib", "telemetry"];
    step("the feature otel", || cargo(root, &traces, &[]))
}

fn step(name: &str, job: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    println!("== {name}");
    job().with_context(|| format!("{name} did not pass"))
}

fn cargo(root: &Path, arguments: &[&str], environment: &[(&str, &OsStr)]) -> anyhow::Result<()> {
    let mut command = Command::new("cargo");
    command.current_dir(root).args(arguments).envs(environment.iter().copied());
    if !command.status().context("cargo does not start")?.success() {
        bail!("`cargo {}` failed", arguments.join(" "));
    }
    Ok(())
}

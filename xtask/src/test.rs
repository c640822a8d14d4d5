//! `cargo xtask test`: formatting, lints, project rules and all tests.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context as _, bail};
use nuncio_test_postgres::PostgresServer;

use crate::report::{self, TestOutcome};
use crate::{deny, needs, schema, tidy};

/// Features of the test build. The lints check the build without `otel`; a third build would take minutes.
pub(crate) const FEATURES: &str = "nuncio-server/otel";
/// Fixed seed of random test cases, unless the variable is already set, so that a failure is caused by the change under
/// test. `cargo nextest run` draws new cases.
const SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "7400");

pub(crate) fn run(root: &Path, rest: &[String]) -> anyhow::Result<()> {
    let tools = TestPrograms::install(root)?;
    step("project rules", || tidy::run(root))?;
    step("dependencies", || deny::run(root))?;
    step("schemas", || schema::run(root, true))?;
    step("formatting", || cargo(root, &["fmt", "--all", "--check"], &[]))?;
    step("lints", || cargo(root, &["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"], &[]))?;
    // nextest leaves out the examples in comments and documents.
    step("examples in comments", || {
        cargo(root, &["test", "--quiet", "--doc", "--workspace", "--features", FEATURES], &[])
    })?;
    step("tests", || run_tests(root, &tools, rest))
}

fn run_tests(root: &Path, tools: &TestPrograms, rest: &[String]) -> anyhow::Result<()> {
    let mut environment = tools.environment();
    environment.push((SEED.0, std::env::var_os(SEED.0).unwrap_or_else(|| SEED.1.into())));
    let has_nextest =
        Command::new("cargo").args(["nextest", "--version"]).output().is_ok_and(|output| output.status.success());
    if !has_nextest {
        let arguments = ["test", "--no-fail-fast", "--workspace", "--features", FEATURES];
        let rest = rest.iter().map(String::as_str);
        return cargo(root, &arguments.into_iter().chain(rest).collect::<Vec<_>>(), &environment);
    }
    // Many tests wait for other processes, so one test per core would leave the cores idle.
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.div_ceil(2) + cores;
    let threads = threads.to_string();
    let arguments =
        ["nextest", "run", "--no-fail-fast", "--workspace", "--features", FEATURES, "--test-threads", &threads];
    let rest = rest.iter().map(String::as_str);
    report::remove(root)?;
    let outcome = cargo(root, &arguments.into_iter().chain(rest).collect::<Vec<_>>(), &environment);
    let results = report::read(root)?;
    let repeated = results.into_iter().filter(|(_, result)| *result == TestOutcome::Flaky);
    let repeated: Vec<_> = repeated.map(|(name, _)| format!("\n  {name}")).collect();
    match repeated.as_slice() {
        [] => println!("no test needed its second try"),
        names => {
            println!("needed a second try (`cargo xtask flaky NAME` repeats a test under load):{}", names.concat());
        }
    }
    outcome
}

/// Paths of the programs that tests need besides Rust, and a PostgreSQL server.
#[derive(Debug)]
pub(crate) struct TestPrograms {
    variables: Vec<(&'static str, PathBuf)>,
    postgres: PostgresServer,
}

impl TestPrograms {
    /// Installs missing programs below `target/tools`.
    pub(crate) fn install(root: &Path) -> anyhow::Result<Self> {
        let tools = root.join("target/tools");
        needs::desktop()?;
        let browser = needs::browser()?;
        let [node, conformance] = needs::mcp_conformance(&tools)?;
        let variables = vec![
            ("NUNCIO_TEST_NODE_24", node),
            ("NUNCIO_TEST_MCP_CONFORMANCE", conformance),
            ("NUNCIO_TEST_MCP_PYTHON", needs::mcp_python(&tools)?),
            ("NUNCIO_TEST_MCP_EVERYTHING", needs::mcp_everything(&tools)?),
            ("NUNCIO_TEST_NPX_CACHE", needs::npx_cache(&tools)?),
            ("NUNCIO_TEST_UVX", needs::uvx(&tools)?),
            ("NUNCIO_TEST_UV_CACHE", needs::uv_cache(&tools)?),
            ("NUNCIO_TEST_OIDC_PROVIDER", needs::oidc_provider(&tools)?),
            ("NUNCIO_TEST_ANP_PYTHON", needs::anp_python(&tools)?),
            ("NUNCIO_TEST_DBUS_PYTHON", needs::dbus_python(&tools)?),
            ("NUNCIO_TEST_LANGGRAPH_PYTHON", needs::langgraph_python(&tools)?),
            ("NUNCIO_TEST_OPENAI_AGENTS_PYTHON", needs::openai_agents_python(&tools)?),
            ("NUNCIO_TEST_STANDARDWEBHOOKS", needs::standard_webhooks(&tools)?),
            ("NUNCIO_TEST_CHROMIUM", browser.chromium),
            ("NUNCIO_TEST_CHROMEDRIVER", browser.driver),
            ("NUNCIO_TEST_AXE", needs::axe(&tools)?),
            ("NUNCIO_TEST_AJV", needs::ajv(&tools)?),
            ("NUNCIO_TEST_TYPESCRIPT", needs::typescript(&tools)?),
            ("NUNCIO_TEST_SEALING", needs::sealing(&tools)?),
        ];
        Ok(Self { variables, postgres: needs::postgres()? })
    }

    pub(crate) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let paths = self.variables.iter().map(|(name, path)| (*name, path.clone().into_os_string()));
        paths.chain([("NUNCIO_TEST_POSTGRES", self.postgres.url("postgres").into())]).collect()
    }
}

fn step(name: &str, job: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    println!("== {name}");
    job().with_context(|| format!("{name} did not pass"))
}

fn cargo(root: &Path, arguments: &[&str], environment: &[(&str, OsString)]) -> anyhow::Result<()> {
    let mut command = Command::new("cargo");
    command.current_dir(root).args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
    if !command.status().context("cargo does not start")?.success() {
        bail!("`cargo {}` failed", arguments.join(" "));
    }
    Ok(())
}

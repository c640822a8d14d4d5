//! `cargo xtask flaky`: repeats the tests while every core is busy, and lists the tests that failed.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::bail;

use crate::report::{self, TestOutcome};
use crate::test::{FEATURES, TestPrograms};

pub(crate) fn run(root: &Path, times: u32, rest: &[String]) -> anyhow::Result<()> {
    let tools = TestPrograms::install(root)?;
    let mut failures = BTreeMap::<String, u32>::new();
    let mut compile = nextest(root, &tools, rest);
    if !compile.arg("--no-run").status()?.success() {
        bail!("the tests do not compile");
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let result = (1..=times).try_for_each(|round| {
            println!("== round {round} of {times}");
            report::remove(root)?;
            nextest(root, &tools, rest).arg("--no-fail-fast").status()?;
            let failed = report::read(root)?.into_iter().filter(|(_, result)| *result != TestOutcome::Passed);
            failed.for_each(|(name, _)| *failures.entry(name).or_default() += 1);
            anyhow::Ok(())
        });
        done.store(true, Ordering::Relaxed);
        result
    })?;
    if failures.is_empty() {
        println!("no test failed in {times} rounds");
        return Ok(());
    }
    let lines: Vec<_> = failures.iter().map(|(name, count)| format!("{name}: {count} of {times}")).collect();
    bail!("flaky tests:\n  {}", lines.join("\n  "))
}

/// Command that runs the tests without retries and with new random seeds.
fn nextest(root: &Path, tools: &TestPrograms, rest: &[String]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root).envs(tools.environment());
    command.args(["nextest", "run", "--workspace", "--features", FEATURES, "--retries", "0"]);
    command.args(["--status-level", "fail", "--final-status-level", "fail", "--failure-output", "final"]);
    command.args(rest);
    command
}

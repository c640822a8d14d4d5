//! `cargo xtask fuzz`: runs the targets of `fuzz/` with libFuzzer.
//!
//! The instrumentation is what `cargo fuzz` uses without a sanitizer. It works with the stable compiler; the workspace
//! forbids `unsafe`, so the address sanitizer that needs a nightly one would find little.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

const INSTRUMENTATION: [&str; 6] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
];

/// Seconds after which one input counts as a hang.
const HANG_SECONDS: u32 = 20;

pub(crate) fn run(root: &Path, seconds: u64, target: Option<&str>) -> anyhow::Result<()> {
    let mut names: Vec<String> = fs::read_dir(root.join("fuzz/fuzz_targets"))?
        .map(|file| Ok(file?.path().file_stem().unwrap_or_default().to_string_lossy().into_owned()))
        .collect::<anyhow::Result<_>>()?;
    names.sort_unstable();
    if let Some(target) = target {
        if !names.iter().any(|name| name == target) {
            bail!("there is no target {target}; there are: {}", names.join(", "));
        }
        names = vec![target.to_owned()];
    }
    let corpus = root.join("fuzz/corpus");
    let mut seeds = Command::new("cargo");
    seeds.current_dir(root).args(["run", "--quiet", "--package", "nuncio-fuzz", "--bin", "seeds", "--"]).arg(&corpus);
    succeed(&mut seeds)?;

    // Without a named target, build scripts and macros would be instrumented too, and would not link.
    let host = host()?;
    let mut build = Command::new("cargo");
    build.current_dir(root).env("CARGO_ENCODED_RUSTFLAGS", INSTRUMENTATION.join("\u{1f}"));
    build.args([
        "build",
        "--package",
        "nuncio-fuzz",
        "--features",
        "libfuzzer",
        "--profile",
        "fuzz",
        "--target",
        &host,
    ]);
    build.args(names.iter().flat_map(|name| ["--bin", name]));
    succeed(&mut build)?;

    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let mut failed = Vec::new();
    for name in &names {
        let program = folder.join(&host).join("fuzz").join(name);
        let artifacts = root.join("fuzz/artifacts").join(name);
        fs::create_dir_all(&artifacts)?;
        let output = Command::new(program)
            .arg(corpus.join(name))
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-timeout={HANG_SECONDS}"))
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .args(["-print_final_stats=1", "-rss_limit_mb=4096"])
            .stdout(Stdio::inherit())
            .stderr(Stdio::piped())
            .output()?;
        let log = String::from_utf8_lossy(&output.stderr);
        let runs = log.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
        println!("{name}: {} runs", runs.map_or("unknown", str::trim));
        if !output.status.success() {
            // The end of the log contains the panic message and the path of the stored input.
            let lines: Vec<_> = log.lines().collect();
            println!("{}", lines[lines.len().saturating_sub(60)..].join("\n"));
            failed.push(name.as_str());
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("findings in {}: see fuzz/artifacts/", failed.join(", ")) }
}

fn host() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("-vV").output()?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not name its host")?.to_owned())
}

fn succeed(command: &mut Command) -> anyhow::Result<()> {
    if command.status()?.success() { Ok(()) } else { bail!("{command:?} failed") }
}

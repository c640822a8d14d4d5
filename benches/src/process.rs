//! A server under measurement: its CPU time and memory, as the kernel counts them.

use std::path::Path;
use std::process::Stdio;

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// CPU time that the running children of a process have used, in microseconds.
pub(crate) fn cpu_micros_of_children(parent: u32) -> f64 {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let nanos = processes.filter_map(|process| {
        let status = std::fs::read_to_string(process.path().join("stat")).ok()?;
        // The fields after the name, which may contain spaces: state, parent, …
        let mut fields = status.rsplit(')').next()?.split_whitespace();
        let is_child = fields.nth(1)?.parse::<u32>().ok()? == parent;
        let times = is_child.then(|| std::fs::read_to_string(process.path().join("schedstat")))?;
        times.ok()?.split(' ').next()?.parse::<f64>().ok()
    });
    nanos.sum::<f64>() / 1000.0
}

pub(crate) struct Server {
    child: Child,
    /// Address of the server as `HOST:PORT`.
    pub(crate) address: String,
}

impl Server {
    /// Starts a server program, which must print one line of JSON with its `url`.
    pub(crate) async fn start(program: &Path, arguments: &[&str]) -> anyhow::Result<Self> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| program.display().to_string())?;
        let output = child.stdout.take().context("no output")?;
        let line = BufReader::new(output).lines().next_line().await?.context("it ended at once")?;
        let hello: serde_json::Value = serde_json::from_str(&line)?;
        let url = hello["url"].as_str().context("no url")?;
        let address = url.trim_start_matches("http://").replace("localhost", "127.0.0.1");
        Ok(Self { child, address })
    }

    /// CPU time used so far, in microseconds: user and system.
    pub(crate) fn cpu_micros(&self) -> f64 {
        // Times in /proc/PID/stat are in ticks of 10 ms; schedstat has nanoseconds, per thread.
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).into_iter().flatten().flatten();
        let nanos = tasks.filter_map(|task| {
            let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<f64>().ok()
        });
        nanos.sum::<f64>() / 1000.0
    }

    /// Resident memory in MiB.
    pub(crate) fn memory_mib(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
        let kib = line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0);
        kib / 1024.0
    }

    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }

    fn pid(&self) -> u32 {
        self.child.id().unwrap_or(0)
    }
}

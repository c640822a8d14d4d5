//! Finds work that still runs after it should have ended: open files of a data directory, and processes.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// Time that ending work may still take; a passing test never reaches it.
const GIVE_UP: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(5);

/// A process that another one has started and left running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescendantProcess {
    pub pid: u32,
    pub command_line: String,
}

/// Processes that `ancestor` started and that still run, with everything they started.
#[must_use]
pub fn descendants(ancestor: u32) -> Vec<DescendantProcess> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes: Vec<_> = entries.filter_map(|entry| parent_of(entry.file_name().to_str()?.parse().ok()?)).collect();
    let (mut found, mut at) = (vec![ancestor], 0);
    while let Some(parent) = found.get(at).copied() {
        found.extend(processes.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    let command_line = |pid: u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = |pid| String::from_utf8_lossy(&command_line(pid)).replace('\0', " ").trim_end().to_owned();
    found.into_iter().skip(1).map(|pid| DescendantProcess { pid, command_line: text(pid) }).collect()
}

/// Id of a process and of its parent; `None` if the process has ended.
fn parent_of(pid: u32) -> Option<(u32, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let is_running = !matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    is_running.then_some((pid, parent))
}

/// Files below `folder` that this process has open.
fn open_files(folder: &Path) -> Vec<String> {
    let links = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let files = links.filter_map(|link| fs::read_link(link.path()).ok()).filter(|file| file.starts_with(folder));
    files.map(|file| file.display().to_string()).collect()
}

/// Waits until nothing of a stopped server is left running or open; panics with a list otherwise.
///
/// A task that still runs holds the engine and thereby open files in `data`. Programs of agents run in `data` or in
/// `agents`.
pub(crate) async fn assert_none_left(data: &Path, agents: &Path) {
    let works_here = |process: &DescendantProcess| {
        let folder = fs::read_link(format!("/proc/{}/cwd", process.pid)).unwrap_or_default();
        folder.starts_with(data) || folder.starts_with(agents)
    };
    let look = || {
        let processes = descendants(std::process::id()).into_iter().filter(works_here);
        [open_files(data), processes.map(|process| format!("{process:?}")).collect()].concat()
    };
    let gone = async {
        while !look().is_empty() {
            tokio::time::sleep(PAUSE).await;
        }
    };
    if tokio::time::timeout(GIVE_UP, gone).await.is_err() {
        panic!("left after the server has stopped: {:#?}", look());
    }
}

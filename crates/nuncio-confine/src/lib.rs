//! Confines a child process to the files, sockets and processes that its [`Reach`] names.
//!
//! Landlock restricts files, TCP, signals and tracing; a seccomp filter restricts which sockets can be made, so that a
//! child cannot ask another service to do what it may not do itself. Both apply to a thread and to everything it
//! starts. [`spawn`] therefore makes a thread for each child, restricts that thread, starts the child and ends the
//! thread.

#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a test may panic"))]

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::Serialize;
use tokio::process::Command;
use tokio::runtime::Handle;

mod folders;
mod group;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
#[path = "unsupported.rs"]
mod linux;
mod server;

pub use folders::{contains, without};
pub use group::{Group, Running};
pub use server::{installation, server_folders};

/// What a program may reach, beside the system's programs and libraries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// Files and folders it may read.
    pub read: Vec<PathBuf>,
    /// Files and folders it may read and change.
    pub write: Vec<PathBuf>,
    /// Whether it may speak to other hosts.
    pub network: bool,
    /// Whether it may use Unix sockets, through which other services act for it.
    pub unix: bool,
    /// A folder that stays out of reach where something else that is named contains it; canonical. What is named
    /// inside it is granted.
    pub hidden: Option<PathBuf>,
}

impl Reach {
    /// Whether a path can be read.
    #[must_use]
    pub fn reads(&self, path: &Path) -> bool {
        let mut system = linux::SYSTEM.iter().chain(if self.network { linux::NETWORK.as_slice() } else { &[] });
        let system = system.any(|folder| contains(Path::new(folder), path)) && !self.hides(path);
        system || self.covers(&self.read, path) || self.writes(path)
    }

    /// Whether a path can be changed.
    #[must_use]
    pub fn writes(&self, path: &Path) -> bool {
        self.covers(&self.write, path)
    }

    /// Whether a path is in the hidden folder.
    #[must_use]
    pub fn hides(&self, path: &Path) -> bool {
        self.hidden.as_ref().is_some_and(|hidden| contains(hidden, path))
    }

    fn covers(&self, granted: &[PathBuf], path: &Path) -> bool {
        let around = |folder: &Path| self.hidden.as_ref().is_some_and(|hidden| contains(folder, hidden));
        granted.iter().any(|folder| contains(folder, path) && !(around(folder) && self.hides(path)))
    }
}

/// What this system can keep programs from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Confinement {
    /// Files that they were not given, and the memory and environment of other processes.
    pub files: bool,
    /// Sockets that they were not given.
    pub network: bool,
    /// Signals to other processes.
    pub signals: bool,
}

impl Confinement {
    /// No restriction at all.
    pub const NONE: Self = Self { files: false, network: false, signals: false };

    /// Whether a program that was not given the server's files and sockets cannot get at them.
    #[must_use]
    pub const fn is_enough(self) -> bool {
        self.files && self.network
    }
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.files, self.network) {
            (true, true) => "kept from files and networks that their files do not name",
            (true, false) => "kept from files that theirs do not name, but not from the network",
            (false, true) => "not kept from files, since this kernel has no Landlock; kept from networks",
            (false, false) => "kept from nothing: this kernel has no Landlock",
        })
    }
}

/// What this system can keep programs from. It is tried once, on a thread that then ends.
#[must_use]
pub fn confinement() -> Confinement {
    static FOUND: OnceLock<Confinement> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let tried = std::thread::spawn(|| linux::restrict_thread(&Reach::default())).join();
        tried.ok().and_then(Result::ok).unwrap_or(Confinement::NONE)
    })
}

/// Starts a program that can reach what `reach` names and nothing else, as far as this system can do that.
///
/// # Errors
/// The program cannot be started, or it cannot be confined although this system could.
pub async fn spawn(mut command: Command, reach: Reach) -> io::Result<Running> {
    let possible = confinement();
    let runtime = Handle::current();
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // The thread is never used again: it cannot get its rights back.
    std::thread::Builder::new().name("confined".to_owned()).spawn(move || {
        let _inside = runtime.enter();
        let started = linux::restrict_thread(&reach).and_then(|restricted| match restricted == possible {
            true => Running::start(&mut command).and_then(linux::limit),
            false => Err(io::Error::other("it cannot be confined to what it may reach")),
        });
        // If the caller stopped waiting, dropping the result kills the program.
        let _ = sender.send(started);
    })?;
    receiver.await.unwrap_or_else(|_| Err(io::Error::other("the thread that starts it failed")))
}

/// Protects this process from programs of the same account: they cannot read its memory or environment below `/proc`,
/// and it leaves no core file. Its children leave none either.
///
/// # Errors
/// The system refuses.
pub fn protect_this_process() -> io::Result<()> {
    linux::protect_this_process()
}

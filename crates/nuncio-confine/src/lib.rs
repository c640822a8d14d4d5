//! Confines a child process to the files, sockets and processes that its [`ConfinementRules`] allow.
//!
//! Landlock restricts files, TCP, signals and tracing; a seccomp filter restricts the creation of sockets, so that a
//! child cannot use another service to exceed its rights. Both apply to a thread and its children. [`spawn`] therefore
//! creates a thread for each child, restricts it, starts the child and ends the thread.
//!
//! On systems other than Linux nothing is restricted; [`confinement`] reports that, and callers decide whether a
//! program may start.

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
#[cfg(all(target_os = "linux", not(nuncio_portable)))]
mod linux;
#[cfg(not(all(target_os = "linux", not(nuncio_portable))))]
#[path = "unsupported.rs"]
mod linux;
mod server;

pub use folders::{contains, without};
pub use group::{ProcessGroup, RunningProgram};
pub use server::{installation, server_folders};

/// Resources that a program may use in addition to the system's programs and libraries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfinementRules {
    /// Files and folders that the program may read.
    pub read: Vec<PathBuf>,
    /// Files and folders that the program may read and write.
    pub write: Vec<PathBuf>,
    /// Whether the program may open network connections.
    pub network: bool,
    /// Whether the program may use Unix sockets, through which other services could act for it.
    pub unix: bool,
    /// Folder that stays inaccessible although a granted folder contains it; a path inside can be granted by name.
    /// Must be canonical.
    pub hidden: Option<PathBuf>,
}

impl ConfinementRules {
    /// Whether these rules let the program read a path; system paths are included.
    #[must_use]
    pub fn reads(&self, path: &Path) -> bool {
        let mut system =
            linux::SYSTEM_PATHS.iter().chain(if self.network { linux::NETWORK_PATHS.as_slice() } else { &[] });
        let system = system.any(|folder| contains(Path::new(folder), path)) && !self.hides(path);
        system || self.covers(&self.read, path) || self.writes(path)
    }

    #[must_use]
    pub fn writes(&self, path: &Path) -> bool {
        self.covers(&self.write, path)
    }

    #[must_use]
    pub fn hides(&self, path: &Path) -> bool {
        self.hidden.as_ref().is_some_and(|hidden| contains(hidden, path))
    }

    fn covers(&self, granted: &[PathBuf], path: &Path) -> bool {
        let around = |folder: &Path| self.hidden.as_ref().is_some_and(|hidden| contains(folder, hidden));
        granted.iter().any(|folder| contains(folder, path) && !(around(folder) && self.hides(path)))
    }
}

/// Which restrictions this system can enforce on programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ConfinementSupport {
    /// Whether access to files that were not granted, and to other processes' memory and environment, is blocked.
    pub files: bool,
    /// Whether creation of sockets that were not granted is blocked.
    pub network: bool,
    /// Whether signals to other processes are blocked.
    pub signals: bool,
}

impl ConfinementSupport {
    pub const NONE: Self = Self { files: false, network: false, signals: false };

    /// Whether both file and network access can be blocked; blocked signals are not required.
    #[must_use]
    pub const fn is_enough(self) -> bool {
        self.files && self.network
    }
}

impl fmt::Display for ConfinementSupport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.files, self.network) {
            (true, true) => "confined to the files and networks listed in their tool files",
            (true, false) => "confined to the files listed in their tool files, but not in the network",
            (false, true) => "confined in the network, but not in files, since this system has no Landlock",
            (false, false) => "not confined, since this system has no Landlock",
        })
    }
}

/// Detects which restrictions this system can enforce, once per process, on a thread that ends afterwards.
#[must_use]
pub fn confinement() -> ConfinementSupport {
    static DETECTED_CONFINEMENT: OnceLock<ConfinementSupport> = OnceLock::new();
    *DETECTED_CONFINEMENT.get_or_init(|| {
        let tried = std::thread::spawn(|| linux::restrict_thread(&ConfinementRules::default())).join();
        tried.ok().and_then(Result::ok).unwrap_or(ConfinementSupport::NONE)
    })
}

/// Starts a program confined to the rules `reach`, as far as this system can enforce them.
///
/// # Errors
/// The program cannot be started, or confinement failed although this system supports it.
pub async fn spawn(mut command: Command, reach: ConfinementRules) -> io::Result<RunningProgram> {
    let possible = confinement();
    let runtime = Handle::current();
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // A confined thread cannot regain its rights, so each program gets a new thread.
    std::thread::Builder::new().name("confined".to_owned()).spawn(move || {
        let _inside = runtime.enter();
        let started = linux::restrict_thread(&reach).and_then(|restricted| match restricted == possible {
            true => RunningProgram::start(&mut command).and_then(linux::limit),
            false => Err(io::Error::other("its confinement could not be set up completely")),
        });
        // If the caller no longer waits, the result is dropped, which kills the program.
        let _ = sender.send(started);
    })?;
    receiver.await.unwrap_or_else(|_| Err(io::Error::other("the thread that starts it failed")))
}

/// Protects this process from programs of the same user account: they cannot read its memory or environment in
/// `/proc`, and neither it nor its children write core files.
pub fn protect_this_process() -> io::Result<()> {
    linux::protect_this_process()
}

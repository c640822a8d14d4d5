//! What keeps a program of the person's own to what they allowed it. Landlock keeps it from files, and from TCP where
//! the kernel is new enough; a filter of system calls keeps it from every other socket, so that it cannot ask a service
//! of the desktop to do what it may not do itself.
//!
//! Both hold for a thread and for all it starts. So a thread is made for each program, gives up its own rights, starts
//! the program and ends.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Once, OnceLock};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, LandlockStatus, RestrictionStatus, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use serde::Serialize;
use tokio::process::Command;
use tokio::runtime::Handle;

use super::programs::Group;

/// The newest rights that are asked for; an older kernel gives what it has.
const NEWEST: ABI = ABI::V9;

/// What any program needs to be run at all: programs, libraries, and settings without which some do not start.
const SYSTEM: [&str; 15] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/gnu/store",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/openssl.cnf",
    "/etc/crypto-policies",
];

/// What a program needs to find other hosts and to know whom to believe; no private keys.
const NETWORK: [&str; 9] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust",
    "/etc/ca-certificates",
];

/// Devices that hold nothing.
const SOURCES: [&str; 3] = ["/dev/urandom", "/dev/random", "/dev/zero"];

/// What a program of the person's own may reach, beside the system's programs and its own folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// Files and folders it may read.
    pub read: Vec<PathBuf>,
    /// Files and folders it may read and change.
    pub write: Vec<PathBuf>,
    /// Whether it may speak to other hosts.
    pub network: bool,
}

/// What this machine can keep the person's programs from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Confinement {
    /// Files that nobody allowed them.
    pub files: bool,
    /// Sockets that nobody allowed them.
    pub network: bool,
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

/// What this machine can keep the person's programs from. It is tried once, on a thread that then ends.
#[must_use]
pub fn confinement() -> Confinement {
    static FOUND: OnceLock<Confinement> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let tried = std::thread::spawn(|| confine(&Reach::default())).join();
        match tried {
            Ok(Ok(confinement)) => confinement,
            Ok(Err(_)) | Err(_) => Confinement { files: false, network: false },
        }
    })
}

/// Starts a program that may reach that and nothing else.
///
/// # Errors
/// It cannot be started, or not be confined although this machine could.
pub(super) async fn start(mut command: Command, reach: Reach) -> io::Result<Group> {
    static TOLD: Once = Once::new();
    let possible = confinement();
    if !possible.files {
        TOLD.call_once(|| tracing::warn!("programs in `tools` are {possible}"));
    }
    let runtime = Handle::current();
    let (tell, told) = tokio::sync::oneshot::channel();
    // A thread of its own, never one that is used again: what it gives up here is gone for good.
    std::thread::Builder::new().name("confined".to_owned()).spawn(move || {
        let _inside = runtime.enter();
        let started = confine(&reach).and_then(|kept| match kept == possible {
            true => Group::start(&mut command),
            false => Err(io::Error::other("it cannot be kept from what it may not reach")),
        });
        // Whoever waited for it may be gone; then the program goes too.
        let _ = tell.send(started);
    })?;
    told.await.unwrap_or_else(|_| Err(io::Error::other("it was given up")))
}

/// Gives up, for this thread and what it starts, everything but that.
fn confine(reach: &Reach) -> io::Result<Confinement> {
    let status = keep_from_files(reach).map_err(io::Error::other)?;
    let (files, ports) = match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => {
            (status.ruleset != RulesetStatus::NotEnforced, effective_abi >= ABI::V4)
        }
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => (false, false),
    };
    let filter = socket_filter(reach.network)?;
    let filtered = filter.is_some_and(|filter| seccompiler::apply_filter(&filter).is_ok());
    Ok(Confinement { files, network: ports || filtered })
}

/// As much of it as the kernel knows. It also gives up ever getting more rights than it has.
fn keep_from_files(reach: &Reach) -> Result<RestrictionStatus, RulesetError> {
    let mut rules = Ruleset::default().handle_access(AccessFs::from_all(NEWEST))?.scope(Scope::from_all(NEWEST))?;
    if !reach.network {
        rules = rules.handle_access(AccessNet::from_all(NEWEST))?;
    }
    let all = AccessFs::from_all(NEWEST) & !(AccessFs::MakeBlock | AccessFs::MakeChar | AccessFs::IoctlDev);
    let read = AccessFs::from_read(NEWEST);
    let names: &[&str] = if reach.network { &NETWORK } else { &[] };
    rules
        .create()?
        .add_rules(path_beneath_rules(SYSTEM, read))?
        .add_rules(path_beneath_rules(names, AccessFs::ReadFile | AccessFs::ReadDir))?
        .add_rules(path_beneath_rules(SOURCES, AccessFs::ReadFile))?
        .add_rules(path_beneath_rules(["/dev/null"], AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate))?
        .add_rules(path_beneath_rules(&reach.read, read))?
        .add_rules(path_beneath_rules(&reach.write, all))?
        .restrict_self()
}

/// Refuses sockets: all of them, or all but those of the internet. None where this machine has no filters.
fn socket_filter(network: bool) -> io::Result<Option<BpfProgram>> {
    let Ok(arch) = std::env::consts::ARCH.try_into() else { return Ok(None) };
    let is_not = |family: libc::c_int| {
        let family = u64::from(family.unsigned_abs());
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family)
    };
    let sockets = match network {
        false => Ok(Vec::new()),
        true => [libc::AF_INET, libc::AF_INET6]
            .into_iter()
            .map(is_not)
            .collect::<Result<_, _>>()
            .and_then(SeccompRule::new)
            .map(|rule| vec![rule]),
    };
    // A ring of requests could make sockets past the filter.
    let rules = BTreeMap::from([
        (libc::SYS_socket, sockets.map_err(io::Error::other)?),
        (libc::SYS_io_uring_setup, Vec::new()),
    ]);
    let refuse = SeccompAction::Errno(libc::EACCES.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).map_err(io::Error::other)?;
    BpfProgram::try_from(filter).map(Some).map_err(io::Error::other)
}

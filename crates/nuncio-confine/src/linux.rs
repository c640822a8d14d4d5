//! Enforces [`ConfinementRules`] with Landlock, seccomp, capabilities and resource limits.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, LandlockStatus, RestrictionStatus, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, prlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use crate::{ConfinementRules, ConfinementSupport, RunningProgram, without};

/// Newest Landlock ABI to request; older kernels enforce the rights they support.
const NEWEST_LANDLOCK_ABI: ABI = ABI::V9;

/// Readable paths of the programs, libraries and settings that a program needs to start.
pub(crate) const SYSTEM_PATHS: [&str; 15] = [
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

/// Files that a program needs to resolve names and verify certificates; no private keys.
pub(crate) const NETWORK_PATHS: [&str; 9] = [
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

/// Readable device files: they give random bytes or zeros, never stored data.
const DEVICE_FILES: [&str; 3] = ["/dev/urandom", "/dev/random", "/dev/zero"];

/// Limit of open files per program. A server with many connections raises its own limit, which children would inherit.
const OPEN_FILES: u64 = 16_384;

/// Capabilities that a program keeps if the server runs as root: those over files, its own processes and account, and
/// ports below 1024. Without the others it cannot load modules, attach to kernel tracing, change the network or reboot.
const KEPT_CAPABILITIES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// Restricts this thread and its children to `reach`, and returns which restrictions took effect.
pub(crate) fn restrict_thread(reach: &ConfinementRules) -> io::Result<ConfinementSupport> {
    let status = restrict_files(reach).map_err(io::Error::other)?;
    let (files, ports, signals) = match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => {
            let enforced = status.ruleset != RulesetStatus::NotEnforced;
            (enforced, enforced && effective_abi >= ABI::V4, enforced && effective_abi >= ABI::V6)
        }
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => (false, false, false),
    };
    drop_capabilities()?;
    let filter = socket_filter(reach)?;
    let filtered = filter.is_some_and(|filter| seccompiler::apply_filter(&filter).is_ok());
    // Landlock restricts TCP only; the filter restricts the other sockets of a program with network access.
    Ok(ConfinementSupport { files, network: filtered || (ports && !reach.network), signals })
}

fn drop_capabilities() -> io::Result<()> {
    let mut sets = capabilities(None)?;
    // Skipped if there is nothing to drop, because a service manager may forbid the system call.
    if KEPT_CAPABILITIES.contains(sets.permitted | sets.inheritable) {
        return Ok(());
    }
    sets.effective &= KEPT_CAPABILITIES;
    sets.permitted &= KEPT_CAPABILITIES;
    sets.inheritable &= KEPT_CAPABILITIES;
    Ok(set_capabilities(None, sets)?)
}

/// Applies the Landlock rules that the kernel supports and sets `no_new_privs`.
fn restrict_files(reach: &ConfinementRules) -> Result<RestrictionStatus, RulesetError> {
    let mut handled = AccessFs::from_all(NEWEST_LANDLOCK_ABI);
    let mut scopes: BitFlags<Scope> = Scope::Signal.into();
    if reach.unix {
        handled.remove(AccessFs::ResolveUnix);
    } else {
        scopes |= Scope::AbstractUnixSocket;
    }
    let mut rules = Ruleset::default().handle_access(handled)?.scope(scopes)?;
    if !reach.network {
        rules = rules.handle_access(AccessNet::from_all(NEWEST_LANDLOCK_ABI))?;
    }
    let write = handled & !(AccessFs::MakeBlock | AccessFs::MakeChar | AccessFs::IoctlDev);
    let read = AccessFs::from_read(NEWEST_LANDLOCK_ABI);
    let names: &[&str] = if reach.network { &NETWORK_PATHS } else { &[] };
    let around = |path: &Path| match &reach.hidden {
        Some(hidden) => without(path, hidden),
        None => vec![path.to_owned()],
    };
    let system = SYSTEM_PATHS.iter().map(Path::new).chain(reach.read.iter().map(PathBuf::as_path));
    let (readable, writable): (Vec<_>, Vec<_>) =
        (system.flat_map(around).collect(), reach.write.iter().flat_map(|path| around(path)).collect());
    rules
        .create()?
        .add_rules(path_beneath_rules(names, AccessFs::ReadFile | AccessFs::ReadDir))?
        .add_rules(path_beneath_rules(DEVICE_FILES, AccessFs::ReadFile))?
        .add_rules(path_beneath_rules(["/dev/null"], AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate))?
        .add_rules(path_beneath_rules(&readable, read))?
        .add_rules(path_beneath_rules(&writable, write))?
        .restrict_self()
}

/// Seccomp filter that refuses sockets that `reach` does not allow; `None` if the processor type is not supported.
fn socket_filter(reach: &ConfinementRules) -> io::Result<Option<BpfProgram>> {
    let Ok(arch) = std::env::consts::ARCH.try_into() else { return Ok(None) };
    // io_uring could create sockets that this filter does not see.
    let mut rules = BTreeMap::from([(libc::SYS_io_uring_setup, Vec::new())]);
    if !reach.unix {
        rules.insert(libc::SYS_socket, refused_sockets(reach.network).map_err(io::Error::other)?);
        rules.insert(libc::SYS_socketpair, refused_pairs().map_err(io::Error::other)?);
    }
    if cfg!(target_arch = "x86_64") {
        // The x32 variants of the same system calls are refused too.
        let again: Vec<_> = rules.iter().map(|(call, rules)| (call | 0x4000_0000, rules.clone())).collect();
        rules.extend(again);
    }
    let refuse = SeccompAction::Errno(libc::EACCES.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).map_err(io::Error::other)?;
    BpfProgram::try_from(filter).map(Some).map_err(io::Error::other)
}

/// Rules for `socket` calls to refuse: with network access all but internet and netlink-route sockets, otherwise all.
fn refused_sockets(network: bool) -> Result<Vec<SeccompRule>, BackendError> {
    if !network {
        return Ok(Vec::new());
    }
    let others = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]
        .map(|family| argument(0, SeccompCmpOp::Ne, family))
        .into_iter()
        .collect::<Result<_, _>>()?;
    let netlink =
        vec![argument(0, SeccompCmpOp::Eq, libc::AF_NETLINK)?, argument(2, SeccompCmpOp::Ne, libc::NETLINK_ROUTE)?];
    Ok(vec![SeccompRule::new(others)?, SeccompRule::new(netlink)?])
}

/// Rules for `socketpair` calls to refuse: all but Unix pairs, and of these the datagram pairs, which can be connected
/// to another service later. Stream pairs cannot, and event loops need them.
fn refused_pairs() -> Result<Vec<SeccompRule>, BackendError> {
    let kind = |kind| SeccompRule::new(vec![argument(1, SeccompCmpOp::MaskedEq(0xf), kind)?]);
    let family = SeccompRule::new(vec![argument(0, SeccompCmpOp::Ne, libc::AF_UNIX)?])?;
    Ok(vec![family, kind(libc::SOCK_DGRAM)?, kind(libc::SOCK_RAW)?])
}

fn argument(index: u8, comparison: SeccompCmpOp, value: libc::c_int) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, comparison, u64::from(value.unsigned_abs()))
}

/// Limits the open files of a started program and forbids core files, unless the system does not permit to set limits.
/// Memory is not limited, because many runtimes reserve far more than they use.
pub(crate) fn limit(running: RunningProgram) -> io::Result<RunningProgram> {
    let leader = running.group.leader();
    for (resource, limit) in [(Resource::Core, 0), (Resource::Nofile, OPEN_FILES)] {
        let limit = getrlimit(resource).maximum.map_or(limit, |maximum| maximum.min(limit));
        match prlimit(leader, resource, Rlimit { current: Some(limit), maximum: Some(limit) }) {
            // The program has ended already, or a service manager forbids to set limits and has set its own.
            Ok(_) | Err(Errno::SRCH | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(running)
}

pub(crate) fn protect_this_process() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    Ok(())
}

//! Size of the memory that this process may use.

/// Assumed memory where the system does not say, in bytes.
const ASSUMED: usize = 2 << 30;
const MAX_CONVERSATION_CACHE: usize = 512 << 20;

/// One sixteenth of the memory, at most 512 MiB.
pub(crate) fn default_conversation_cache() -> usize {
    (available().unwrap_or(ASSUMED) / 16).min(MAX_CONVERSATION_CACHE)
}

/// Memory of the machine or, if that is less, of the control group that the process runs in.
#[cfg(all(target_os = "linux", not(nuncio_portable)))]
fn available() -> Option<usize> {
    use std::fs;

    let machine = fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(machine_bytes);
    let group = fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    machine.into_iter().chain(group).min()
}

/// Finds nothing, because other systems have no `/proc/meminfo`; the cache then has the size for [`ASSUMED`].
#[cfg(not(all(target_os = "linux", not(nuncio_portable))))]
fn available() -> Option<usize> {
    None
}

#[cfg(all(target_os = "linux", not(nuncio_portable)))]
fn machine_bytes(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(all(test, target_os = "linux", not(nuncio_portable)))]
mod tests {
    use super::*;

    #[test]
    fn total_memory_is_read_from_meminfo_and_other_texts_give_none() {
        assert_eq!(machine_bytes("MemTotal:       24576000 kB\nMemFree: 1 kB\n"), Some(24_576_000 * 1024));
        for text in ["", "MemFree: 1 kB\n", "MemTotal: many kB\n", "MemTotal: 1 MB\n"] {
            assert_eq!(machine_bytes(text), None, "{text:?}");
        }
    }
}

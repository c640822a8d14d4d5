//! Statistics of this process from `/proc`, under the usual names of Prometheus. They are missing on other systems than
//! Linux, and where `/proc` is hidden.

use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Linux reports process times in hundredths of a second, independent of its timer frequency.
const TICKS_PER_SECOND: f64 = 100.0;

/// Statistics of the server process, read at each scrape.
#[derive(Debug)]
pub(super) struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let mut tell = |name: &str, help: &str, metric: &dyn EncodeMetric| {
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        if let Some(seconds) = fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(cpu_seconds) {
            tell("process_cpu_seconds", "CPU time used", &ConstCounter::new(seconds))?;
        }
        if let Ok(status) = fs::read_to_string("/proc/self/status") {
            let gauges = [
                ("process_resident_memory_bytes", "Resident memory", "VmRSS:", 1024),
                ("process_virtual_memory_bytes", "Memory addressed", "VmSize:", 1024),
                ("process_threads", "Threads", "Threads:", 1),
            ];
            for (name, help, key, unit) in gauges {
                if let Some(value) = field(&status, key) {
                    tell(name, help, &ConstGauge::new(value * unit))?;
                }
            }
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            // One of the descriptors is that of this directory listing.
            let count = i64::try_from(open.count()).unwrap_or(i64::MAX) - 1;
            tell("process_open_fds", "Open files and sockets", &ConstGauge::new(count))?;
        }
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        if let Some(limit) = limit.and_then(|limit| i64::try_from(limit).ok()) {
            tell("process_max_fds", "Limit of open files and sockets", &ConstGauge::new(limit))?;
        }
        Ok(())
    }
}

/// CPU time in seconds from the text of `/proc/self/stat`: the sum of its 14th and 15th fields. The second field, the
/// program's name, may hold anything but ends with `)`.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut times = fields.split(' ').skip(11).map(str::parse::<f64>);
    let (user, system) = (times.next()?.ok()?, times.next()?.ok()?);
    Some((user + system) / TICKS_PER_SECOND)
}

/// The number after a key, as in `VmRSS:     123 kB`.
fn field(status: &str, key: &str) -> Option<i64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(key))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_parsed_even_if_the_program_name_contains_parentheses() {
        let stat = "42 (a ) b) S 1 1 1 0 -1 4194560 1 2 3 4 250 50 0 0 20 0";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(cpu_seconds("42"), None);
    }

    #[test]
    fn number_in_proc_status_is_found_by_its_key_or_is_none() {
        assert_eq!(field("Name:\tx\nVmRSS:\t    123 kB\n", "VmRSS:"), Some(123));
        assert_eq!(field("Name:\tx\n", "VmRSS:"), None);
    }
}

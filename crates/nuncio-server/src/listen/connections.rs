//! Limits on open connections, in total and per address, and which connection is closed for a new one.
//!
//! A connection is *unidentified* until the caller of a request on it is identified. At a limit, the unidentified
//! connection that has been open longest is closed for the new one, so that idle connections cannot keep out callers.
//! If every connection belongs to an identified caller, a few more are accepted for probes and operators.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nuncio_http::network::counted_address;
use tokio_util::sync::CancellationToken;

use super::activity::ConnectionActivity;

/// Number of connections that are served beyond the limit, for probes and operators.
pub(crate) const RESERVED_CONNECTIONS: usize = 32;

/// Limits on the number of connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    pub(crate) total: usize,
    /// Limit of unidentified connections per address; for IPv6, per /64.
    pub(crate) per_address: usize,
}

/// All open connections of a server.
#[derive(Debug)]
pub(crate) struct Connections {
    limits: ConnectionLimits,
    state: Mutex<ConnectionTable>,
}

#[derive(Debug, Default)]
struct ConnectionTable {
    next: u64,
    /// Connections that count against the total limit.
    counted: HashSet<u64>,
    reserved: BTreeMap<u64, CancellationToken>,
    /// Unidentified connections, oldest first. Ids increase with time.
    unidentified: BTreeMap<u64, (IpAddr, CancellationToken)>,
    by_address: HashMap<IpAddr, BTreeSet<u64>>,
}

/// One open connection, counted until it is dropped or closed for another.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    id: u64,
    connections: Arc<Connections>,
    pub(crate) peer: IpAddr,
    /// Whether the peer is a trusted proxy, which is never closed for another connection and has no limit per address.
    pub(crate) is_proxy: bool,
    /// Whether the connection is beyond the total limit, for probes and operators only.
    pub(crate) is_reserved: bool,
    /// Cancelled when the connection must be closed for another.
    pub(crate) closed: CancellationToken,
    pub(crate) activity: ConnectionActivity,
    identified: AtomicBool,
}

impl Connections {
    pub(crate) fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { limits, state: Mutex::default() })
    }

    /// Counts a new connection, and closes another one at a limit.
    pub(crate) fn open(self: &Arc<Self>, peer: IpAddr, is_proxy: bool) -> Arc<OpenConnection> {
        let (address, closed) = (counted_address(peer), CancellationToken::new());
        let mut state = self.lock();
        let of_address = state.by_address.get(&address);
        if !is_proxy && let Some(oldest) = of_address.filter(|ids| ids.len() >= self.limits.per_address) {
            let oldest = oldest.first().copied();
            state.close(oldest);
        }
        if state.counted.len() >= self.limits.total {
            let oldest = state.unidentified.keys().next().copied();
            state.close(oldest);
        }
        let is_reserved = state.counted.len() >= self.limits.total;
        state.next += 1;
        let id = state.next;
        if is_reserved {
            if state.reserved.len() >= RESERVED_CONNECTIONS
                && let Some((_, oldest)) = state.reserved.pop_first()
            {
                oldest.cancel();
            }
            state.reserved.insert(id, closed.clone());
        } else {
            state.counted.insert(id);
            if !is_proxy {
                state.unidentified.insert(id, (address, closed.clone()));
                state.by_address.entry(address).or_default().insert(id);
            }
        }
        drop(state);
        let connections = Arc::clone(self);
        let (activity, identified) = (ConnectionActivity::new(), AtomicBool::new(false));
        Arc::new(OpenConnection { id, connections, peer, is_proxy, is_reserved, closed, activity, identified })
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionTable {
    fn close(&mut self, id: Option<u64>) {
        if let Some(id) = id {
            self.counted.remove(&id);
            if let Some(closed) = self.forget_unidentified(id) {
                closed.cancel();
            }
        }
    }

    fn forget_unidentified(&mut self, id: u64) -> Option<CancellationToken> {
        let (address, closed) = self.unidentified.remove(&id)?;
        if let Some(ids) = self.by_address.get_mut(&address) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_address.remove(&address);
            }
        }
        Some(closed)
    }
}

impl OpenConnection {
    /// Marks the connection as one of an identified caller, so that it is not closed for others.
    pub(crate) fn mark_identified(&self) {
        if !self.identified.swap(true, Ordering::Relaxed) {
            self.connections.lock().forget_unidentified(self.id);
        }
    }

    /// Whether the caller of a request on this connection was identified.
    pub(crate) fn is_identified(&self) -> bool {
        self.identified.load(Ordering::Relaxed)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut state = self.connections.lock();
        state.counted.remove(&self.id);
        state.reserved.remove(&self.id);
        state.forget_unidentified(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(total: usize, per_address: usize) -> Arc<Connections> {
        Connections::new(ConnectionLimits { total, per_address })
    }

    fn from(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn are_closed(open: &[Arc<OpenConnection>]) -> Vec<bool> {
        open.iter().map(|connection| connection.closed.is_cancelled()).collect()
    }

    #[test]
    fn oldest_unidentified_connection_of_an_address_is_closed_at_the_limit_per_address() {
        let connections = connections(100, 2);
        let other = connections.open(from(2), false);
        let mut open = vec![connections.open(from(1), false)];
        open[0].mark_identified();
        open.extend((0..4).map(|_| connections.open(from(1), false)));
        assert_eq!(are_closed(&open), [false, true, true, false, false]);
        assert!(!other.closed.is_cancelled());
    }

    #[test]
    fn oldest_connection_of_an_ipv6_64_bit_prefix_is_closed_at_its_limit() {
        let connections = connections(100, 1);
        let open = ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"].map(|text| {
            let address: IpAddr = text.parse().unwrap();
            connections.open(address, false)
        });
        assert_eq!(are_closed(&open), [true, false, false]);
    }

    #[test]
    fn oldest_unidentified_connection_is_closed_at_the_total_connection_limit() {
        let connections = connections(3, 100);
        let open: Vec<_> = (0..5).map(|last| connections.open(from(last), false)).collect();
        assert_eq!(are_closed(&open), [true, true, false, false, false]);
        assert!(open.iter().all(|connection| !connection.is_reserved));
    }

    #[test]
    fn connections_over_the_total_use_the_reserve_and_close_no_identified_connection() {
        let connections = connections(2, 100);
        let (known, proxy) = (connections.open(from(1), false), connections.open(from(2), true));
        known.mark_identified();
        let reserved: Vec<_> = (0..=RESERVED_CONNECTIONS).map(|_| connections.open(from(3), false)).collect();
        assert!(reserved.iter().all(|connection| connection.is_reserved));
        assert_eq!(
            are_closed(&reserved).iter().filter(|closed| **closed).count(),
            1,
            "the oldest connection of the reserve"
        );
        assert!(reserved[0].closed.is_cancelled());
        assert!(!known.closed.is_cancelled() && !proxy.closed.is_cancelled());
        drop(known);
        assert!(!connections.open(from(4), false).is_reserved);
    }

    #[test]
    fn trusted_proxy_has_no_connection_limit_per_address() {
        let connections = connections(100, 1);
        let open: Vec<_> = (0..10).map(|_| connections.open(from(1), true)).collect();
        assert!(are_closed(&open).iter().all(|closed| !closed));
    }

    #[test]
    fn ended_connections_leave_no_entries_in_the_connection_table() {
        let connections = connections(4, 2);
        for round in 0..20 {
            let open: Vec<_> = (0..6).map(|last| connections.open(from(last % 2), round % 2 == 0)).collect();
            open[5].mark_identified();
        }
        let state = connections.lock();
        assert!(state.counted.is_empty() && state.reserved.is_empty());
        assert!(state.unidentified.is_empty() && state.by_address.is_empty());
    }
}

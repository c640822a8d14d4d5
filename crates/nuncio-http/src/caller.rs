//! Whose limits apply to a request: the caller's, once the caller is known, and until then those of its address.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::Extensions;
use nuncio_core::network::counted_address;
use nuncio_core::principal::Principal;
use nuncio_engine::{EngineError, Identity};

/// Where a request comes from. It is in every request that came over a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientAddress {
    /// The other end of the connection.
    pub peer: IpAddr,
    /// The caller: as the trusted proxies name it, `peer` without them.
    pub caller: IpAddr,
    /// Whether `peer` is a trusted proxy.
    pub is_proxied: bool,
}

impl ClientAddress {
    /// The address the caller is counted by: for IPv6 the /64.
    #[must_use]
    pub fn counted(&self) -> IpAddr {
        counted_address(self.caller)
    }
}

/// A caller that the server recognised by a header its routes read by themselves. It decides whose limits apply and
/// nothing else.
#[derive(Debug, Clone)]
pub struct KnownCaller(pub Principal);

/// The caller of a request, if the headers told who it is.
#[must_use]
pub fn known_caller(extensions: &Extensions) -> Option<&Principal> {
    match extensions.get::<Identity>() {
        Some(Identity::Known(caller)) if caller.principal != Principal::Anonymous => Some(&caller.principal),
        _ => extensions.get::<KnownCaller>().map(|KnownCaller(principal)| principal),
    }
}

/// Learns of callers that only a route can identify: by a signature over the body, a credential in it, or the first
/// frame of a socket.
pub trait CallerObserver: Send + Sync {
    /// The request is this caller's.
    ///
    /// # Errors
    /// The caller has sent more requests than it may.
    fn identified(&self, caller: &Principal) -> Result<(), EngineError>;
}

/// The observer of a request whose caller was not known by its headers.
#[derive(Clone)]
pub struct CallerReport(pub Arc<dyn CallerObserver>);

impl fmt::Debug for CallerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallerReport")
    }
}

/// Reports the caller that a route identified.
///
/// # Errors
/// The caller has sent more requests than it may.
pub fn report_caller(extensions: &Extensions, caller: &Principal) -> Result<(), EngineError> {
    match extensions.get::<CallerReport>() {
        Some(CallerReport(observer)) if !matches!(caller, Principal::Anonymous | Principal::Local) => {
            observer.identified(caller)
        }
        _ => Ok(()),
    }
}

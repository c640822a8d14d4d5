//! Caller and client address of a request, which decide whose rate limits apply.

use std::net::IpAddr;
use std::sync::Arc;

use http::Extensions;
use nuncio_core::opaque_debug;
use nuncio_core::principal::Principal;
use nuncio_engine::{CallerCheckResult, EngineError};

use crate::network::counted_address;

/// Address that a request came from. An extension of every request that came over a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientAddress {
    /// Remote address of the connection.
    pub peer: IpAddr,
    /// Caller's address as reported by trusted proxies; equal to `peer` without them.
    pub caller: IpAddr,
    pub is_proxied: bool,
}

impl ClientAddress {
    /// Address used for counting requests: for IPv6 the /64 prefix.
    #[must_use]
    pub fn counted(&self) -> IpAddr {
        counted_address(self.caller)
    }
}

/// Id of a request for logs, audit records and the response. Every request has it as an extension.
#[derive(Debug, Clone)]
pub struct RequestId(pub String);

/// Caller identified by a header that otherwise only routes read. It decides whose limits apply and grants nothing.
#[derive(Debug, Clone)]
pub struct RateLimitCaller(pub Principal);

/// Caller of a request, if its headers identified it.
#[must_use]
pub fn known_caller(extensions: &Extensions) -> Option<&Principal> {
    match extensions.get::<CallerCheckResult>() {
        Some(CallerCheckResult::Known(caller)) if caller.principal != Principal::Anonymous => Some(&caller.principal),
        _ => extensions.get::<RateLimitCaller>().map(|RateLimitCaller(principal)| principal),
    }
}

/// Receives callers that only a route can identify: by a signature over the body, a credential in it, or the first
/// frame of a WebSocket.
pub trait CallerObserver: Send + Sync {
    /// Records the caller of the request.
    ///
    /// # Errors
    /// The caller exceeded its rate limit.
    fn identified(&self, caller: &Principal) -> Result<(), EngineError>;
}

/// Request extension through which a route reports the caller if the headers did not identify one.
#[derive(Clone)]
pub struct CallerReporter(pub Arc<dyn CallerObserver>);

opaque_debug!(CallerReporter);

/// Tells the middleware which caller a route identified, for the rate limit and the log.
///
/// # Errors
/// The caller exceeded its rate limit.
pub fn report_caller(extensions: &Extensions, caller: &Principal) -> Result<(), EngineError> {
    match extensions.get::<CallerReporter>() {
        Some(CallerReporter(observer)) if !matches!(caller, Principal::Anonymous | Principal::Local) => {
            observer.identified(caller)
        }
        _ => Ok(()),
    }
}

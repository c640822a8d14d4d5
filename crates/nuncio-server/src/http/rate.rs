//! Rate limits of requests. Identified callers are counted by caller, all others by address (IPv6: by /64), so that
//! unidentified requests use up only the limit of their own address. Local callers are not counted. An address has a
//! separate limit for each kind of credential that a route may still check, so that requests without a credential do
//! not lock out callers behind the same address who sign, sign in, enrol or open a socket.

use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::http::{HeaderValue, header};
use axum::extract::Request;
use axum::response::Response;
use nuncio_auth::shows_signature;
use nuncio_core::ErrorCode;
use nuncio_core::principal::Principal;
use nuncio_core::rate::{KeyedRateLimiter, Rate};
use nuncio_engine::ports::Clock;
use nuncio_engine::{CallerCheckResult, EngineError};
use nuncio_http::{CallerObserver, CallerReporter, ClientAddress, RateLimitCaller, known_caller, report_caller};

use super::MiddlewareState;
use super::connection::is_probe;
use crate::listen::OpenConnection;

pub(crate) struct RateLimits {
    rate: Rate,
    per_minute: u32,
    clock: Arc<dyn Clock>,
    callers: KeyedRateLimiter<Principal>,
    /// Separate table for DID callers: anyone can make DIDs, which must not evict callers that the operator admitted.
    dids: KeyedRateLimiter<Principal>,
    unidentified: KeyedRateLimiter<UnidentifiedRateKey>,
}

impl RateLimits {
    pub(super) fn new(per_minute: u32, clock: Arc<dyn Clock>) -> Self {
        let per_minute = per_minute.max(1);
        let (callers, dids, unidentified) = Default::default();
        Self { rate: Rate::per_minute(per_minute), per_minute, clock, callers, dids, unidentified }
    }

    /// Counts a request of a caller; an error is the time until the next one is allowed.
    fn count_caller(&self, caller: &Principal) -> Result<(), Duration> {
        match caller {
            Principal::Local | Principal::Operator => Ok(()),
            Principal::Did(_) => self.take(&self.dids, caller),
            _ => self.take(&self.callers, caller),
        }
    }

    fn take<K: Hash + Eq + Clone>(&self, rates: &KeyedRateLimiter<K>, key: &K) -> Result<(), Duration> {
        rates.take(self.rate, key, self.clock.now())
    }

    fn exceeded(&self, wait: Duration) -> EngineError {
        let (most, seconds) = (self.per_minute, seconds(wait));
        let message = format!("more than {most} requests a minute; try again in {seconds} seconds");
        EngineError::new(ErrorCode::RateLimited, message)
    }
}

/// Key of the rate limit for a request whose headers do not identify a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct UnidentifiedRateKey {
    /// `None` for requests without an address, which share one limit; no listener produces them.
    address: Option<IpAddr>,
    attempt: RouteIdentificationMethod,
}

/// How a route may still identify the caller of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum RouteIdentificationMethod {
    /// No credential is in the headers; one may be in the body.
    None,
    /// The headers have a signature, which the route checks.
    Signature,
    /// A page of the console, whose caller signs in or has a session cookie.
    Console,
    /// A route below `/a2h/auth`, whose body enrols a device or is signed by an enrolled one.
    Enrolment,
    /// A WebSocket of A2H, whose first frame authenticates the caller.
    Socket,
}

impl RouteIdentificationMethod {
    fn of(request: &Request) -> Self {
        let path = request.uri().path();
        let is_below = |prefix: &str| path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'));
        match () {
            () if is_below("/console") => Self::Console,
            () if is_below("/a2h/auth") => Self::Enrolment,
            () if is_below("/a2h/ws") => Self::Socket,
            () if shows_signature(request.headers()) => Self::Signature,
            () => Self::None,
        }
    }
}

/// Counts a request. Returns the refusal if it is over the limit.
pub(super) fn refusal(shared: &MiddlewareState, request: &mut Request) -> Option<Response> {
    // Probes are never rate-limited.
    if is_probe(request) {
        return None;
    }
    let counted = match known_caller(request.extensions()) {
        Some(caller) => shared.rates.count_caller(caller),
        None => {
            let address = request.extensions().get().map(ClientAddress::counted);
            let sender = UnidentifiedRateKey { address, attempt: RouteIdentificationMethod::of(request) };
            let counted = shared.rates.take(&shared.rates.unidentified, &sender);
            if counted.is_ok() {
                let rates = Arc::clone(&shared.rates);
                let connection = request.extensions().get().cloned();
                let request_of_address = AddressCountedRequest { rates, sender, connection, is_reported: false.into() };
                request.extensions_mut().insert(CallerReporter(Arc::new(request_of_address)));
            }
            counted
        }
    };
    let wait = counted.err()?;
    let mut response = shared.refuse(request.uri().path(), &shared.rates.exceeded(wait));
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds(wait)));
    Some(response)
}

/// Whole seconds after which a wait is over.
fn seconds(wait: Duration) -> u64 {
    wait.as_secs() + 1
}

/// Counts a request for its caller after it was counted for its address. Returns the refusal if it is over the limit.
pub(super) fn refusal_of_identified(shared: &MiddlewareState, request: &Request) -> Option<Response> {
    let caller = known_caller(request.extensions())?;
    let error = report_caller(request.extensions(), caller).err()?;
    Some(shared.refuse(request.uri().path(), &error))
}

/// A request that was counted for its address, until a route identifies the caller.
struct AddressCountedRequest {
    rates: Arc<RateLimits>,
    sender: UnidentifiedRateKey,
    connection: Option<Arc<OpenConnection>>,
    is_reported: AtomicBool,
}

impl CallerObserver for AddressCountedRequest {
    fn identified(&self, caller: &Principal) -> Result<(), EngineError> {
        if let Some(connection) = &self.connection {
            connection.mark_identified();
        }
        if self.is_reported.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        self.rates.unidentified.give_back(self.rates.rate, &self.sender);
        self.rates.count_caller(caller).map_err(|wait| self.rates.exceeded(wait))
    }
}

/// Finds an API key in any header that a skill may read it from, so that the limits of its holder apply instead of
/// those of the address. The route decides whether the key is accepted.
pub(super) fn recognise_key(shared: &MiddlewareState, request: &mut Request) {
    let identity = request.extensions().get::<CallerCheckResult>();
    if !matches!(identity, Some(CallerCheckResult::Missing)) || !shared.engine.access().has_keys() {
        return;
    }
    let values = request.headers().values().filter_map(|value| value.to_str().ok());
    let caller =
        values.filter(|value| value.starts_with("nk_")).find_map(|key| shared.engine.access().caller_by_key(key));
    if let Some(caller) = caller {
        request.extensions_mut().insert(RateLimitCaller(caller.principal));
    }
}

//! How many requests a caller may send. Known callers are counted one by one; of the others each address is (IPv6: each
//! /64), so that what strangers send uses up nobody's allowance but their own. Someone on this machine is not counted.
//! An address has one allowance for each way of saying who one is, so that requests without a credential lock out no
//! caller behind the same address who signs, signs in, enrols or opens a socket.

use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::http::{HeaderValue, header};
use axum::extract::Request;
use axum::response::Response;
use nuncio_core::Code;
use nuncio_core::principal::Principal;
use nuncio_core::rate::{KeyedRates, Rate};
use nuncio_engine::ports::Clock;
use nuncio_engine::{EngineError, Identity};
use nuncio_http::{CallerObserver, CallerReport, ClientAddress, KnownCaller, known_caller, report_caller};

use super::Shared;
use super::connection::is_probe;
use super::identity::shows_signature;
use crate::listen::OpenConnection;

pub(crate) struct RateLimits {
    rate: Rate,
    per_minute: u32,
    clock: Arc<dyn Clock>,
    callers: KeyedRates<Principal>,
    /// Anyone can make DIDs; they must not crowd out the callers the operator let in.
    dids: KeyedRates<Principal>,
    unidentified: KeyedRates<Unidentified>,
}

impl RateLimits {
    pub(super) fn new(per_minute: u32, clock: Arc<dyn Clock>) -> Self {
        let per_minute = per_minute.max(1);
        let (callers, dids, unidentified) = Default::default();
        Self { rate: Rate::per_minute(per_minute), per_minute, clock, callers, dids, unidentified }
    }

    fn count_caller(&self, caller: &Principal) -> Result<(), RateExceeded> {
        match caller {
            Principal::Local | Principal::Operator => Ok(()),
            Principal::Did(_) => self.take(&self.dids, caller),
            _ => self.take(&self.callers, caller),
        }
    }

    fn take<K: Hash + Eq + Clone>(&self, rates: &KeyedRates<K>, key: &K) -> Result<(), RateExceeded> {
        let taken = rates.take(self.rate, key, self.clock.now());
        taken.map_err(|wait| RateExceeded { seconds: wait.as_secs() + 1, per_minute: self.per_minute })
    }
}

/// The rate limit of a request that its headers do not identify.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Unidentified {
    /// `None` for requests without an address, which share one limit; no listener produces them.
    address: Option<IpAddr>,
    attempt: Attempt,
}

/// The credentials that a request may still be identified by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Attempt {
    /// In no way, or by its body.
    None,
    /// By a signature over the request.
    Signature,
    /// By signing in to the console, or by the cookie that was given for it.
    Console,
    /// By enrolling a device, or by what the device was given for it.
    Enrolment,
    /// By the first frame of a socket.
    Socket,
}

impl Attempt {
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

/// There were too many requests.
#[derive(Debug)]
struct RateExceeded {
    seconds: u64,
    per_minute: u32,
}

impl From<RateExceeded> for EngineError {
    fn from(RateExceeded { seconds, per_minute }: RateExceeded) -> Self {
        let message = format!("more than {per_minute} requests a minute; try again in {seconds} seconds");
        Self::new(Code::RateLimited, message)
    }
}

/// Counts a request, and answers one that is one too many.
pub(super) fn refusal(shared: &Shared, request: &mut Request) -> Option<Response> {
    // Whether the server lives must not depend on how much strangers ask of it.
    if is_probe(request) {
        return None;
    }
    let counted = match known_caller(request.extensions()) {
        Some(caller) => shared.rates.count_caller(caller),
        None => {
            let address = request.extensions().get().map(ClientAddress::counted);
            let sender = Unidentified { address, attempt: Attempt::of(request) };
            let counted = shared.rates.take(&shared.rates.unidentified, &sender);
            if counted.is_ok() {
                let rates = Arc::clone(&shared.rates);
                let connection = request.extensions().get().cloned();
                let request_of_address = RequestOfAddress { rates, sender, connection, is_reported: false.into() };
                request.extensions_mut().insert(CallerReport(Arc::new(request_of_address)));
            }
            counted
        }
    };
    let exceeded = counted.err()?;
    let seconds = exceeded.seconds;
    let mut response = shared.refuse(request.uri().path(), &exceeded.into());
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    Some(response)
}

/// Counts a request for its caller that was counted for its address before the caller was identified, and answers one
/// that is one too many.
pub(super) fn refusal_of_identified(shared: &Shared, request: &Request) -> Option<Response> {
    let caller = known_caller(request.extensions())?;
    let error = report_caller(request.extensions(), caller).err()?;
    Some(shared.refuse(request.uri().path(), &error))
}

/// A request that was counted for its address, until a route identifies the caller.
struct RequestOfAddress {
    rates: Arc<RateLimits>,
    sender: Unidentified,
    connection: Option<Arc<OpenConnection>>,
    is_reported: AtomicBool,
}

impl CallerObserver for RequestOfAddress {
    fn identified(&self, caller: &Principal) -> Result<(), EngineError> {
        if let Some(connection) = &self.connection {
            connection.mark_identified();
        }
        if self.is_reported.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        self.rates.unidentified.give_back(self.rates.rate, &self.sender);
        Ok(self.rates.count_caller(caller)?)
    }
}

/// Recognises a key of ours in whichever header a skill takes it, so that its holder's limits apply and not those of the
/// address. Whether the key opens anything is for the route.
pub(super) fn recognise_key(shared: &Shared, request: &mut Request) {
    let identity = request.extensions().get::<Identity>();
    if !matches!(identity, Some(Identity::Missing)) || !shared.engine.access().has_keys() {
        return;
    }
    let values = request.headers().values().filter_map(|value| value.to_str().ok());
    let caller =
        values.filter(|value| value.starts_with("nk_")).find_map(|key| shared.engine.access().caller_by_key(key));
    if let Some(caller) = caller {
        request.extensions_mut().insert(KnownCaller(caller.principal));
    }
}

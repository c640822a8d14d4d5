//! How many requests one principal may send. Someone on this machine is not counted; whoever has no
//! valid key shares one allowance with all others like them.

use std::num::NonZeroU32;

use ::http::{HeaderValue, header};
use axum::extract::Request;
use axum::response::Response;
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use nuncio_core::Code;
use nuncio_core::principal::Principal;
use nuncio_engine::{EngineError, Identity};

use super::Shared;

/// The allowances in use.
pub(super) struct RateLimits {
    limiter: DefaultKeyedRateLimiter<Principal>,
    clock: DefaultClock,
    per_minute: NonZeroU32,
}

impl RateLimits {
    pub(super) fn new(per_minute: u32) -> Self {
        let per_minute = NonZeroU32::new(per_minute).unwrap_or(NonZeroU32::MIN);
        Self { limiter: RateLimiter::keyed(Quota::per_minute(per_minute)), clock: DefaultClock::default(), per_minute }
    }

    /// Counts a request; an error says after how many seconds to try again.
    fn take(&self, principal: &Principal) -> Result<(), u64> {
        let now = self.clock.now();
        self.limiter.check_key(principal).map_err(|until| until.wait_time_from(now).as_secs() + 1)
    }
}

/// The answer to a request that is one too many.
pub(super) fn refusal(shared: &Shared, request: &Request) -> Option<Response> {
    let principal = match request.extensions().get::<Identity>() {
        Some(Identity::Known(caller)) => &caller.principal,
        _ => &Principal::Anonymous,
    };
    // Whether the server lives must not depend on how much strangers ask of it.
    let is_probe = matches!(request.uri().path(), "/healthz" | "/readyz");
    if is_probe || *principal == Principal::Local {
        return None;
    }
    let seconds = shared.rates.take(principal).err()?;
    let message = format!("more than {} requests a minute; try again in {seconds} seconds", shared.rates.per_minute);
    let mut response = shared.refuse(request.uri().path(), &EngineError::new(Code::RateLimited, message));
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    Some(response)
}

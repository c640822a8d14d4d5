//! Reads request bodies within limits of size and time. The size limit depends on whether the caller is identified.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::Extensions;
use http_body_util::BodyExt as _;
use nuncio_core::{ErrorCode, json};
use nuncio_engine::{CallerCheckResult, Engine, EngineError};

use crate::budget::{BodyBudget, BodyBudgetAccount, ReservedBodyBytes};
use crate::caller::{ClientAddress, known_caller};

/// A request body that is too large is read and discarded up to this multiple of its limit.
const DISCARD_FACTOR: usize = 8;
/// Size limit of a request body, in bytes, whose caller is not identified by a header.
const MAX_UNIDENTIFIED: usize = 64 * 1024;
/// Size limit of a request body, in bytes, where no credential is needed, or where the credential is in the body or a
/// signature over the body.
const MAX_WITHOUT_CREDENTIAL: usize = 1024 * 1024;
/// Limit on JSON values in a body of an identified caller.
const MAX_VALUES: usize = 100_000;
/// Limit on JSON values in a body of an unidentified caller.
const MAX_UNIDENTIFIED_VALUES: usize = 20_000;
/// Upper bound of the memory for one parsed JSON value, in bytes.
const VALUE_BYTES: usize = 360;

#[derive(Debug, Clone)]
pub struct BodyLimits {
    /// Size limit of a request body of an identified caller, in bytes.
    pub bytes: usize,
    /// Time within which a whole request body must arrive.
    pub time: Duration,
    /// Memory limit shared by all request bodies in the process.
    pub budget: Arc<BodyBudget>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialLocation {
    /// The credential is in a header and is checked before the body is read.
    Header,
    /// The credential is in the request body, or is a signature over it.
    Body,
}

#[derive(Debug, Clone, Copy)]
struct RequestBodyLimits {
    bytes: usize,
    values: usize,
    account: BodyBudgetAccount,
}

impl BodyLimits {
    /// Copy of the limits whose size limit is at most `bytes`.
    #[must_use]
    pub fn at_most(&self, bytes: usize) -> Self {
        Self { bytes: self.bytes.min(bytes), ..self.clone() }
    }

    /// Reads a request body, whose size counts against the budget until the returned bytes are dropped.
    pub async fn read(
        &self,
        engine: &Engine,
        extensions: &Extensions,
        body: Body,
        credential: CredentialLocation,
    ) -> Result<Bytes, EngineError> {
        let allowed = self.allowed(extensions, credential);
        let reserved = self.budget.open(allowed.account);
        let clock = engine.clock();
        tokio::select! {
            // The body is polled first, so that a body that has already arrived needs no timer.
            biased;
            read = collect(body, allowed, reserved) => read,
            () = async { clock.sleep_until(clock.now().after(self.time)).await } => {
                let message = format!("the body did not arrive within {} seconds", self.time.as_secs());
                Err(EngineError::new(ErrorCode::RequestTimeout, message))
            }
        }
    }

    fn allowed(&self, extensions: &Extensions, credential: CredentialLocation) -> RequestBodyLimits {
        if known_caller(extensions).is_some() {
            return RequestBodyLimits { bytes: self.bytes, values: MAX_VALUES, account: BodyBudgetAccount::Identified };
        }
        let address = extensions.get().map(ClientAddress::counted);
        let most = match (extensions.get::<CallerCheckResult>(), credential) {
            (Some(CallerCheckResult::Known(_)), _) | (_, CredentialLocation::Body) => MAX_WITHOUT_CREDENTIAL,
            _ => MAX_UNIDENTIFIED,
        };
        RequestBodyLimits {
            bytes: self.bytes.min(most),
            values: MAX_UNIDENTIFIED_VALUES,
            account: BodyBudgetAccount::Unidentified(address),
        }
    }
}

/// Reads the request body up to the limit. The rest of a body that exceeds the limit or the budget is read and
/// discarded, up to a point; otherwise a client that is still sending would see a broken connection instead of the
/// error response.
async fn collect(
    mut body: Body,
    allowed: RequestBodyLimits,
    reserved: ReservedBodyBytes,
) -> Result<Bytes, EngineError> {
    let limit = allowed.bytes;
    let mut reserved = Some(reserved);
    let mut first = Bytes::new();
    let mut bytes = BytesMut::new();
    let mut length = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| EngineError::new(ErrorCode::BadRequest, "the body did not arrive completely"))?;
        let Ok(data) = frame.into_data() else { continue };
        length = length.saturating_add(data.len());
        if length > limit.saturating_mul(DISCARD_FACTOR) {
            break;
        }
        if length > limit || reserved.as_mut().is_some_and(|reserved| reserved.add(data.len()).is_err()) {
            reserved = None;
        }
        if reserved.is_none() {
            (first, bytes) = Default::default();
        } else if length == data.len() {
            // Most bodies arrive in one chunk, which is not copied.
            first = data;
        } else {
            if bytes.is_empty() {
                bytes.extend_from_slice(&first);
            }
            bytes.extend_from_slice(&data);
        }
    }
    if length > limit {
        let why = match allowed.account {
            BodyBudgetAccount::Identified => "",
            BodyBudgetAccount::Unidentified(_) => ", which is the limit for callers who send no credential in a header",
        };
        return Err(EngineError::new(ErrorCode::BodyTooLarge, format!("the body is larger than {limit} bytes{why}")));
    }
    let mut reserved = reserved.ok_or_else(busy)?;
    let bytes = if bytes.is_empty() { first } else { bytes.freeze() };
    // The body of every protocol is JSON, which may need much more memory after parsing.
    let values = json::count_values(&bytes);
    if values > allowed.values {
        let message = format!("the body contains more than {} JSON values", allowed.values);
        return Err(EngineError::new(ErrorCode::BodyTooLarge, message));
    }
    reserved.add(values * VALUE_BYTES).map_err(|_| busy())?;
    Ok(Bytes::from_owner(BudgetedBody { bytes, _reserved: reserved }))
}

fn busy() -> EngineError {
    EngineError::new(
        ErrorCode::ServerBusy,
        "the server is processing the maximum number of request bodies; try again later",
    )
}

/// Request body whose bytes count against the budget until it is dropped.
struct BudgetedBody {
    bytes: Bytes,
    _reserved: ReservedBodyBytes,
}

impl AsRef<[u8]> for BudgetedBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use nuncio_core::principal::Principal;
    use nuncio_engine::Caller;

    use super::*;

    fn body(pieces: &[&'static str]) -> Body {
        let pieces: Vec<Result<Bytes, std::io::Error>> = pieces.iter().map(|piece| Ok(Bytes::from(*piece))).collect();
        Body::from_stream(stream::iter(pieces))
    }

    fn limits() -> BodyLimits {
        BodyLimits { bytes: 8 << 20, time: Duration::from_secs(1), budget: BodyBudget::new(16 << 20) }
    }

    async fn collected(pieces: &[&'static str], limit: usize) -> Result<Bytes, EngineError> {
        let allowed = RequestBodyLimits { bytes: limit, values: 5, account: BodyBudgetAccount::Identified };
        collect(body(pieces), allowed, limits().budget.open(BodyBudgetAccount::Identified)).await
    }

    #[tokio::test]
    async fn body_chunks_are_joined_and_a_body_over_the_limit_is_refused() {
        for (pieces, whole) in
            [(&[][..], ""), (&["abc"], "abc"), (&["", "ab", "", "c"], "abc"), (&["a", "b", "c"], "abc")]
        {
            assert_eq!(collected(pieces, 3).await.unwrap(), whole, "{pieces:?}");
        }
        for pieces in [&["abcd"][..], &["ab", "cd"], &["abc", "d"]] {
            assert_eq!(collected(pieces, 3).await.unwrap_err().code, ErrorCode::BodyTooLarge, "{pieces:?}");
        }
    }

    #[tokio::test]
    async fn body_with_too_many_json_values_is_refused() {
        assert!(collected(&["[1,2,", "3,4]"], 100).await.is_ok());
        assert_eq!(collected(&["[1,2,3,", "4,5]"], 100).await.unwrap_err().code, ErrorCode::BodyTooLarge);
    }

    #[tokio::test]
    async fn body_counts_against_the_memory_budget_until_it_is_dropped() {
        let budget = BodyBudget::new(2000);
        let allowed = RequestBodyLimits { bytes: 1000, values: 5, account: BodyBudgetAccount::Identified };
        let read = async || collect(body(&["[0,0]"]), allowed, budget.open(allowed.account)).await;
        let first = read().await.unwrap();
        assert_eq!(read().await.unwrap_err().code, ErrorCode::ServerBusy);
        drop(first);
        assert!(read().await.is_ok());
    }

    #[test]
    fn body_size_limit_is_lower_for_unidentified_callers() {
        let with = |identity: Option<CallerCheckResult>, credential| {
            let mut extensions = Extensions::new();
            identity.map(|identity| extensions.insert(identity));
            limits().allowed(&extensions, credential).bytes
        };
        let known = |principal| Some(CallerCheckResult::Known(Caller::new(principal)));
        for (identity, credential, bytes) in [
            (None, CredentialLocation::Header, 64 << 10),
            (Some(CallerCheckResult::Missing), CredentialLocation::Header, 64 << 10),
            (Some(CallerCheckResult::Invalid), CredentialLocation::Header, 64 << 10),
            (Some(CallerCheckResult::Missing), CredentialLocation::Body, 1 << 20),
            (known(Principal::Anonymous), CredentialLocation::Header, 1 << 20),
            (known(Principal::Local), CredentialLocation::Header, 8 << 20),
            (known(Principal::Did("did:wba:a".into())), CredentialLocation::Body, 8 << 20),
        ] {
            assert_eq!(with(identity.clone(), credential), bytes, "{identity:?} {credential:?}");
        }
    }
}

//! Reading a request's body, within limits. How large it may be depends on whether the caller is known.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::Extensions;
use http_body_util::BodyExt as _;
use nuncio_core::{Code, json};
use nuncio_engine::{Engine, EngineError, Identity};

use crate::budget::{Account, BodyBudget, HeldBytes};
use crate::caller::{ClientAddress, known_caller};

/// How many times the limit is read before a body that is too large is cut off.
const PATIENCE: usize = 8;
/// How large a body may be before its caller is known.
const MAX_UNIDENTIFIED: usize = 64 * 1024;
/// How large it may be where no credential is needed, or the credential is in the body or signs it.
const MAX_WITHOUT_CREDENTIAL: usize = 1024 * 1024;
/// How many JSON values a body of a known caller may hold.
const MAX_VALUES: usize = 100_000;
/// How many one of an unknown caller may hold.
const MAX_UNIDENTIFIED_VALUES: usize = 20_000;
/// What one JSON value takes at most in memory once it is parsed, in bytes.
const VALUE_BYTES: usize = 360;

/// How large a body may be and how long it may take.
#[derive(Debug, Clone)]
pub struct BodyLimits {
    /// In bytes, where the caller is known.
    pub bytes: usize,
    /// Until all of it has arrived.
    pub time: Duration,
    /// What all bodies of the process may take together.
    pub budget: Arc<BodyBudget>,
}

/// Where the credential of a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialPlace {
    /// In a header, and checked before the body is read.
    Header,
    /// In the body, or a signature over it.
    Body,
}

/// How much one request may send.
#[derive(Debug, Clone, Copy)]
struct Allowed {
    bytes: usize,
    values: usize,
    account: Account,
}

impl BodyLimits {
    /// The same for bodies of at most so many bytes.
    #[must_use]
    pub fn at_most(&self, bytes: usize) -> Self {
        Self { bytes: self.bytes.min(bytes), ..self.clone() }
    }

    /// Reads the body of a request with those extensions. It counts against the budget until it is dropped.
    ///
    /// # Errors
    /// It is too large, too slow, or breaks off; or the process holds too many bodies.
    pub async fn read(
        &self,
        engine: &Engine,
        extensions: &Extensions,
        body: Body,
        credential: CredentialPlace,
    ) -> Result<Bytes, EngineError> {
        let allowed = self.allowed(extensions, credential);
        let held = self.budget.open(allowed.account);
        let clock = engine.clock();
        tokio::select! {
            // In this order a body that is there needs no timer.
            biased;
            read = collect(body, allowed, held) => read,
            () = async { clock.sleep_until(clock.now().after(self.time)).await } => {
                let message = format!("the body did not arrive within {} seconds", self.time.as_secs());
                Err(EngineError::new(Code::RequestTimeout, message))
            }
        }
    }

    fn allowed(&self, extensions: &Extensions, credential: CredentialPlace) -> Allowed {
        if known_caller(extensions).is_some() {
            return Allowed { bytes: self.bytes, values: MAX_VALUES, account: Account::Identified };
        }
        let address = extensions.get().map(ClientAddress::counted);
        let most = match (extensions.get::<Identity>(), credential) {
            (Some(Identity::Known(_)), _) | (_, CredentialPlace::Body) => MAX_WITHOUT_CREDENTIAL,
            _ => MAX_UNIDENTIFIED,
        };
        Allowed {
            bytes: self.bytes.min(most),
            values: MAX_UNIDENTIFIED_VALUES,
            account: Account::Unidentified(address),
        }
    }
}

/// Reads the body up to the limit. What is beyond it, or finds no room in the budget, is read and thrown away, up to a
/// point: a client that is still sending would otherwise see a broken connection instead of the answer.
async fn collect(mut body: Body, allowed: Allowed, held: HeldBytes) -> Result<Bytes, EngineError> {
    let limit = allowed.bytes;
    let mut held = Some(held);
    let mut first = Bytes::new();
    let mut bytes = BytesMut::new();
    let mut length = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| EngineError::new(Code::BadRequest, "the body did not arrive whole"))?;
        let Ok(data) = frame.into_data() else { continue };
        length = length.saturating_add(data.len());
        if length > limit.saturating_mul(PATIENCE) {
            break;
        }
        if length > limit || held.as_mut().is_some_and(|held| held.add(data.len()).is_err()) {
            held = None;
        }
        if held.is_none() {
            (first, bytes) = Default::default();
        } else if length == data.len() {
            // Most bodies come in one piece, which need not be copied.
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
            Account::Identified => "",
            Account::Unidentified(_) => ", which is the limit for callers who send no credential in a header",
        };
        return Err(EngineError::new(Code::BodyTooLarge, format!("the body is larger than {limit} bytes{why}")));
    }
    let mut held = held.ok_or_else(busy)?;
    let bytes = if bytes.is_empty() { first } else { bytes.freeze() };
    // Every protocol's body is JSON: small when sent, it may be large when parsed.
    let values = json::count_values(&bytes);
    if values > allowed.values {
        let message = format!("the body holds more than {} JSON values", allowed.values);
        return Err(EngineError::new(Code::BodyTooLarge, message));
    }
    held.add(values * VALUE_BYTES).map_err(|_| busy())?;
    Ok(Bytes::from_owner(HeldBody { bytes, _held: held }))
}

fn busy() -> EngineError {
    EngineError::new(Code::ServerBusy, "the server holds as many request bodies as it may; try again later")
}

/// A body that counts against the budget.
struct HeldBody {
    bytes: Bytes,
    _held: HeldBytes,
}

impl AsRef<[u8]> for HeldBody {
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
        let allowed = Allowed { bytes: limit, values: 5, account: Account::Identified };
        collect(body(pieces), allowed, limits().budget.open(Account::Identified)).await
    }

    #[tokio::test]
    async fn pieces_are_joined_up_to_the_limit() {
        for (pieces, whole) in
            [(&[][..], ""), (&["abc"], "abc"), (&["", "ab", "", "c"], "abc"), (&["a", "b", "c"], "abc")]
        {
            assert_eq!(collected(pieces, 3).await.unwrap(), whole, "{pieces:?}");
        }
        for pieces in [&["abcd"][..], &["ab", "cd"], &["abc", "d"]] {
            assert_eq!(collected(pieces, 3).await.unwrap_err().code, Code::BodyTooLarge, "{pieces:?}");
        }
    }

    #[tokio::test]
    async fn body_of_too_many_values_is_refused() {
        assert!(collected(&["[1,2,", "3,4]"], 100).await.is_ok());
        assert_eq!(collected(&["[1,2,3,", "4,5]"], 100).await.unwrap_err().code, Code::BodyTooLarge);
    }

    #[tokio::test]
    async fn body_counts_against_the_budget_until_it_is_dropped() {
        let budget = BodyBudget::new(2000);
        let allowed = Allowed { bytes: 1000, values: 5, account: Account::Identified };
        let read = async || collect(body(&["[0,0]"]), allowed, budget.open(allowed.account)).await;
        let first = read().await.unwrap();
        assert_eq!(read().await.unwrap_err().code, Code::ServerBusy);
        drop(first);
        assert!(read().await.is_ok());
    }

    #[test]
    fn body_limit_is_lower_for_unidentified_callers() {
        let with = |identity: Option<Identity>, credential| {
            let mut extensions = Extensions::new();
            identity.map(|identity| extensions.insert(identity));
            limits().allowed(&extensions, credential).bytes
        };
        let known = |principal| Some(Identity::Known(Caller::new(principal)));
        for (identity, credential, bytes) in [
            (None, CredentialPlace::Header, 64 << 10),
            (Some(Identity::Missing), CredentialPlace::Header, 64 << 10),
            (Some(Identity::Invalid), CredentialPlace::Header, 64 << 10),
            (Some(Identity::Missing), CredentialPlace::Body, 1 << 20),
            (known(Principal::Anonymous), CredentialPlace::Header, 1 << 20),
            (known(Principal::Local), CredentialPlace::Header, 8 << 20),
            (known(Principal::Did("did:wba:a".into())), CredentialPlace::Body, 8 << 20),
        ] {
            assert_eq!(with(identity.clone(), credential), bytes, "{identity:?} {credential:?}");
        }
    }
}

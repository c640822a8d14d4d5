//! Checks whether an agent's DID vouches for the agent's keys, by fetching the DID document from its own host.

use std::time::Duration;

use nuncio_core::bundle::KeyBundle;
use nuncio_core::ids::DeviceId;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Fetch;
use nuncio_engine::ports::fetch::{FetchRequest, Trust};
use nuncio_identity::seal::verify_did_proof;
use nuncio_identity::{Did, DidDocument, K1ProofRule};
use url::Url;

/// Time limit; the person's prompt waits for the result.
const TIME: Duration = Duration::from_secs(3);

const MAX_BYTES: usize = 256 * 1024;

/// Pinned keys of one device of an agent, or all.
pub(crate) fn of<'a>(pinned: &'a [KeyBundle], device: Option<&'a DeviceId>) -> impl Iterator<Item = &'a KeyBundle> {
    pinned.iter().filter(move |bundle| device.is_none_or(|device| bundle.keys.device_id == *device))
}

/// The DID that vouches for a key bundle; `None` without one, or if the DID's host cannot be reached.
pub(crate) async fn by(fetch: &dyn Fetch, bundle: &KeyBundle, now: Timestamp) -> Option<String> {
    let did = Did::parse(&bundle.did.as_ref()?.did).ok()?;
    let answer = fetch
        .fetch(FetchRequest {
            method: "GET",
            url: Url::parse(&did.resolution_url()).ok()?,
            headers: vec![("accept".to_owned(), "application/did+json, application/json".to_owned())],
            body: None,
            trust: Trust::Stranger,
            timeout: TIME,
            max_bytes: MAX_BYTES,
        })
        .await
        .ok()
        .filter(|answer| answer.status == 200)?;
    let document = DidDocument::from_slice(&answer.body).ok()?.bind(&did, now, K1ProofRule::Required).ok()?;
    verify_did_proof(bundle, &document).ok().map(|()| did.to_string())
}

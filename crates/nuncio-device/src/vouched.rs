//! Whether an agent's DID vouches for its keys: its document is fetched from its own host, and must say so.

use std::time::Duration;

use nuncio_core::bundle::KeyBundle;
use nuncio_core::ids::DeviceId;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Fetch;
use nuncio_engine::ports::fetch::{Outgoing, Trust};
use nuncio_identity::seal::verify_did_proof;
use nuncio_identity::{Did, DidDocument, K1Proof};
use url::Url;

/// How long that may take: somebody waits for the prompt.
const TIME: Duration = Duration::from_secs(3);

/// How large a document is.
const MAX_BYTES: usize = 256 * 1024;

/// The keys that one device of an agent's signs with, or all.
pub(crate) fn of<'a>(pinned: &'a [KeyBundle], device: Option<&'a DeviceId>) -> impl Iterator<Item = &'a KeyBundle> {
    pinned.iter().filter(move |bundle| device.is_none_or(|device| bundle.keys.device_id == *device))
}

/// The DID that vouches for these keys; none when none does, or its host cannot be asked now.
pub(crate) async fn by(fetch: &dyn Fetch, bundle: &KeyBundle, now: Timestamp) -> Option<String> {
    let did = Did::parse(&bundle.did.as_ref()?.did).ok()?;
    let answer = fetch
        .fetch(Outgoing {
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
    let document = DidDocument::from_slice(&answer.body).ok()?.bind(&did, now, K1Proof::Required).ok()?;
    verify_did_proof(bundle, &document).ok().map(|()| did.to_string())
}

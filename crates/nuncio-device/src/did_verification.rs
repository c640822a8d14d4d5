//! Checks whether an agent's DID signed the agent's keys, with the DID document fetched from the DID's host.

use std::time::Duration;

use nuncio_core::bundle::KeyBundle;
use nuncio_core::ids::{AgentId, DeviceId};
use nuncio_core::notification::RelayParty;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::Fetch;
use nuncio_engine::ports::fetch::{AddressTrust, FetchRequest};
use nuncio_identity::seal::verify_did_proof;
use nuncio_identity::{Did, DidDocument, K1ProofRule};
use url::Url;

use crate::context::DeviceContext;
use crate::prompt::AgentVerification;

/// Time limit for fetching a DID document; short, because the person's prompt waits for the result.
const VERIFICATION_TIMEOUT: Duration = Duration::from_secs(3);

const MAX_BYTES: usize = 256 * 1024;

/// Whether one DID signed an agent's pinned keys: those of the device `by`, or all.
pub(crate) async fn verify_agent(context: &DeviceContext, agent: &AgentId, by: Option<&DeviceId>) -> AgentVerification {
    let pinned = context.peer.keys().pinned(&RelayParty::Agent(agent.clone())).await.unwrap_or_default();
    let mut vouching = None;
    for bundle in pinned.iter().filter(|bundle| by.is_none_or(|device| bundle.keys.device_id == *device)) {
        match (vouching_did(&*context.config.fetch, bundle, context.now()).await, &vouching) {
            (Some(did), None) => vouching = Some(did),
            (Some(did), Some(before)) if did == *before => {}
            // An agent with keys without proof, or with proofs of different DIDs, is unverified.
            _ => return AgentVerification::FirstContact,
        }
    }
    vouching.map_or(AgentVerification::FirstContact, |did| AgentVerification::Did { did })
}

/// The DID that signed a key bundle; `None` if none did or its document cannot be fetched.
async fn vouching_did(fetch: &dyn Fetch, bundle: &KeyBundle, now: Timestamp) -> Option<String> {
    let did = Did::parse(&bundle.did.as_ref()?.did).ok()?;
    let answer = fetch
        .fetch(FetchRequest {
            method: "GET",
            url: Url::parse(&did.resolution_url()).ok()?,
            headers: vec![("accept".to_owned(), "application/did+json, application/json".to_owned())],
            body: None,
            trust: AddressTrust::Stranger,
            timeout: VERIFICATION_TIMEOUT,
            max_bytes: MAX_BYTES,
        })
        .await
        .ok()
        .filter(|answer| answer.status == 200)?;
    let document = DidDocument::from_slice(&answer.body).ok()?.bind(&did, now, K1ProofRule::Required).ok()?;
    verify_did_proof(bundle, &document).ok().map(|()| did.to_string())
}

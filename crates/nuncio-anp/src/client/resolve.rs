//! Resolves DIDs to verified documents (ANP-03).

use std::sync::Arc;

use nuncio_identity::{BoundDidDocument, Did, DidDocument, DidDocumentBinding, K1ProofRule};
use serde_json::Value;

use super::AnpClient;
use super::error::{ClientError, ClientErrorReason, display_url, plain};
use super::target::{UserNamedHost, did_url};

const MAX_DID_DOCUMENT_BYTES: usize = 64 * 1024;
const MAX_SUCCESSORS: usize = 8;

impl AnpClient {
    pub(super) async fn resolve(
        &self,
        did: &Did,
        named_host: &UserNamedHost,
    ) -> Result<Arc<BoundDidDocument>, ClientError> {
        // If the user named a local http URL, local DIDs are resolved over http too.
        let by_http = self.options.local.is_http() || named_host.is_local_http();
        let url = did_url(did, by_http)?;
        let value = self.http.document(&url, named_host, MAX_DID_DOCUMENT_BYTES).await?;
        let not_its_own = |why: String| {
            let message = format!("{} is not the document of {did}: {}", display_url(&url), plain(&why));
            ClientError::new(ClientErrorReason::BadDid, message).advice("do not call the agent; ask its operator")
        };
        let document = DidDocument::from_json(value).map_err(|fault| not_its_own(fault.to_string()))?;
        let bound = document.bind(did, self.http.clock.now(), K1ProofRule::Optional);
        bound.map(Arc::new).map_err(|fault| not_its_own(fault.to_string()))
    }

    /// Resolves a DID and follows successors to the current document. Each step must be signed by the superseded key
    /// and keep the same stable subject.
    pub(super) async fn current(
        &self,
        did: &Did,
        named_host: &UserNamedHost,
        notes: &mut Vec<String>,
    ) -> Result<Arc<BoundDidDocument>, ClientError> {
        let mut bound = self.resolve(did, named_host).await?;
        for _ in 0..MAX_SUCCESSORS {
            if !bound.document().deactivated() {
                return Ok(bound);
            }
            let old = bound.did().clone();
            let gone = |message: String| ClientError::new(ClientErrorReason::Superseded, message);
            let Some(next) = bound.document().successor() else {
                return Err(gone(format!("{old} is deactivated and has no successor")));
            };
            let proven = matches!(bound.binding(), DidDocumentBinding::Ed25519)
                && bound.document().whole().contains_key("proof");
            if !proven || next.stable_subject() != old.stable_subject() {
                let why = if proven { "it belongs to another subject" } else { "only its host confirms it" };
                let error = gone(format!("{old} is deactivated, and its successor {next} cannot be verified: {why}"));
                return Err(error.advice("ask its operator, and name the new DID yourself if you trust it"));
            }
            notes.push(format!("{old} was replaced by {next}"));
            bound = self.resolve(&next.clone(), named_host).await?;
        }
        Err(ClientError::new(
            ClientErrorReason::Superseded,
            format!("{did} was replaced more than {MAX_SUCCESSORS} times"),
        ))
    }
}

/// Digest of a DID document, for detecting changes.
pub(super) fn digest(document: &BoundDidDocument) -> nuncio_core::digest::Digest {
    nuncio_core::digest::Digest::of_json(&Value::Object(document.document().whole().clone()))
}

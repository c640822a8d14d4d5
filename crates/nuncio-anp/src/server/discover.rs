//! Routes of the public documents: the list of agents, descriptions and interfaces.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use http::HeaderMap;
use nuncio_core::ErrorCode;
use nuncio_core::agent::Agent;
use nuncio_core::edition_cache::EditionCache;
use nuncio_engine::EngineError;
use nuncio_http::{CachePolicy, CacheableDocument};
use nuncio_identity::proof::DescriptionProofForm;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{AnpServerState, refuse};
use crate::project::ToolDocumentKind;
use crate::wire::canonical;

/// `Vary` header: apart from the URL, responses depend only on the accepted encoding.
pub(super) const VARY: &str = "accept-encoding";

/// Documents by name, for one edition of the agents.
pub(super) type DocumentCache = EditionCache<u64, String, CacheableDocument>;

impl AnpServerState {
    /// Builds the response with a document; `missing` is the error if there is no document.
    pub(super) fn answer_document(
        &self,
        headers: &HeaderMap,
        name: String,
        missing: &str,
        write: impl FnOnce() -> Option<Value>,
    ) -> Response {
        match self.document(name, write) {
            Some(document) => document.answer(headers, VARY),
            None => refuse(&EngineError::new(ErrorCode::NotFound, missing)),
        }
    }

    /// Returns a cached document, or builds it.
    fn document(&self, name: String, write: impl FnOnce() -> Option<Value>) -> Option<CacheableDocument> {
        let edition = self.engine.agents().agents_edition();
        if let Some(document) = self.documents.get(&edition, &name) {
            return Some(document);
        }
        let document = CacheableDocument::json(canonical(&write()?), CachePolicy::Public);
        self.documents.put(edition, name, document.clone());
        Some(document)
    }

    fn agent(&self, name: &str) -> Option<Arc<Agent>> {
        self.engine.agents().agent(name).ok().map(|served| Arc::clone(&served.agent))
    }
}

#[derive(Deserialize)]
pub(super) struct PageQuery {
    page: Option<usize>,
}

/// Handles `GET /.well-known/agent-descriptions?page=`.
pub(super) async fn agents(
    State(anp): State<AnpServerState>,
    asked: Result<Query<PageQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let Ok(Query(PageQuery { page })) = asked else {
        return refuse(&EngineError::new(ErrorCode::BadRequest, "page must be a number"));
    };
    let page = page.unwrap_or(1);
    let agents = anp.engine.agents().list();
    anp.answer_document(&headers, format!("page {page}"), "there is no such page", || {
        anp.host.page(agents.iter().map(|agent| &**agent), page).map(|page| json!(page))
    })
}

#[derive(Deserialize)]
pub(super) struct DescriptionProofQuery {
    proof: Option<String>,
}

/// Handles `GET /agents/{name}/ad.json?proof=`.
pub(super) async fn description(
    State(anp): State<AnpServerState>,
    Path(name): Path<String>,
    asked: Result<Query<DescriptionProofQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let form = match asked.as_ref().map(|Query(query)| query.proof.as_deref()) {
        Ok(None | Some("data_integrity")) => DescriptionProofForm::DataIntegrity,
        Ok(Some("literal")) => DescriptionProofForm::Literal,
        _ => return refuse(&EngineError::new(ErrorCode::BadRequest, "proof must be data_integrity or literal")),
    };
    // The cache name includes the DID, because a new key changes the DID and the description.
    let did = anp.agent(&name).and_then(|agent| anp.identities.agent_did(&agent.name)).unwrap_or_default();
    anp.answer_document(&headers, format!("ad {name} {did} {form:?}"), "this server has no such agent", || {
        let agent = anp.agent(&name)?;
        let did = Some(did.as_str()).filter(|did| !did.is_empty());
        Some(anp.identities.prove(&agent.name, json!(anp.host.description(&agent, did)), form))
    })
}

/// Handles `GET /agents/{name}/interfaces/{set}.json`.
pub(super) async fn interface(
    State(anp): State<AnpServerState>,
    Path((name, file)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    anp.answer_document(&headers, format!("interface {name} {file}"), "this agent has no such interface", || {
        let agent = anp.agent(&name)?;
        let set = ToolDocumentKind::parse(file.strip_suffix(".json")?).filter(|set| set.is_of(&agent))?;
        Some(json!(anp.host.openrpc(&agent, set)))
    })
}

/// Handles `GET /agents/{name}/information/{stem}.json`.
pub(super) async fn information(
    State(anp): State<AnpServerState>,
    Path((name, file)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let missing = "this agent publishes no information with that name";
    anp.answer_document(&headers, format!("information {name} {file}"), missing, || {
        let agent = anp.agent(&name)?;
        anp.identities.information(&agent.name, file.strip_suffix(".json")?)
    })
}

//! Versions of an agent's manifest, and the verdict on a manifest change (A2H §2.5).

use axum::extract::{Request, State};
use http::StatusCode;
use nuncio_core::ErrorCode;
use nuncio_core::account::PublishedManifest;
use nuncio_http::{etag, unless_known};
use serde_json::json;

use super::agents::{agent_id, written};
use super::{A2hResult, A2hServerState, PagedListQuery, PathParam, caller, data, page, revalidated, visitor};
use crate::error::A2hError;
use crate::lift;
use crate::wire::agent::{ManifestDiffRequest, ManifestView};

/// `POST /a2h/agents/{id}/manifest:diff`: the verdict on a manifest, which is not published.
pub(super) async fn diff(State(a2h): State<A2hServerState>, PathParam(id): PathParam, request: Request) -> A2hResult {
    let by = caller(&request)?;
    let id = agent_id(&id)?;
    let body: ManifestDiffRequest = lift::with_raw(&a2h.manifest_body(request).await?)?;
    let judged = a2h.engine.manifests().judge_manifest(&by, &id, lift::manifest(&body.capability_manifest)).await?;
    Ok(data(StatusCode::OK, &judged.verdict))
}

/// `GET /a2h/agents/{id}/manifests?cursor=&limit=`: manifest versions, newest first.
pub(super) async fn history(
    State(a2h): State<A2hServerState>,
    PathParam(id): PathParam,
    request: Request,
) -> A2hResult {
    let wanted = PagedListQuery::of(&request)?;
    let before = wanted.cursor(|text| text.parse::<u64>().ok())?;
    let account = a2h.engine.accounts().visible_account(visitor(&request)?.as_ref(), &id).await?;
    let found = a2h.engine.manifests().manifest_history(&account.id, before, wanted.limit + 1).await?;
    Ok(page(found, wanted.limit, view, |version| version.version.to_string()))
}

/// `GET /a2h/agents/{id}/manifests/{version}`: one manifest version.
pub(super) async fn version(
    State(a2h): State<A2hServerState>,
    PathParam((id, version)): PathParam<(String, String)>,
    request: Request,
) -> A2hResult {
    let account = a2h.engine.accounts().visible_account(visitor(&request)?.as_ref(), &id).await?;
    let headers = request.headers().clone();
    let found = match version.parse() {
        Ok(number) => a2h.engine.manifests().manifest_version(&account.id, number).await?,
        Err(_) => None,
    };
    let Some(found) = found else {
        let message = format!("agent {} has no such version; it has 1 to {}", account.id, account.manifest_version);
        return Err(A2hError::new(ErrorCode::NotFound, message));
    };
    let whole = ManifestView { capability_manifest: Some(written(&found)), ..view(&found) };
    let tag = etag(json!(whole).to_string().as_bytes());
    Ok(revalidated(unless_known(&headers, tag, || data(StatusCode::OK, whole))))
}

fn view(version: &PublishedManifest) -> ManifestView {
    ManifestView {
        version: version.version,
        hash: version.hash,
        published_by: version.by.clone(),
        published_at: version.at,
        change_note: version.change_note.clone(),
        change: version.verdict.clone(),
        capability_manifest: None,
    }
}

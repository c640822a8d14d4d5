//! `/a2h/agents`: accounts of agents (A2H §2.1).

use axum::extract::{Request, State};
use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use nuncio_core::ErrorCode;
use nuncio_core::account::{AccountOwner, AgentAccount, AgentConnection, PublishedManifest};
use nuncio_core::digest::Digest;
use nuncio_core::ids::AgentId;
use nuncio_core::principal::Principal;
use nuncio_engine::accounts::{AgentAccountPatch, UpdatedAgentAccount, stale_account};
use nuncio_engine::consent::ManifestPublicationResult;
use nuncio_engine::not_found;
use nuncio_engine::{Caller, EngineError};
use nuncio_http::unless_known;
use serde_json::{Value, json};

use super::{
    A2hResult, A2hServerState, PagedListQuery, PathParam, caller, created, data, page, person, revalidated, visitor,
};
use crate::error::A2hError;
use crate::lift::{self, IfMatchHeader};
use crate::wire::agent::{
    AgentAccountRequest, AgentAccountView, AgentOwnerView, ConnectionMode, ManifestChangeView, ManifestWarningView,
};
use crate::wire::webhook::SecretText;

/// `POST /a2h/agents`: creates an agent account.
pub(super) async fn create(State(a2h): State<A2hServerState>, request: Request) -> A2hResult {
    let by = caller(&request)?;
    let body: AgentAccountRequest = lift::with_raw(&a2h.manifest_body(request).await?)?;
    let made = a2h.engine.manifests().create_agent(&by, lift::new_agent(body)?).await?;
    let mut view = a2h.whole(&made.account, Some(&by)).await?;
    view.token = Some(made.token);
    view.webhook_secret = made.webhook_secret.map(|secret| SecretText(secret.text()));
    view.manifest_change = made.publication.map(|publication| Box::new(change(publication)));
    Ok(tagged(created(&format!("/a2h/agents/{}", view.id), &view), &view))
}

/// `GET /a2h/agents/{id}`: an agent account with its manifest.
pub(super) async fn show(State(a2h): State<A2hServerState>, PathParam(id): PathParam, request: Request) -> A2hResult {
    let caller_if_known = visitor(&request)?;
    let account = a2h.engine.accounts().visible_account(caller_if_known.as_ref(), &id).await?;
    let view = a2h.whole(&account, caller_if_known.as_ref()).await?;
    Ok(revalidated(unless_known(request.headers(), tag(&view), || data(StatusCode::OK, &view))))
}

/// `PATCH /a2h/agents/{id}`: changes an agent account, publishes a manifest, or both.
pub(super) async fn update(State(a2h): State<A2hServerState>, PathParam(id): PathParam, request: Request) -> A2hResult {
    let by = caller(&request)?;
    let id = agent_id(&id)?;
    let wanted = if_match(request.headers())?;
    let body: AgentAccountRequest = lift::with_raw(&a2h.manifest_body(request).await?)?;
    let patch = lift::patch(&body)?;
    let wanted = wanted.as_ref();
    let Some(raw) = body.capability_manifest.as_deref() else {
        if body.change_note.is_some() {
            return Err(lift::wrong("change_note is allowed only together with a capability_manifest").into());
        }
        let patch = patch.ok_or_else(|| lift::wrong("the request changes nothing: send at least one field"))?;
        let changed = a2h.change(&by, &id, patch, wanted).await?;
        let mut view = a2h.whole(&changed.account, Some(&by)).await?;
        view.webhook_secret = changed.webhook_secret.map(|secret| SecretText(secret.text()));
        return Ok(tagged(data(StatusCode::OK, &view), &view));
    };
    let manifest = lift::manifest(raw);
    let account = a2h.engine.accounts().owned(&by, &id).await?;
    let is_stale = a2h.is_stale(&account, &by, wanted).await?;
    let mut webhook_secret = None;
    if patch.is_some() || is_stale {
        // The manifest is checked before the account is changed, so that normally both changes are made or neither.
        a2h.engine.manifests().judge_manifest(&by, &id, manifest).await?;
    }
    if is_stale {
        return Err(A2hError::conditional(stale_account(&account)));
    }
    if let Some(patch) = patch {
        webhook_secret = a2h.change(&by, &id, patch, wanted).await?.webhook_secret;
    }
    let note = body.change_note.as_deref();
    let current = wanted.map(|_| account.manifest_hash.unwrap_or(Digest::ZERO));
    let published = a2h.engine.manifests().publish_manifest(&by, &id, manifest, current, note).await;
    let publication = published.map_err(A2hError::conditional)?;
    let mut view = a2h.whole(&publication.account, Some(&by)).await?;
    view.webhook_secret = webhook_secret.map(|secret| SecretText(secret.text()));
    view.manifest_change = Some(Box::new(change(publication)));
    Ok(tagged(data(StatusCode::OK, &view), &view))
}

/// `GET /a2h/agents?q=&owner=me&cursor=&limit=`: searches public agents, or lists the caller's own.
pub(super) async fn list(State(a2h): State<A2hServerState>, request: Request) -> A2hResult {
    let wanted = PagedListQuery::of(&request)?;
    let after = wanted.cursor(|text| AgentId::parse(text).ok())?;
    let caller_if_known = visitor(&request)?;
    let found = match wanted.text("owner") {
        None => {
            let query = wanted.text("q").unwrap_or_default();
            a2h.engine.accounts().search_agents(query, after.as_ref(), wanted.limit + 1).await?
        }
        Some("me") => {
            let owner = AccountOwner::Person(person(&request)?.0);
            a2h.engine.accounts().accounts_of(&owner, after.as_ref(), wanted.limit + 1).await?
        }
        Some(_) => return Err(lift::wrong("owner must be \"me\"; without it all public agents are searched").into()),
    };
    Ok(page(found, wanted.limit, |account| view(account, caller_if_known.as_ref()), |account| account.id.to_string()))
}

/// `POST /a2h/agents/{id}/token:rotate`: replaces the agent's token.
pub(super) async fn rotate_token(
    State(a2h): State<A2hServerState>,
    PathParam(id): PathParam,
    request: Request,
) -> A2hResult {
    let by = caller(&request)?;
    let (account, token) = a2h.engine.accounts().rotate_agent_token(&by, &agent_id(&id)?).await?;
    let view = AgentAccountView { token: Some(token), ..view(&account, Some(&by)) };
    Ok(data(StatusCode::OK, view))
}

/// `DELETE /a2h/agents/{id}/token`: revokes the agent's token.
pub(super) async fn revoke_token(
    State(a2h): State<A2hServerState>,
    PathParam(id): PathParam,
    request: Request,
) -> A2hResult {
    let by = caller(&request)?;
    let account = a2h.engine.accounts().revoke_agent_token(&by, &agent_id(&id)?).await?;
    Ok(data(StatusCode::OK, view(&account, Some(&by))))
}

/// Parses the agent id of a path; an invalid id gives the same error as an unknown agent.
pub(super) fn agent_id(text: &str) -> Result<AgentId, EngineError> {
    AgentId::parse(text).map_err(|_| not_found::agent_account(text))
}

fn if_match(headers: &HeaderMap) -> Result<Option<IfMatchHeader>, EngineError> {
    let Some(value) = headers.get(header::IF_MATCH) else { return Ok(None) };
    IfMatchHeader::read(value.to_str().unwrap_or_default()).map(Some)
}

/// Adds the `ETag` that a later `GET` of the same caller has.
fn tagged(mut response: Response, view: &AgentAccountView) -> Response {
    response.headers_mut().insert(header::ETAG, tag(view));
    response
}

fn tag(view: &AgentAccountView) -> HeaderValue {
    HeaderValue::try_from(format!("\"{}\"", tag_text(view))).expect("hex and a dot in quotes are a header value")
}

/// `ETag` of an account without quotes: the hash of its manifest, and the digest of what the caller sees. `If-Match`
/// takes the whole or the hash alone.
fn tag_text(view: &AgentAccountView) -> String {
    let seen = AgentAccountView { token: None, webhook_secret: None, manifest_change: None, ..view.clone() };
    let digest = Digest::of_json(&json!(seen)).to_string();
    let hash = view.capability_manifest_hash.map(|hash| hash.to_string()).unwrap_or_default();
    format!("{hash}.{}", &digest[..16])
}

impl A2hServerState {
    /// Changes an agent account if its state matches `If-Match`. Closes the WebSocket of an agent that switched to webhook
    /// delivery.
    async fn change(
        &self,
        by: &Caller,
        id: &AgentId,
        patch: AgentAccountPatch,
        wanted: Option<&IfMatchHeader>,
    ) -> Result<UpdatedAgentAccount, A2hError> {
        let changed = loop {
            let account = self.engine.accounts().owned(by, id).await?;
            if self.is_stale(&account, by, wanted).await? {
                return Err(A2hError::conditional(stale_account(&account)));
            }
            let expected_revision = wanted.map(|_| account.revision);
            let patch = AgentAccountPatch { expected_revision, ..patch.clone() };
            match self.engine.accounts().update_agent(by, id, patch).await {
                // The account changed after it was compared with `If-Match`, so it is compared again.
                Err(error) if error.code == ErrorCode::ManifestStale => {}
                changed => break changed?,
            }
        };
        if changed.account.connection != AgentConnection::Websocket {
            self.sockets.dismiss(id);
        }
        Ok(changed)
    }

    async fn is_stale(
        &self,
        account: &AgentAccount,
        by: &Caller,
        wanted: Option<&IfMatchHeader>,
    ) -> Result<bool, EngineError> {
        let Some(wanted) = wanted else { return Ok(false) };
        Ok(!wanted.allows(&tag_text(&self.whole(account, Some(by)).await?), account.manifest_hash))
    }

    async fn whole(
        &self,
        account: &AgentAccount,
        caller_if_known: Option<&Caller>,
    ) -> Result<AgentAccountView, EngineError> {
        let manifest = self.engine.manifests().current_manifest(account).await?;
        let manifest = manifest.as_ref().map_or(Value::Null, written);
        Ok(AgentAccountView { capability_manifest: Some(manifest), ..view(account, caller_if_known) })
    }
}

/// Manifest of a stored version as JSON.
pub(super) fn written(version: &PublishedManifest) -> Value {
    let text = version.manifest.as_deref().unwrap_or("null");
    serde_json::from_str(text).unwrap_or_default()
}

fn view(account: &AgentAccount, caller_if_known: Option<&Caller>) -> AgentAccountView {
    let insider = caller_if_known.is_some_and(|caller| {
        account.owner.is(&caller.principal) || caller.principal == Principal::Agent(account.id.clone())
    });
    let (connection_mode, webhook_url) = match &account.connection {
        AgentConnection::Websocket => (ConnectionMode::Websocket, None),
        AgentConnection::Webhook { url } => (ConnectionMode::Webhook, Some(url.url().to_string())),
    };
    AgentAccountView {
        id: account.id.clone(),
        display_name: account.display_name.clone(),
        description: account.description.clone(),
        public: account.public,
        owner: match &account.owner {
            AccountOwner::Operator => AgentOwnerView::Operator,
            AccountOwner::Person(name) => AgentOwnerView::User { user_id: name.clone() },
        },
        connection_mode,
        webhook_url: webhook_url.filter(|_| insider),
        health_check_url: account.health_check_url.as_ref().filter(|_| insider).map(ToString::to_string),
        token_prefix: account.token.as_ref().filter(|_| insider).map(|mark| mark.prefix.clone()),
        token: None,
        webhook_secret: None,
        created_at: account.created_at,
        updated_at: account.updated_at,
        capability_manifest: None,
        capability_manifest_version: account.manifest_version,
        capability_manifest_hash: account.manifest_hash,
        manifest_change: None,
    }
}

fn change(publication: ManifestPublicationResult) -> ManifestChangeView {
    let verdict = publication.verdict;
    let warnings = publication.warnings.into_iter().map(|warning| ManifestWarningView {
        pointer: warning.pointer,
        rule: warning.rule.to_string(),
        message: warning.message,
    });
    ManifestChangeView {
        changed: publication.changed,
        breaking: verdict.breaking,
        findings: json!(verdict.findings),
        notices: json!(verdict.notices),
        scopes_requiring_reauth: verdict.scopes_requiring_reauth.into_iter().collect(),
        warnings: warnings.collect(),
        affected_users: publication.affected,
    }
}

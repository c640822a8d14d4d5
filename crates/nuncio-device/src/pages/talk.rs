//! Page of the sealed conversation with an agent. The page works with plain forms; scripts update it live.

use std::time::Duration;

use askama::Template;
use axum::Json;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode, header};
use nuncio_core::ErrorCode;
use nuncio_core::bundle::SealMode;
use nuncio_core::ids::{AgentId, ClientMessageId};
use nuncio_core::notification::RelayParty;
use nuncio_http::pages::sender::{FormFields, field};
use nuncio_http::pages::{see, written};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::DevicePages;
use super::agents::unknown;
use super::frame::{NavEntry, PageFrame, SignedInForm, SignedInRequest};
use crate::error::DeviceError;
use crate::known_agents::KnownAgent;
use crate::talk::{MAX_TEXT, MessagePosition, StreamedReply};

mod message_view;

use message_view::ChatMessageView;

/// Messages per page of a conversation.
const PAGE: usize = 50;

/// How long the page waits for the relay's answer about new keys of the agent.
const KEY_READ_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Template)]
#[template(path = "talk.html")]
struct TalkPage {
    frame: PageFrame,
    name: String,
    agent: String,
    /// Link to the agent's page, with its grants and safety number.
    agent_href: String,
    /// Whether the agent's keys give no forward secrecy: a key stolen later opens earlier messages.
    weaker: bool,
    /// Whether the agent has new keys that the person has not accepted.
    keys_changed: bool,
    has_relation: bool,
    lines: Vec<ChatMessageView>,
    /// Replies that are being streamed at the moment.
    growing: Vec<StreamedReply>,
    /// Link to the page with older messages.
    older: Option<String>,
    /// Link to the latest messages, on a page of older ones.
    latest: Option<String>,
    /// Client message id for the message that the form will send.
    next: String,
    /// Submitted text that was refused, to fill the form again.
    text: String,
    wrong: Option<String>,
}

#[derive(Default, Deserialize)]
pub(super) struct TalkQuery {
    before: Option<String>,
}

impl TalkQuery {
    fn before(&self) -> Option<MessagePosition> {
        MessagePosition::parse(self.before.as_deref()?)
    }
}

/// `GET /talk/:agent`: page of the conversation with an agent.
pub(super) async fn show(
    State(pages): State<DevicePages>,
    Path(id): Path<String>,
    Query(wanted): Query<TalkQuery>,
    visit: SignedInRequest,
) -> Response {
    let Ok(agent) = AgentId::parse(&id) else { return unknown(&visit) };
    match page(&pages, &visit, &agent, wanted.before(), None).await {
        Ok(page) => written(StatusCode::OK, &page),
        Err(error) if error.code == ErrorCode::UnknownAgent => unknown(&visit),
        Err(error) => visit.failed(&error),
    }
}

/// Builds the conversation page; `refused` has a submitted text and the reason of its refusal.
async fn page(
    pages: &DevicePages,
    visit: &SignedInRequest,
    agent: &AgentId,
    before: Option<MessagePosition>,
    refused: Option<(String, String)>,
) -> Result<TalkPage, DeviceError> {
    let shown = pages.device.messages().page(agent, before, PAGE)?;
    let known = match pages.device.consents().agents()?.into_iter().find(|known| known.agent == *agent) {
        Some(known) => known,
        None if shown.messages.is_empty() => pages.device.consents().refresh(agent).await?,
        None => KnownAgent::new(agent.clone(), pages.device.context().now()),
    };
    let owner = RelayParty::Agent(agent.clone());
    let pinned = pages.device.peer().keys().pinned(&owner).await?;
    // If the relay does not answer, no hint about new keys is shown; messages with such keys are refused anyway.
    let waiting = tokio::time::timeout(KEY_READ_TIMEOUT, pages.device.peer().keys().waiting(&owner)).await;
    let older = shown.messages.iter().find_map(|message| message.position).filter(|_| shown.more);
    let to = |path: String| visit.to(&path);
    let (text, wrong) = refused.unzip();
    Ok(TalkPage {
        frame: visit.frame(pages, NavEntry::Agents),
        agent_href: to(format!("/agents/{agent}")),
        weaker: pinned.iter().any(|bundle| bundle.keys.mode == SealMode::Stateless),
        keys_changed: matches!(waiting, Ok(Ok(new)) if !new.is_empty()),
        has_relation: known.standing(&pages.device.identity().person).is_some(),
        lines: shown.messages.iter().map(|message| ChatMessageView::new(pages, visit, &known, message)).collect(),
        growing: if before.is_none() { growing(pages, agent) } else { Vec::new() },
        older: older.map(|position| to(format!("/talk/{agent}?before={position}"))),
        latest: before.map(|_| to(format!("/talk/{agent}"))),
        next: pages.device.messages().new_id()?.to_string(),
        name: known.name,
        agent: agent.to_string(),
        text: text.unwrap_or_default(),
        wrong,
    })
}

fn growing(pages: &DevicePages, agent: &AgentId) -> Vec<StreamedReply> {
    pages.device.messages().live().1.into_iter().filter(|growing| growing.agent == *agent).collect()
}

#[derive(Serialize)]
struct MessagesResponse {
    lines: Vec<ChatMessageView>,
    /// Position before which older messages exist; `None` if there are none.
    older: Option<String>,
    growing: Vec<StreamedReply>,
}

/// `GET /talk/:agent/lines?before=…`: messages of the conversation as JSON, for the page's script.
pub(super) async fn lines(
    State(pages): State<DevicePages>,
    Path(id): Path<String>,
    Query(wanted): Query<TalkQuery>,
    visit: SignedInRequest,
) -> Response {
    let Ok(agent) = AgentId::parse(&id) else { return StatusCode::NOT_FOUND.into_response() };
    let load = || {
        let known = pages.device.consents().agents()?.into_iter().find(|known| known.agent == agent);
        let known = known.unwrap_or_else(|| KnownAgent::new(agent.clone(), pages.device.context().now()));
        let shown = pages.device.messages().page(&agent, wanted.before(), PAGE)?;
        let older = shown.messages.iter().find_map(|message| message.position).filter(|_| shown.more);
        let view = |message| ChatMessageView::new(&pages, &visit, &known, message);
        Ok::<_, DeviceError>(MessagesResponse {
            older: older.map(|position| position.to_string()),
            lines: shown.messages.iter().map(view).collect(),
            growing: growing(&pages, &agent),
        })
    };
    match load() {
        Ok(response) => Json(response).into_response(),
        Err(error) => {
            tracing::warn!(%error, "cannot load the messages of a conversation");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Parses the agent and client message id that a submitted form names.
fn form_target(id: &str, sent: &FormFields) -> Option<(AgentId, ClientMessageId)> {
    let client_id = ClientMessageId::parse(field(sent, "client_id")?).ok()?;
    Some((AgentId::parse(id).ok()?, client_id))
}

fn is_script(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok());
    accepted.is_some_and(|accepted| accepted.starts_with("application/json"))
}

/// `POST /talk/:agent`: sends a message; submitting the same client message id again sends nothing.
pub(super) async fn send(State(pages): State<DevicePages>, Path(id): Path<String>, form: SignedInForm) -> Response {
    let Some((agent, client_id)) = form_target(&id, &form.sent) else { return unknown(&form.visit) };
    let text = field(&form.sent, "text").unwrap_or_default();
    let sent_message =
        pages.device.messages().send(&agent, &client_id, text).and_then(|()| pages.device.messages().new_id());
    let script = is_script(&form.visit.headers);
    match sent_message {
        Ok(next) if script => Json(json!({"next": next})).into_response(),
        Ok(_) => see(&format!("{}#end", form.visit.to(&format!("/talk/{agent}")))),
        Err(error) => {
            let Some(why) = why_not(&form.visit, &error) else { return form.visit.failed(&error) };
            if script {
                return (StatusCode::UNPROCESSABLE_ENTITY, Json(json!({"why": why}))).into_response();
            }
            match page(&pages, &form.visit, &agent, None, Some((text.chars().take(4 * MAX_TEXT).collect(), why))).await
            {
                Ok(page) => written(StatusCode::UNPROCESSABLE_ENTITY, &page),
                Err(error) => form.visit.failed(&error),
            }
        }
    }
}

/// Text that explains why a message was refused; `None` if the error has another cause than the message.
fn why_not(visit: &SignedInRequest, error: &DeviceError) -> Option<String> {
    let text = &visit.text.talk;
    Some(match error.code {
        ErrorCode::BadRequest => text.empty.clone(),
        ErrorCode::BodyTooLarge => text.too_long.replace("{size}", &(MAX_TEXT / 1024).to_string()),
        ErrorCode::LimitReached => text.too_many.clone(),
        _ => return None,
    })
}

/// `POST /talk/:agent/again`: retries a failed message.
pub(super) async fn again(State(pages): State<DevicePages>, Path(id): Path<String>, form: SignedInForm) -> Response {
    with_failed(&id, form, |agent, client_id| pages.device.messages().retry(agent, client_id))
}

/// `POST /talk/:agent/drop`: deletes a failed message.
pub(super) async fn drop_failed(
    State(pages): State<DevicePages>,
    Path(id): Path<String>,
    form: SignedInForm,
) -> Response {
    with_failed(&id, form, |agent, client_id| pages.device.messages().delete_failed(agent, client_id))
}

fn with_failed(
    id: &str,
    SignedInForm { visit, sent }: SignedInForm,
    act: impl Fn(&AgentId, &ClientMessageId) -> Result<(), DeviceError>,
) -> Response {
    let Some((agent, client_id)) = form_target(id, &sent) else { return unknown(&visit) };
    match act(&agent, &client_id) {
        Ok(()) if is_script(&visit.headers) => Json(json!({})).into_response(),
        Ok(()) => see(&format!("{}#end", visit.to(&format!("/talk/{agent}")))),
        Err(error) => visit.failed(&error),
    }
}

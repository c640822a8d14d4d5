//! Page of the sealed conversation with an agent. The page works with plain forms; scripts update it live.

use std::time::Duration;

use askama::Template;
use axum::Json;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode, header};
use nuncio_core::Code;
use nuncio_core::bundle::SealMode;
use nuncio_core::happening::Recipient;
use nuncio_core::ids::{AgentId, ClientMessageId};
use nuncio_http::pages::sender::{Fields, field};
use nuncio_http::pages::{see, written};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Pages;
use super::frame::{Frame, NavEntry, PageForm, SignedInRequest};
use crate::error::DeviceError;
use crate::known_agents::KnownAgent;
use crate::talk::{MAX_TEXT, MessagePosition, StreamedReply};

mod message_view;

use message_view::ChatMessageView;

/// Messages per page of a conversation.
const PAGE: usize = 50;

/// Time for asking the relay about new keys before the page is shown without the answer.
const KEYS: Duration = Duration::from_secs(2);

/// `GET /talk/:agent`
#[derive(Template)]
#[template(path = "talk.html")]
struct TalkPage {
    frame: Frame,
    name: String,
    agent: String,
    /// Link to the agent's page, with its grants and safety number.
    about: String,
    /// Whether the agent's keys are stateless, so that a key stolen later opens earlier messages (no forward secrecy).
    weaker: bool,
    /// Whether new keys of the agent wait for acceptance.
    keys_changed: bool,
    has_relation: bool,
    lines: Vec<ChatMessageView>,
    /// Replies that are being streamed while the page is rendered.
    growing: Vec<StreamedReply>,
    /// Link to older messages.
    older: Option<String>,
    /// Link to the latest messages, on a page of older ones.
    latest: Option<String>,
    /// Client message id for the next message.
    next: String,
    /// Text that was submitted and refused.
    words: String,
    wrong: Option<String>,
}

#[derive(Default, Deserialize)]
pub(super) struct TalkQuery {
    before: Option<String>,
}

impl TalkQuery {
    fn before(&self) -> Option<MessagePosition> {
        self.before.as_deref()?.parse().ok()
    }
}

/// `GET /talk/:agent`
pub(super) async fn show(
    State(pages): State<Pages>,
    Path(id): Path<String>,
    Query(wanted): Query<TalkQuery>,
    visit: SignedInRequest,
) -> Response {
    let Ok(agent) = AgentId::parse(&id) else { return unknown(&visit) };
    match page(&pages, &visit, &agent, wanted.before(), None).await {
        Ok(page) => written(StatusCode::OK, &page),
        Err(error) if error.code == Code::UnknownAgent => unknown(&visit),
        Err(error) => visit.failed(&error),
    }
}

/// Renders the conversation page; `refused` holds a submitted text and why it was refused.
async fn page(
    pages: &Pages,
    visit: &SignedInRequest,
    agent: &AgentId,
    before: Option<MessagePosition>,
    refused: Option<(String, String)>,
) -> Result<TalkPage, DeviceError> {
    let shown = pages.device.messages(agent, before, PAGE)?;
    let known = match pages.device.agents()?.into_iter().find(|known| known.agent == *agent) {
        Some(known) => known,
        None if shown.lines.is_empty() => pages.device.refresh(agent).await?,
        None => KnownAgent::new(agent.clone(), pages.device.now()),
    };
    let owner = Recipient::Agent(agent.clone());
    let pinned = pages.device.peer().pinned(&owner).await?;
    // If the relay cannot be asked, no hint is shown; messages with other keys are refused anyway.
    let waiting = tokio::time::timeout(KEYS, pages.device.peer().waiting(&owner)).await;
    let older = shown.lines.iter().find_map(|line| line.place).filter(|_| shown.more);
    let to = |path: String| visit.to(&path);
    let (words, wrong) = refused.unzip();
    Ok(TalkPage {
        frame: visit.frame(pages, NavEntry::Agents),
        about: to(format!("/agents/{agent}")),
        weaker: pinned.iter().any(|bundle| bundle.keys.mode == SealMode::Stateless),
        keys_changed: matches!(waiting, Ok(Ok(new)) if !new.is_empty()),
        has_relation: known.standing(&pages.device.identity().person).is_some(),
        lines: shown.lines.iter().map(|line| ChatMessageView::new(pages, visit, &known, line)).collect(),
        growing: if before.is_none() { growing(pages, agent) } else { Vec::new() },
        older: older.map(|place| to(format!("/talk/{agent}?before={place}"))),
        latest: before.map(|_| to(format!("/talk/{agent}"))),
        next: pages.device.new_message_id()?.to_string(),
        name: known.name,
        agent: agent.to_string(),
        words: words.unwrap_or_default(),
        wrong,
    })
}

fn growing(pages: &Pages, agent: &AgentId) -> Vec<StreamedReply> {
    pages.device.live().1.into_iter().filter(|growing| growing.agent == *agent).collect()
}

fn unknown(visit: &SignedInRequest) -> Response {
    visit.message(StatusCode::NOT_FOUND, &visit.text.frame.not_found, &visit.text.agent.unknown)
}

#[derive(Serialize)]
struct MessagesResponse {
    lines: Vec<ChatMessageView>,
    /// Position before which older messages exist.
    older: Option<String>,
    growing: Vec<StreamedReply>,
}

/// `GET /talk/:agent/lines?before=…`
pub(super) async fn lines(
    State(pages): State<Pages>,
    Path(id): Path<String>,
    Query(wanted): Query<TalkQuery>,
    visit: SignedInRequest,
) -> Response {
    let Ok(agent) = AgentId::parse(&id) else { return StatusCode::NOT_FOUND.into_response() };
    let told = || {
        let known = pages.device.agents()?.into_iter().find(|known| known.agent == agent);
        let known = known.unwrap_or_else(|| KnownAgent::new(agent.clone(), pages.device.now()));
        let shown = pages.device.messages(&agent, wanted.before(), PAGE)?;
        let older = shown.lines.iter().find_map(|line| line.place).filter(|_| shown.more);
        Ok::<_, DeviceError>(MessagesResponse {
            older: older.map(|place| place.to_string()),
            lines: shown.lines.iter().map(|line| ChatMessageView::new(&pages, &visit, &known, line)).collect(),
            growing: growing(&pages, &agent),
        })
    };
    match told() {
        Ok(told) => Json(told).into_response(),
        Err(error) => {
            tracing::warn!(%error, "lines cannot be read");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Agent and client message id of a form.
fn about(id: &str, sent: &Fields) -> Option<(AgentId, ClientMessageId)> {
    let client_id = ClientMessageId::parse(field(sent, "client_id")?).ok()?;
    Some((AgentId::parse(id).ok()?, client_id))
}

fn is_script(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok());
    accepted.is_some_and(|accepted| accepted.starts_with("application/json"))
}

/// `POST /talk/:agent`: sends a message; a repeated client message id sends the message once.
pub(super) async fn say(
    State(pages): State<Pages>,
    Path(id): Path<String>,
    PageForm { visit, sent }: PageForm,
) -> Response {
    let Some((agent, client_id)) = about(&id, &sent) else { return unknown(&visit) };
    let words = field(&sent, "text").unwrap_or_default();
    let said = pages.device.send_message(&agent, &client_id, words).and_then(|()| pages.device.new_message_id());
    let script = is_script(&visit.headers);
    match said {
        Ok(next) if script => Json(json!({"next": next})).into_response(),
        Ok(_) => see(&format!("{}#end", visit.to(&format!("/talk/{agent}")))),
        Err(error) => {
            let Some(why) = why_not(&visit, &error) else { return visit.failed(&error) };
            if script {
                return (StatusCode::UNPROCESSABLE_ENTITY, Json(json!({"why": why}))).into_response();
            }
            match page(&pages, &visit, &agent, None, Some((beginning(words), why))).await {
                Ok(page) => written(StatusCode::UNPROCESSABLE_ENTITY, &page),
                Err(error) => visit.failed(&error),
            }
        }
    }
}

/// Explains why a message was refused; `None` if the message was not the cause.
fn why_not(visit: &SignedInRequest, error: &DeviceError) -> Option<String> {
    let text = &visit.text.talk;
    Some(match error.code {
        Code::BadRequest => text.empty.clone(),
        Code::BodyTooLarge => text.too_long.replace("{size}", &(MAX_TEXT / 1024).to_string()),
        Code::LimitReached => text.too_many.clone(),
        _ => return None,
    })
}

/// Submitted text for the form, shortened.
fn beginning(words: &str) -> String {
    words.chars().take(4 * MAX_TEXT).collect()
}

/// `POST /talk/:agent/again`: retries a failed message.
pub(super) async fn again(State(pages): State<Pages>, Path(id): Path<String>, form: PageForm) -> Response {
    with_failed(&id, form, |agent, client_id| pages.device.retry_message(agent, client_id))
}

/// `POST /talk/:agent/drop`: deletes a failed message.
pub(super) async fn drop_failed(State(pages): State<Pages>, Path(id): Path<String>, form: PageForm) -> Response {
    with_failed(&id, form, |agent, client_id| pages.device.drop_message(agent, client_id))
}

fn with_failed(
    id: &str,
    PageForm { visit, sent }: PageForm,
    act: impl Fn(&AgentId, &ClientMessageId) -> Result<(), DeviceError>,
) -> Response {
    let Some((agent, client_id)) = about(id, &sent) else { return unknown(&visit) };
    match act(&agent, &client_id) {
        Ok(()) if is_script(&visit.headers) => Json(json!({})).into_response(),
        Ok(()) => see(&format!("{}#end", visit.to(&format!("/talk/{agent}")))),
        Err(error) => visit.failed(&error),
    }
}

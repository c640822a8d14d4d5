//! Home page, and the pending tool calls that need the person's decision.

use askama::Template;
use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use nuncio_core::ids::AgentId;
use nuncio_http::pages::sender::field;
use nuncio_http::pages::written;
use serde::Serialize;
use serde_json::json;

use super::DevicePages;
use super::frame::{NavEntry, PageFrame, SignedInForm, SignedInRequest};
use super::prompt_queue::PromptAnswerRejection;
use super::wording;
use crate::error::DeviceError;
use crate::prompt::{PromptAnswer, PromptQuestion};

/// A pending tool call in display form. All texts from the agent are plain text.
#[derive(Serialize)]
pub(super) struct PendingCallView {
    id: String,
    agent: AgentId,
    agent_name: String,
    verified: String,
    tool: String,
    description: Option<String>,
    arguments: String,
    scope: String,
    label: String,
    means: Option<String>,
    /// Whether the agent wrote the label or meaning of the scope.
    agents_words: bool,
    /// Says which well-known permission the agent's label describes.
    standard: Option<String>,
    icon: &'static str,
    level: &'static str,
    stake: String,
    /// App, person and conversation behind the call.
    source: String,
    /// What "for 24 hours" means for this call.
    day_means: String,
    /// Remaining time for the person's answer, in milliseconds.
    left: i64,
}

/// Pending tool calls in display form; marks them as shown.
pub(super) fn waiting(pages: &DevicePages, visit: &SignedInRequest) -> Vec<PendingCallView> {
    pages.shared.prompts.show().into_iter().map(|question| shown(pages, visit, question)).collect()
}

fn shown(pages: &DevicePages, visit: &SignedInRequest, question: PromptQuestion) -> PendingCallView {
    let language = visit.language.tag();
    let person = pages.device.identity().person.as_str();
    PendingCallView {
        verified: wording::verified(visit.text, &question.verified),
        description: question.description.in_language(language).map(str::to_owned),
        label: question.scope_words.label.in_language(language).unwrap_or(question.scope.as_str()).to_owned(),
        means: question.scope_words.description.in_language(language).map(str::to_owned),
        agents_words: question.scope_words.agents_words,
        standard: {
            let label = question.scope_words.standard_label.in_language(language);
            label.map(|label| visit.text.agent.standard_label.replace("{label}", label))
        },
        icon: wording::icon(&question.scope),
        level: question.sensitivity.as_str(),
        stake: visit.text.stake.level(question.sensitivity).name.to_owned(),
        source: wording::source(visit.text, person, &question),
        day_means: wording::day_means(visit.text, question.source.as_ref()),
        left: question.until.as_millis() - pages.device.context().now().as_millis(),
        id: question.id,
        agent: question.agent,
        agent_name: question.agent_name,
        tool: question.tool.to_string(),
        arguments: question.arguments,
        scope: question.scope.to_string(),
    }
}

#[derive(Template)]
#[template(path = "home.html")]
struct HomePage {
    frame: PageFrame,
    /// Link and name of each agent with suspended scopes.
    changed: Vec<(String, String)>,
    /// Whether the device has no record of any agent yet.
    alone: bool,
}

/// `GET /`: home page.
pub(super) async fn home(State(pages): State<DevicePages>, visit: SignedInRequest) -> Response {
    visit.respond(home_page(&pages, &visit))
}

fn home_page(pages: &DevicePages, visit: &SignedInRequest) -> Result<Response, DeviceError> {
    let known = pages.device.consents().agents()?;
    let person = &pages.device.identity().person;
    let waits =
        known.iter().filter(|known| known.standing(person).is_some_and(|standing| !standing.suspended.is_empty()));
    let changed = waits.map(|known| (visit.to(&format!("/agents/{}", known.agent)), known.name.clone())).collect();
    let frame = visit.frame(pages, NavEntry::Home);
    Ok(written(StatusCode::OK, &HomePage { frame, changed, alone: known.is_empty() }))
}

/// `GET /calls`: pending tool calls as JSON, for the page's scripts.
pub(super) async fn list(State(pages): State<DevicePages>, visit: SignedInRequest) -> Response {
    Json(waiting(&pages, &visit)).into_response()
}

/// `POST /calls/:id`: takes the person's decision on a call. The response gives the reason if it is rejected.
pub(super) async fn answer(State(pages): State<DevicePages>, Path(id): Path<String>, form: SignedInForm) -> Response {
    let answer = match field(&form.sent, "answer") {
        Some("allow") => PromptAnswer::Yes,
        Some("once") => PromptAnswer::Once,
        Some("deny") => PromptAnswer::No,
        _ => return (StatusCode::UNPROCESSABLE_ENTITY, Json(json!({"why": "answer"}))).into_response(),
    };
    match pages.shared.prompts.answer(&id, answer) {
        Ok(()) => Json(json!({"counted": true})).into_response(),
        Err(PromptAnswerRejection::Gone) => (StatusCode::GONE, Json(json!({"why": "gone"}))).into_response(),
        Err(PromptAnswerRejection::TooSoon) => (StatusCode::CONFLICT, Json(json!({"why": "too_soon"}))).into_response(),
    }
}

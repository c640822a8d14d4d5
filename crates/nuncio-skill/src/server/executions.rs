//! How far an execution is, what came of it, and stopping it.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use nuncio_core::Code;
use nuncio_core::execution::{Execution, State as Phase};
use nuncio_engine::{Caller, EngineError, Identity};
use nuncio_http::{Preference, preference};
use serde_json::{Map, json};

use super::{Named, SkillError, Skills, caller, json_response, nobody};
use crate::error;
use crate::wire::{ExecutionStatus, InvocationResponse, Timestamps};

/// How long a request may wait for an execution at most.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// `GET /executions/{id}`
pub(super) async fn status(
    State(skills): State<Skills>,
    Named(id): Named,
    request: Parts,
) -> Result<Response, SkillError> {
    let (execution, waited) = read(&skills, &id, &request).await?;
    Ok(answer(&skills, StatusCode::OK, &execution, waited))
}

/// `GET /executions/{id}/result`: the same; before it is over it says where its state is.
pub(super) async fn result(
    State(skills): State<Skills>,
    Named(id): Named,
    request: Parts,
) -> Result<Response, SkillError> {
    let (execution, waited) = read(&skills, &id, &request).await?;
    let mut response = answer(&skills, StatusCode::OK, &execution, waited);
    if !execution.state.is_over() {
        locate(&skills, &execution, response.headers_mut());
    }
    Ok(response)
}

/// `DELETE /executions/{id}` and `POST /executions/{id}/cancel`
pub(super) async fn cancel(
    State(skills): State<Skills>,
    Named(id): Named,
    request: Parts,
) -> Result<Response, SkillError> {
    let caller = reader(&skills, &request)?;
    let execution = skills.engine.cancel_execution(&caller, &id).await.map_err(|error| missing(&id, error))?;
    Ok(answer(&skills, StatusCode::ACCEPTED, &execution, None))
}

async fn read(skills: &Skills, id: &str, request: &Parts) -> Result<(Execution, Option<Duration>), SkillError> {
    let caller = reader(skills, request)?;
    let wait = asked_wait(&request.headers);
    let execution = match wait {
        Some(wait) => {
            let until = skills.engine.now().after(wait);
            skills.engine.execution_until(&caller, id, until).await
        }
        None => skills.engine.execution(&caller, id).await,
    };
    Ok((execution.map_err(|error| missing(id, error))?, wait))
}

/// Whoever may read: the one who asked for it, known by whatever the skill takes.
fn reader(skills: &Skills, request: &Parts) -> Result<Caller, SkillError> {
    let identity = request.extensions.get::<Identity>();
    if let Some(known) = caller(&request.headers, identity, &skills.engine)? {
        return Ok(known);
    }
    if let Some(known) = skills.by_any_key_header(&request.headers) {
        return Ok(known);
    }
    match skills.custom.check(&request.headers, b"") {
        super::Checked::Known(known) => Ok(known),
        super::Checked::Absent | super::Checked::Invalid(_) => Ok(nobody(identity)),
    }
}

fn missing(id: &str, error: EngineError) -> SkillError {
    match error.code {
        Code::ExecutionNotFound => SkillError::execution_not_found(id),
        _ => error.into(),
    }
}

/// How long the client is ready to wait, within reason.
pub(super) fn asked_wait(headers: &HeaderMap) -> Option<Duration> {
    match preference(headers) {
        Preference::Wait(span) => Some(span.min(MAX_WAIT)),
        Preference::Async | Preference::None => None,
    }
}

/// An execution as the protocol shows it.
pub(super) fn answer(skills: &Skills, status: StatusCode, execution: &Execution, waited: Option<Duration>) -> Response {
    let body = serde_json::to_vec(&shown(execution)).unwrap_or_default();
    let mut response = json_response(status, body);
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    if let Some(waited) = waited
        && let Ok(applied) = HeaderValue::try_from(format!("wait={}", waited.as_secs()))
    {
        headers.insert("preference-applied", applied);
    }
    if !execution.state.is_over() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    if status == StatusCode::ACCEPTED {
        locate(skills, execution, headers);
    }
    response
}

fn locate(skills: &Skills, execution: &Execution, headers: &mut HeaderMap) {
    if let Ok(url) = HeaderValue::try_from(skills.host.status_url(execution.id.as_str())) {
        headers.insert(header::LOCATION, url);
    }
}

/// An execution as the protocol shows it.
pub(crate) fn shown(execution: &Execution) -> InvocationResponse {
    let (status, output) = match &execution.state {
        Phase::Accepted => (ExecutionStatus::Accepted, None),
        Phase::Running => (ExecutionStatus::Running, None),
        Phase::Completed { output } => (ExecutionStatus::Completed, Some(output.clone())),
        Phase::Failed { .. } => (ExecutionStatus::Failed, None),
        Phase::TimedOut { .. } => (ExecutionStatus::Timeout, None),
    };
    let mut kept = Map::new();
    if let Some(until) = execution.kept_until() {
        kept.insert(Timestamps::EXPIRES_AT.to_owned(), json!(until));
    }
    let mut extra = Map::new();
    if execution.attempt > 0 {
        extra.insert(InvocationResponse::ATTEMPT.to_owned(), json!(execution.attempt));
    }
    InvocationResponse {
        execution_id: execution.id.to_string(),
        status,
        skill_id: execution.order.skill.to_string(),
        output,
        error: error::of_execution(execution),
        timestamps: Timestamps {
            created_at: execution.order.created_at.to_string(),
            updated_at: execution.updated_at.to_string(),
            completed_at: execution.completed_at().map(|at| at.to_string()),
            extra: kept,
        },
        extra,
    }
}

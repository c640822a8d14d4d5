//! Status, result and cancellation of executions.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use nuncio_core::ErrorCode;
use nuncio_core::execution::{Execution, ExecutionState as Phase};
use nuncio_engine::{Caller, CallerCheckResult, EngineError};
use nuncio_http::{WaitPreference, preference};

use super::{SkillError, SkillResult, SkillServerState, WildcardPath, anonymous, caller, json_response};
use crate::error;
use crate::wire::{ExecutionStatus, InvocationResponse, Timestamps};

const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// Upper bound of `Prefer: wait`.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Handles `GET /executions/{id}`.
pub(super) async fn status(
    State(skills): State<SkillServerState>,
    WildcardPath(id): WildcardPath,
    request: Parts,
) -> SkillResult {
    let (execution, waited) = read(&skills, &id, &request).await?;
    Ok(answer(&skills, StatusCode::OK, &execution, waited))
}

/// `GET /executions/{id}/result`: same body as the status; before the end, `Location` has the status URL.
pub(super) async fn result(
    State(skills): State<SkillServerState>,
    WildcardPath(id): WildcardPath,
    request: Parts,
) -> SkillResult {
    let (execution, waited) = read(&skills, &id, &request).await?;
    let mut response = answer(&skills, StatusCode::OK, &execution, waited);
    if !execution.state.is_over() {
        locate(&skills, &execution, response.headers_mut());
    }
    Ok(response)
}

/// Handles `DELETE /executions/{id}` and `POST /executions/{id}/cancel`. The answer may still say `running`; the
/// execution then ends later.
pub(super) async fn cancel(
    State(skills): State<SkillServerState>,
    WildcardPath(id): WildcardPath,
    request: Parts,
) -> SkillResult {
    let caller = reader(&skills, &request).await?;
    let execution =
        skills.engine.executions().cancel_execution(&caller, &id).await.map_err(|error| missing(&id, error))?;
    Ok(answer(&skills, StatusCode::ACCEPTED, &execution, None))
}

async fn read(
    skills: &SkillServerState,
    id: &str,
    request: &Parts,
) -> Result<(Execution, Option<Duration>), SkillError> {
    let caller = reader(skills, request).await?;
    let wait = requested_wait(&request.headers);
    let execution = match wait {
        Some(wait) => {
            let until = skills.engine.now().after(wait);
            skills.engine.executions().execution_until(&caller, id, until).await
        }
        None => skills.engine.executions().execution(&caller, id).await,
    };
    Ok((execution.map_err(|error| missing(id, error))?, wait))
}

/// Caller of a request about an execution, identified by any authentication scheme that skills accept.
async fn reader(skills: &SkillServerState, request: &Parts) -> Result<Caller, SkillError> {
    let identity = request.extensions.get::<CallerCheckResult>();
    if let Some(identified) = caller(&request.headers, identity, &skills.engine)? {
        return Ok(identified);
    }
    if let Some(identified) = skills.by_any_key_header(&request.headers) {
        return Ok(identified);
    }
    match skills.custom.check(request, b"").await {
        super::RequestCheckResult::Known(identified) => Ok(identified),
        super::RequestCheckResult::Invalid(why) => Err(EngineError::new(ErrorCode::Unauthorized, why).into()),
        super::RequestCheckResult::Absent => Ok(anonymous(identity)),
    }
}

fn missing(id: &str, error: EngineError) -> SkillError {
    match error.code {
        ErrorCode::ExecutionNotFound => SkillError::execution_not_found(id),
        _ => error.into(),
    }
}

/// Waiting time that the client requests with `Prefer: wait`, limited to [`MAX_WAIT`].
pub(super) fn requested_wait(headers: &HeaderMap) -> Option<Duration> {
    match preference(headers) {
        WaitPreference::Wait(span) => Some(span.min(MAX_WAIT)),
        WaitPreference::Async | WaitPreference::None => None,
    }
}

pub(super) fn answer(
    skills: &SkillServerState,
    status: StatusCode,
    execution: &Execution,
    waited: Option<Duration>,
) -> Response {
    let mut response = json_response(status, body(execution));
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    if let Some(waited) = waited
        && let Ok(applied) = HeaderValue::try_from(format!("wait={}", waited.as_secs()))
    {
        headers.insert(PREFERENCE_APPLIED, applied);
    }
    if !execution.state.is_over() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    if status == StatusCode::ACCEPTED {
        locate(skills, execution, headers);
    }
    response
}

fn locate(skills: &SkillServerState, execution: &Execution, headers: &mut HeaderMap) {
    if let Ok(url) = HeaderValue::try_from(skills.host.status_url(execution.id.as_str())) {
        headers.insert(header::LOCATION, url);
    }
}

/// Body of every answer and callback about an execution.
#[must_use]
pub fn body(execution: &Execution) -> Vec<u8> {
    // Most bodies fit, which avoids reallocation.
    let mut body = Vec::with_capacity(512);
    serde_json::to_writer(&mut body, &InvocationResponse::from(execution)).map(|()| body).unwrap_or_default()
}

impl From<&Execution> for InvocationResponse {
    fn from(execution: &Execution) -> Self {
        let (status, output) = match &execution.state {
            Phase::Accepted => (ExecutionStatus::Accepted, None),
            Phase::Running => (ExecutionStatus::Running, None),
            Phase::Completed { output } => (ExecutionStatus::Completed, Some(output.clone())),
            Phase::Failed { .. } => (ExecutionStatus::Failed, None),
            Phase::TimedOut { .. } => (ExecutionStatus::Timeout, None),
        };
        let attempt = (execution.attempt > 0).then(|| (Self::ATTEMPT.to_owned(), execution.attempt.into()));
        let expires_at = execution.kept_until().map(|end| (Timestamps::EXPIRES_AT.to_owned(), end.to_string().into()));
        Self {
            execution_id: execution.id.to_string(),
            status,
            skill_id: execution.order.skill.to_string(),
            output,
            error: error::of_execution(execution),
            timestamps: Timestamps {
                created_at: execution.order.created_at.to_string(),
                updated_at: execution.updated_at.to_string(),
                completed_at: execution.completed_at().map(|end| end.to_string()),
                extra: expires_at.into_iter().collect(),
            },
            extra: attempt.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
    use nuncio_core::execution::ExecutionFailure;
    use serde_json::{Value, json};

    use super::*;

    fn execution(state: Phase, attempt: u32) -> Execution {
        let order = json!({
            "skill": "hotel/book", "version": "1.0.0", "agent": "hotel", "target": "agent", "caller": "local",
            "protocol": "skill", "inputs": {}, "priority": "normal", "created_at": "2026-11-15T11:00:00.007Z", "timeout_ms": 1000,
            "keep_ms": 60_000,
        });
        let order: nuncio_core::execution::AcceptedInvocation = serde_json::from_value(order).unwrap();
        let id = nuncio_core::ids::ExecutionId::parse("exe_1").unwrap();
        Execution { attempt, state, ..Execution::accepted(id, order) }
    }

    #[test]
    fn execution_body_has_a_fixed_member_order_and_parses_as_invocation_response() {
        let failure = |code| ExecutionFailure { code, message: "no".to_owned() };
        let created =
            r#""timestamps":{"created_at":"2026-11-15T11:00:00.007Z","updated_at":"2026-11-15T11:00:00.007Z""#;
        let head = |status: &str| format!(r#"{{"execution_id":"exe_1","status":"{status}","skill_id":"hotel/book""#);
        let text = |state, attempt| String::from_utf8(body(&execution(state, attempt))).unwrap();
        assert_eq!(text(Phase::Accepted, 0), format!("{},{created}}}}}", head("accepted")));
        assert_eq!(text(Phase::Running, 1), format!(r#"{},{created}}},"attempt":1}}"#, head("running")));
        let output = Phase::Completed { output: json!({"b": [1, null], "a": "\u{e9}\""}) };
        let done = text(output, 2);
        assert!(done.starts_with(&format!(r#"{},"output":{{"b":[1,null],"a":"é\""}},{created}"#, head("completed"))));
        assert!(done.ends_with(r#"},"attempt":2}"#), "{done}");
        for (state, attempt) in [
            (Phase::Completed { output: Value::Null }, 1),
            (Phase::Failed { failure: failure(ErrorCode::ToolFailed) }, 1),
            (Phase::TimedOut { failure: failure(ErrorCode::ToolTimeout) }, 0),
        ] {
            let execution = execution(state, attempt);
            let document: InvocationResponse = serde_json::from_slice(&body(&execution)).unwrap();
            assert_eq!(document, InvocationResponse::from(&execution));
            assert_eq!(document.attempt(), (attempt > 0).then_some(u64::from(attempt)));
            assert_eq!(document.timestamps.expires_at().is_some(), execution.state.is_over());
        }
    }
}

//! Accepts invocations: authenticates the caller, validates the request, stores the execution.

use std::sync::Arc;

use axum::extract::Request;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use nuncio_core::ErrorCode;
use nuncio_core::agent::{Skill, SkillAuth};
use nuncio_engine::invoke::{ExecutionSubmitError, SubmittedExecution};
use nuncio_engine::ports::fetch::{AddressTrust, FetchError};
use nuncio_engine::skills::SkillAccessDenied;
use nuncio_engine::{AuthenticationMethod, Caller, CallerCheckResult, Engine, EngineError};
use nuncio_http::{CredentialLocation, idempotency_key, is_json, report_caller};
use url::{Url, form_urlencoded};

use super::executions::{answer, requested_wait};
use super::{RequestCheckResult, SkillError, SkillResult, SkillServerState, anonymous, by_key, caller};
use crate::lift::{self, InvocationOptionHeaders};
use crate::validate::{ValidationReport, parse_as};
use crate::wire::{InvocationCredentials, InvocationRequest};

/// Length limit of a query with inputs, in bytes.
const MAX_QUERY: usize = 8 * 1024;

/// Handles `/skills/{id}/invoke` with `POST` or with the method that the skill declares.
pub(super) async fn invoke(skills: &SkillServerState, id: &str, request: Request) -> SkillResult {
    let (parts, body) = request.into_parts();
    let (method, headers) = (&parts.method, &parts.headers);
    let identity = parts.extensions.get::<CallerCheckResult>();
    // Faults of a request are not reported before the skill is known to exist for the caller. The same work is done
    // for a missing skill, so that the two cannot be distinguished.
    let bytes = skills.bodies.read(&skills.engine, &parts.extensions, body, CredentialLocation::Body).await;
    let mut read = parse_as::<InvocationRequest>(bytes.as_deref().unwrap_or_default());
    let credentials = read.as_mut().ok().and_then(InvocationRequest::take_credentials);
    let authentication = caller(headers, identity, &skills.engine);
    let signed = skills.custom.check(&parts, bytes.as_deref().unwrap_or_default()).await;
    // This lookup ignores the caller's permissions; it only tells how callers of the skill authenticate.
    let declared = skills.engine.skills().any_skill(id);
    let proof = RequestCredentials { headers, signed, credentials: credentials.as_ref() };
    let by_skill = declared
        .as_deref()
        .and_then(|offered| proof.by_skill_scheme(&offered.skill().auth, &authentication, &skills.engine));
    let effective = by_skill.as_ref().unwrap_or(&authentication);
    let known = effective.as_ref().ok().and_then(Option::as_ref);
    let offered = skills.engine.skills().skill(known, id).ok_or_else(|| match &authentication {
        Err(error) => error.clone().into(),
        Ok(_) => SkillError::skill_not_found(id),
    })?;

    let skill = offered.skill();
    if *method != Method::POST && method.as_str() != skill.method.as_str() {
        return Err(SkillError::method(&allowed(skill)));
    }
    let mut caller = match by_skill.unwrap_or(authentication) {
        Ok(Some(caller)) => caller,
        Ok(None) => anonymous(identity),
        Err(error) if skill.auth == SkillAuth::None => return Err(error.into()),
        Err(error) => return Err(unauthenticated(skills, skill, Some(&error))),
    };
    report_caller(&parts.extensions, &caller.principal)?;
    if let Some(request) = request_of(identity).filter(|request| caller.request.as_deref() != Some(request)) {
        caller.request = Some(request.to_owned());
    }
    // Missing permission is reported before faults of the request.
    let has_token = matches!(caller.authentication, AuthenticationMethod::Token { .. });
    let permit = skills.engine.skills().permit(caller, Arc::clone(&offered));
    let permit = permit.map_err(|denied| denied_answer(skills, skill, has_token, denied))?;

    let bytes = bytes?;
    let wait = requested_wait(headers);
    let head = head(headers)?;
    let in_query = takes_query(skill, method);
    let lifted = if in_query {
        let query = parts.uri.query().unwrap_or_default();
        if query.len() > MAX_QUERY {
            return Err(SkillError::query_too_long(MAX_QUERY));
        }
        let pairs = form_urlencoded::parse(query.as_bytes()).into_owned();
        lift::query(id, pairs, &skills.descriptor_of(&offered).inputs, head)
    } else {
        is_json(headers)?;
        read.and_then(|request| lift::body(id, request, head))
    };
    let submission = lifted.and_then(|submission| {
        let refused = submission.callback.as_ref().and_then(|url| skills.callback_fault(url));
        refused.map_or(Ok(submission), Err)
    });
    let submission = submission.map_err(|report| SkillError::invalid(&report))?;
    let schema = offered.tool.as_ref().map(|tool| tool.input.source());
    // The body is parsed again only for an error report, which is rare.
    let queried = in_query.then(|| submission.inputs.clone());
    let until = wait.map(|wait| skills.engine.now().after(wait));
    let submitted = skills.engine.executions().submit(&permit, submission, until).await;
    let SubmittedExecution { execution, again } = submitted.map_err(|refusal| match refusal {
        ExecutionSubmitError::Inputs(faults) => {
            let inputs = queried
                .or_else(|| parse_as(&bytes).ok().map(|request: InvocationRequest| request.inputs))
                .unwrap_or_default();
            SkillError::invalid(&lift::input_faults(&faults, &inputs, schema))
        }
        ExecutionSubmitError::Full(full) => SkillError::full(full),
        ExecutionSubmitError::Engine(error) => error.into(),
    })?;
    let is_answer = wait.is_some() && execution.state.is_over();
    let status = if is_answer { StatusCode::OK } else { StatusCode::ACCEPTED };
    let mut response = answer(skills, status, &execution, wait);
    if again {
        response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// Caller of a request; `None` if the request has no credentials.
type AuthenticatedCallerResult = Result<Option<Caller>, EngineError>;

fn wrong_signature(why: &str) -> AuthenticatedCallerResult {
    Err(EngineError::new(ErrorCode::Unauthorized, why))
}

struct RequestCredentials<'a> {
    headers: &'a HeaderMap,
    signed: RequestCheckResult,
    credentials: Option<&'a InvocationCredentials>,
}

impl RequestCredentials<'_> {
    /// Authenticates by the skill's own scheme; `None` if the scheme does not apply, so that `authentication` counts.
    /// An API key in the body counts only if no header has credentials.
    fn by_skill_scheme(
        &self,
        auth: &SkillAuth,
        authentication: &AuthenticatedCallerResult,
        engine: &Engine,
    ) -> Option<AuthenticatedCallerResult> {
        let is_proven =
            matches!(authentication, Ok(Some(caller)) if caller.authentication != AuthenticationMethod::None);
        match (auth, &self.signed) {
            (SkillAuth::Custom, RequestCheckResult::Known(signer)) => return Some(Ok(Some(signer.clone()))),
            (SkillAuth::Custom, RequestCheckResult::Invalid(why)) => return Some(wrong_signature(why)),
            // An invalid signature is refused even if the skill needs none.
            (_, RequestCheckResult::Invalid(why)) if !is_proven => return Some(wrong_signature(why)),
            _ => {}
        }
        let SkillAuth::ApiKey { header } = auth else { return None };
        let in_header = self.headers.get(header).map(HeaderValue::as_bytes);
        let in_body = self.credentials.filter(|_| matches!(authentication, Ok(None)));
        let key = in_header.or_else(|| in_body?.text("api_key").map(str::as_bytes))?;
        Some(by_key(engine, key).map(Some))
    }
}

/// Whether the request has its inputs in the query; `POST` always has them in the body.
fn takes_query(skill: &Skill, method: &Method) -> bool {
    skill.method.has_query() && method.as_str() == skill.method.as_str()
}

fn allowed(skill: &Skill) -> String {
    match skill.method.as_str() {
        "POST" => "POST".to_owned(),
        other => format!("{other}, POST"),
    }
}

fn head(headers: &HeaderMap) -> Result<InvocationOptionHeaders, EngineError> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().map(str::to_owned)).transpose();
    let text = |name: &str| text(name).map_err(|_| lift::bad_header(name));
    let traceparent = text("traceparent")?.as_deref().and_then(nuncio_core::execution::traceparent);
    Ok(InvocationOptionHeaders {
        idempotency_key: idempotency_key(headers)?.map(str::to_owned),
        trace_id: text("x-skill-trace-id")?
            .map(lift::own_trace_id)
            .transpose()?
            .or_else(|| traceparent.as_deref().and_then(lift::trace_id)),
        traceparent,
        priority: text("x-skill-priority")?,
        timeout_ms: text("x-skill-timeout-ms")?,
    })
}

fn request_of(identity: Option<&CallerCheckResult>) -> Option<&str> {
    match identity {
        Some(CallerCheckResult::Known(caller)) => caller.request.as_deref(),
        _ => None,
    }
}

fn denied_answer(skills: &SkillServerState, skill: &Skill, has_token: bool, denied: SkillAccessDenied) -> SkillError {
    match denied {
        SkillAccessDenied::NotFound => SkillError::skill_not_found(skill.id.as_str()),
        SkillAccessDenied::Unknown => unauthenticated(skills, skill, None),
        SkillAccessDenied::Ungranted { required, granted } => SkillError::forbidden(&required, &granted, has_token),
    }
}

/// Error 401 with the skill's authentication scheme and the reason.
fn unauthenticated(skills: &SkillServerState, skill: &Skill, why: Option<&EngineError>) -> SkillError {
    SkillError::auth_required(skill, skills.oauth_endpoints(skill).as_ref(), &skills.host.base, why)
}

impl SkillServerState {
    /// The fault of a callback address that would never be called, if it is one.
    fn callback_fault(&self, url: &Url) -> Option<ValidationReport> {
        let refusal = self.callbacks.as_ref()?.check(url, AddressTrust::Stranger).err()?;
        let why = match refusal {
            FetchError::Refused { why, .. } => why,
            other => other.to_string(),
        };
        Some(lift::forbidden_callback(url, &why))
    }

    /// Caller whose valid API key is the value of any header, because each skill may declare another header for it.
    pub(super) fn by_any_key_header(&self, headers: &HeaderMap) -> Option<Caller> {
        headers
            .values()
            .filter_map(|value| value.to_str().ok())
            .filter(|value| value.starts_with("nk_"))
            .find_map(|key| self.engine.access().caller_by_key(key))
    }
}

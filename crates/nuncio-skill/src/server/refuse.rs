//! Error responses of Skill Sharing.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use nuncio_core::ErrorCode;
use nuncio_core::agent::{Skill, SkillAuth};
use nuncio_core::ids::ScopeId;
use nuncio_engine::EngineError;
use nuncio_engine::invoke::QueueLimitReached;
use serde_json::json;

use super::json_response;
use crate::error;
use crate::project::{OAuthEndpoints, signature_version};
use crate::validate::ValidationReport;
use crate::wire::{ErrorResponse, SkillErrorCode};

#[derive(Debug)]
pub(super) struct SkillError {
    status: u16,
    body: Box<ErrorResponse>,
    headers: Vec<(header::HeaderName, String)>,
}

impl<E: Into<EngineError>> From<E> for SkillError {
    fn from(error: E) -> Self {
        let (status, body) = error::of_engine(&error.into());
        let challenge = (status == 401).then(|| (header::WWW_AUTHENTICATE, "Bearer realm=\"nuncio\"".to_owned()));
        Self { status, body: Box::new(body), headers: challenge.into_iter().collect() }.with_retry_after()
    }
}

impl SkillError {
    fn new(status: u16, body: ErrorResponse) -> Self {
        Self { status, body: Box::new(body), headers: Vec::new() }
    }

    pub(super) fn skill_not_found(id: &str) -> Self {
        let id: String = id.chars().take(200).collect();
        let body = ErrorResponse::new(SkillErrorCode::SkillNotFound, format!("Skill '{id}' was not found"));
        Self::new(404, body.with_details(json!({"skill_id": id})))
    }

    pub(super) fn execution_not_found(id: &str) -> Self {
        let id: String = id.chars().take(64).collect();
        let body = ErrorResponse::new(SkillErrorCode::SkillNotFound, format!("Execution '{id}' was not found"));
        Self::new(404, body.with_details(json!({"execution_id": id, "reason": ErrorCode::ExecutionNotFound})))
    }

    /// Response with all faults of a request.
    pub(super) fn invalid(report: &ValidationReport) -> Self {
        let message = match report.errors.as_slice() {
            [one] => format!("Invalid request: {one}"),
            several => format!("Invalid request: {} faults, see details", several.len()),
        };
        let body = ErrorResponse::new(SkillErrorCode::ValidationError, message);
        let only_inputs = report.errors.iter().all(|fault| fault.path.starts_with("/inputs"));
        let reason = if only_inputs { ErrorCode::InvalidArguments } else { ErrorCode::BadRequest };
        Self::new(400, body.with_details(json!({"reason": reason, "violations": report.errors})))
    }

    /// Error 405 for a method that the skill does not support.
    pub(super) fn method(allowed: &str) -> Self {
        let message = format!("this address accepts {allowed}");
        let body = ErrorResponse::new(SkillErrorCode::ValidationError, message);
        let mut error = Self::new(405, body.with_details(json!({"reason": ErrorCode::MethodNotAllowed})));
        error.headers.push((header::ALLOW, allowed.to_owned()));
        error
    }

    pub(super) fn query_too_long(limit: usize) -> Self {
        let body =
            ErrorResponse::new(SkillErrorCode::ValidationError, format!("the query is longer than {limit} bytes"));
        Self::new(414, body.with_details(json!({"reason": ErrorCode::BadRequest})))
    }

    /// Error 401 with the skill's authentication scheme.
    pub(super) fn auth_required(
        skill: &Skill,
        oauth: Option<&OAuthEndpoints>,
        base: &str,
        why: Option<&EngineError>,
    ) -> Self {
        let mut details = json!({"required_auth_type": skill.auth.as_str()});
        let challenge = match &skill.auth {
            SkillAuth::ApiKey { header } => {
                details["header"] = json!(header);
                format!("ApiKey realm=\"nuncio\", header=\"{header}\"")
            }
            SkillAuth::OAuth2 { .. } => {
                if let Some(oauth) = oauth {
                    details["authorization_url"] = json!(oauth.authorization_url);
                    details["token_url"] = json!(oauth.token_url);
                }
                let wrong = if why.is_some() { ", error=\"invalid_token\"" } else { "" };
                format!(
                    "Bearer realm=\"nuncio\"{wrong}, resource_metadata=\"{base}/.well-known/oauth-protected-resource\""
                )
            }
            SkillAuth::Custom => {
                details["header"] = json!("X-Signature");
                let scheme = format!("hmac-sha256-{}", signature_version(skill.method));
                let challenge = format!("Signature realm=\"nuncio\", scheme=\"{scheme}\"");
                details["scheme"] = json!(scheme);
                challenge
            }
            SkillAuth::None => "Bearer realm=\"nuncio\"".to_owned(),
        };
        if let Some(why) = why {
            details["reason"] = json!(why.code);
            details["why"] = json!(why.message);
        }
        let message = "Authentication is required to invoke this skill";
        let body = ErrorResponse::new(SkillErrorCode::AuthRequired, message).with_details(details).with_retry(0, 1);
        let mut error = Self::new(401, body);
        error.headers.push((header::WWW_AUTHENTICATE, challenge));
        error
    }

    /// Error 403: the caller is known but lacks a scope.
    pub(super) fn forbidden(required: &[ScopeId], granted: &[ScopeId], by_token: bool) -> Self {
        let message = "Insufficient permissions to invoke this skill";
        let details = json!({"required_scopes": required, "granted_scopes": granted});
        let mut error =
            Self::new(403, ErrorResponse::new(SkillErrorCode::PermissionDenied, message).with_details(details));
        if by_token {
            let scopes: Vec<&str> = required.iter().map(ScopeId::as_str).collect();
            let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{}\"", scopes.join(" "));
            error.headers.push((header::WWW_AUTHENTICATE, challenge));
        }
        error
    }

    /// Error for a full execution queue.
    pub(super) fn full(full: QueueLimitReached) -> Self {
        let of = match full {
            QueueLimitReached::Caller => "caller",
            QueueLimitReached::Skill => "skill",
            QueueLimitReached::Server => "server",
        };
        let body = ErrorResponse::new(SkillErrorCode::EndpointUnreachable, full.to_string());
        let body = body
            .with_details(json!({"reason": ErrorCode::QueueFull, "of": of}))
            .with_retry(error::RETRY_MS, error::RETRY_ATTEMPTS);
        Self::new(429, body).with_retry_after()
    }

    /// Copies the retry advice of the body to `Retry-After`.
    fn with_retry_after(mut self) -> Self {
        if let Some(retry) = &self.body.error.retry {
            let seconds = retry.suggested_delay_ms.as_u64().div_ceil(1000);
            self.headers.push((header::RETRY_AFTER, seconds.to_string()));
        }
        self
    }
}

impl IntoResponse for SkillError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self.body).unwrap_or_default();
        let mut response = json_response(status, body);
        for (name, value) in self.headers {
            if let Ok(value) = HeaderValue::try_from(value) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

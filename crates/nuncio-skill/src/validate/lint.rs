//! Checks beyond the schema: rules of the specification (errors) and probable mistakes (warnings), as listed in
//! [`super`].

mod parameter;
mod text;

use std::collections::HashMap;

use jiff::Timestamp;
use nuncio_core::json::pointer;
use serde_json::Value;

use super::SkillDocumentType;
use super::actual_value::{actual_value, type_name};
use super::{DocumentFault, MAX_FAULTS};
use crate::wire::{EXECUTION_ID, InvocationContext};

/// Adds faults beyond the schema. Values of the wrong type are skipped, because the schema check reports them.
pub(super) fn lint(
    kind: SkillDocumentType,
    document: &Value,
    errors: &mut Vec<DocumentFault>,
    warnings: &mut Vec<DocumentFault>,
) {
    let mut lint = DocumentLint { document, errors, warnings };
    match kind {
        SkillDocumentType::SkillDescriptor => lint.descriptor(),
        SkillDocumentType::SkillIndex => lint.index(),
        SkillDocumentType::InvocationRequest => lint.request(),
        SkillDocumentType::InvocationResponse => lint.response(),
        SkillDocumentType::ErrorResponse => lint.counts("/error/retry", &["suggested_delay_ms", "max_attempts"]),
    }
}

struct DocumentLint<'a> {
    document: &'a Value,
    errors: &'a mut Vec<DocumentFault>,
    warnings: &'a mut Vec<DocumentFault>,
}

impl<'a> DocumentLint<'a> {
    fn descriptor(&mut self) {
        self.protocol();
        self.version("/version");
        self.filled(&["/id", "/name"]);
        self.warned_url("/provider/url");
        self.endpoint();
        self.parameters("/inputs");
        self.schema("/output/schema");
        self.auth();
        self.url("/documentation_url");
        self.times(&["/created_at", "/updated_at"]);
    }

    fn index(&mut self) {
        self.protocol();
        self.warned_url("/provider/url");
        let skills = self.list("/skills");
        let mut seen = HashMap::new();
        for (index, skill) in skills.iter().enumerate() {
            if self.errors.len() > MAX_FAULTS {
                return;
            }
            let path = format!("/skills/{index}");
            self.version(&format!("{path}/version"));
            self.url(&format!("{path}/descriptor_url"));
            self.filled(&[&format!("{path}/id"), &format!("{path}/name")]);
            let Some(id) = skill.get("id").and_then(Value::as_str) else { continue };
            if let Some(first) = seen.insert(id, index) {
                let message = format!("must be unique: /skills/{first}/id is the same");
                self.error(&format!("{path}/id"), message, "an id that no other skill of the index has");
            }
        }
    }

    fn request(&mut self) {
        self.filled(&["/skill_id"]);
        // All other checks of a request concern its context, which most requests omit.
        if self.at("/context").is_none() {
            return;
        }
        self.counts("/context", &["timeout_ms"]);
        let key = format!("/context/{}", InvocationContext::IDEMPOTENCY_KEY);
        self.must_be_text(&key);
        let callback = format!("/context/{}", InvocationContext::CALLBACK_URL);
        self.must_be_text(&callback);
        self.url(&callback);
    }

    fn response(&mut self) {
        self.filled(&["/execution_id", "/skill_id"]);
        self.counts("/error/retry", &["suggested_delay_ms", "max_attempts"]);
        self.times(&["/timestamps/created_at", "/timestamps/updated_at", "/timestamps/completed_at"]);
    }

    fn protocol(&mut self) {
        self.version("/protocol/version");
        self.url("/protocol/changelog_url");
    }

    fn endpoint(&mut self) {
        self.url("/endpoint/url");
        for path in ["/endpoint/status_url", "/endpoint/result_url"] {
            self.url(path);
            if self.text(path).is_some_and(|template| !template.contains(EXECUTION_ID)) {
                let message = "has no {execution_id}; the id will be put at its end";
                self.warning(path, message, format!("a URL with {EXECUTION_ID}"));
            }
        }
        self.counts("/endpoint", &["timeout_ms"]);
        self.counts("/endpoint/retry", &["max_attempts", "backoff_ms"]);
    }

    fn auth(&mut self) {
        let kind = self.text("/auth/type");
        if kind == Some("api_key") && self.document.pointer("/auth/header").is_none() {
            let message = "is missing, so callers cannot know in which header to send the key";
            let fault = DocumentFault::new("/auth/header", message, "the name of a header", super::shape::MISSING);
            self.warnings.push(fault);
        }
        if self.text("/auth/header").is_some_and(|name| !text::is_header_name(name)) {
            self.warning("/auth/header", "is not the name of an HTTP header", "letters, digits and hyphens");
        }
        let access = self.text("/access").filter(|access| matches!(*access, "restricted" | "private"));
        if let (Some("none"), Some(access)) = (kind, access) {
            let message = format!("needs authenticated callers, but auth.type is none ({access})");
            self.warning("/access", message, "public, or an auth.type other than none");
        }
        self.url("/auth/oauth2/authorization_url");
        self.url("/auth/oauth2/token_url");
        self.parameters("/auth/custom/parameters");
    }

    fn at(&self, path: &str) -> Option<&'a Value> {
        self.document.pointer(path)
    }

    fn text(&self, path: &str) -> Option<&'a str> {
        self.at(path)?.as_str()
    }

    fn list(&self, path: &str) -> &'a [Value] {
        self.at(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn error(&mut self, path: &str, message: impl Into<String>, expected: impl Into<Value>) {
        let actual = self.at(path).map_or(Value::Null, actual_value);
        self.errors.push(DocumentFault::new(path, message, expected, actual));
    }

    fn warning(&mut self, path: &str, message: impl Into<String>, expected: impl Into<Value>) {
        if self.warnings.len() <= MAX_FAULTS {
            let actual = self.at(path).map_or(Value::Null, actual_value);
            self.warnings.push(DocumentFault::new(path, message, expected, actual));
        }
    }

    fn version(&mut self, path: &str) {
        if self.text(path).is_some_and(|text| crate::wire::SkillVersion::parse(text).is_none()) {
            self.error(path, "must be MAJOR.MINOR.PATCH, three numbers and nothing else", "MAJOR.MINOR.PATCH");
        }
    }

    fn url(&mut self, path: &str) {
        if self.text(path).is_some_and(|text| !text::is_http_url(text)) {
            self.error(path, "must be an absolute http or https URL", "http or https URL");
        }
    }

    fn warned_url(&mut self, path: &str) {
        if self.text(path).is_some_and(|text| !text::is_http_url(text)) {
            self.warning(path, "is not an absolute http or https URL", "http or https URL");
        }
    }

    fn must_be_text(&mut self, path: &str) {
        if let Some(value) = self.at(path).filter(|value| !value.is_string()) {
            self.errors.push(DocumentFault::new(path, "must be string", "string", type_name(value)));
        }
    }

    fn filled(&mut self, paths: &[&str]) {
        for path in paths {
            if self.text(path).is_some_and(|text| text.trim().is_empty()) {
                self.warning(path, "is empty", "some text");
            }
        }
    }

    fn counts(&mut self, path: &str, names: &[&str]) {
        for name in names {
            let path = pointer(path, name);
            let quantity = self.at(&path).and_then(|value| serde_json::from_value(value.clone()).ok());
            if quantity.is_some_and(|quantity: crate::wire::LenientNumber| !quantity.is_count()) {
                self.warning(&path, "is not a whole number, zero or more", "whole number, zero or more");
            }
        }
    }

    /// Checks that each value is a timestamp and that the timestamps do not decrease.
    fn times(&mut self, paths: &[&str]) {
        let mut last: Option<(&str, Timestamp)> = None;
        for path in paths {
            let Some(text) = self.text(path) else { continue };
            match text::time(text) {
                None => self.error(path, "must be an ISO 8601 time", "ISO 8601 time"),
                Some(text::Iso8601Time::Local) => {
                    self.warning(path, "has no offset, so the exact time is unknown", "a time with an offset or Z");
                }
                Some(text::Iso8601Time::Moment(moment)) => {
                    if let Some((before, _)) = last.filter(|(_, at)| *at > moment) {
                        self.warning(path, format!("is before {before}"), format!("not before {before}"));
                    }
                    last = Some((*path, moment));
                }
            }
        }
    }
}

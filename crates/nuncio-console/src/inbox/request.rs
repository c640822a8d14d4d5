//! Requests for pages of the inbox, and the forms that these pages send.

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::response::{IntoResponse as _, Response};
use http::request::Parts;
use http::{Extensions, HeaderMap, StatusCode};
use nuncio_core::ErrorCode;
use nuncio_engine::{CallerCheckResult, EngineError};
use nuncio_http::CredentialLocation;
use nuncio_http::pages::sender::{form_fields, is_form, is_from_elsewhere, is_from_here};
use nuncio_http::pages::{Language, see, written};
use serde::Deserialize;

use super::page::{MessagePage, PageFrame};
use super::sessions::SessionRenewal;
use super::visitor::PageVisitor;
use super::{InboxPages, TASKS};
use crate::texts::Texts;

/// Size limit of a posted form, in bytes.
const MAX_FORM_BYTES: usize = 1024 * 1024;

/// A request for a page: who asks, and in which language.
pub(super) struct PageRequest {
    pub(super) language: Language,
    language_was_chosen: bool,
    pub(super) identity: Option<CallerCheckResult>,
    pub(super) headers: HeaderMap,
    pub(super) query: InboxQuery,
}

#[derive(Default, Deserialize)]
pub(super) struct InboxQuery {
    lang: Option<String>,
    pub(super) after: Option<String>,
    pub(super) task: Option<String>,
    pub(super) next: Option<String>,
}

impl<S: Sync> FromRequestParts<S> for PageRequest {
    type Rejection = QueryRejection;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, QueryRejection> {
        let Query(query) = Query::<InboxQuery>::try_from_uri(&parts.uri)?;
        let chosen = query.lang.as_deref().and_then(Language::parse);
        Ok(Self {
            language: chosen.unwrap_or_else(|| Language::accepted(&parts.headers)),
            language_was_chosen: chosen.is_some(),
            identity: parts.extensions.get().cloned(),
            headers: parts.headers.clone(),
            query,
        })
    }
}

impl PageRequest {
    pub(super) fn frame(&self, path: &str, visitor: Option<PageVisitor>) -> PageFrame {
        PageFrame::new(self.language, self.language_was_chosen, path, visitor)
    }

    /// `path`, in the language that the reader chose.
    pub(super) fn link(&self, path: &str) -> String {
        let separator = if path.contains('?') { '&' } else { '?' };
        let tag = self.language.tag();
        if self.language_was_chosen { format!("{path}{separator}lang={tag}") } else { path.to_owned() }
    }

    /// The sign-in page that leads to `path`.
    pub(super) fn sign_in_link(&self, path: &str) -> String {
        self.link(&format!("/console/sign-in?next={path}"))
    }

    pub(super) fn visitor(&self, inbox: &InboxPages) -> Option<PageVisitor> {
        inbox.visitor(self.identity.as_ref(), &self.headers, SessionRenewal::Extend)
    }

    /// Redirects to the sign-in page and back to `path`.
    pub(super) fn redirect_to_sign_in(&self, path: &str) -> Response {
        if is_from_elsewhere(&self.headers) {
            // A browser that follows a link from another site does not send the cookie. It does if a page of this
            // server leads to the same address.
            let texts = &Texts::of(self.language).sign_in;
            let link = (self.link(path), texts.elsewhere_go.clone());
            let frame = self.frame(path, None);
            let heading = texts.elsewhere.clone();
            let message = MessagePage { frame, heading, why: String::new(), link: Some(link), at_once: true };
            return written(StatusCode::OK, &message);
        }
        see(&self.sign_in_link(path))
    }

    pub(super) fn error_page(&self, visitor: Option<PageVisitor>, error: &EngineError) -> Response {
        let texts = &Texts::of(self.language).inbox;
        if error.code == ErrorCode::TaskNotFound {
            return self.message(visitor, StatusCode::NOT_FOUND, &texts.not_found, &texts.not_found_why);
        }
        tracing::error!(code = %error.code, %error, "a page of the inbox failed");
        self.message(visitor, StatusCode::SERVICE_UNAVAILABLE, &texts.failed, &error.message)
    }

    fn message(&self, visitor: Option<PageVisitor>, status: StatusCode, heading: &str, why: &str) -> Response {
        written(status, &MessagePage::new(self.frame(TASKS, visitor), heading, why))
    }
}

/// A form that a page of this server sent. Forms of other sites are refused.
pub(super) struct SameOriginForm {
    pub(super) page: PageRequest,
    pub(super) extensions: Extensions,
    body: Body,
}

impl<S: Sync> FromRequest<S> for SameOriginForm {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let page = PageRequest::from_request_parts(&mut parts, state).await.map_err(QueryRejection::into_response)?;
        if !is_from_here(&page.headers, &parts.uri) {
            let texts = &Texts::of(page.language).sign_in;
            return Err(page.message(None, StatusCode::FORBIDDEN, &texts.refused, &texts.refused_why));
        }
        Ok(Self { page, extensions: parts.extensions, body })
    }
}

impl SameOriginForm {
    /// Reads the form fields; a second call finds none. An error is the response to an invalid, too large or too slow
    /// form.
    pub(super) async fn read_fields(
        &mut self,
        inbox: &InboxPages,
        visitor: Option<&PageVisitor>,
        credential: CredentialLocation,
    ) -> Result<Vec<(String, String)>, Response> {
        let body = std::mem::take(&mut self.body);
        let read = async {
            is_form(&self.page.headers)?;
            let limits = inbox.bodies.at_most(MAX_FORM_BYTES);
            let read = limits.read(&inbox.engine, &self.extensions, body, credential);
            let bytes = read.await.map_err(|error| nuncio_http::status(error.code))?;
            Ok::<_, StatusCode>(form_fields(&bytes))
        };
        read.await.map_err(|status| {
            let why = status.canonical_reason().unwrap_or_default();
            self.page.message(visitor.cloned(), status, &Texts::of(self.page.language).sign_in.unreadable, why)
        })
    }
}

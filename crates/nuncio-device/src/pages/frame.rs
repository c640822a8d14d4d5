//! Common layout and request context of all device pages.

use std::convert::Infallible;
use std::ops::Deref;
use std::time::Duration;

use askama::Template;
use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, NestedPath, Request};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use nuncio_http::pages::sender::{self, field};
use nuncio_http::pages::{Language, LanguageThemeSwitches, own_path, written};
use serde::Deserialize;

use super::page_access::DevicePageSession;
use super::texts::Texts;
use super::{DevicePages, files};
use crate::error::DeviceError;

/// Time limit for receiving a submitted form.
const FORM_TIME: Duration = Duration::from_secs(30);

/// Language and path of a page request, whether or not it has a session.
pub(super) struct PageRequest {
    pub(super) language: Language,
    /// Whether the URL chose the language; links then repeat the choice.
    chosen: bool,
    /// Path prefix of all device pages.
    base: String,
    /// Path of the requested page below `base`, with the query.
    page: String,
    pub(super) headers: HeaderMap,
}

impl PageRequest {
    /// URL of a page for a link, with the language if the request chose one.
    pub(super) fn to(&self, path: &str) -> String {
        let path = self.below_base(path);
        let joint = if path.contains('?') { '&' } else { '?' };
        if self.chosen { format!("{path}{joint}lang={}", self.language.tag()) } else { path }
    }

    /// Path of a page with the base prefix. The path of the first page is the base itself, without a trailing slash.
    fn below_base(&self, path: &str) -> String {
        let rest = path.strip_prefix('/').filter(|rest| rest.is_empty() || rest.starts_with('?'));
        format!("{}{}", self.base, rest.unwrap_or(path))
    }

    /// Page with the button that signs in by a one-time link.
    pub(super) fn confirm_link(&self, link: String) -> Response {
        written(StatusCode::OK, &OpenLinkPage { frame: PageFrame::new(self, None, NavEntry::Outside), link })
    }

    /// Answer to requests outside the base path: plain text that does not reveal the base path.
    pub(super) async fn outside(self) -> Response {
        let texts = &Texts::of(self.language).door;
        (StatusCode::NOT_FOUND, format!("{}\n\n{}\n", texts.closed, texts.closed_why)).into_response()
    }

    /// Page that refuses a request without session and explains how to sign in.
    pub(super) fn refuse(&self, status: StatusCode) -> Response {
        let texts = &Texts::of(self.language).door;
        self.anonymous_message(status, &texts.closed, &texts.closed_why)
    }

    /// A page that redirects to `path` from our own origin, so that the browser sends its session cookie.
    pub(super) fn redirect_same_origin(&self, path: &str) -> Response {
        let texts = &Texts::of(self.language).door;
        let mut response = self.anonymous_message(StatusCode::OK, &texts.elsewhere, &texts.elsewhere_why);
        if let Ok(value) = HeaderValue::from_str(&format!("0; url={}", self.to(own_path(path)))) {
            response.headers_mut().insert(header::REFRESH, value);
        }
        response
    }

    fn anonymous_message(&self, status: StatusCode, heading: &str, why: &str) -> Response {
        let frame = PageFrame::new(self, None, NavEntry::Outside);
        written(status, &MessagePage { frame, heading: heading.to_owned(), why: why.to_owned() })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PageRequest {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let query = parts.uri.query().unwrap_or_default();
        let asked = url::form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "lang");
        let asked = asked.and_then(|(_, tag)| Language::parse(&tag));
        Ok(Self {
            language: asked.unwrap_or_else(|| Language::accepted(&parts.headers)),
            chosen: asked.is_some(),
            base: parts.extensions.get::<NestedPath>().map_or("", NestedPath::as_str).to_owned(),
            page: parts.uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string),
            headers: parts.headers.clone(),
        })
    }
}

pub(super) struct SignedInRequest {
    request: PageRequest,
    session: DevicePageSession,
    pub(super) text: &'static Texts,
}

impl Deref for SignedInRequest {
    type Target = PageRequest;

    fn deref(&self) -> &PageRequest {
        &self.request
    }
}

impl<S: Send + Sync> FromRequestParts<S> for SignedInRequest {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let Ok(request) = PageRequest::from_request_parts(parts, state).await;
        let Some(session) = parts.extensions.get::<DevicePageSession>().cloned() else {
            return Err(request.refuse(StatusCode::UNAUTHORIZED));
        };
        let text = Texts::of(request.language);
        Ok(Self { request, session, text })
    }
}

/// A submitted form with a valid session and CSRF token.
pub(super) struct SignedInForm {
    pub(super) visit: SignedInRequest,
    pub(super) sent: Vec<(String, String)>,
}

impl<S: Send + Sync> FromRequest<S> for SignedInForm {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let visit = SignedInRequest::from_request_parts(&mut parts, state).await?;
        let sent = read_form(&parts.headers, body).await.map_err(IntoResponse::into_response)?;
        if !visit.session.has_csrf_token(field(&sent, "csrf")) {
            let texts = &visit.text.door;
            return Err(visit.message(StatusCode::FORBIDDEN, &texts.stale, &texts.stale_why));
        }
        Ok(Self { visit, sent })
    }
}

pub(super) async fn read_form(headers: &HeaderMap, body: Body) -> Result<Vec<(String, String)>, StatusCode> {
    let read = tokio::time::timeout(FORM_TIME, sender::form(headers, body)).await;
    read.unwrap_or(Err(StatusCode::REQUEST_TIMEOUT))
}

impl SignedInRequest {
    pub(super) fn frame(&self, pages: &DevicePages, current: NavEntry) -> PageFrame {
        let mut frame = PageFrame::new(self, Some(&self.session), current);
        frame.server = self.text.connection(*pages.device.connection().borrow());
        frame.owner = Some((pages.device.identity().person.to_string(), pages.device.identity().device.to_string()));
        frame
    }

    /// Page frame without navigation, for the enrolment page.
    pub(super) fn bare_frame(&self) -> PageFrame {
        PageFrame::new(self, Some(&self.session), NavEntry::Outside)
    }

    pub(super) fn message(&self, status: StatusCode, heading: &str, why: &str) -> Response {
        let frame = PageFrame::new(self, Some(&self.session), NavEntry::Elsewhere);
        written(status, &MessagePage { frame, heading: heading.to_owned(), why: why.to_owned() })
    }

    /// Response of a page handler; an error becomes an error page.
    pub(super) fn respond(&self, made: Result<Response, DeviceError>) -> Response {
        made.unwrap_or_else(|error| self.failed(&error))
    }

    pub(super) fn failed(&self, error: &DeviceError) -> Response {
        tracing::warn!(code = %error.code, %error, "cannot show a page of the device");
        self.message(StatusCode::BAD_GATEWAY, &self.text.frame.failed, &self.text.trouble(error))
    }

    pub(super) fn signed_out(&self) -> Response {
        let texts = &self.text.door;
        self.anonymous_message(StatusCode::OK, &texts.left, &texts.closed_why)
    }
}

/// Query parameter that names the action after which a page is shown.
#[derive(Deserialize)]
pub(super) struct CompletedActionQuery {
    pub(super) after: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NavEntry {
    Home,
    Agents,
    Happened,
    Devices,
    /// A page for a signed-in person that has no navigation entry.
    Elsewhere,
    Outside,
}

pub(super) struct NavLink {
    pub(super) href: String,
    pub(super) label: &'static str,
    pub(super) current: bool,
}

pub(super) struct SelectOption {
    pub(super) value: String,
    pub(super) label: String,
    pub(super) chosen: bool,
}

pub(super) struct PageFrame {
    pub(super) text: &'static Texts,
    pub(super) language: Language,
    pub(super) switches: LanguageThemeSwitches,
    /// Path prefix of all device pages.
    pub(super) base: String,
    pub(super) assets: String,
    pub(super) links: Vec<NavLink>,
    /// Text about a connection to the server that does not work.
    pub(super) server: Option<&'static str>,
    /// Name of the person and id of the device.
    pub(super) owner: Option<(String, String)>,
    /// `?lang=…` if the URL chose the language, otherwise empty; appended to links.
    pub(super) lang: String,
    /// CSRF token for forms.
    pub(super) token: String,
    pub(super) words: String,
}

impl PageFrame {
    fn new(request: &PageRequest, session: Option<&DevicePageSession>, current: NavEntry) -> Self {
        let text = Texts::of(request.language);
        let names: [(NavEntry, &str, &'static str); 4] = [
            (NavEntry::Home, "/", &text.frame.home),
            (NavEntry::Agents, "/agents", &text.frame.agents),
            (NavEntry::Happened, "/happened", &text.frame.happened),
            (NavEntry::Devices, "/devices", &text.frame.devices),
        ];
        let link = |(entry, path, label)| NavLink { href: request.to(path), label, current: entry == current };
        let inside = session.is_some() && current != NavEntry::Outside;
        Self {
            text,
            language: request.language,
            switches: LanguageThemeSwitches::new(&request.below_base(&request.page), request.language),
            base: request.base.clone(),
            assets: format!("{}/assets/{}", request.base, files::FILES.version()),
            links: if inside { names.into_iter().map(link).collect() } else { Vec::new() },
            server: None,
            owner: None,
            lang: if request.chosen { format!("?lang={}", request.language.tag()) } else { String::new() },
            token: session.map(|session| session.token.clone()).unwrap_or_default(),
            words: serde_json::to_string(&text.script).unwrap_or_default().replace('<', "\\u003c"),
        }
    }
}

/// Page of `GET /open?token=`: a button that posts the token of the one-time link.
#[derive(Template)]
#[template(path = "open.html")]
struct OpenLinkPage {
    frame: PageFrame,
    link: String,
}

#[derive(Template)]
#[template(path = "message.html")]
struct MessagePage {
    frame: PageFrame,
    heading: String,
    why: String,
}

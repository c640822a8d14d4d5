//! An error as a page, for people who open an address of this server in a browser.

use askama::Template;
use axum::response::{Html, IntoResponse as _, Response};
use http::StatusCode;
use nuncio_core::Code;
use nuncio_http::pages::{Language, LanguageThemeSwitches, headers};

use crate::texts::Texts;
use crate::{assets, fault_texts};

/// What an error page shows.
#[derive(Debug)]
pub struct ErrorPage<'a> {
    pub language: Language,
    /// Path and query of the request.
    pub address: &'a str,
    pub status: StatusCode,
    /// The message of the error, which is in English.
    pub message: &'a str,
    /// The code of the error, for `nuncio explain`.
    pub code: Option<&'a str>,
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorTemplate<'a> {
    text: &'static Texts,
    language: Language,
    switches: LanguageThemeSwitches,
    assets: &'static str,
    heading: &'static str,
    status: u16,
    /// What the error means in the language of the page; `None` if only the message says it.
    said: Option<&'static str>,
    message: &'a str,
    code: Option<&'a str>,
}

impl ErrorPage<'_> {
    /// The page as a response; `None` if it cannot be rendered.
    #[must_use]
    pub fn response(&self) -> Option<Response> {
        let text = Texts::of(self.language);
        let template = ErrorTemplate {
            text,
            language: self.language,
            switches: LanguageThemeSwitches::new(self.address, self.language),
            assets: assets::folder(),
            heading: text.error.heading(self.status),
            status: self.status.as_u16(),
            said: match self.language {
                Language::English => None,
                Language::Chinese => self.code.and_then(Code::parse).and_then(fault_texts::chinese),
            },
            message: self.message,
            code: self.code,
        };
        let html = template.render().map(nuncio_core::text::printable).ok()?;
        let mut response = (self.status, Html(html)).into_response();
        headers::guard_open(response.headers_mut());
        Some(response)
    }
}

impl crate::texts::ErrorTexts {
    fn heading(&'static self, status: StatusCode) -> &'static str {
        match status.as_u16() {
            401 => &self.needs_key,
            403 | 421 => &self.not_allowed,
            404 | 410 => &self.not_found,
            405 => &self.not_for_browsers,
            429 => &self.too_many,
            500.. => &self.server,
            _ => &self.other,
        }
    }
}

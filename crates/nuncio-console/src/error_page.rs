//! An error as a page, for people who open an address of this server in a browser.

use askama::Template;
use axum::response::{Html, IntoResponse as _, Response};
use http::StatusCode;
use nuncio_core::ErrorCode;
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
            said: self.said(),
            message: self.message,
            code: self.code,
        };
        let html = template.render().map(nuncio_core::text::printable).ok()?;
        let mut response = (self.status, Html(html)).into_response();
        headers::guard_open(response.headers_mut());
        Some(response)
    }

    /// The error in the language of the page, by its code or else by its status; `None` in English, where the message
    /// says it.
    fn said(&self) -> Option<&'static str> {
        if self.language == Language::English {
            return None;
        }
        // Some protocols write their codes in capitals, and have codes of their own.
        let code = self.code.and_then(|code| ErrorCode::parse(&code.to_ascii_lowercase()));
        code.and_then(fault_texts::chinese).or_else(|| fault_texts::chinese(code_of(self.status)))
    }
}

/// The code that says the same as an HTTP status.
fn code_of(status: StatusCode) -> ErrorCode {
    match status.as_u16() {
        401 => ErrorCode::Unauthorized,
        403 => ErrorCode::PermissionDenied,
        404 | 410 => ErrorCode::NotFound,
        405 => ErrorCode::MethodNotAllowed,
        408 => ErrorCode::RequestTimeout,
        413 => ErrorCode::BodyTooLarge,
        415 => ErrorCode::UnsupportedMediaType,
        421 => ErrorCode::HostRefused,
        429 => ErrorCode::RateLimited,
        431 => ErrorCode::HeadTooLarge,
        503 => ErrorCode::ServerBusy,
        500.. => ErrorCode::Internal,
        _ => ErrorCode::BadRequest,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn said(language: Language, status: u16, code: Option<&str>) -> Option<&'static str> {
        let status = StatusCode::from_u16(status).unwrap();
        ErrorPage { language, address: "/", status, message: "m", code }.said()
    }

    #[test]
    fn chinese_page_has_a_chinese_sentence_for_every_error_of_every_protocol() {
        for code in [Some("skill_not_found"), Some("SKILL_NOT_FOUND")] {
            assert_eq!(said(Language::Chinese, 404, code), Some("这里没有该技能。"));
        }
        assert_eq!(said(Language::Chinese, 404, Some("UNKNOWN_TO_US")), Some("这个地址没有任何内容。"));
        let codes = ErrorCode::ALL.iter().map(|code| Some(code.as_str())).chain([None]);
        for (code, status) in codes.flat_map(|code| [400, 401, 409, 421, 431, 500, 503].map(|status| (code, status))) {
            assert!(said(Language::Chinese, status, code).is_some(), "{code:?} {status}");
            assert_eq!(said(Language::English, status, code), None);
        }
    }
}

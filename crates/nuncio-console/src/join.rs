//! `GET /join`: explains an invite link. The secret of the link is in its fragment, so it never reaches the server.

use askama::Template;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use nuncio_http::pages::{Language, LanguageThemeSwitches, written};
use serde::Deserialize;

use crate::assets;
use crate::texts::{JoinTexts, Texts};

#[derive(Default, Deserialize)]
pub(super) struct JoinQuery {
    lang: Option<String>,
}

#[derive(Template)]
#[template(path = "join.html")]
struct JoinPage {
    text: &'static JoinTexts,
    language: Language,
    switches: LanguageThemeSwitches,
    assets: &'static str,
}

pub(super) async fn show(headers: HeaderMap, query: Result<Query<JoinQuery>, QueryRejection>) -> Response {
    // A query that cannot be parsed is ignored.
    let lang = query.ok().and_then(|Query(query)| query.lang);
    let language = lang.as_deref().and_then(Language::parse).unwrap_or_else(|| Language::accepted(&headers));
    let switches = LanguageThemeSwitches::new("/join", language);
    let text = &Texts::of(language).join;
    written(StatusCode::OK, &JoinPage { text, language, switches, assets: assets::folder() })
}

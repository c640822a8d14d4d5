//! `/console/sign-in` and `/console/sign-out`. A key is looked at once and forgotten; what the browser
//! keeps is a random name for the session.

use std::sync::Arc;

use ::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::Extension;
use axum::extract::{Query, Request, State};
use axum::response::Response;
use nuncio_core::digest::Digest;
use nuncio_core::principal::Principal;
use nuncio_engine::Identity;
use nuncio_http::pages::sender::field;
use nuncio_http::pages::{see, written};
use nuncio_http::{ClientAddress, CredentialLocation, report_caller};

use super::Texts;
use super::page::{MessagePage, SignInPage};
use super::visitor::{COOKIE, forget, may_work};
use super::{Inbox, InboxQuery, PageVisitor, stranger, unreadable};

/// `GET /console/sign-in`
pub(super) async fn ask(
    State(inbox): State<Arc<Inbox>>,
    asked: Query<InboxQuery>,
    identity: Option<Extension<Identity>>,
    headers: HeaderMap,
) -> Response {
    let reader = PageVisitor::new(&asked, identity, headers);
    let next = destination(asked.next.as_deref());
    if reader.visitor(&inbox).is_some() {
        return see(&reader.to(&next));
    }
    page(&reader, StatusCode::OK, next, None)
}

/// `POST /console/sign-in`
pub(super) async fn enter(
    State(inbox): State<Arc<Inbox>>,
    asked: Query<InboxQuery>,
    identity: Option<Extension<Identity>>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let reader = PageVisitor::new(&asked, identity, parts.headers);
    if let Some(refusal) = stranger(&reader, &parts.uri) {
        return refusal;
    }
    let sent = match inbox.form(&reader.headers, &parts.extensions, body, CredentialLocation::Header).await {
        Ok(sent) => sent,
        Err(status) => return unreadable(&reader, None, status),
    };
    let texts = &Texts::of(reader.language).sign_in;
    let next = destination(field(&sent, "next"));
    let key = field(&sent, "key").unwrap_or_default().trim();
    if key.is_empty() {
        return page(&reader, StatusCode::UNPROCESSABLE_ENTITY, next, Some(texts.empty.clone()));
    }
    let now = inbox.engine.now();
    let address = parts.extensions.get().map(ClientAddress::counted);
    if let Err(seconds) = inbox.sessions.may_try(address, now) {
        let wrong = texts.too_many.replace("{seconds}", &seconds.to_string());
        let mut response = page(&reader, StatusCode::TOO_MANY_REQUESTS, next, Some(wrong));
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        return response;
    }
    let holder = inbox.engine.access().caller_by_key(key).and_then(|caller| match caller.principal {
        Principal::Key(id) => inbox.engine.access().valid_key(&id),
        _ => None,
    });
    let Some(holder) = holder else {
        inbox.sessions.tried(address, now);
        tracing::info!("somebody tried to sign in to the console with a key that is not valid");
        return page(&reader, StatusCode::UNAUTHORIZED, next, Some(texts.wrong.clone()));
    };
    if !may_work(&holder) {
        let frame = reader.frame("/console/sign-in", None);
        let link = (reader.to(&format!("/console/sign-in?next={next}")), texts.another.clone());
        let (heading, why) = (texts.not_allowed.clone(), texts.not_allowed_why.clone());
        let message = MessagePage { frame, heading, why, link: Some(link), at_once: false };
        return written(StatusCode::FORBIDDEN, &message);
    }
    if let Err(error) = report_caller(&parts.extensions, &Principal::Key(holder.id.clone())) {
        return reader.failed(None, &error);
    }
    // Whoever signs in begins anew: nothing a browser brought along is kept.
    forget(&inbox, &reader.headers);
    let cookie = inbox.sessions.open(holder.id.clone(), Digest::of_bytes(key.as_bytes()), now);
    tracing::info!(key = %holder.id, "signed in to the console");
    with_cookie(see(&reader.to(&next)), &reader.headers, &cookie)
}

/// `POST /console/sign-out`
pub(super) async fn leave(
    State(inbox): State<Arc<Inbox>>,
    asked: Query<InboxQuery>,
    identity: Option<Extension<Identity>>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let reader = PageVisitor::new(&asked, identity, parts.headers);
    if let Some(refusal) = stranger(&reader, &parts.uri) {
        return refusal;
    }
    let sent = match inbox.form(&reader.headers, &parts.extensions, body, CredentialLocation::Header).await {
        Ok(sent) => sent,
        Err(status) => return unreadable(&reader, None, status),
    };
    let away = see(&reader.to("/console/sign-in"));
    match reader.visitor(&inbox) {
        // A page that is too old shows itself anew, and can then be left.
        Some(visitor) if !visitor.sent(&sent) => see(&reader.to("/console/tasks")),
        Some(_) => {
            forget(&inbox, &reader.headers);
            with_cookie(away, &reader.headers, "")
        }
        None => away,
    }
}

fn page(reader: &PageVisitor, status: StatusCode, next: String, wrong: Option<String>) -> Response {
    let frame = reader.frame(&format!("/console/sign-in?next={next}"), None);
    written(status, &SignInPage { frame, wrong, next })
}

fn with_cookie(mut response: Response, asked: &HeaderMap, value: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(&COOKIE.set(asked, value)) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}

/// The redirect after signing in, always to a path of the inbox.
fn destination(wanted: Option<&str>) -> String {
    let inbox = "/console/tasks";
    let is_ours = |place: &&str| {
        let rest = place.strip_prefix(inbox);
        rest.is_some_and(|rest| {
            rest.is_empty() || rest.strip_prefix('/').is_some_and(|id| nuncio_core::ids::TaskId::parse(id).is_ok())
        })
    };
    wanted.filter(is_ours).unwrap_or(inbox).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sign_in_redirects_only_within_the_inbox() {
        assert_eq!(destination(Some("/console/tasks/task_1")), "/console/tasks/task_1");
        for odd in [
            None,
            Some(""),
            Some("//evil.example"),
            Some("/console/tasks/../.."),
            Some("/console/tasksx"),
            Some("/console/tasks/a?b"),
        ] {
            assert_eq!(destination(odd), "/console/tasks", "{odd:?}");
        }
    }
}

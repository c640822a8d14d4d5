//! `/console/sign-in` and `/console/sign-out`. The key is checked once and not stored; the browser gets a random
//! session cookie.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use nuncio_core::digest::Digest;
use nuncio_core::ids::TaskId;
use nuncio_core::principal::Principal;
use nuncio_http::pages::sender::field;
use nuncio_http::pages::{see, written};
use nuncio_http::{ClientAddress, CredentialLocation, report_caller};

use super::page::{MessagePage, SignInPage};
use super::request::{PageRequest, SameOriginForm};
use super::visitor::{COOKIE, may_use_inbox};
use super::{InboxPages, TASKS};
use crate::texts::Texts;

/// `GET /console/sign-in`
pub(super) async fn show(State(inbox): State<Arc<InboxPages>>, page: PageRequest) -> Response {
    let next = destination(page.query.next.as_deref());
    if page.visitor(&inbox).is_some() {
        return see(&page.link(&next));
    }
    sign_in_page(&page, StatusCode::OK, next, None)
}

/// `POST /console/sign-in`
pub(super) async fn sign_in(
    State(inbox): State<Arc<InboxPages>>,
    mut post: SameOriginForm,
) -> Result<Response, Response> {
    let fields = post.read_fields(&inbox, None, CredentialLocation::Header).await?;
    let SameOriginForm { page, extensions, .. } = &post;
    let texts = &Texts::of(page.language).sign_in;
    let next = destination(field(&fields, "next"));
    let key = field(&fields, "key").unwrap_or_default().trim();
    if key.is_empty() {
        return Ok(sign_in_page(page, StatusCode::UNPROCESSABLE_ENTITY, next, Some(texts.empty.clone())));
    }
    let now = inbox.engine.now();
    let address = extensions.get().map(ClientAddress::counted);
    if let Err(seconds) = inbox.sessions.check_attempt(address, now) {
        let fault = texts.too_many.replace("{seconds}", &seconds.to_string());
        let mut response = sign_in_page(page, StatusCode::TOO_MANY_REQUESTS, next, Some(fault));
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        return Ok(response);
    }
    let holder = inbox.engine.access().caller_by_key(key).and_then(|caller| match caller.principal {
        Principal::Key(id) => inbox.engine.access().valid_key(&id),
        _ => None,
    });
    let Some(holder) = holder else {
        inbox.sessions.record_wrong_key(address, now);
        tracing::info!("a sign-in to the console with an invalid key was refused");
        return Ok(sign_in_page(page, StatusCode::UNAUTHORIZED, next, Some(texts.wrong.clone())));
    };
    if !may_use_inbox(&holder) {
        let frame = page.frame("/console/sign-in", None);
        let link = (page.sign_in_link(&next), texts.another.clone());
        let (heading, why) = (texts.not_allowed.clone(), texts.not_allowed_why.clone());
        let message = MessagePage { frame, heading, why, link: Some(link), at_once: false };
        return Ok(written(StatusCode::FORBIDDEN, &message));
    }
    let reported = report_caller(extensions, &Principal::Key(holder.id.clone()));
    reported.map_err(|error| page.error_page(None, &error))?;
    // Signing in always opens a new session; a session that the browser had before ends.
    inbox.close_session(&page.headers);
    let cookie = inbox.sessions.open(holder.id.clone(), Digest::of_bytes(key.as_bytes()), now);
    tracing::info!(key = %holder.id, "signed in to the console");
    Ok(with_cookie(see(&page.link(&next)), &page.headers, &cookie))
}

/// `POST /console/sign-out`
pub(super) async fn sign_out(
    State(inbox): State<Arc<InboxPages>>,
    mut post: SameOriginForm,
) -> Result<Response, Response> {
    let fields = post.read_fields(&inbox, None, CredentialLocation::Header).await?;
    let page = &post.page;
    let signed_out = see(&page.link("/console/sign-in"));
    Ok(match page.visitor(&inbox) {
        // The form token is that of an older page. The task list has a new token, so its button signs out.
        Some(visitor) if !visitor.has_token(&fields) => see(&page.link(TASKS)),
        Some(_) => {
            inbox.close_session(&page.headers);
            with_cookie(signed_out, &page.headers, "")
        }
        None => signed_out,
    })
}

fn sign_in_page(page: &PageRequest, status: StatusCode, next: String, fault: Option<String>) -> Response {
    let frame = page.frame(&format!("/console/sign-in?next={next}"), None);
    written(status, &SignInPage { frame, fault, next })
}

fn with_cookie(mut response: Response, request: &HeaderMap, value: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(&COOKIE.set(request, value)) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}

/// The path to go to after signing in, always one of the inbox.
fn destination(path: Option<&str>) -> String {
    let is_of_inbox = |path: &&str| {
        let rest = path.strip_prefix(TASKS);
        rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('/').is_some_and(|id| TaskId::parse(id).is_ok()))
    };
    path.filter(is_of_inbox).unwrap_or(TASKS).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sign_in_redirects_only_to_pages_of_the_inbox() {
        assert_eq!(destination(Some("/console/tasks/task_1")), "/console/tasks/task_1");
        for other in [
            None,
            Some(""),
            Some("//evil.example"),
            Some("/console/tasks/../.."),
            Some("/console/tasksx"),
            Some("/console/tasks/a?b"),
        ] {
            assert_eq!(destination(other), "/console/tasks", "{other:?}");
        }
    }
}

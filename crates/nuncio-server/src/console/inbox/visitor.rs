//! Who is at the page, whether a request was sent from it, and what it sends.

use std::time::Duration;

use ::http::{HeaderMap, HeaderName, StatusCode, Uri, header};
use axum::body::{Body, to_bytes};
use nuncio_core::ids::ScopeId;
use nuncio_core::principal::Principal;
use nuncio_engine::Identity;
use nuncio_engine::ports::store::ApiKey;
use subtle::ConstantTimeEq as _;

use super::Inbox;
use super::sessions::Look;

/// What a key must be allowed to do, to work in the inbox.
const SCOPE: &str = "console:tasks";
/// How large a form may be, and how long it may take.
const MAX_FORM: usize = 1024 * 1024;
const FORM_TIME: Duration = Duration::from_secs(30);

/// Somebody who may work in the inbox.
#[derive(Clone)]
pub(super) struct Visitor {
    /// Who others see.
    pub(super) name: String,
    /// What every form of theirs must send along.
    pub(super) token: String,
    /// Whether they signed in, and so can sign out.
    pub(super) signed_in: bool,
}

impl Visitor {
    /// Whether a form carries the right token.
    pub(super) fn sent(&self, form: &[(String, String)]) -> bool {
        let token = field(form, "csrf").unwrap_or_default();
        bool::from(token.as_bytes().ct_eq(self.token.as_bytes()))
    }
}

/// Who others see when the holder of this key does something.
pub(super) fn name(key: &ApiKey) -> String {
    let person = key.person.as_ref().map(ToString::to_string);
    person.or_else(|| key.name.clone().filter(|name| !name.trim().is_empty())).unwrap_or_else(|| key.id.to_string())
}

/// Whether the holder of this key may work in the inbox.
pub(super) fn may_work(key: &ApiKey) -> bool {
    ScopeId::parse(SCOPE).is_ok_and(|scope| key.scopes.gives(&scope))
}

impl Inbox {
    /// Who is at the page: somebody on this machine while it is open to them, or who signed in.
    pub(super) fn visitor(&self, identity: Option<&Identity>, headers: &HeaderMap, look: Look) -> Option<Visitor> {
        if let Some(Identity::Known(caller)) = identity
            && caller.principal == Principal::Local
        {
            return Some(Visitor { name: "local".to_owned(), token: self.token.clone(), signed_in: false });
        }
        let cookie = cookie(headers)?;
        let session = self.sessions.find(cookie, look, self.engine.now())?;
        // A key that was taken back, or never gave as much, ends what it opened.
        let Some(key) = self.engine.valid_key(&session.key).filter(|key| may_work(key)) else {
            self.sessions.close(cookie);
            return None;
        };
        Some(Visitor { name: name(&key), token: session.token, signed_in: true })
    }

    /// What a form sends.
    pub(super) async fn form(&self, headers: &HeaderMap, body: Body) -> Result<Vec<(String, String)>, StatusCode> {
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
        }
        let deadline = self.engine.now().after(FORM_TIME);
        let bytes = tokio::select! {
            biased;
            read = to_bytes(body, MAX_FORM) => read.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?,
            () = self.engine.clock().sleep_until(deadline) => return Err(StatusCode::REQUEST_TIMEOUT),
        };
        Ok(url::form_urlencoded::parse(&bytes).into_owned().collect())
    }
}

/// What a form says under a name.
pub(super) fn field<'a>(form: &'a [(String, String)], name: &str) -> Option<&'a str> {
    form.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// Whether a page of ours sent this. A browser says where a request comes from, and no page can make
/// it say otherwise; what says nothing is not believed.
pub(super) fn is_from_here(headers: &HeaderMap, uri: &Uri) -> bool {
    match headers.get(HeaderName::from_static("sec-fetch-site")) {
        Some(site) => site == "same-origin",
        None => {
            let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
            let place = origin.and_then(|origin| origin.split_once("://")).map(|(_, place)| place);
            place.zip(host(headers, uri)).is_some_and(|(place, host)| place.eq_ignore_ascii_case(host))
        }
    }
}

/// Whether somebody follows a link from elsewhere. Their browser then holds back the cookie.
pub(super) fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    headers
        .get(HeaderName::from_static("sec-fetch-site"))
        .is_some_and(|site| site == "cross-site" || site == "same-site")
}

fn host<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    // HTTP/2 has it in the address instead of a header.
    let named = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    named.or_else(|| uri.authority().map(::http::uri::Authority::as_str))
}

/// Cookies do not tell ports apart; servers beside each other must not take each other's.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let port = host.and_then(|host| host.rsplit_once(':')).and_then(|(_, port)| port.parse::<u16>().ok());
    port.map_or_else(|| "nuncio-console".to_owned(), |port| format!("nuncio-console-{port}"))
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let wanted = cookie_name(headers);
    let sent = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = sent.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value)
}

/// Ends whatever a request's cookie opened.
pub(super) fn forget(inbox: &Inbox, headers: &HeaderMap) {
    if let Some(cookie) = cookie(headers) {
        inbox.sessions.close(cookie);
    }
}

/// The header that gives a browser its cookie; an empty one takes it back.
pub(super) fn set_cookie(headers: &HeaderMap, value: &str) -> String {
    // A page that was reached by TLS, here or at a proxy before us, says so in its origin.
    let by_tls = headers
        .get(header::ORIGIN)
        .and_then(|origin| origin.to_str().ok())
        .is_some_and(|origin| origin.starts_with("https://"));
    let secure = if by_tls { "; Secure" } else { "" };
    let end = if value.is_empty() { "; Max-Age=0" } else { "" };
    format!("{}={value}; Path=/console; HttpOnly; SameSite=Strict{secure}{end}", cookie_name(headers))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_a_page_of_ours_sends_what_is_believed() {
        let uri = Uri::from_static("/console/tasks");
        for (good, pairs) in [
            (true, &[("sec-fetch-site", "same-origin")][..]),
            (true, &[("origin", "http://localhost:7400"), ("host", "localhost:7400")]),
            (false, &[("host", "localhost:7400")]),
            (false, &[("origin", "null"), ("host", "localhost:7400")]),
            (false, &[("origin", "http://localhost:7401"), ("host", "localhost:7400")]),
            (false, &[("origin", "http://evil.example"), ("host", "localhost:7400")]),
            (
                false,
                &[("sec-fetch-site", "same-site"), ("origin", "http://localhost:7400"), ("host", "localhost:7400")],
            ),
            (false, &[("sec-fetch-site", "cross-site")]),
            (false, &[("sec-fetch-site", "none")]),
        ] {
            assert_eq!(is_from_here(&headers(pairs), &uri), good, "{pairs:?}");
        }
        let by_http2 = Uri::from_static("https://inbox.example/console/tasks");
        assert!(is_from_here(&headers(&[("origin", "https://inbox.example")]), &by_http2));
    }

    #[test]
    fn a_cookie_is_for_the_console_alone_and_for_tls_where_there_is_tls() {
        let plain = set_cookie(&headers(&[("origin", "http://localhost:7400")]), "x");
        assert_eq!(plain, "nuncio-console=x; Path=/console; HttpOnly; SameSite=Strict");
        let by_tls = set_cookie(&headers(&[("origin", "https://inbox.example")]), "x");
        assert_eq!(by_tls, "nuncio-console=x; Path=/console; HttpOnly; SameSite=Strict; Secure");
        assert!(set_cookie(&headers(&[]), "").ends_with("Max-Age=0"));
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        assert_eq!(cookie(&headers(&[("cookie", "a=b; nuncio-console=x; c=d")])), Some("x"));
        assert_eq!(cookie(&headers(&[("cookie", "nuncio-console2=x")])), None);
        let beside = headers(&[("cookie", "nuncio-console-1=x; nuncio-console-2=y"), ("host", "localhost:2")]);
        assert_eq!(cookie(&beside), Some("y"));
    }
}

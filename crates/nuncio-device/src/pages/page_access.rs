//! Access control of the pages. A one-time link opens a session; the session is a same-site cookie, and every change
//! also needs a CSRF token.
//!
//! All pages are below an unguessable path and the cookie is limited to it, because browsers send cookies to every port
//! of a host and so to other web servers on this machine. The link is used by submitting a form: programs that fetch
//! links for a preview change nothing.
//!
//! Three checks keep other sites in the same browser out: the `Host` must be this machine (against DNS rebinding), the
//! request must come from our own origin, and the CSRF token must match.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, Method, StatusCode};
use nuncio_core::bounded_cache::BoundedCache;
use nuncio_core::digest::Digest;
use nuncio_core::opaque_debug;
use nuncio_core::time::Timestamp;
use nuncio_engine::ports::entropy::random_name;
use nuncio_engine::ports::{Clock, Entropy};
use nuncio_http::pages::see;
use nuncio_http::pages::sender::{PathCookie, field, host, is_from_elsewhere, is_from_here};
use serde::Deserialize;
use subtle::ConstantTimeEq as _;

use super::frame::{PageRequest, SignedInForm, read_form};
use super::path::SecretPagesPath;
use super::{DevicePages, with_cookie};
use crate::device::DeviceDependencies;

const LINK_VALIDITY: Duration = Duration::from_secs(10 * 60);
/// Idle time after which a session ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(12 * 60 * 60);
/// Limit of open links, and of sessions; beyond it the oldest is dropped.
const MAX_LINKS_AND_SESSIONS: usize = 16;

#[derive(Clone)]
pub(super) struct DevicePageSession {
    /// CSRF token that every form must send.
    pub(super) token: String,
}

/// Open one-time links and sessions. Secrets are stored as digests, so that the time of a lookup reveals nothing.
#[derive(Debug)]
pub struct PageAccess {
    path: SecretPagesPath,
    links: BoundedCache<Digest, ()>,
    sessions: BoundedCache<Digest, DevicePageSession>,
}

opaque_debug!(DevicePageSession);

impl PageAccess {
    #[must_use]
    pub fn new(path: SecretPagesPath) -> Self {
        Self {
            path,
            links: BoundedCache::new(MAX_LINKS_AND_SESSIONS),
            sessions: BoundedCache::new(MAX_LINKS_AND_SESSIONS),
        }
    }

    pub(super) const fn path(&self) -> &SecretPagesPath {
        &self.path
    }

    fn cookie(&self) -> PathCookie<'_> {
        PathCookie { name: "nuncio-device", path: self.path.as_str() }
    }

    /// Creates a one-time sign-in link, valid for ten minutes.
    pub fn link(&self, at: SocketAddr, entropy: &dyn Entropy, now: Timestamp) -> String {
        let token = random_name(entropy, "");
        self.links.put(Digest::of_bytes(token.as_bytes()), (), now.after(LINK_VALIDITY));
        format!("http://{at}{}/open?token={token}", self.path.as_str())
    }

    fn is_usable(&self, token: &str, now: Timestamp) -> bool {
        self.links.get(&Digest::of_bytes(token.as_bytes()), now).is_some()
    }

    /// Uses up a one-time link. Returns whether the link was valid.
    fn enter(&self, token: &str, now: Timestamp) -> bool {
        self.links.take_if(&Digest::of_bytes(token.as_bytes()), |(), until| until > now).is_some()
    }

    /// Opens a session and returns the value of the session cookie.
    fn begin(&self, entropy: &dyn Entropy, now: Timestamp) -> String {
        let cookie = random_name(entropy, "");
        let session = DevicePageSession { token: random_name(entropy, "") };
        self.sessions.put(Digest::of_bytes(cookie.as_bytes()), session, now.after(IDLE_TIMEOUT));
        cookie
    }

    fn session(&self, headers: &HeaderMap, now: Timestamp) -> Option<DevicePageSession> {
        let cookie = Digest::of_bytes(self.cookie().of(headers)?.as_bytes());
        self.sessions.get_and_extend(&cookie, now, now.after(IDLE_TIMEOUT))
    }

    fn end(&self, headers: &HeaderMap) {
        if let Some(cookie) = self.cookie().of(headers) {
            self.sessions.remove(&Digest::of_bytes(cookie.as_bytes()));
        }
    }
}

impl DevicePageSession {
    /// Compares the CSRF token of a form in constant time.
    pub(super) fn has_csrf_token(&self, token: Option<&str>) -> bool {
        bool::from(token.unwrap_or_default().as_bytes().ct_eq(self.token.as_bytes()))
    }
}

/// State of the routes that open and check sessions; used by the device's pages and the enrolment page.
#[derive(Clone)]
pub(super) struct PageAccessRouteState {
    pub(super) access: Arc<PageAccess>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) entropy: Arc<dyn Entropy>,
}

impl PageAccessRouteState {
    pub(super) fn new(access: &Arc<PageAccess>, config: &DeviceDependencies) -> Self {
        let (clock, entropy) = (Arc::clone(&config.clock), Arc::clone(&config.entropy));
        Self { access: Arc::clone(access), clock, entropy }
    }
}

/// Middleware that refuses requests whose `Host` is not this machine, against DNS rebinding.
pub(super) async fn is_this_machine(State(at): State<SocketAddr>, request: Request, next: Next) -> Response {
    let named = host(request.headers(), request.uri()).unwrap_or_default();
    let (name, port) = named.rsplit_once(':').unwrap_or((named, "80"));
    let is_here = ["127.0.0.1", "localhost", "[::1]"].iter().any(|here| name.eq_ignore_ascii_case(here));
    match is_here && port == at.port().to_string() {
        true => next.run(request).await,
        false => StatusCode::MISDIRECTED_REQUEST.into_response(),
    }
}

#[derive(Deserialize)]
pub(super) struct OneTimeLinkQuery {
    #[serde(default)]
    token: String,
}

/// `GET /open?token=…`: shows a sign-in button. The link stays valid, because programs may fetch links for a preview.
pub(super) async fn show_link(
    State(PageAccessRouteState { access, clock, .. }): State<PageAccessRouteState>,
    Query(link): Query<OneTimeLinkQuery>,
    page_request: PageRequest,
) -> Response {
    let now = clock.now();
    if access.session(&page_request.headers, now).is_some() {
        return see(&page_request.to("/"));
    }
    match access.is_usable(&link.token, now) {
        true => page_request.confirm_link(link.token),
        false => page_request.refuse(StatusCode::FORBIDDEN),
    }
}

/// `POST /open`: uses up the one-time link and opens a session.
pub(super) async fn use_link(
    State(PageAccessRouteState { access, clock, entropy }): State<PageAccessRouteState>,
    page_request: PageRequest,
    request: Request,
) -> Response {
    if !is_from_here(request.headers(), request.uri()) {
        return page_request.refuse(StatusCode::FORBIDDEN);
    }
    let (parts, body) = request.into_parts();
    let sent = match read_form(&parts.headers, body).await {
        Ok(sent) => sent,
        Err(status) => return status.into_response(),
    };
    let now = clock.now();
    if !access.enter(field(&sent, "token").unwrap_or_default(), now) {
        return page_request.refuse(StatusCode::FORBIDDEN);
    }
    access.end(&page_request.headers);
    let cookie = access.begin(&*entropy, now);
    with_cookie(see(&page_request.to("/")), &access.cookie().set(&page_request.headers, &cookie))
}

/// Middleware that requires a session, and for changes also a request from our own pages.
pub(super) async fn inside(
    State(PageAccessRouteState { access, clock, .. }): State<PageAccessRouteState>,
    page_request: PageRequest,
    mut request: Request,
    next: Next,
) -> Response {
    let changes = request.method() != Method::GET && request.method() != Method::HEAD;
    if changes && !is_from_here(request.headers(), request.uri()) {
        return page_request.refuse(StatusCode::FORBIDDEN);
    }
    let Some(session) = access.session(request.headers(), clock.now()) else {
        // Browsers do not send a same-site cookie after a click on another site; a redirect from our own page makes
        // them send it.
        return match is_from_elsewhere(request.headers()) && !changes {
            true => page_request.redirect_same_origin(request.uri().path()),
            false => page_request.refuse(StatusCode::UNAUTHORIZED),
        };
    };
    request.extensions_mut().insert(session);
    next.run(request).await
}

/// `POST /leave`: ends the session.
pub(super) async fn leave(State(pages): State<DevicePages>, SignedInForm { visit, .. }: SignedInForm) -> Response {
    pages.shared.access.end(&visit.headers);
    with_cookie(visit.signed_out(), &pages.shared.access.cookie().set(&visit.headers, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct CountingEntropy(std::sync::atomic::AtomicU8);

    impl Entropy for CountingEntropy {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst));
        }
    }

    #[test]
    fn sign_in_link_works_once_within_ten_minutes_and_oldest_link_is_dropped() {
        let entropy = CountingEntropy(0.into());
        let path = SecretPagesPath::random(&entropy);
        let access = PageAccess::new(path.clone());
        let at: SocketAddr = "127.0.0.1:7480".parse().unwrap();
        let now = Timestamp::from_millis(0);
        let token = |link: String| link.split_once("token=").unwrap().1.to_owned();
        let link = access.link(at, &entropy, now);
        assert!(link.starts_with(&format!("http://127.0.0.1:7480{}/open?token=", path.as_str())), "{link}");
        let first = token(link);
        assert!(!access.enter("", now) && !access.enter("wrong", now));
        assert!(access.is_usable(&first, now) && access.is_usable(&first, now), "looking does not use it up");
        assert!(access.enter(&first, now) && !access.enter(&first, now), "it works once");
        assert!(!access.is_usable(&first, now));
        let late = token(access.link(at, &entropy, now));
        assert!(!access.is_usable(&late, now.after(LINK_VALIDITY)));
        assert!(!access.enter(&late, now.after(LINK_VALIDITY)), "it works for ten minutes");
        let links: Vec<_> = (0..=MAX_LINKS_AND_SESSIONS)
            .map(|at_second| token(access.link(at, &entropy, now.after(Duration::from_secs(at_second as u64)))))
            .collect();
        assert!(!access.enter(&links[0], now) && access.enter(&links[1], now), "the oldest goes");
    }
}

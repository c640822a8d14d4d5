//! Identifies the visitor of a page, and checks that a form comes from that visitor's page.

use http::{HeaderMap, header};
use nuncio_core::ids::ScopeId;
use nuncio_core::principal::Principal;
use nuncio_engine::CallerCheckResult;
use nuncio_engine::ports::store::ApiKey;
use nuncio_http::pages::sender::{PathCookie, RequestOrigin, field, sender};
use subtle::ConstantTimeEq as _;

use super::InboxPages;
use super::sessions::SessionRenewal;

/// The scope that a key needs for the inbox.
const SCOPE: &str = "console:tasks";
/// The cookie of a sign-in session.
pub(super) const COOKIE: PathCookie<'static> = PathCookie { name: "nuncio-console", path: "/console" };

#[derive(Clone)]
pub(super) struct PageVisitor {
    pub(super) name: String,
    pub(super) principal: Principal,
    /// The token that the forms of this visitor carry.
    pub(super) token: String,
    /// Whether there is a session to sign out of; local visitors have none.
    pub(super) signed_in: bool,
}

impl PageVisitor {
    /// Whether a form carries this visitor's token.
    pub(super) fn has_token(&self, form: &[(String, String)]) -> bool {
        let token = field(form, "csrf").unwrap_or_default();
        bool::from(token.as_bytes().ct_eq(self.token.as_bytes()))
    }
}

/// The display name of the holder of a key.
fn display_name(key: &ApiKey) -> String {
    let person = key.person.as_ref().map(ToString::to_string);
    person.or_else(|| key.name.clone().filter(|name| !name.trim().is_empty())).unwrap_or_else(|| key.id.to_string())
}

pub(super) fn may_use_inbox(key: &ApiKey) -> bool {
    ScopeId::parse(SCOPE).is_ok_and(|scope| key.scopes.gives(&scope))
}

impl InboxPages {
    /// The visitor of a request: `local` while the server is open to local requests, or a signed-in person.
    pub(super) fn visitor(
        &self,
        identity: Option<&CallerCheckResult>,
        headers: &HeaderMap,
        access: SessionRenewal,
    ) -> Option<PageVisitor> {
        if let Some(CallerCheckResult::Known(caller)) = identity
            && caller.principal == Principal::Local
        {
            let (name, principal, token) = ("local".to_owned(), Principal::Local, self.local_token.clone());
            return Some(PageVisitor { name, principal, token, signed_in: false });
        }
        // The cookie counts only on requests from a page of this server or the address bar.
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let cookie = COOKIE.of(headers).filter(|_| sender(headers, host) == RequestOrigin::OwnPage)?;
        let now = self.engine.now();
        let session = self.sessions.find(cookie, access, now)?;
        // The session ends when its key is revoked, expires, loses the scope or gets a new secret.
        let key = self.engine.access().valid_key(&session.key).filter(|key| key.has_secret(&session.secret, now));
        let Some(key) = key.filter(|key| may_use_inbox(key)) else {
            self.sessions.close(cookie);
            return None;
        };
        let principal = Principal::Key(key.id.clone());
        Some(PageVisitor { name: display_name(&key), principal, token: session.token, signed_in: true })
    }

    /// Ends the session of a request's cookie.
    pub(super) fn close_session(&self, headers: &HeaderMap) {
        if let Some(cookie) = COOKIE.of(headers) {
            self.sessions.close(cookie);
        }
    }
}

//! The visitor of a page, and the checks on posted forms.

use ::http::{Extensions, HeaderMap, StatusCode, header};
use axum::body::Body;
use nuncio_core::ids::ScopeId;
use nuncio_core::principal::Principal;
use nuncio_engine::Identity;
use nuncio_engine::ports::store::ApiKey;
use nuncio_http::CredentialLocation;
use nuncio_http::pages::sender::{Cookie, RequestSender, field, form_fields, is_form, sender};
use subtle::ConstantTimeEq as _;

use super::Inbox;
use super::sessions::VisitKind;

/// The permission a key needs for the inbox.
const SCOPE: &str = "console:tasks";
/// The cookie of a sign-in session.
pub(super) const COOKIE: Cookie<'static> = Cookie { name: "nuncio-console", path: "/console" };
/// How large a form may be.
const MAX_FORM: usize = 1024 * 1024;

#[derive(Clone)]
pub(super) struct Visitor {
    pub(super) name: String,
    pub(super) principal: Principal,
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

/// The display name of the holder of a key.
pub(super) fn name(key: &ApiKey) -> String {
    let person = key.person.as_ref().map(ToString::to_string);
    person.or_else(|| key.name.clone().filter(|name| !name.trim().is_empty())).unwrap_or_else(|| key.id.to_string())
}

/// Whether the holder of this key may work in the inbox.
pub(super) fn may_work(key: &ApiKey) -> bool {
    ScopeId::parse(SCOPE).is_ok_and(|scope| key.scopes.gives(&scope))
}

impl Inbox {
    /// The visitor: `local` while the server is open to it, or a signed-in person.
    pub(super) fn visitor(&self, identity: Option<&Identity>, headers: &HeaderMap, look: VisitKind) -> Option<Visitor> {
        if let Some(Identity::Known(caller)) = identity
            && caller.principal == Principal::Local
        {
            let (name, principal, token) = ("local".to_owned(), Principal::Local, self.token.clone());
            return Some(Visitor { name, principal, token, signed_in: false });
        }
        // What no page of ours and no address bar sent does not count, even with the right cookie.
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let cookie = COOKIE.of(headers).filter(|_| sender(headers, host) == RequestSender::OwnPage)?;
        let now = self.engine.now();
        let session = self.sessions.find(cookie, look, now)?;
        // A key that was taken back, expired, or never gave as much ends what it opened, and so does a secret that was
        // replaced.
        let key = self.engine.access().valid_key(&session.key).filter(|key| key.has_secret(&session.secret, now));
        let Some(key) = key.filter(|key| may_work(key)) else {
            self.sessions.close(cookie);
            return None;
        };
        let principal = Principal::Key(key.id.clone());
        Some(Visitor { name: name(&key), principal, token: session.token, signed_in: true })
    }

    pub(super) async fn form(
        &self,
        headers: &HeaderMap,
        extensions: &Extensions,
        body: Body,
        credential: CredentialLocation,
    ) -> Result<Vec<(String, String)>, StatusCode> {
        is_form(headers)?;
        let read = self.bodies.at_most(MAX_FORM).read(&self.engine, extensions, body, credential).await;
        let bytes = read.map_err(|error| nuncio_http::status(error.code))?;
        Ok(form_fields(&bytes))
    }
}

/// Ends whatever a request's cookie opened.
pub(super) fn forget(inbox: &Inbox, headers: &HeaderMap) {
    if let Some(cookie) = COOKIE.of(headers) {
        inbox.sessions.close(cookie);
    }
}

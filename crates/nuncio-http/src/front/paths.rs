//! Rules of a path: which credentials are accepted, and which documents need none.

use http::Method;

/// Rules for a path prefix and the paths below it, or those of them that end with a suffix. API keys and tokens of
/// issuers are accepted everywhere, except that credentials are ignored on public documents that are the same for every
/// caller.
#[derive(Debug, Clone, Copy)]
pub struct PathRules {
    pub prefix: &'static str,
    /// End of the paths below the prefix to which the rules are limited; empty for all.
    pub suffix: &'static str,
    /// Whether `GET` and `HEAD` of a path read a public document, where invalid credentials are ignored.
    pub is_public: fn(&str) -> bool,
    /// Whether public documents show more to some callers, so that callers are identified there too.
    pub public_varies: bool,
    /// Kinds of tokens issued by this server that are accepted on these paths.
    pub tokens: &'static [ServerTokenKind],
    pub did_signatures: PathSignatureRule,
    /// Rule for signatures by a signing key (`X-Signature`) on requests that no DID signed.
    pub key_signatures: PathSignatureRule,
    /// Whether routes also accept a key in a form or body, or the session of a cookie.
    pub takes_keys_elsewhere: bool,
    /// Whether requests without credentials may count as those of the caller `local`.
    pub serves_local: bool,
    /// Whether the paths are pages that a link on another site may open. Opening them changes nothing.
    pub is_page: bool,
}

/// A kind of token that this server issues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerTokenKind {
    /// A token issued in response to a request that a DID signed.
    Did,
    /// A token of a person's device.
    Device,
    /// A token of an agent's account.
    Agent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathSignatureRule {
    /// The server checks the signature before the route runs.
    Checked,
    /// The route checks the signature, or serves everyone.
    LeftToRoute,
    /// A signed request is refused like one with a wrong key.
    Refused,
}

impl PathRules {
    /// Rules under which nothing is public, no token of this server is accepted, and routes check the signatures.
    #[must_use]
    pub const fn new(prefix: &'static str) -> Self {
        Self {
            prefix,
            suffix: "",
            is_public: |_| false,
            public_varies: false,
            tokens: &[],
            did_signatures: PathSignatureRule::LeftToRoute,
            key_signatures: PathSignatureRule::LeftToRoute,
            takes_keys_elsewhere: false,
            serves_local: true,
            is_page: false,
        }
    }

    /// Rules for documents that everyone may read.
    #[must_use]
    pub const fn public(prefix: &'static str) -> Self {
        Self { is_public: |_| true, ..Self::new(prefix) }
    }

    #[must_use]
    pub fn covers(&self, path: &str) -> bool {
        let is_below = |rest: &str| rest.is_empty() || rest.starts_with('/');
        path.strip_prefix(self.prefix).is_some_and(|rest| is_below(rest) && rest.ends_with(self.suffix))
    }

    #[must_use]
    pub fn is_public_document(&self, method: &Method, path: &str) -> bool {
        is_read(method) && (self.is_public)(path)
    }

    /// Whether a person may open the path by a link from another site.
    #[must_use]
    pub fn may_be_navigated_to(&self, method: &Method, path: &str) -> bool {
        is_read(method) && (self.is_page || (self.is_public)(path))
    }
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

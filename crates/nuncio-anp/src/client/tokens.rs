//! Cache of access tokens that servers granted for signatures, per origin (with port) and DID.

use std::time::Duration;

use nuncio_core::bounded_cache::BoundedCache;
use nuncio_core::time::Timestamp;
use nuncio_identity::Did;
use nuncio_identity::challenge::IssuedAccessToken;
use url::Url;

const MAX_CACHED_TOKENS: usize = 1024;
/// Lifetime of a token whose server states none.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(3600);
const MAX_LIFETIME: Duration = Duration::from_secs(86_400);
/// Time before its expiry from which a token is no longer used.
const EXPIRY_MARGIN: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct TokenCache(BoundedCache<TokenCacheKey, String>);

impl Default for TokenCache {
    fn default() -> Self {
        Self(BoundedCache::new(MAX_CACHED_TOKENS))
    }
}

/// The origin that issued the token, and the DID it was issued to.
type TokenCacheKey = (String, Did);

impl TokenCache {
    pub(super) fn get(&self, url: &Url, did: &Did, now: Timestamp) -> Option<String> {
        self.0.get(&token_key(url, did), now)
    }

    pub(super) fn put(&self, url: &Url, did: &Did, grant: IssuedAccessToken, now: Timestamp) {
        let span = grant
            .expires_in
            .map_or(DEFAULT_LIFETIME, Duration::from_secs)
            .min(MAX_LIFETIME)
            .saturating_sub(EXPIRY_MARGIN);
        self.0.put(token_key(url, did), grant.access_token, now.after(span));
    }

    pub(super) fn forget(&self, url: &Url, did: &Did) {
        self.0.remove(&token_key(url, did));
    }
}

fn token_key(url: &Url, did: &Did) -> TokenCacheKey {
    (url.origin().ascii_serialization(), did.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_token_is_used_only_for_its_origin_and_did_until_it_expires() {
        let tokens = TokenCache::default();
        let url = |text: &str| Url::parse(text).unwrap();
        let did = |text: &str| Did::parse(text).unwrap();
        let (here, me, now) = (url("http://localhost:1/a"), did("did:wba:a.example"), Timestamp::from_millis(0));
        let grant = IssuedAccessToken { access_token: "t".to_owned(), expires_in: Some(60), scope: None };
        tokens.put(&here, &me, grant, now);
        assert_eq!(tokens.get(&url("http://localhost:1/b"), &me, now).as_deref(), Some("t"));
        for elsewhere in ["http://localhost:2/a", "https://localhost:1/a", "http://127.0.0.1:1/a"] {
            assert_eq!(tokens.get(&url(elsewhere), &me, now), None, "{elsewhere}");
        }
        assert_eq!(tokens.get(&here, &did("did:wba:b.example"), now), None);
        assert_eq!(tokens.get(&here, &me, now.after(Duration::from_secs(50))), None);
        tokens.forget(&here, &me);
        assert_eq!(tokens.get(&here, &me, now), None);
    }
}

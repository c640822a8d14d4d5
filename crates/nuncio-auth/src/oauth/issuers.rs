//! The trusted issuers, and the checks of their access tokens.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::bounded_cache::BoundedCache;
use nuncio_core::digest::Digest;
use nuncio_engine::Caller;
use nuncio_engine::ports::{Clock, Fetch};
use tokio::sync::Semaphore;
use url::Url;

use super::fetch_cache::{CachedFetch, FetchedValue};
use super::introspect::IntrospectionClient;
use super::jwks::{IssuerKeys, JwtSignatureCheckResult};
use super::metadata::{self, IssuerMetadata};
use super::token::{Jwt, ParsedToken, VerifiedToken};
use crate::settings::IssuerSetting;

/// Age up to which an issuer's metadata and keys are not fetched again, unless a token names an unknown key.
const METADATA_FRESH: Duration = Duration::from_secs(3600);
const KEYS_FRESH: Duration = Duration::from_secs(600);
/// Age up to which an issuer's metadata and keys are used while the issuer does not answer.
const METADATA_USABLE: Duration = Duration::from_secs(24 * 3600);
const KEYS_USABLE: Duration = Duration::from_secs(3600);
/// Number of checked tokens whose result is cached.
const CACHED_TOKENS: usize = 4096;
/// Time for which an introspection result is cached. The issuer may revoke the token meanwhile.
const VALID_RESULT_LIFETIME: Duration = Duration::from_secs(60);
const INVALID_RESULT_LIFETIME: Duration = Duration::from_secs(5);
/// Concurrent introspection requests to one issuer.
const MAX_INTROSPECTIONS: usize = 32;
/// Concurrent token checks on the whole server.
const MAX_CHECKS: usize = 1024;

pub struct TrustedIssuers {
    list: Vec<TrustedIssuer>,
    fetch: Arc<dyn Fetch>,
    clock: Arc<dyn Clock>,
    /// Callers of valid tokens, until the token expires or has to be checked again.
    valid_tokens: BoundedCache<Digest, Caller>,
    /// Tokens that the issuers just called invalid, in their own cache so that a flood of them evicts no valid token.
    invalid_tokens: BoundedCache<Digest, ()>,
    check_slots: Arc<Semaphore>,
}

struct TrustedIssuer {
    setting: IssuerSetting,
    metadata: CachedFetch<IssuerMetadata>,
    keys: CachedFetch<IssuerKeys>,
    client: Option<IntrospectionClient>,
    introspection_slots: Semaphore,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenCheckResult {
    Known(Caller),
    /// The token is invalid; the text is for the operator.
    Invalid(String),
    /// The issuer cannot be reached; the text is for the operator.
    Unverifiable(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuthEndpoints {
    pub issuer: String,
    pub authorization_url: Url,
    pub token_url: Url,
}

impl TrustedIssuers {
    /// Trusts the issuers of the settings. Their metadata and keys are fetched with the first token. Fails if a client
    /// secret cannot be read.
    pub fn open(settings: &[IssuerSetting], fetch: Arc<dyn Fetch>, clock: Arc<dyn Clock>) -> Result<Self, String> {
        let issuer = |setting: &IssuerSetting| {
            let client = setting.introspection.as_ref().map(IntrospectionClient::open).transpose();
            Ok(TrustedIssuer {
                setting: setting.clone(),
                metadata: CachedFetch::new(Arc::clone(&clock), METADATA_FRESH, METADATA_USABLE),
                keys: CachedFetch::new(Arc::clone(&clock), KEYS_FRESH, KEYS_USABLE),
                client: client.map_err(|why| format!("issuer {}: {why}", setting.url.as_str()))?,
                introspection_slots: Semaphore::new(MAX_INTROSPECTIONS),
            })
        };
        let list = settings.iter().map(issuer).collect::<Result<_, String>>()?;
        let (valid_tokens, invalid_tokens) = (BoundedCache::new(CACHED_TOKENS), BoundedCache::new(CACHED_TOKENS));
        Ok(Self { list, fetch, clock, valid_tokens, invalid_tokens, check_slots: Arc::new(Semaphore::new(MAX_CHECKS)) })
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Identifiers of the issuers, as written in the `iss` claim of their tokens.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|issuer| issuer.setting.url.as_str())
    }

    /// OAuth endpoints of an issuer, by default the first. The settings take precedence over the issuer's metadata.
    pub async fn describe(&self, issuer: Option<&Url>) -> Result<OAuthEndpoints, String> {
        let wanted = |it: &&TrustedIssuer| issuer.is_none_or(|url| it.setting.url.as_url() == url);
        let found = self.list.iter().find(wanted).ok_or_else(|| match issuer {
            Some(url) => format!("no [[issuer]] in nuncio.toml has the url {url}"),
            None => "nuncio.toml has no [[issuer]]".to_owned(),
        })?;
        let setting = &found.setting;
        let name = setting.url.as_str();
        let (mut authorization, mut token) = (setting.authorization_url.clone(), setting.token_url.clone());
        if authorization.is_none() || token.is_none() {
            let metadata = found.metadata(&*self.fetch).await.map_err(|why| format!("issuer {name}: {why}"))?;
            authorization = authorization.or_else(|| metadata.value.authorization_endpoint.clone());
            token = token.or_else(|| metadata.value.token_endpoint.clone());
        }
        let missing =
            |key: &str| format!("issuer {name}: its metadata does not contain this address; set {key} in nuncio.toml");
        Ok(OAuthEndpoints {
            issuer: name.to_owned(),
            authorization_url: authorization.ok_or_else(|| missing("authorization_url"))?,
            token_url: token.ok_or_else(|| missing("token_url"))?,
        })
    }

    /// The caller of a token whose last check is still cached.
    #[must_use]
    pub fn cached_caller(&self, token: &str) -> Option<Caller> {
        self.valid_tokens.get(&Digest::of_bytes(token.as_bytes()), self.clock.now())
    }

    /// Identifies the caller of a token. A check continues after its client disconnects and its result is cached;
    /// otherwise clients that disconnect could cause issuer requests without end.
    pub async fn check(self: &Arc<Self>, token: &str) -> TokenCheckResult {
        let Ok(slot) = Arc::clone(&self.check_slots).try_acquire_owned() else {
            return TokenCheckResult::Unverifiable("too many tokens are being checked".to_owned());
        };
        let (this, token) = (Arc::clone(self), token.to_owned());
        let checking = tokio::spawn(async move {
            let _slot = slot;
            this.identify_caller(&token).await
        });
        checking
            .await
            .unwrap_or_else(|error| TokenCheckResult::Unverifiable(format!("the check was interrupted: {error}")))
    }

    async fn identify_caller(&self, token: &str) -> TokenCheckResult {
        let digest = Digest::of_bytes(token.as_bytes());
        let outcome = match ParsedToken::read(token) {
            ParsedToken::Jwt(jwt) => self.check_jwt(&jwt).await,
            ParsedToken::Opaque => self.check_opaque(token, &digest).await,
            ParsedToken::Malformed(why) => Err(TokenRefusal::Invalid(why)),
        };
        match outcome {
            Ok(VerifiedToken { caller, until }) => {
                self.valid_tokens.put(digest, caller.clone(), until);
                TokenCheckResult::Known(caller)
            }
            Err(TokenRefusal::Invalid(why)) => TokenCheckResult::Invalid(why),
            Err(TokenRefusal::Unverifiable(why)) => TokenCheckResult::Unverifiable(why),
        }
    }

    async fn check_jwt(&self, jwt: &Jwt<'_>) -> Result<VerifiedToken, TokenRefusal> {
        let invalid = |why: &str| TokenRefusal::Invalid(why.to_owned());
        let is_issuer = |it: &&TrustedIssuer| jwt.claims.iss.as_deref() == Some(it.setting.url.as_str());
        let issuer = self.list.iter().find(is_issuer).ok_or_else(|| invalid("its issuer is not trusted here"))?;
        if !issuer.setting.algorithms.contains(&jwt.algorithm) {
            return Err(invalid("its algorithm is not among those this issuer may use"));
        }
        // Claims are checked first: that costs no request to the issuer.
        let verified = jwt.verify_claims(&issuer.setting, self.clock.now()).map_err(TokenRefusal::Invalid)?;
        let verify = |keys: &IssuerKeys| keys.verify(jwt.algorithm, jwt.key.as_deref(), jwt.message, &jwt.signature);
        let mut keys = issuer.keys.get(self.fetch_keys(issuer)).await.map_err(TokenRefusal::Unverifiable)?;
        let mut signature = verify(&keys.value);
        if signature == JwtSignatureCheckResult::Unknown {
            keys = issuer.keys.newer(Some(&keys), self.fetch_keys(issuer)).await.map_err(TokenRefusal::Unverifiable)?;
            signature = verify(&keys.value);
        }
        match signature {
            JwtSignatureCheckResult::Good => {
                let until = verified.until.min(issuer.keys.fresh_until(&keys));
                Ok(VerifiedToken { until, ..verified })
            }
            JwtSignatureCheckResult::Bad => Err(invalid("its signature is wrong")),
            JwtSignatureCheckResult::Unknown => Err(invalid("no key of its issuer made its signature")),
        }
    }

    async fn fetch_keys(&self, issuer: &TrustedIssuer) -> Result<IssuerKeys, String> {
        let metadata = issuer.metadata(&*self.fetch).await?;
        let url = metadata.value.jwks_uri.clone().ok_or("its metadata has no jwks_uri")?;
        let response = metadata::get(&*self.fetch, url.clone()).await?;
        if response.status != 200 {
            return Err(format!("{url} answered {}", response.status));
        }
        let keys = IssuerKeys::parse(&response.body).map_err(|why| format!("{url}: {why}"))?;
        // Tokens signed with a withdrawn key are no longer valid.
        if issuer.keys.current().is_some_and(|old| !old.value.is_subset_of(&keys)) {
            self.valid_tokens.clear();
        }
        Ok(keys)
    }

    async fn check_opaque(&self, token: &str, digest: &Digest) -> Result<VerifiedToken, TokenRefusal> {
        if self.invalid_tokens.get(digest, self.clock.now()).is_some() {
            return Err(TokenRefusal::Invalid("no issuer recognized it a moment ago".to_owned()));
        }
        let mut refused = TokenRefusal::Invalid("it is not a JWT, and no issuer offers introspection".to_owned());
        for issuer in &self.list {
            let Some(client) = &issuer.client else { continue };
            match self.introspect(issuer, client, token).await {
                Ok(good) => return Ok(good),
                // While one issuer cannot be asked, the token is not known to be invalid.
                Err(why @ TokenRefusal::Unverifiable(_)) => refused = why,
                Err(why) if matches!(refused, TokenRefusal::Invalid(_)) => refused = why,
                Err(_) => {}
            }
        }
        if matches!(refused, TokenRefusal::Invalid(_)) {
            self.invalid_tokens.put(*digest, (), self.clock.now().after(INVALID_RESULT_LIFETIME));
        }
        Err(refused)
    }

    async fn introspect(
        &self,
        issuer: &TrustedIssuer,
        client: &IntrospectionClient,
        token: &str,
    ) -> Result<VerifiedToken, TokenRefusal> {
        // Unidentified callers cause introspection requests, so their number is limited.
        let Ok(_slot) = issuer.introspection_slots.try_acquire() else {
            return Err(TokenRefusal::Unverifiable("too many introspection requests are pending".to_owned()));
        };
        let setting = &issuer.setting;
        let url = match setting.introspection.as_ref().and_then(|it| it.url.clone()) {
            Some(url) => url,
            None => {
                let metadata = issuer.metadata(&*self.fetch).await.map_err(TokenRefusal::Unverifiable)?;
                let url = metadata.value.introspection_endpoint.clone();
                url.ok_or_else(|| TokenRefusal::Unverifiable("its metadata has no introspection_endpoint".to_owned()))?
            }
        };
        let claims = client.introspect(&*self.fetch, &url, token).await.map_err(TokenRefusal::Unverifiable)?;
        if claims.active != Some(true) {
            return Err(TokenRefusal::Invalid("its issuer says that it is not valid".to_owned()));
        }
        if claims.iss.as_deref().is_some_and(|iss| iss != setting.url.as_str()) {
            return Err(TokenRefusal::Invalid("its issuer differs from the configured issuer".to_owned()));
        }
        let now = self.clock.now();
        let verified = claims.verify(setting, now).map_err(TokenRefusal::Invalid)?;
        Ok(VerifiedToken { until: verified.until.min(now.after(VALID_RESULT_LIFETIME)), ..verified })
    }
}

impl TrustedIssuer {
    async fn metadata(&self, fetch: &dyn Fetch) -> Result<FetchedValue<IssuerMetadata>, String> {
        self.metadata.get(metadata::discover(fetch, &self.setting.url)).await
    }
}

enum TokenRefusal {
    Invalid(String),
    Unverifiable(String),
}

impl fmt::Debug for TrustedIssuers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

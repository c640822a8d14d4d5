//! The issuers whose access tokens are believed, and what each token comes to.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nuncio_core::bounded_cache::BoundedCache;
use nuncio_core::digest::Digest;
use nuncio_core::time::Timestamp;
use nuncio_engine::Caller;
use nuncio_engine::ports::{Clock, Fetch};
use tokio::sync::Semaphore;
use url::Url;

use super::fetch_cache::{CachedFetch, FetchedValue};
use super::introspect::Client;
use super::jwks::{KeySet, SignatureMatch};
use super::metadata::{self, Metadata};
use super::token::{Jwt, Token};
use crate::settings::IssuerSetting;

/// How long an issuer's metadata and keys are not looked at again, unless a token names an unknown key.
const METADATA_FRESH: Duration = Duration::from_secs(3600);
const KEYS_FRESH: Duration = Duration::from_secs(600);
/// How long they are used at most when the issuer does not answer any more.
const METADATA_USABLE: Duration = Duration::from_secs(24 * 3600);
const KEYS_USABLE: Duration = Duration::from_secs(3600);
/// How many tokens are remembered.
const REMEMBERED: usize = 4096;
/// How long an introspection result is cached: the issuer may revoke the token meanwhile.
const GOOD_FOR: Duration = Duration::from_secs(60);
const BAD_FOR: Duration = Duration::from_secs(5);
/// How many tokens one issuer is asked about at once.
const ASKED_AT_ONCE: usize = 32;
/// How many tokens are being checked at once.
const CHECKED_AT_ONCE: usize = 1024;

pub struct Issuers {
    list: Vec<Issuer>,
    fetch: Arc<dyn Fetch>,
    clock: Arc<dyn Clock>,
    /// Tokens found to be good, until they expire or have to be looked at again.
    good: BoundedCache<Digest, Caller>,
    /// Tokens that no issuer knew a moment ago. Apart, so that a flood of them pushes out none of the others.
    bad: BoundedCache<Digest, ()>,
    places: Arc<Semaphore>,
}

struct Issuer {
    setting: IssuerSetting,
    metadata: CachedFetch<Metadata>,
    keys: CachedFetch<KeySet>,
    client: Option<Client>,
    asking: Semaphore,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenCheck {
    Known(Caller),
    /// The token is invalid; the text is for the operator.
    Invalid(String),
    /// The issuer cannot be reached; the text is for the operator.
    Unverifiable(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuthEndpoints {
    /// The issuer, as it is written in its tokens.
    pub issuer: String,
    pub authorization_url: Url,
    pub token_url: Url,
}

impl Issuers {
    /// Gets ready to believe these issuers. Nothing is fetched before it is needed.
    pub fn open(settings: &[IssuerSetting], fetch: Arc<dyn Fetch>, clock: Arc<dyn Clock>) -> Result<Self, String> {
        let issuer = |setting: &IssuerSetting| {
            let client = setting.introspection.as_ref().map(Client::open).transpose();
            Ok(Issuer {
                setting: setting.clone(),
                metadata: CachedFetch::new(Arc::clone(&clock), METADATA_FRESH, METADATA_USABLE),
                keys: CachedFetch::new(Arc::clone(&clock), KEYS_FRESH, KEYS_USABLE),
                client: client.map_err(|why| format!("issuer {}: {why}", setting.url.as_str()))?,
                asking: Semaphore::new(ASKED_AT_ONCE),
            })
        };
        let list = settings.iter().map(issuer).collect::<Result<_, String>>()?;
        let (good, bad) = (BoundedCache::new(REMEMBERED), BoundedCache::new(REMEMBERED));
        Ok(Self { list, fetch, clock, good, bad, places: Arc::new(Semaphore::new(CHECKED_AT_ONCE)) })
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The issuers, as they are written in their tokens.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|issuer| issuer.setting.url.as_str())
    }

    /// OAuth endpoints of an issuer, by default the first. The settings take precedence
    /// over the metadata of the issuer.
    pub async fn describe(&self, issuer: Option<&Url>) -> Result<OAuthEndpoints, String> {
        let wanted = |it: &&Issuer| issuer.is_none_or(|url| it.setting.url.as_url() == url);
        let found = self.list.iter().find(wanted).ok_or_else(|| match issuer {
            Some(url) => format!("no [[issuer]] in nuncio.toml has the url {url}"),
            None => "nuncio.toml names no [[issuer]]".to_owned(),
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
            |key: &str| format!("issuer {name}: its metadata names no such address; set {key} in nuncio.toml");
        Ok(OAuthEndpoints {
            issuer: name.to_owned(),
            authorization_url: authorization.ok_or_else(|| missing("authorization_url"))?,
            token_url: token.ok_or_else(|| missing("token_url"))?,
        })
    }

    /// The caller of a token that was found to be good before, without asking anyone.
    #[must_use]
    pub fn recall(&self, token: &str) -> Option<Caller> {
        self.good.get(&Digest::of_bytes(token.as_bytes()), self.clock.now())
    }

    /// Identifies the caller of a token. A check continues after its client disconnects and its result is cached;
    /// otherwise clients that disconnect could cause issuer requests without end.
    pub async fn check(self: &Arc<Self>, token: &str) -> TokenCheck {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return TokenCheck::Unverifiable("too many tokens are being checked".to_owned());
        };
        let (this, token) = (Arc::clone(self), token.to_owned());
        let checking = tokio::spawn(async move {
            let _place = place;
            this.identify_caller(&token).await
        });
        checking.await.unwrap_or_else(|error| TokenCheck::Unverifiable(format!("the check broke off: {error}")))
    }

    async fn identify_caller(&self, token: &str) -> TokenCheck {
        let digest = Digest::of_bytes(token.as_bytes());
        let outcome = match Token::read(token) {
            Token::Jwt(jwt) => self.check_jwt(&jwt).await,
            Token::Opaque => self.check_opaque(token, &digest).await,
            Token::Broken(why) => Err(TokenRefusal::Invalid(why)),
        };
        match outcome {
            Ok(ValidToken { caller, until }) => {
                self.good.put(digest, caller.clone(), until);
                TokenCheck::Known(caller)
            }
            Err(TokenRefusal::Invalid(why)) => TokenCheck::Invalid(why),
            Err(TokenRefusal::Unverifiable(why)) => TokenCheck::Unverifiable(why),
        }
    }

    async fn check_jwt(&self, jwt: &Jwt<'_>) -> Result<ValidToken, TokenRefusal> {
        let invalid = |why: &str| TokenRefusal::Invalid(why.to_owned());
        let named = |it: &&Issuer| jwt.claims.iss.as_deref() == Some(it.setting.url.as_str());
        let issuer = self.list.iter().find(named).ok_or_else(|| invalid("its issuer is not trusted here"))?;
        if !issuer.setting.algorithms.contains(&jwt.algorithm) {
            return Err(invalid("its algorithm is not among those this issuer may use"));
        }
        // What costs nothing comes before what costs a request.
        let verified = jwt.verify_claims(&issuer.setting, self.clock.now()).map_err(TokenRefusal::Invalid)?;
        let verify = |keys: &KeySet| keys.verify(jwt.algorithm, jwt.key.as_deref(), jwt.message, &jwt.signature);
        let mut keys = issuer.keys.get(self.fetch_keys(issuer)).await.map_err(TokenRefusal::Unverifiable)?;
        let mut found = verify(&keys.value);
        if found == SignatureMatch::Unknown {
            keys = issuer.keys.newer(Some(&keys), self.fetch_keys(issuer)).await.map_err(TokenRefusal::Unverifiable)?;
            found = verify(&keys.value);
        }
        match found {
            SignatureMatch::Good => {
                let fresh = issuer.keys.fresh_until(&keys);
                Ok(ValidToken {
                    caller: verified.caller,
                    until: verified.until.map_or(fresh, |until| until.min(fresh)),
                })
            }
            SignatureMatch::Bad => Err(invalid("its signature is wrong")),
            SignatureMatch::Unknown => Err(invalid("no key of its issuer made its signature")),
        }
    }

    async fn fetch_keys(&self, issuer: &Issuer) -> Result<KeySet, String> {
        let metadata = issuer.metadata(&*self.fetch).await?;
        let url = metadata.value.jwks_uri.clone().ok_or("its metadata names no jwks_uri")?;
        let answer = metadata::get(&*self.fetch, url.clone()).await?;
        if answer.status != 200 {
            return Err(format!("{url} answered {}", answer.status));
        }
        let keys = KeySet::parse(&answer.body).map_err(|why| format!("{url}: {why}"))?;
        // What a withdrawn key signed counts no longer.
        if issuer.keys.current().is_some_and(|old| !old.value.all_in(&keys)) {
            self.good.clear();
        }
        Ok(keys)
    }

    async fn check_opaque(&self, token: &str, digest: &Digest) -> Result<ValidToken, TokenRefusal> {
        if self.bad.get(digest, self.clock.now()).is_some() {
            return Err(TokenRefusal::Invalid("no issuer knew it a moment ago".to_owned()));
        }
        let mut refused = TokenRefusal::Invalid("it is no JWT, and no issuer can be asked about it".to_owned());
        for issuer in &self.list {
            let Some(client) = &issuer.client else { continue };
            match self.ask(issuer, client, token).await {
                Ok(good) => return Ok(good),
                // Another issuer may know it, but as long as one cannot tell, nobody knows that it is bad.
                Err(why @ TokenRefusal::Unverifiable(_)) => refused = why,
                Err(why) if matches!(refused, TokenRefusal::Invalid(_)) => refused = why,
                Err(_) => {}
            }
        }
        if matches!(refused, TokenRefusal::Invalid(_)) {
            let now = self.clock.now();
            self.bad.put(*digest, (), now.after(BAD_FOR));
        }
        Err(refused)
    }

    async fn ask(&self, issuer: &Issuer, client: &Client, token: &str) -> Result<ValidToken, TokenRefusal> {
        // Strangers decide what is asked, so they may not decide how much.
        let Ok(_place) = issuer.asking.try_acquire() else {
            return Err(TokenRefusal::Unverifiable("too many tokens wait for an answer of their issuer".to_owned()));
        };
        let setting = &issuer.setting;
        let url = match setting.introspection.as_ref().and_then(|it| it.url.clone()) {
            Some(url) => url,
            None => {
                let metadata = issuer.metadata(&*self.fetch).await.map_err(TokenRefusal::Unverifiable)?;
                let url = metadata.value.introspection_endpoint.clone();
                url.ok_or_else(|| {
                    TokenRefusal::Unverifiable("its metadata names no introspection_endpoint".to_owned())
                })?
            }
        };
        let claims = client.ask(&*self.fetch, &url, token).await.map_err(TokenRefusal::Unverifiable)?;
        if claims.active != Some(true) {
            return Err(TokenRefusal::Invalid("its issuer says that it is not valid".to_owned()));
        }
        if claims.iss.as_deref().is_some_and(|iss| iss != setting.url.as_str()) {
            return Err(TokenRefusal::Invalid("its issuer is not the one asked".to_owned()));
        }
        let now = self.clock.now();
        let verified = claims.verify(setting, now).map_err(TokenRefusal::Invalid)?;
        let soon = now.after(GOOD_FOR);
        Ok(ValidToken { caller: verified.caller, until: verified.until.map_or(soon, |until| until.min(soon)) })
    }
}

impl Issuer {
    async fn metadata(&self, fetch: &dyn Fetch) -> Result<FetchedValue<Metadata>, String> {
        self.metadata.get(metadata::discover(fetch, &self.setting.url)).await
    }
}

/// A good token, and until when that may be remembered.
struct ValidToken {
    caller: Caller,
    until: Timestamp,
}

enum TokenRefusal {
    Invalid(String),
    Unverifiable(String),
}

impl fmt::Debug for Issuers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

//! OAuth 2.0 access tokens: client credentials, or a login in a browser.
//!
//! A token is stored under endpoint origin, token URL and client id. A descriptor that names a foreign token URL
//! therefore never receives a token that was issued for another endpoint.

mod file;
mod login;
mod loopback;
mod token;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use nuncio_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use url::Url;

pub use file::FileOAuthTokenStore;
pub use login::OAuthLoginOptions;

use super::credential::SecretString;
use super::describe::ResolvedSkill;
use super::error::{ConsumerErrorReason, SkillConsumerError, plain};
use super::target::UserNamedHost;
use crate::wire::OAuth2Config;

/// OAuth tokens of one client at one provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OAuthTokens {
    pub access: SecretString,
    /// Expiry of the access token, if the server reported one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh: Option<SecretString>,
    pub client_id: String,
    /// Client secret, stored only for a login with a confidential client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<SecretString>,
}

pub trait OAuthTokenStore: fmt::Debug + Send + Sync + 'static {
    fn load(&self, key: &str) -> Option<OAuthTokens>;

    /// Stores tokens, or deletes them if `tokens` is `None`.
    ///
    /// # Errors
    /// Returns the reason as a sentence. The caller may still use the tokens.
    fn save(&self, key: &str, tokens: Option<&OAuthTokens>) -> Result<(), String>;
}

#[derive(Debug, Default)]
pub struct MemoryOAuthTokenStore(Mutex<HashMap<String, OAuthTokens>>);

impl OAuthTokenStore for MemoryOAuthTokenStore {
    fn load(&self, key: &str) -> Option<OAuthTokens> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn save(&self, key: &str, tokens: Option<&OAuthTokens>) -> Result<(), String> {
        let mut tokens_by_key = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match tokens {
            Some(tokens) => drop(tokens_by_key.insert(key.to_owned(), tokens.clone())),
            None => drop(tokens_by_key.remove(key)),
        }
        Ok(())
    }
}

/// Source of access tokens for one invocation.
#[derive(Debug, Clone)]
pub(super) struct OAuthTokenSource {
    token_url: Url,
    /// Client id and client secret for the OAuth client credentials grant.
    client: Option<(String, SecretString)>,
    scope: String,
    resource: String,
    key: String,
    named_host: UserNamedHost,
}

impl OAuthTokenSource {
    /// Source that requests tokens with the OAuth client credentials grant.
    pub(super) fn client(
        described: &ResolvedSkill,
        id: &str,
        secret: &SecretString,
        scopes: &[String],
    ) -> Result<Self, SkillConsumerError> {
        let scope = scope(config(described)?, scopes);
        let mut source = Self::new(described, scope)?;
        source.key = format!("{} client {id} {}", source.key, source.scope);
        source.client = Some((id.to_owned(), secret.clone()));
        Ok(source)
    }

    /// Source that uses tokens of an earlier browser login; `None` if there was no login.
    pub(super) fn login(
        described: &ResolvedSkill,
        tokens: &dyn OAuthTokenStore,
    ) -> Result<Option<Self>, SkillConsumerError> {
        let source = Self::new(described, String::new())?.for_login();
        Ok(tokens.load(&source.key).map(|_| source))
    }

    fn for_login(mut self) -> Self {
        self.key.push_str(" login");
        self
    }

    fn new(described: &ResolvedSkill, scope: String) -> Result<Self, SkillConsumerError> {
        let token_url = absolute(&config(described)?.token_url)?;
        let resource = described.endpoint.origin().ascii_serialization();
        let key = format!("{resource} {token_url}");
        Ok(Self { token_url, client: None, scope, resource, key, named_host: described.named_host.clone() })
    }
}

fn config(described: &ResolvedSkill) -> Result<&OAuth2Config, SkillConsumerError> {
    described.descriptor.auth.oauth2.as_ref().ok_or_else(|| {
        SkillConsumerError::new(
            ConsumerErrorReason::CredentialUnfit,
            format!("{:?} does not accept access tokens", plain(&described.descriptor.id)),
        )
    })
}

fn absolute(text: &str) -> Result<Url, SkillConsumerError> {
    Url::parse(text).map_err(|error| {
        SkillConsumerError::new(
            ConsumerErrorReason::InvalidDocument,
            format!("{:?} is not an address: {error}", plain(text)),
        )
    })
}

/// Space-separated scopes to request: the given ones, or all in the descriptor.
fn scope(config: &OAuth2Config, requested: &[String]) -> String {
    if requested.is_empty() { config.scopes.keys().cloned().collect::<Vec<_>>().join(" ") } else { requested.join(" ") }
}

//! OAuth 2.0 access tokens: fetched by a client, or allowed by a person in a browser.
//!
//! A token is kept for one endpoint's origin, one token address and one client. A descriptor that names
//! somebody else's token address therefore never gets a token that was made for them.

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

pub use file::FileTokens;
pub use login::Login;

use super::credential::{Credential, Secret};
use super::describe::Described;
use super::error::{ConsumerError, Reason, plain};
use super::target::Named;
use crate::wire::OAuth2Config;

/// Tokens that were given out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// What is sent.
    pub access: Secret,
    /// When it ends, if that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// What gets the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh: Option<Secret>,
    /// The client they were given to.
    pub client_id: String,
    /// The client's own secret, if it has one and a person logged in with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<Secret>,
}

/// Where tokens are kept.
pub trait TokenStore: fmt::Debug + Send + Sync + 'static {
    /// What was kept under that key.
    fn load(&self, key: &str) -> Option<Tokens>;

    /// Keeps tokens, or forgets what was kept.
    ///
    /// # Errors
    /// They cannot be kept; the sentence says why. They can be used all the same.
    fn save(&self, key: &str, tokens: Option<&Tokens>) -> Result<(), String>;
}

/// Tokens kept while the process lives.
#[derive(Debug, Default)]
pub struct MemoryTokens(Mutex<HashMap<String, Tokens>>);

impl TokenStore for MemoryTokens {
    fn load(&self, key: &str) -> Option<Tokens> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn save(&self, key: &str, tokens: Option<&Tokens>) -> Result<(), String> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match tokens {
            Some(tokens) => drop(kept.insert(key.to_owned(), tokens.clone())),
            None => drop(kept.remove(key)),
        }
        Ok(())
    }
}

/// Where the access tokens of one invocation come from.
#[derive(Debug, Clone)]
pub(super) struct TokenSource {
    token_url: Url,
    /// The client, where it fetches tokens with its own credentials.
    client: Option<(String, Secret)>,
    scope: String,
    resource: String,
    key: String,
    named: Named,
}

impl TokenSource {
    /// For a client with credentials of its own.
    pub(super) fn client(described: &Described, credential: &Credential) -> Result<Self, ConsumerError> {
        let Credential::Client { id, secret, scopes } = credential else {
            return Err(ConsumerError::new(Reason::CredentialUnfit, "a client's id and secret are needed"));
        };
        let scope = scope(config(described)?, scopes);
        let mut source = Self::new(described, scope)?;
        source.key = format!("{} client {id} {}", source.key, source.scope);
        source.client = Some((id.clone(), secret.clone()));
        Ok(source)
    }

    /// For a person who logged in before, if anyone did.
    pub(super) fn login(described: &Described, tokens: &dyn TokenStore) -> Result<Option<Self>, ConsumerError> {
        let source = Self::new(described, String::new())?.of_a_person();
        Ok(tokens.load(&source.key).map(|_| source))
    }

    fn of_a_person(mut self) -> Self {
        self.key.push_str(" login");
        self
    }

    fn new(described: &Described, scope: String) -> Result<Self, ConsumerError> {
        let token_url = absolute(&config(described)?.token_url)?;
        let resource = described.endpoint.origin().ascii_serialization();
        let key = format!("{resource} {token_url}");
        Ok(Self { token_url, client: None, scope, resource, key, named: described.named.clone() })
    }
}

fn config(described: &Described) -> Result<&OAuth2Config, ConsumerError> {
    described.descriptor.auth.oauth2.as_ref().ok_or_else(|| {
        ConsumerError::new(Reason::CredentialUnfit, format!("{:?} takes no tokens", plain(&described.descriptor.id)))
    })
}

fn absolute(text: &str) -> Result<Url, ConsumerError> {
    Url::parse(text).map_err(|error| {
        ConsumerError::new(Reason::InvalidDocument, format!("{:?} is no address: {error}", plain(text)))
    })
}

/// The scopes to ask for: those that were said, else all there are.
fn scope(config: &OAuth2Config, said: &[String]) -> String {
    if said.is_empty() { config.scopes.keys().cloned().collect::<Vec<_>>().join(" ") } else { said.join(" ") }
}

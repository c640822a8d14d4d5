//! Credentials of a caller, and the hosts they may be sent to (§7).

use std::fmt;

use nuncio_core::address;
use nuncio_engine::ports::entropy::random_name;
use ring::hmac;
use serde::{Deserialize, Serialize};
use serde_json::json;
use url::Url;

use super::SkillConsumer;
use super::describe::ResolvedSkill;
use super::error::{ConsumerErrorReason, SkillConsumerError, plain};
use super::oauth::OAuthTokenSource;
use super::target::{UserNamedHost, authority};
use crate::wire::{AuthConfig, AuthType};

/// Header for an API key when the descriptor names none.
const DEFAULT_KEY_HEADER: &str = "X-API-Key";

/// Secret text that `Debug` does not print.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretString(String);

impl SecretString {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretString(hidden)")
    }
}

/// Credential for invoking a skill.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SkillInvocationCredential {
    /// No credential. For `oauth2` skills, tokens stored by an earlier login are used.
    #[default]
    None,
    ApiKey(SecretString),
    Token(SecretString),
    /// OAuth client that fetches access tokens with its own credentials.
    Client {
        id: String,
        secret: SecretString,
        /// Requested scopes; if empty, all scopes in the descriptor.
        scopes: Vec<String>,
    },
    /// Shared secret of the reference signature scheme (`X-Signature`).
    Signature(SecretString),
}

impl SkillInvocationCredential {
    /// Whether the credential is sent to the named host to see skills that the host hides from anonymous callers.
    pub(super) fn opens_discovery(&self) -> bool {
        matches!(self, Self::ApiKey(_) | Self::Token(_))
    }

    /// Headers for a discovery request: empty unless `url` has the same scheme, host and port as the address that the
    /// user named.
    pub(super) fn for_discovery(&self, named_host: &UserNamedHost, url: &Url) -> Vec<(String, String)> {
        match self {
            Self::ApiKey(secret) | Self::Token(secret) if named_host.is_origin_of(url) => {
                vec![("authorization".to_owned(), format!("Bearer {}", secret.reveal()))]
            }
            _ => Vec::new(),
        }
    }
}

/// Authentication of the requests of one invocation.
#[derive(Debug, Clone)]
pub(super) enum InvocationAuth {
    Nothing,
    Header(String, SecretString),
    Bearer(Box<OAuthTokenSource>),
    Signed(SecretString),
}

impl SkillConsumer {
    /// Selects the authentication for an invocation, or refuses if the credential may not go to the endpoint.
    pub(super) fn auth(
        &self,
        described: &ResolvedSkill,
        credential: &SkillInvocationCredential,
        meant_for: Option<&str>,
    ) -> Result<InvocationAuth, SkillConsumerError> {
        let config = &described.descriptor.auth;
        let auth = match (config.r#type, credential) {
            (AuthType::None, SkillInvocationCredential::None) => InvocationAuth::Nothing,
            (AuthType::None, _) => {
                self.progress.note("the skill requires no credential, so none is sent");
                InvocationAuth::Nothing
            }
            (AuthType::ApiKey, SkillInvocationCredential::ApiKey(key)) => self.key_header(config, key),
            (AuthType::OAuth2, SkillInvocationCredential::Token(token)) => {
                InvocationAuth::Header("authorization".to_owned(), bearer(token))
            }
            (AuthType::OAuth2, SkillInvocationCredential::Client { id, secret, scopes }) => {
                InvocationAuth::Bearer(Box::new(OAuthTokenSource::client(described, id, secret, scopes)?))
            }
            (AuthType::OAuth2, SkillInvocationCredential::None) => {
                match OAuthTokenSource::login(described, self.tokens.as_ref())? {
                    Some(source) => InvocationAuth::Bearer(Box::new(source)),
                    None => return self.without_credential(described),
                }
            }
            (AuthType::Custom, SkillInvocationCredential::Signature(secret)) => InvocationAuth::Signed(secret.clone()),
            (_, SkillInvocationCredential::None) => return self.without_credential(described),
            _ => {
                let message = format!(
                    "the skill requires {}, but another kind of credential was given",
                    requirement_text(config)
                );
                return Err(credential_error(ConsumerErrorReason::CredentialUnfit, message, config));
            }
        };
        if !matches!(auth, InvocationAuth::Nothing) {
            check_recipient(described, meant_for)?;
            if address::is_in_clear(&described.endpoint) {
                self.progress.note("the credential is sent over plain http, where others can read it");
            }
        }
        Ok(auth)
    }

    /// Refuses a call without the required credential, except to a server on this machine, which may accept local
    /// callers without one.
    fn without_credential(&self, described: &ResolvedSkill) -> Result<InvocationAuth, SkillConsumerError> {
        let config = &described.descriptor.auth;
        if described.named_host.is_local() && address::is_local(&described.endpoint) {
            return Ok(InvocationAuth::Nothing);
        }
        let message = format!("{:?} requires {}", plain(&described.descriptor.id), requirement_text(config));
        Err(credential_error(ConsumerErrorReason::CredentialMissing, message, config))
    }

    fn key_header(&self, config: &AuthConfig, key: &SecretString) -> InvocationAuth {
        let name = config.header.clone().unwrap_or_else(|| {
            self.progress.note(format!("the descriptor names no header for the key; {DEFAULT_KEY_HEADER} is used"));
            DEFAULT_KEY_HEADER.to_owned()
        });
        let is_bare = name.eq_ignore_ascii_case("authorization") && !key.reveal().contains(' ');
        InvocationAuth::Header(name, if is_bare { bearer(key) } else { key.clone() })
    }

    /// Authentication headers for a request with the given body; empty for any origin other than the endpoint's.
    pub(super) async fn auth_headers(
        &self,
        auth: &InvocationAuth,
        endpoint: &Url,
        method: &str,
        url: &Url,
        body: &[u8],
    ) -> Result<Vec<(String, String)>, SkillConsumerError> {
        if url.origin() != endpoint.origin() {
            return Ok(Vec::new());
        }
        Ok(match auth {
            InvocationAuth::Nothing => Vec::new(),
            InvocationAuth::Header(name, value) => vec![(name.clone(), value.reveal().to_owned())],
            InvocationAuth::Bearer(source) => {
                let token = self.token(source).await?;
                vec![("authorization".to_owned(), bearer(&token).0)]
            }
            InvocationAuth::Signed(secret) => {
                let seconds = self.clock.now().as_millis().div_euclid(1000);
                signature(secret, seconds, &random_name(self.entropy.as_ref(), ""), method, url, body)
            }
        })
    }
}

fn bearer(token: &SecretString) -> SecretString {
    SecretString(format!("Bearer {}", token.reveal()))
}

/// Headers of the reference signature for `custom` authentication: HMAC-SHA256 over timestamp, nonce and body.
/// Version 2 also covers method and URL path with query; requests without a body use version 2.
fn signature(
    secret: &SecretString,
    seconds: i64,
    nonce: &str,
    method: &str,
    url: &Url,
    body: &[u8],
) -> Vec<(String, String)> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.reveal().as_bytes());
    let mut context = hmac::Context::with_key(&key);
    let version = if matches!(method, "POST" | "PUT") { "v1" } else { "v2" };
    if version == "v1" {
        context.update(format!("{seconds}.{nonce}.").as_bytes());
    } else {
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        context.update(format!("{seconds}\n{nonce}\n{method}\n{}{query}\n", url.path()).as_bytes());
    }
    context.update(body);
    let tag: String = context.sign().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    vec![
        ("x-signature".to_owned(), format!("{version}={tag}")),
        ("x-signature-timestamp".to_owned(), seconds.to_string()),
        ("x-signature-nonce".to_owned(), nonce.to_owned()),
    ]
}

/// Checks that the credential may be sent to the endpoint: descriptor or endpoint must be on the host that the user
/// named or a subdomain, or the endpoint on the host `meant_for`. A descriptor on a third host cannot redirect the
/// credential to its own endpoint.
pub(super) fn check_recipient(described: &ResolvedSkill, meant_for: Option<&str>) -> Result<(), SkillConsumerError> {
    let ResolvedSkill { named_host, url, endpoint, .. } = described;
    let is_declared = meant_for.is_some_and(|host| {
        endpoint.host_str().is_some_and(|own| own.eq_ignore_ascii_case(host)) || authority(endpoint) == host
    });
    if is_declared || named_host.covers(url) || named_host.covers(endpoint) {
        return Ok(());
    }
    let to = authority(endpoint);
    let message = format!("the credential would be sent to {to}, which does not belong to {named_host}");
    let details = json!({"named": named_host.to_string(), "descriptor": authority(url), "endpoint": to});
    let error = SkillConsumerError::new(ConsumerErrorReason::CredentialElsewhere, message).details(details);
    Err(error.advice(format!("if you want to send it to {to}, use --credential-for {to}")))
}

fn requirement_text(config: &AuthConfig) -> String {
    match config.r#type {
        AuthType::ApiKey => {
            format!("an API key in the header {}", plain(config.header.as_deref().unwrap_or(DEFAULT_KEY_HEADER)))
        }
        AuthType::OAuth2 => "an OAuth 2.0 access token".to_owned(),
        AuthType::Custom => {
            let instructions = config.custom.as_ref().map(|custom| plain(&custom.instructions)).unwrap_or_default();
            format!("a credential of its own kind: {instructions}")
        }
        AuthType::None => "no credential".to_owned(),
    }
}

/// Error about a missing or unsuitable credential; its details describe the required authentication.
fn credential_error(reason: ConsumerErrorReason, message: String, config: &AuthConfig) -> SkillConsumerError {
    let advice = match config.r#type {
        AuthType::ApiKey => "give it with --key or NUNCIO_KEY",
        AuthType::OAuth2 => {
            "give a token with --key or NUNCIO_KEY, or --client-id with --client-secret, or --login with --client-id"
        }
        AuthType::Custom => "if it is the reference signature, give the shared secret with --key or NUNCIO_KEY",
        AuthType::None => "leave the credential out",
    };
    SkillConsumerError::new(reason, message).details(requirement(config)).advice(advice)
}

/// Required authentication of a skill as error details (§8.3.2).
fn requirement(config: &AuthConfig) -> serde_json::Value {
    let mut details = json!({"required_auth_type": config.r#type});
    if let Some(header) = &config.header {
        details["header"] = json!(header);
    }
    if let Some(oauth2) = &config.oauth2 {
        details["authorization_url"] = json!(oauth2.authorization_url);
        details["token_url"] = json!(oauth2.token_url);
        details["scopes"] = json!(oauth2.scopes);
    }
    if let Some(custom) = &config.custom {
        details["instructions"] = json!(custom.instructions);
    }
    details
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn custom_signature_equals_openssl_values_for_post_and_get() {
        // printf '1794740400.0123456789abcdef.{"a":1}' | openssl dgst -sha256 -hmac hunter22
        let url = Url::parse("https://skills.example/skills/a/b/invoke?x=%201").unwrap();
        let sign = |method, body| {
            signature(&SecretString::new("hunter22"), 1_794_740_400, "0123456789abcdef", method, &url, body)
        };
        let headers = sign("POST", br#"{"a":1}"#);
        assert_eq!(headers[0].0, "x-signature");
        assert_eq!(headers[0].1, "v1=2fc917f678f3f29e4f8e81243d6b459f1fd0b876c384509cb6e51e26c595d20e");
        assert_eq!((headers[1].1.as_str(), headers[2].1.as_str()), ("1794740400", "0123456789abcdef"));
        // printf '1794740400\n0123456789abcdef\nGET\n/skills/a/b/invoke?x=%%201\n' | openssl dgst -sha256 -hmac hunter22
        assert_eq!(sign("GET", b"")[0].1, "v2=822c2082585527bcbac30ad78493f39a66d56e5b15a5ef7318c0481ee2caa6c2");
    }

    #[test]
    fn debug_output_of_a_credential_hides_its_secret() {
        let text = format!("{:?}", SkillInvocationCredential::ApiKey(SecretString::new("hunter22")));
        assert!(!text.contains("hunter22"), "{text}");
    }
}

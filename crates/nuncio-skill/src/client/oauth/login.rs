//! Login in a browser: authorization code with PKCE (RFC 7636, RFC 8252).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::digest;
use url::Url;

use super::loopback::OAuthRedirectListener;
use super::{OAuthTokenSource, absolute, config, scope};
use crate::client::credential::SecretString;
use crate::client::describe::ResolvedSkill;
use crate::client::error::{ConsumerErrorReason, SkillConsumerError, plain};
use crate::client::{InvocationProgress, SkillConsumer};

/// Parameters of an OAuth login in a browser.
#[derive(Debug, Clone, Default)]
pub struct OAuthLoginOptions {
    /// Client id registered with the provider.
    pub client_id: String,
    /// Client secret of a confidential OAuth client.
    pub client_secret: Option<SecretString>,
    /// Requested scopes; if empty, all scopes in the descriptor.
    pub scopes: Vec<String>,
}

impl SkillConsumer {
    /// Reports the authorization URL ([`InvocationProgress::Authorize`]), waits for the browser's redirect to a
    /// loopback port, and stores the tokens.
    pub async fn login(&self, described: &ResolvedSkill, login: &OAuthLoginOptions) -> Result<(), SkillConsumerError> {
        super::super::credential::check_recipient(described, None)?;
        let config = config(described)?;
        let source = OAuthTokenSource::new(described, scope(config, &login.scopes))?.for_login();
        let port = OAuthRedirectListener::open().await?;
        let verifier = self.random_token();
        let state = self.random_token();
        let mut url = absolute(&config.authorization_url)?;
        if !matches!(url.scheme(), "http" | "https") {
            let message = format!("{} is not an address for a browser", plain(url.as_str()));
            return Err(SkillConsumerError::new(ConsumerErrorReason::InvalidDocument, message));
        }
        add_login_parameters(&mut url, &source, login, &port.redirect_uri(), &state, &challenge(&verifier));
        self.progress.report(&InvocationProgress::Authorize { url: url.to_string() });
        let code = port.code(&state, self.clock.as_ref()).await?;
        let grant = vec![
            ("grant_type", "authorization_code".to_owned()),
            ("code", code),
            ("redirect_uri", port.redirect_uri()),
            ("code_verifier", verifier),
        ];
        let mut tokens = self.grant(&source, &login.client_id, login.client_secret.as_ref(), grant).await?;
        tokens.client_secret.clone_from(&login.client_secret);
        self.store_tokens(&source, &tokens);
        Ok(())
    }

    /// Returns 256 random bits in base64url.
    fn random_token(&self) -> String {
        let mut bytes = [0_u8; 32];
        self.entropy.fill(&mut bytes);
        BASE64_URL_SAFE_NO_PAD.encode(bytes)
    }
}

fn add_login_parameters(
    url: &mut Url,
    source: &OAuthTokenSource,
    login: &OAuthLoginOptions,
    redirect: &str,
    state: &str,
    challenge: &str,
) {
    let mut query = url.query_pairs_mut();
    query
        .append_pair("response_type", "code")
        .append_pair("client_id", &login.client_id)
        .append_pair("redirect_uri", redirect)
        .append_pair("state", state)
        .append_pair("code_challenge", challenge)
        .append_pair("code_challenge_method", "S256")
        .append_pair("resource", &source.resource);
    if !source.scope.is_empty() {
        query.append_pair("scope", &source.scope);
    }
}

/// PKCE challenge (S256) of a verifier.
fn challenge(verifier: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pkce_challenge_matches_rfc_7636_example() {
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(challenge(verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}

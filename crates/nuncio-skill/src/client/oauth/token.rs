//! Requests to the token endpoint: client credentials, refresh tokens, authorization codes.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use url::{Url, form_urlencoded};

use super::{OAuthTokenSource, OAuthTokens};
use crate::client::SkillConsumer;
use crate::client::credential::SecretString;
use crate::client::error::{ConsumerErrorReason, SkillConsumerError, display_url, plain};
use crate::client::exchange::OutgoingRequest;

/// Size limit of a token response, in bytes.
const MAX_BYTES: usize = 64 * 1024;
/// A token that expires within this time counts as expired.
const EXPIRY_LEEWAY: Duration = Duration::from_secs(30);

/// Successful response of a token endpoint.
#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    token_type: String,
    expires_in: Option<u64>,
    refresh_token: Option<String>,
}

/// Error response of a token endpoint (RFC 6749 §5.2).
#[derive(Deserialize)]
struct TokenErrorResponse {
    error: String,
    error_description: Option<String>,
}

impl SkillConsumer {
    /// Returns a valid access token: the stored one, or a new one from the token endpoint.
    pub(in crate::client) async fn token(&self, source: &OAuthTokenSource) -> Result<SecretString, SkillConsumerError> {
        let stored = self.tokens.load(&source.key);
        let now = self.clock.now();
        let is_valid = |tokens: &OAuthTokens| tokens.expires_at.is_none_or(|end| now.after(EXPIRY_LEEWAY) < end);
        if let Some(tokens) = stored.as_ref().filter(|tokens| is_valid(tokens)) {
            return Ok(tokens.access.clone());
        }
        self.renew(source, stored).await
    }

    /// Replaces an access token that the provider refused.
    pub(in crate::client) async fn replace_token(&self, source: &OAuthTokenSource) -> Result<(), SkillConsumerError> {
        let stored = self.tokens.load(&source.key);
        self.renew(source, stored).await.map(drop)
    }

    async fn renew(
        &self,
        source: &OAuthTokenSource,
        stored: Option<OAuthTokens>,
    ) -> Result<SecretString, SkillConsumerError> {
        let refresh = stored.as_ref().and_then(|tokens| tokens.refresh.clone());
        let (client, grant) = match (&source.client, stored, refresh) {
            (Some((id, secret)), ..) => {
                let grant = vec![("grant_type", "client_credentials".to_owned()), ("scope", source.scope.clone())];
                ((id.clone(), Some(secret.clone())), grant)
            }
            (None, Some(tokens), Some(refresh)) => {
                let grant =
                    vec![("grant_type", "refresh_token".to_owned()), ("refresh_token", refresh.reveal().to_owned())];
                ((tokens.client_id, tokens.client_secret), grant)
            }
            _ => {
                let error = SkillConsumerError::new(ConsumerErrorReason::TokenRefused, "the login has expired");
                return Err(error.advice("log in again with --login"));
            }
        };
        let mut tokens = self.grant(source, &client.0, client.1.as_ref(), grant).await?;
        if source.client.is_none() {
            let before = self.tokens.load(&source.key);
            tokens.refresh = tokens.refresh.or(before.and_then(|tokens| tokens.refresh));
            tokens.client_secret = client.1;
        }
        self.store_tokens(source, &tokens);
        Ok(tokens.access)
    }

    pub(super) fn store_tokens(&self, source: &OAuthTokenSource, tokens: &OAuthTokens) {
        if let Err(why) = self.tokens.save(&source.key, Some(tokens)) {
            self.progress.note(format!("the token is not stored: {why}"));
        }
    }

    /// Requests tokens with the `resource` parameter; repeats the request without it if the server does not support it.
    pub(super) async fn grant(
        &self,
        source: &OAuthTokenSource,
        client: &str,
        secret: Option<&SecretString>,
        grant: Vec<(&str, String)>,
    ) -> Result<OAuthTokens, SkillConsumerError> {
        let mut with_resource = grant.clone();
        with_resource.push(("resource", source.resource.clone()));
        match self.ask_for_tokens(source, client, secret, with_resource).await {
            Err(error) if error.details.as_ref().is_some_and(|details| details["error"] == "invalid_target") => {
                self.ask_for_tokens(source, client, secret, grant).await
            }
            other => other,
        }
    }

    async fn ask_for_tokens(
        &self,
        source: &OAuthTokenSource,
        client: &str,
        secret: Option<&SecretString>,
        mut fields: Vec<(&str, String)>,
    ) -> Result<OAuthTokens, SkillConsumerError> {
        fields.retain(|(name, value)| *name != "scope" || !value.is_empty());
        let mut headers = vec![
            ("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned()),
            ("accept".to_owned(), "application/json".to_owned()),
        ];
        match secret {
            Some(secret) => {
                let escaped = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
                let pair = BASE64_STANDARD.encode(format!("{}:{}", escaped(client), escaped(secret.reveal())));
                headers.push(("authorization".to_owned(), format!("Basic {pair}")));
            }
            None => fields.push(("client_id", client.to_owned())),
        }
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = OutgoingRequest {
            method: "POST",
            url: &source.token_url,
            named_host: &source.named_host,
            headers,
            body: Some(Bytes::from(body)),
            max_bytes: MAX_BYTES,
            timeout: self.options.exchange,
        };
        let answer = self.send_request(request).await?;
        if answer.status != 200 {
            return Err(denied(&source.token_url, answer.status, &answer.body));
        }
        let refused = |why: &str| {
            SkillConsumerError::new(
                ConsumerErrorReason::TokenRefused,
                format!("{} {why}", display_url(&source.token_url)),
            )
        };
        let granted: TokenResponse =
            serde_json::from_slice(&answer.body).map_err(|_| refused("returned a token that cannot be parsed"))?;
        if !granted.token_type.eq_ignore_ascii_case("bearer") {
            return Err(refused("returned a token of an unknown type"));
        }
        if granted.access_token.is_empty() || !granted.access_token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(refused("returned a token that cannot be sent in a header"));
        }
        Ok(OAuthTokens {
            access: SecretString::new(granted.access_token),
            expires_at: granted.expires_in.map(|seconds| self.clock.now().after(Duration::from_secs(seconds))),
            refresh: granted.refresh_token.map(SecretString::new),
            client_id: client.to_owned(),
            client_secret: None,
        })
    }
}

fn denied(url: &Url, status: u16, body: &[u8]) -> SkillConsumerError {
    let address = display_url(url);
    let response: Option<TokenErrorResponse> = serde_json::from_slice(body).ok();
    let Some(response) = response else {
        return SkillConsumerError::new(
            ConsumerErrorReason::TokenRefused,
            format!("{address} returned no token: it answered {status}"),
        );
    };
    let error = plain(&response.error);
    let why = response.error_description.map(|text| format!(": {}", plain(&text))).unwrap_or_default();
    let failure = SkillConsumerError::new(
        ConsumerErrorReason::TokenRefused,
        format!("{address} returned no token ({error}{why})"),
    );
    let advice = match error.as_str() {
        "invalid_client" => "check the client's id and secret",
        "invalid_scope" => "ask for fewer scopes with --scope",
        "invalid_grant" => "log in again with --login",
        _ => "ask the operator of that server",
    };
    failure.details(json!({"error": error, "url": address})).advice(advice)
}

//! Token introspection (RFC 7662): asks an issuer about an opaque token.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use nuncio_engine::ports::Fetch;
use nuncio_engine::ports::fetch::{AddressTrust, FetchRequest};
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::metadata::{MAX_DOCUMENT_BYTES, read};
use super::token::AccessTokenClaims;
use crate::document_request;
use crate::settings::IntrospectionSetting;

/// Client for introspection at an issuer. Holds the value of the `Authorization` header, which is never logged.
pub(super) struct IntrospectionClient(String);

impl IntrospectionClient {
    /// Reads the client secret from the variable or file in the settings.
    pub(super) fn open(setting: &IntrospectionSetting) -> Result<Self, String> {
        let secret = match (&setting.client_secret_env, &setting.client_secret_file) {
            (Some(name), _) => std::env::var(name).map_err(|_| format!("the variable {name} is not set"))?,
            (None, Some(file)) => {
                std::fs::read_to_string(file).map_err(|error| format!("{} cannot be read: {error}", file.display()))?
            }
            (None, None) => return Err("introspection has no client_secret".to_owned()),
        };
        let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let pair = format!("{}:{}", encode(&setting.client_id), encode(secret.trim_end_matches(['\r', '\n'])));
        Ok(Self(format!("Basic {}", STANDARD.encode(pair))))
    }

    pub(super) async fn introspect(
        &self,
        fetch: &dyn Fetch,
        url: &Url,
        token: &str,
    ) -> Result<AccessTokenClaims, String> {
        let form = Serializer::new(String::new())
            .append_pair("token", token)
            .append_pair("token_type_hint", "access_token")
            .finish();
        let mut request = FetchRequest {
            method: "POST",
            body: Some(Bytes::from(form)),
            ..document_request(url.clone(), AddressTrust::Configured, MAX_DOCUMENT_BYTES)
        };
        let content_type = ("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned());
        request.headers.extend([("authorization".to_owned(), self.0.clone()), content_type]);
        let response = fetch.fetch(request).await.map_err(|error| error.to_string())?;
        match response.status {
            200 => read(url, &response),
            status @ (401 | 403) => Err(format!("{url} answered {status}: check client_id and its secret")),
            status => Err(format!("{url} answered {status}")),
        }
    }
}

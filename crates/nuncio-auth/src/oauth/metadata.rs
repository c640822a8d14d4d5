//! Metadata of an issuer: RFC 8414, or OpenID Connect Discovery 1.0 if the issuer has no RFC 8414 document.

use nuncio_engine::ports::Fetch;
use nuncio_engine::ports::fetch::{AddressTrust, FetchResponse};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

use crate::document_request;
use crate::settings::{IssuerUrl, check_url};

pub(super) const MAX_DOCUMENT_BYTES: usize = 256 * 1024;

/// The fields of an issuer's metadata that this crate uses.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct IssuerMetadata {
    issuer: String,
    pub(super) jwks_uri: Option<Url>,
    pub(super) authorization_endpoint: Option<Url>,
    pub(super) token_endpoint: Option<Url>,
    pub(super) introspection_endpoint: Option<Url>,
}

/// Fetches the metadata of an issuer from the first well-known URL that has it.
pub(super) async fn discover(fetch: &dyn Fetch, issuer: &IssuerUrl) -> Result<IssuerMetadata, String> {
    let mut statuses = Vec::new();
    for url in metadata_urls(issuer.as_url()) {
        let response = get(fetch, url.clone()).await?;
        if response.status != 200 {
            statuses.push(format!("{url} answered {}", response.status));
            continue;
        }
        let metadata: IssuerMetadata = read(&url, &response)?;
        // Otherwise keys of another issuer would be trusted.
        if metadata.issuer != issuer.as_str() {
            return Err(format!("{url} describes the issuer {:?}, not {:?}", metadata.issuer, issuer.as_str()));
        }
        let endpoints = [&metadata.authorization_endpoint, &metadata.token_endpoint, &metadata.introspection_endpoint];
        for endpoint in endpoints.into_iter().chain([&metadata.jwks_uri]).flatten() {
            check_url(endpoint)?;
        }
        return Ok(metadata);
    }
    Err(format!("no metadata was found: {}", statuses.join(", ")))
}

/// Candidate metadata URLs: the well-known name goes before the issuer's path (RFC 8414), or behind it
/// (OpenID Connect).
fn metadata_urls(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut paths = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("{path}/.well-known/openid-configuration"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    paths.dedup();
    let with_path = |path: &String| {
        let mut url = issuer.clone();
        url.set_path(path);
        url
    };
    paths.iter().map(with_path).collect()
}

pub(super) async fn get(fetch: &dyn Fetch, url: Url) -> Result<FetchResponse, String> {
    let request = document_request(url, AddressTrust::Configured, MAX_DOCUMENT_BYTES);
    fetch.fetch(request).await.map_err(|error| error.to_string())
}

pub(super) fn read<T: DeserializeOwned>(url: &Url, response: &FetchResponse) -> Result<T, String> {
    serde_json::from_slice(&response.body)
        .map_err(|error| format!("the answer of {url} is not valid metadata: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(issuer: &str) -> Vec<String> {
        metadata_urls(&issuer.parse().unwrap()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn well_known_metadata_name_is_tried_before_and_after_the_path_of_the_issuer() {
        assert_eq!(
            urls("https://id.example/tenant/a/"),
            [
                "https://id.example/.well-known/oauth-authorization-server/tenant/a",
                "https://id.example/tenant/a/.well-known/openid-configuration",
                "https://id.example/.well-known/openid-configuration/tenant/a",
            ]
        );
        assert_eq!(
            urls("https://id.example"),
            [
                "https://id.example/.well-known/oauth-authorization-server",
                "https://id.example/.well-known/openid-configuration"
            ]
        );
    }
}

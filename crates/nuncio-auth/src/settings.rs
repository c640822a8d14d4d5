//! The settings `[[issuer]]` and `[signatures]`: whose access tokens and which signatures are accepted.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use url::{Host, Url};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuerSetting {
    /// Issuer identifier, exactly as in its tokens (`iss`) and metadata.
    pub url: IssuerUrl,
    pub audience: AcceptedAudiences,
    /// Algorithms that tokens may be signed with.
    #[serde(default = "default_algorithms")]
    pub algorithms: Vec<TokenSignatureAlgorithm>,
    /// Authorization endpoint, if it differs from the metadata.
    pub authorization_url: Option<Url>,
    /// Token endpoint, if it differs from the metadata.
    pub token_url: Option<Url>,
    /// How opaque tokens are introspected.
    pub introspection: Option<IntrospectionSetting>,
    /// Whether the issuer's subjects are people who use this server themselves. Their `trust` and granted permissions
    /// then count as that person's approval, and they need no scope to talk to an agent. False if absent.
    pub people: Option<bool>,
    /// Tolerated clock difference to the issuer.
    #[serde(default = "default_leeway")]
    pub leeway_seconds: u32,
}

const MAX_LEEWAY: u32 = 300;

fn default_leeway() -> u32 {
    60
}

fn default_algorithms() -> Vec<TokenSignatureAlgorithm> {
    vec![TokenSignatureAlgorithm::Rs256, TokenSignatureAlgorithm::Es256, TokenSignatureAlgorithm::EdDsa]
}

impl IssuerSetting {
    /// Checks the rules that the types cannot express.
    pub fn check(&self) -> Result<(), String> {
        if self.algorithms.is_empty() {
            return Err("algorithms is empty".to_owned());
        }
        if self.leeway_seconds > MAX_LEEWAY {
            return Err(format!("leeway_seconds may be at most {MAX_LEEWAY}"));
        }
        let introspection = self.introspection.as_ref().and_then(|it| it.url.as_ref());
        for url in [&self.authorization_url, &self.token_url].into_iter().flatten().chain(introspection) {
            check_url(url)?;
        }
        match &self.introspection {
            Some(it) if it.client_secret_env.is_some() == it.client_secret_file.is_some() => {
                Err("introspection needs one of client_secret_env and client_secret_file".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// The setting `introspection` of an `[[issuer]]` (RFC 7662).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntrospectionSetting {
    /// Introspection endpoint; taken from the metadata when absent.
    pub url: Option<Url>,
    pub client_id: String,
    /// The environment variable that holds the client secret.
    pub client_secret_env: Option<String>,
    pub client_secret_file: Option<PathBuf>,
}

/// The settings section `[signatures]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RequestSignatureSettings {
    /// Whether a signature over the body alone is accepted. Anyone who saw it can replay it.
    pub allow_bare: bool,
}

/// An issuer's identifier: an `https:` URL, or `http:` on this machine, without query or fragment. It keeps the text of
/// the settings, since issuer identifiers are compared character by character.
#[derive(Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct IssuerUrl {
    text: String,
    url: Url,
}

impl IssuerUrl {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    #[must_use]
    pub fn as_url(&self) -> &Url {
        &self.url
    }
}

impl TryFrom<String> for IssuerUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let url: Url = text.parse().map_err(|error| format!("{text:?} is not a valid address: {error}"))?;
        check_url(&url)?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(format!("{text:?}: the address of an issuer must not have a query or fragment"));
        }
        Ok(Self { text, url })
    }
}

impl fmt::Debug for IssuerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Refuses unencrypted URLs: only `https:`, or `http:` to loopback, is accepted.
pub(crate) fn check_url(url: &Url) -> Result<(), String> {
    let loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    match url.scheme() {
        "https" => Ok(()),
        "http" if loopback => Ok(()),
        _ => Err(format!("{url}: the address of an issuer must begin with https:, or with http: on this machine")),
    }
}

/// Accepted audiences: one text or a list; a token needs one of them. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "OneOrManyStrings")]
pub struct AcceptedAudiences(Vec<String>);

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum OneOrManyStrings {
    One(String),
    Many(Vec<String>),
}

impl OneOrManyStrings {
    pub(crate) fn as_slice(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

impl AcceptedAudiences {
    #[must_use]
    pub fn contains(&self, audience: &str) -> bool {
        self.0.iter().any(|ours| ours == audience)
    }
}

impl TryFrom<OneOrManyStrings> for AcceptedAudiences {
    type Error = String;

    fn try_from(setting: OneOrManyStrings) -> Result<Self, String> {
        let list = setting.as_slice();
        if list.is_empty() || list.iter().any(String::is_empty) {
            return Err("an audience is required, so that tokens for other services are not accepted here".to_owned());
        }
        Ok(Self(list.to_vec()))
    }
}

/// Signature algorithms that the settings may allow (RFC 7518, RFC 8037). Algorithms with a shared secret and `none`
/// are left out: anyone who knows the public key could sign with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum TokenSignatureAlgorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    #[serde(rename = "EdDSA", alias = "Ed25519")]
    EdDsa,
}

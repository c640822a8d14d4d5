//! `[[issuer]]` and `[signatures]`: whose tokens and which signatures are believed.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use url::{Host, Url};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuerSetting {
    /// Issuer identifier, exactly as in its tokens (`iss`) and metadata.
    pub url: IssuerUrl,
    /// Accepted audiences (`aud`).
    pub audience: Audiences,
    /// How tokens may be signed.
    #[serde(default = "usual_algorithms")]
    pub algorithms: Vec<Algorithm>,
    /// Authorization endpoint, if it differs from the metadata.
    #[serde(default)]
    pub authorization_url: Option<Url>,
    /// Token endpoint, if it differs from the metadata.
    #[serde(default)]
    pub token_url: Option<Url>,
    /// How to ask about tokens that cannot be read here.
    #[serde(default)]
    pub introspection: Option<IntrospectionSetting>,
    /// Whether its subjects are people who use this server themselves. Their `trust` and their granted permissions
    /// then count as that person's approval, and they need no scope to talk to an agent. False if absent.
    #[serde(default)]
    pub people: Option<bool>,
    /// Tolerated clock difference to the issuer.
    #[serde(default = "usual_leeway")]
    pub leeway_seconds: u32,
}

/// The most that `leeway_seconds` may be.
const MAX_LEEWAY: u32 = 300;

fn usual_leeway() -> u32 {
    60
}

fn usual_algorithms() -> Vec<Algorithm> {
    vec![Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa]
}

impl IssuerSetting {
    /// Checks that the types cannot express.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.algorithms.is_empty() {
            return Err("algorithms names none".to_owned());
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

/// `introspection` of `[[issuer]]` (RFC 7662).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntrospectionSetting {
    /// Introspection endpoint; taken from the metadata when absent.
    #[serde(default)]
    pub url: Option<Url>,
    pub client_id: String,
    /// The environment variable that holds the secret.
    #[serde(default)]
    pub client_secret_env: Option<String>,
    #[serde(default)]
    pub client_secret_file: Option<PathBuf>,
}

/// `[signatures]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SignatureSettings {
    /// Whether a signature over the body alone is accepted. Anyone who saw it can replay it.
    pub allow_bare: bool,
}

/// An issuer's identifier: an `https:` address without query or fragment, kept as it was written,
/// since it is compared letter by letter.
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

    /// As an address.
    #[must_use]
    pub fn as_url(&self) -> &Url {
        &self.url
    }
}

impl TryFrom<String> for IssuerUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let url: Url = text.parse().map_err(|error| format!("{text:?} is no address: {error}"))?;
        check_url(&url)?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(format!("{text:?}: an issuer has no query and no fragment"));
        }
        Ok(Self { text, url })
    }
}

impl fmt::Debug for IssuerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether the connection is trustworthy: `https:`, or loopback.
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
        _ => Err(format!("{url}: an issuer is reached by https:, or by http: on this machine")),
    }
}

/// Accepted audiences: one text or a list; a token needs one of them. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "OneOrMany")]
pub struct Audiences(Vec<String>);

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl Audiences {
    #[must_use]
    pub fn contains(&self, audience: &str) -> bool {
        self.0.iter().any(|ours| ours == audience)
    }
}

impl TryFrom<OneOrMany> for Audiences {
    type Error = String;

    fn try_from(written: OneOrMany) -> Result<Self, String> {
        let list = match written {
            OneOrMany::One(one) => vec![one],
            OneOrMany::Many(many) => many,
        };
        if list.is_empty() || list.iter().any(String::is_empty) {
            return Err("an audience is needed: a token for anyone else must not open this server".to_owned());
        }
        Ok(Self(list))
    }
}

/// The ways of signing that may be allowed (RFC 7518, RFC 8037). None with a shared secret, and not
/// `none`: whoever knows the public key could make those.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Algorithm {
    /// RSA PKCS#1 with SHA-256.
    #[serde(rename = "RS256")]
    Rs256,
    /// RSA PKCS#1 with SHA-384.
    #[serde(rename = "RS384")]
    Rs384,
    /// RSA PKCS#1 with SHA-512.
    #[serde(rename = "RS512")]
    Rs512,
    /// RSA PSS with SHA-256.
    #[serde(rename = "PS256")]
    Ps256,
    /// RSA PSS with SHA-384.
    #[serde(rename = "PS384")]
    Ps384,
    /// RSA PSS with SHA-512.
    #[serde(rename = "PS512")]
    Ps512,
    /// ECDSA on P-256.
    #[serde(rename = "ES256")]
    Es256,
    /// ECDSA on P-384.
    #[serde(rename = "ES384")]
    Es384,
    #[serde(rename = "EdDSA", alias = "Ed25519")]
    EdDsa,
}

#[cfg(test)]
mod tests {
    use super::super::tests::load;

    const GOOD: &str = "url = \"https://id.example/tenant\"\naudience = \"https://api.example\"\n";

    fn wrong(rest: &str) -> String {
        load(&format!("[[issuer]]\n{rest}"), &[]).unwrap_err()
    }

    #[test]
    fn issuer_setting_has_defaults_and_is_replaced_by_the_variable() {
        let settings = load(&format!("[[issuer]]\n{GOOD}"), &[]).unwrap();
        let issuer = &settings.issuer[0];
        assert_eq!(issuer.url.as_str(), "https://id.example/tenant");
        assert!(issuer.audience.contains("https://api.example") && !issuer.audience.contains("https://api.example/"));
        assert_eq!((issuer.leeway_seconds, issuer.algorithms.len()), (60, 3));
        let variable = "[{ url = \"http://localhost:1\", audience = [\"a\", \"b\"], algorithms = [\"PS256\"] }]";
        let settings = load(&format!("[[issuer]]\n{GOOD}"), &[("NUNCIO_ISSUER", variable)]).unwrap();
        assert_eq!((settings.issuer.len(), settings.issuer[0].url.as_str()), (1, "http://localhost:1"));
        assert!(load("", &[("NUNCIO_SIGNATURES_ALLOW_BARE", "true")]).unwrap().signatures.allow_bare);
    }

    #[test]
    fn issuer_settings_that_would_admit_anyone_are_refused() {
        for algorithm in ["none", "HS256", "RS1", "rs256"] {
            let told = wrong(&format!("{GOOD}algorithms = [\"{algorithm}\"]"));
            assert!(told.contains("issuer[0].algorithms[0]"), "{told}");
        }
        assert!(wrong("url = \"https://id.example\"").contains("audience"));
        assert!(wrong("url = \"https://id.example\"\naudience = []").contains("audience is needed"));
        assert!(wrong("url = \"http://id.example\"\naudience = \"a\"").contains("https:"));
        assert!(wrong("url = \"https://id.example/?x\"\naudience = \"a\"").contains("no query"));
        assert!(wrong(&format!("{GOOD}leeway_seconds = 301")).contains("at most 300"));
        assert!(wrong(&format!("{GOOD}token_url = \"http://id.example/token\"")).contains("https:"));
        assert!(wrong(&format!("{GOOD}introspection = {{ client_id = \"x\" }}")).contains("one of client_secret_env"));
        let twice = load(&format!("[[issuer]]\n{GOOD}[[issuer]]\n{GOOD}"), &[]).unwrap_err();
        assert!(twice.contains("twice"), "{twice}");
    }
}

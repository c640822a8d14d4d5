//! Security schemes of an OpenAPI document as secrets of the agent file.

use nuncio_core::ids::BackendName;
use serde_json::Value;

use super::super::sections::NeededSecret;
use super::document::{OpenApiDocument, literal};

/// Converts security schemes to credentials of requests, and collects the names of the secrets that these contain.
pub(super) struct SecuritySchemeConverter<'a> {
    document: &'a OpenApiDocument,
    /// Schemes that imported operations use, each with its secret.
    secrets: Vec<(String, NeededSecret)>,
}

/// A credential in a request; the value is a template.
pub(super) enum RequestCredentialTemplate {
    Header { name: String, value: String },
    Query { name: String, value: String },
}

impl<'a> SecuritySchemeConverter<'a> {
    pub(super) fn new(document: &'a OpenApiDocument) -> Self {
        Self { document, secrets: Vec::new() }
    }

    pub(super) fn into_secrets(self) -> Vec<NeededSecret> {
        self.secrets.into_iter().map(|(_, secret)| secret).collect()
    }

    /// Credentials of the first alternative that can be expressed. `own` are the operation's requirements, if it has
    /// any.
    pub(super) fn credentials(&mut self, own: Option<&Value>) -> Result<Vec<RequestCredentialTemplate>, String> {
        let alternatives = own.unwrap_or_else(|| self.document.security());
        let Some(alternatives) = alternatives.as_array().filter(|list| !list.is_empty()) else { return Ok(Vec::new()) };
        let mut reason = String::new();
        for alternative in alternatives {
            let names = alternative.as_object().into_iter().flatten().map(|(name, _)| name);
            match names.map(|name| self.credential(name)).collect::<Result<Vec<_>, _>>() {
                Ok(found) => {
                    let (used, credentials): (Vec<_>, Vec<_>) = found.into_iter().unzip();
                    if let Some(name) = repeated_header(&credentials) {
                        reason = format!("its security needs the header {name} twice");
                        continue;
                    }
                    for (scheme, secret) in used {
                        if !self.secrets.iter().any(|(known, _)| *known == scheme) {
                            self.secrets.push((scheme, secret));
                        }
                    }
                    return Ok(credentials);
                }
                Err(why) => reason = why,
            }
        }
        Err(reason)
    }

    /// A scheme with its secret, and how it is sent.
    fn credential(&self, scheme: &str) -> Result<((String, NeededSecret), RequestCredentialTemplate), String> {
        let declared = self.document.resolve(&self.document.schemes()[scheme])?;
        let secret = self.secret_of(scheme);
        let mut form = "";
        let text = |key: &str| declared[key].as_str().unwrap_or_default().to_owned();
        let value = format!("{{{{ secrets.{secret} }}}}");
        let header = |name: &str, value: String| RequestCredentialTemplate::Header { name: name.to_owned(), value };
        let credential = match (text("type").as_str(), text("in").as_str(), text("scheme").to_lowercase().as_str()) {
            ("apiKey", "header", _) if is_token(&text("name")) => header(&text("name"), value),
            ("apiKey", "query", _) => RequestCredentialTemplate::Query { name: literal(&text("name")), value },
            ("apiKey", "cookie", _) if is_token(&text("name")) => header("Cookie", format!("{}={value}", text("name"))),
            ("http", _, "basic") => {
                form = "base64 of user:password";
                header("Authorization", format!("Basic {value}"))
            }
            ("http", _, "bearer") | ("oauth2" | "openIdConnect", _, _) => {
                header("Authorization", format!("Bearer {value}"))
            }
            _ => return Err(format!("its security scheme {scheme:?} cannot be used")),
        };
        Ok(((scheme.to_owned(), NeededSecret { name: secret, form }), credential))
    }

    /// The name of the scheme's secret, which no other scheme has.
    fn secret_of(&self, scheme: &str) -> String {
        if let Some((_, secret)) = self.secrets.iter().find(|(known, _)| known == scheme) {
            return secret.name.clone();
        }
        let name = secret_name(scheme);
        let schemes = self.document.schemes().as_object().into_iter().flatten();
        let namesakes = schemes.map(|(other, _)| other).take_while(|other| *other != scheme);
        match namesakes.filter(|other| secret_name(other) == name).count() {
            0 => name,
            earlier => format!("{name}_{}", earlier + 1),
        }
    }
}

/// A header other than `Cookie` that two credentials need.
fn repeated_header(credentials: &[RequestCredentialTemplate]) -> Option<&str> {
    let names = credentials.iter().filter_map(|credential| match credential {
        RequestCredentialTemplate::Header { name, .. } if !name.eq_ignore_ascii_case("cookie") => Some(name.as_str()),
        _ => None,
    });
    let names: Vec<&str> = names.collect();
    let is_repeated = |(at, name): (usize, &&str)| names[..at].iter().any(|before| before.eq_ignore_ascii_case(name));
    names.iter().enumerate().find(|found| is_repeated(*found)).map(|(_, name)| *name)
}

fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Name of a secret and of its environment variable: upper case, without characters that templates do not allow;
/// `API_KEY` if nothing valid remains.
fn secret_name(scheme: &str) -> String {
    let (mut name, mut before) = (String::new(), '_');
    for c in scheme.chars().take(56) {
        // `userToken` has two words.
        if c.is_ascii_uppercase() && before.is_ascii_lowercase() {
            name.push('_');
        }
        name.push(if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
        before = c;
    }
    let name = name.trim_matches('_');
    match BackendName::parse(name) {
        Ok(_) if !name.starts_with(|first: char| first.is_ascii_digit()) => name.to_owned(),
        _ => "API_KEY".to_owned(),
    }
}

//! Security schemes of an OpenAPI document as secrets of the agent file.

use nuncio_core::ids::BackendName;
use serde_json::Value;

use super::document::{OpenApiDocument, literal};

/// Converts security schemes to credentials of requests, and collects the names of the secrets that these contain.
pub(super) struct SecuritySchemeConverter<'a> {
    document: &'a OpenApiDocument,
    /// Names of the secrets that imported operations use.
    secrets: Vec<String>,
}

/// A credential in a request; the value is a template.
pub(super) enum Credential {
    Header { name: String, value: String },
    Query { name: String, value: String },
}

impl<'a> SecuritySchemeConverter<'a> {
    pub(super) fn new(document: &'a OpenApiDocument) -> Self {
        Self { document, secrets: Vec::new() }
    }

    pub(super) fn into_secrets(self) -> Vec<String> {
        self.secrets
    }

    /// Credentials of the first alternative that can be expressed. `own` are the operation's requirements, if it has
    /// any.
    pub(super) fn credentials(&mut self, own: Option<&Value>) -> Result<Vec<Credential>, String> {
        let alternatives = own.unwrap_or_else(|| self.document.security());
        let Some(alternatives) = alternatives.as_array().filter(|list| !list.is_empty()) else { return Ok(Vec::new()) };
        let mut reason = String::new();
        for alternative in alternatives {
            let names = alternative.as_object().into_iter().flatten().map(|(name, _)| name);
            match names.map(|name| self.credential(name)).collect::<Result<Vec<_>, _>>() {
                Ok(found) => {
                    for (secret, _) in &found {
                        if !self.secrets.contains(secret) {
                            self.secrets.push(secret.clone());
                        }
                    }
                    return Ok(found.into_iter().map(|(_, credential)| credential).collect());
                }
                Err(why) => reason = why,
            }
        }
        Err(reason)
    }

    /// The secret of a scheme, and how it is sent.
    fn credential(&self, scheme: &str) -> Result<(String, Credential), String> {
        let declared = self.document.resolve(&self.document.schemes()[scheme])?;
        let secret = secret_name(scheme);
        let text = |key: &str| declared[key].as_str().unwrap_or_default().to_owned();
        let value = format!("{{{{ secrets.{secret} }}}}");
        let header = |name: &str, value: String| Credential::Header { name: name.to_owned(), value };
        let credential = match (text("type").as_str(), text("in").as_str(), text("scheme").to_lowercase().as_str()) {
            ("apiKey", "header", _) if is_token(&text("name")) => header(&text("name"), value),
            ("apiKey", "query", _) => Credential::Query { name: literal(&text("name")), value },
            ("apiKey", "cookie", _) if is_token(&text("name")) => header("Cookie", format!("{}={value}", text("name"))),
            // The secret holds the base64 text of `user:password`.
            ("http", _, "basic") => header("Authorization", format!("Basic {value}")),
            ("http", _, "bearer") | ("oauth2" | "openIdConnect", _, _) => {
                header("Authorization", format!("Bearer {value}"))
            }
            _ => return Err(format!("its security scheme {scheme:?} cannot be used")),
        };
        Ok((secret, credential))
    }
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

//! A parsed OpenAPI document: version, server, references and operations.

use nuncio_core::agent::HttpMethod;
use serde_json::{Map, Value};
use url::Url;

/// Limit of consecutive references, so that a cycle of references ends.
const MAX_REFERENCES: usize = 16;

pub(super) struct OpenApiDocument(Value);

/// Path, path item, method and operation.
pub(super) type OpenApiOperation<'a> = (&'a str, &'a Map<String, Value>, HttpMethod, &'a Map<String, Value>);

impl OpenApiDocument {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let root: Value = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|error| format!("it is not valid JSON: {error}"))?
        } else {
            // The library limits depth, aliases and events, so a small document cannot expand without bound.
            serde_saphyr::from_str(text).map_err(|error| {
                let why = error.to_string();
                format!("it is not valid YAML: {}", why.lines().next().unwrap_or_default())
            })?
        };
        match (root["openapi"].as_str(), &root["swagger"]) {
            (Some(version), _) if ["3.0", "3.1"].iter().any(|known| is_version(version, known)) => Ok(Self(root)),
            (Some(version), _) => Err(format!("its version is {version:?}; 3.0 and 3.1 can be imported")),
            (None, Value::Null) => Err("it is not an OpenAPI document: the key \"openapi\" is missing".to_owned()),
            _ => Err("it is a Swagger 2 document; convert it to OpenAPI 3 first".to_owned()),
        }
    }

    /// The first line of the title, without control characters: it becomes part of a comment.
    pub(super) fn title(&self) -> Option<String> {
        let title = self.0["info"]["title"].as_str()?.trim().lines().next()?;
        let title = title.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
        Some(title.trim().to_owned()).filter(|title| !title.is_empty())
    }

    pub(super) fn schemes(&self) -> &Value {
        &self.0["components"]["securitySchemes"]
    }

    /// Requirements that apply to operations without their own.
    pub(super) fn security(&self) -> &Value {
        &self.0["security"]
    }

    /// URL of the first server without a slash at its end: of the operation, its path or the document. A relative one is
    /// resolved against `own`, the document's URL.
    pub(super) fn base_url(
        &self,
        own: Option<&Url>,
        item: &Map<String, Value>,
        operation: &Map<String, Value>,
    ) -> Result<String, String> {
        let servers = [operation.get("servers"), item.get("servers"), self.0.get("servers")];
        let server = servers.into_iter().flatten().find_map(|servers| servers.get(0)).unwrap_or(&Value::Null);
        let mut text = server["url"].as_str().unwrap_or("/").to_owned();
        for (name, variable) in server["variables"].as_object().into_iter().flatten() {
            text = text.replace(&format!("{{{name}}}"), variable["default"].as_str().unwrap_or_default());
        }
        let url = match (Url::parse(&text), own) {
            (Err(url::ParseError::RelativeUrlWithoutBase), Some(own)) => own.join(&text),
            (parsed, _) => parsed,
        };
        let url = url.map_err(|error| match error {
            url::ParseError::RelativeUrlWithoutBase => {
                "it does not say where its server is: write an absolute \"url\" into \"servers\", or import it from \
                 its URL"
                    .to_owned()
            }
            error => format!("the URL of its first server, {text:?}, is wrong: {error}"),
        })?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() || !url.username().is_empty() {
            return Err(format!("the URL of its first server, {text:?}, must be http or https, without a user name"));
        }
        if url.host_str().is_some_and(|host| host.contains(['{', '}'])) {
            return Err(format!(
                "the URL of its first server, {text:?}, has a placeholder without a default in its host"
            ));
        }
        Ok(format!("{}{}", url.origin().ascii_serialization(), literal(url.path().trim_end_matches('/'))))
    }

    /// Operations with methods that tools can use: paths in the order of the document, methods in the order of
    /// [`HttpMethod::ALL`]. The others are added to `skipped` with the reason.
    pub(super) fn operations(&self, skipped: &mut Vec<String>) -> Result<Vec<OpenApiOperation<'_>>, String> {
        let paths = self.0["paths"].as_object().ok_or("it has no \"paths\"")?;
        let mut found = Vec::new();
        for (path, item) in paths.iter().filter(|(path, _)| path.starts_with('/')) {
            let item = match self.resolve(item) {
                Ok(Value::Object(item)) => item,
                Ok(_) => continue,
                Err(why) => {
                    skipped.push(format!("{path}: {why}"));
                    continue;
                }
            };
            for method in ["head", "options", "trace"].into_iter().filter(|method| item.contains_key(*method)) {
                skipped.push(format!("{} {path}: tools cannot use this method", method.to_uppercase()));
            }
            for method in HttpMethod::ALL {
                if let Some(operation) = item.get(&method.as_str().to_lowercase()).and_then(Value::as_object) {
                    found.push((path.as_str(), item, method, operation));
                }
            }
        }
        Ok(found)
    }

    /// Follows references within the document; other values are returned as they are.
    pub(super) fn resolve<'a>(&'a self, value: &'a Value) -> Result<&'a Value, String> {
        let mut value = value;
        for _ in 0..MAX_REFERENCES {
            let Some(reference) = value.get("$ref").and_then(Value::as_str) else { return Ok(value) };
            value = self.target(reference)?;
        }
        Err(format!("it has more than {MAX_REFERENCES} references in a row"))
    }

    /// The value that a reference such as `#/components/schemas/Pet` names.
    pub(super) fn target(&self, reference: &str) -> Result<&Value, String> {
        let Some(pointer) = reference.strip_prefix('#') else {
            return Err(format!("it refers to {reference:?}, outside of the document; bundle the document first"));
        };
        let pointer = percent_decoded(pointer);
        self.0.pointer(&pointer).ok_or_else(|| format!("it refers to {reference:?}, which does not exist"))
    }
}

fn is_version(version: &str, known: &str) -> bool {
    version.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn percent_decoded(text: &str) -> String {
    // The parser of query strings decodes percent-encoding; a plus sign stands for itself in a fragment.
    let escaped = text.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
    url::form_urlencoded::parse(escaped.as_bytes()).next().map(|(name, _)| name.into_owned()).unwrap_or_default()
}

/// Percent-encodes a fixed part of a URL template: braces and all other characters that templates or URLs do not allow.
pub(super) fn literal(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            'A'..='Z' | 'a'..='z' | '0'..='9' => out.push(c),
            _ if "-._~!$&'()*+,;=:@/%".contains(c) => out.push(c),
            _ => c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| out.push_str(&format!("%{byte:02X}"))),
        }
    }
    out
}

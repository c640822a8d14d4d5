//! The `auth` key of a skill: how callers authenticate.

use toml::de::DeValue;
use url::Url;

use crate::agent::web_address;
use crate::external::ExternalTarget;
use crate::http::is_header_name;
use crate::reader::{LocatedTomlValue, TomlTableReader};
use crate::source::cut;
use nuncio_core::agent::{SkillAccess, SkillAuth};

/// Headers that cannot carry a skill's API key because they have another meaning; an entry that ends in `-` is a
/// prefix.
#[rustfmt::skip]
const RESERVED_HEADERS: &[&str] = &[
    "accept", "accept-", "access-control-", "authorization", "cache-control", "connection", "content-", "cookie",
    "date", "expect", "forwarded", "host", "idempotency-key", "if-", "keep-alive", "origin", "prefer", "proxy-",
    "range", "referer", "sec-", "set-cookie", "te", "traceparent", "tracestate", "trailer", "transfer-encoding",
    "upgrade", "user-agent", "via", "x-forwarded-", "x-request-id", "x-signature", "x-signature-", "x-skill-caller-",
];

#[derive(Clone, Copy)]
enum AuthType {
    None,
    ApiKey,
    OAuth2,
    Custom,
}

const AUTH_TYPES: [(&str, AuthType); 4] = [
    ("none", AuthType::None),
    ("api_key", AuthType::ApiKey),
    ("oauth2", AuthType::OAuth2),
    ("custom", AuthType::Custom),
];

/// Reads how callers of a skill authenticate. Without `auth`, callers that must be authenticated send an API key.
pub(super) fn read(skill: &TomlTableReader<'_>, access: Option<SkillAccess>, needs_scope: bool) -> Option<SkillAuth> {
    let Some(item) = skill.item("auth") else {
        let anyone = access? == SkillAccess::Public && !needs_scope;
        return Some(if anyone { SkillAuth::None } else { api_key() });
    };
    let auth = match item.value {
        DeValue::String(_) => match item.choice(&AUTH_TYPES)? {
            AuthType::None => SkillAuth::None,
            AuthType::ApiKey => api_key(),
            AuthType::OAuth2 => SkillAuth::OAuth2 { issuer: None },
            AuthType::Custom => SkillAuth::Custom,
        },
        DeValue::Table(_) => with_parameters(&item.table()?)?,
        _ => {
            return item
                .wrong_kind(r#""none", "api_key", "oauth2", "custom", or a table such as { api_key = "X-API-Key" }"#);
        }
    };
    if let SkillAuth::OAuth2 { issuer } = &auth {
        item.position.refer_to(ExternalTarget::Issuer(issuer.clone()));
    }
    if let (SkillAuth::None, Some(access @ (SkillAccess::Restricted | SkillAccess::Private))) = (&auth, access) {
        return item.position.reject(
            format!("a {} skill needs authenticated callers, but this method authenticates none", access.as_str()),
            r#"allowed: "api_key", "oauth2" or "custom"; or access = "public""#,
        );
    }
    Some(auth)
}

fn api_key() -> SkillAuth {
    SkillAuth::ApiKey { header: SkillAuth::KEY_HEADER.to_owned() }
}

/// Reads an authentication method with its parameters.
fn with_parameters(table: &TomlTableReader<'_>) -> Option<SkillAuth> {
    let kind = table.one_of(&["api_key", "oauth2"]);
    let header = table.item("api_key").and_then(|item| header(&item));
    let issuer = table.item("oauth2").and_then(|item| issuer(&item));
    table.finish();
    match kind? {
        "api_key" => Some(SkillAuth::ApiKey { header: header? }),
        _ => Some(SkillAuth::OAuth2 { issuer: Some(issuer?) }),
    }
}

fn header(item: &LocatedTomlValue<'_>) -> Option<String> {
    let name = item.text()?;
    if !is_header_name(name) {
        return item
            .position
            .reject(format!("{:?} is not the name of a header", cut(name)), r#"allowed: one such as "X-API-Key""#);
    }
    let lower = name.to_ascii_lowercase();
    let means = |taken: &&str| if taken.ends_with('-') { lower.starts_with(*taken) } else { lower == **taken };
    if RESERVED_HEADERS.iter().any(means) {
        return item.position.reject(
            format!("{:?} already has another meaning", cut(name)),
            r#"allowed: a header of your own, such as "X-API-Key""#,
        );
    }
    Some(name.to_owned())
}

/// Reads an issuer URL (RFC 8414 §2).
fn issuer(item: &LocatedTomlValue<'_>) -> Option<Url> {
    let url = web_address(item)?;
    if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() || url.password().is_some() {
        return item.position.reject(
            format!("{:?} is not a plain issuer URL", cut(url.as_str())),
            r#"allowed: an address without user, query and fragment, such as "https://login.example.com""#,
        );
    }
    Some(url)
}

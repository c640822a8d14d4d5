//! `run = { http = … }`: an HTTP request.

use serde_json::Value;

use super::names::DeclaredNames;
use super::reader::{TomlItem, TomlTable};
use super::source::cut;
use super::templates::{self, TemplateUse};
use nuncio_core::agent::{HttpMethod, HttpRunSpec};
use nuncio_core::template::Template;

pub(super) fn read(table: &TomlTable<'_>, input: Option<&Value>, names: &DeclaredNames<'_>) -> Option<HttpRunSpec> {
    let methods = HttpMethod::ALL.map(|method| (method.as_str(), method));
    let method = table.read_or("method", HttpMethod::Get, |item| item.choice(&methods));
    let url = table.required("url", "the URL of the request").and_then(|item| address(&item, input, names));
    let headers = table.table("headers").map(|table| headers(&table, TemplateUse::BackendRequest(input), names));
    let body = table.item("body").and_then(|item| templates::read(&item, TemplateUse::BackendRequest(input), names));
    table.finish();
    Some(HttpRunSpec { method: method?, url: url?, headers: headers.unwrap_or_default(), body })
}

pub(super) fn headers(
    table: &TomlTable<'_>,
    used: TemplateUse<'_>,
    names: &DeclaredNames<'_>,
) -> Vec<(String, Template)> {
    templates::named(table, used, names, "the name of a header", is_header_name)
}

/// Whether `name` is valid as a header name: a token (RFC 9110 §5.6.2).
pub(super) fn is_header_name(name: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(token)
}

/// Reads a URL template with a literal scheme. Values are percent-encoded, so no value could supply the scheme.
fn address(item: &TomlItem<'_>, input: Option<&Value>, names: &DeclaredNames<'_>) -> Option<Template> {
    let text = item.any_text()?;
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next()).filter(|host| !host.is_empty());
    let Some(host) = host else {
        return item.position.reject(
            format!("{:?} is not a web address", cut(text)),
            r#"allowed: a template beginning with "https://" or "http://" and a host"#,
        );
    };
    if host.contains("{{") {
        item.position.note(
            "the host is filled in by the call",
            "whoever calls the tool chooses where the request and its headers go",
        );
    }
    templates::read(item, TemplateUse::BackendRequest(input), names)
}

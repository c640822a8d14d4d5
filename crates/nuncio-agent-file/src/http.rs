//! `run = { http = … }`: an HTTP request.

use serde_json::Value;

use super::names::DeclaredNames;
use super::reader::{LocatedTomlValue, TomlTableReader};
use super::source::cut;
use super::templates::{self, TemplateUse};
use nuncio_core::agent::{HttpMethod, HttpRunSpec};
use nuncio_core::http_request::{TRANSPORT_HEADERS, UrlTemplateOrigin};
use nuncio_core::template::Template;

pub(super) fn read(
    table: &TomlTableReader<'_>,
    input: Option<&Value>,
    names: &DeclaredNames<'_>,
) -> Option<HttpRunSpec> {
    let methods = HttpMethod::ALL.map(|method| (method.as_str(), method));
    let method = table.read_or("method", HttpMethod::Get, |item| item.choice(&methods));
    let url = table.required("url", "the URL of the request").and_then(|item| address(&item, input, names));
    let headers = table.table("headers").map(|table| {
        refuse_transport_headers(&table);
        headers(&table, TemplateUse::BackendRequest(input), names)
    });
    let body = table.item("body").and_then(|item| templates::read(&item, TemplateUse::BackendRequest(input), names));
    table.finish();
    Some(HttpRunSpec { method: method?, url: url?, headers: headers.unwrap_or_default(), body })
}

pub(super) fn headers(
    table: &TomlTableReader<'_>,
    used: TemplateUse<'_>,
    names: &DeclaredNames<'_>,
) -> Vec<(String, Template)> {
    templates::named(table, used, names, "the name of a header", is_header_name)
}

/// Refuses headers that the server writes itself: with them, the agent could not be served.
fn refuse_transport_headers(headers: &TomlTableReader<'_>) {
    for (name, item) in headers.entries() {
        if TRANSPORT_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            item.position.fault(format!("the header {name:?} is written by the server itself"), "remove it");
        }
    }
}

/// Whether `name` is valid as a header name: a token (RFC 9110 §5.6.2).
pub(super) fn is_header_name(name: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(token)
}

/// Reads a URL template with a fixed origin. Values are percent-encoded, so no value could supply scheme or host.
fn address(item: &LocatedTomlValue<'_>, input: Option<&Value>, names: &DeclaredNames<'_>) -> Option<Template> {
    let text = item.any_text()?;
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    if rest.is_none_or(|rest| rest.starts_with(['/', '?', '#']) || rest.is_empty()) {
        return item.position.reject(
            format!("{:?} is not a web address", cut(text)),
            r#"allowed: a template beginning with "https://" or "http://" and a host"#,
        );
    }
    let template = templates::read(item, TemplateUse::BackendRequest(input), names)?;
    if let Err(why) = UrlTemplateOrigin::new(text) {
        return item.position.reject(
            why,
            r#"allowed: "https://HOST/…" or "http://HOST/…"; only what follows the host's slash can be filled in"#,
        );
    }
    Some(template)
}

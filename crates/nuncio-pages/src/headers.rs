//! What a browser may do with what we send: load what is ours, run what is ours, speak to us, and let nobody frame it.
//! Texts of agents and peers cannot become code even by mistake.

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// For pages that send no forms.
const WITHOUT_FORMS: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

/// For pages whose forms come to us.
const WITH_FORMS: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

/// For a page that sends no forms, and that others may be told the way to.
pub fn guard_open(headers: &mut HeaderMap) {
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(WITHOUT_FORMS));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    guard(headers);
}

/// For a page that is for one reader alone, and sends forms.
pub fn guard_private(headers: &mut HeaderMap) {
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(WITH_FORMS));
    // Without a referrer a browser would not say where a form comes from.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    guard(headers);
}

fn guard(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
